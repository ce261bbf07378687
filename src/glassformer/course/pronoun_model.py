"""A small encoder that resolves pronouns: at the pronoun it predicts the noun that the pronoun stands for."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from glassformer.data.batches import generator
from glassformer.data.pronouns import FRAMES, PronounFrame, PronounSentence, pronoun_sentences, words_of
from glassformer.equation import reference_mode
from glassformer.equations.losses import cross_entropy
from glassformer.models.encoder import Encoder, EncoderConfig
from glassformer.probes.pointing import HeadPointing, pointing
from glassformer.probes.readout import attention_maps

PAD = "<pad>"


@dataclass(frozen=True)
class PronounModel:
    """An encoder, its words, and the sentences it was trained on and not trained on."""

    model: Encoder
    words: list[str]
    train: list[PronounSentence]
    held_out: list[PronounSentence]

    def ids(self, sentences: Sequence[PronounSentence]) -> Tensor:
        """Token ids of sentences, padded to the longest of all sentences."""
        longest = max(len(sentence.words) for sentence in self.train)
        rows = [[self.words.index(word) for word in each.words] for each in sentences]
        return torch.tensor([row + [0] * (longest - len(row)) for row in rows])

    def logits(self, ids: Tensor, pronouns: Sequence[int]) -> Tensor:
        """Logits [sentences, vocab] at the pronouns."""
        return self.model(ids, ids != 0)[torch.arange(len(ids)), list(pronouns)]

    @torch.no_grad()
    def accuracy(self, sentences: Sequence[PronounSentence]) -> float:
        """The fraction of sentences in which the most likely word is the noun that the pronoun stands for."""
        logits = self.logits(self.ids(sentences), [each.pronoun for each in sentences])
        answers = torch.tensor([self.words.index(each.answer) for each in sentences])
        return float((logits.argmax(-1) == answers).double().mean())

    def heads(self, sentences: Sequence[PronounSentence]) -> list[HeadPointing]:
        """The heads by how much they look from the pronoun to the noun that it stands for."""
        ids = self.ids(sentences)
        maps = attention_maps(self.model, {"ids": ids, "attention_mask": ids != 0})
        return pointing(maps, [each.pronoun for each in sentences], [each.antecedent for each in sentences])


def train_pronoun_model(
    updates: int,
    *,
    frames: Sequence[PronounFrame] = FRAMES,
    dim: int = 64,
    heads: int = 4,
    batch: int = 64,
    learning_rate: float = 2e-3,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
) -> PronounModel:
    """Train an encoder of two blocks by Adam, with the loss at the pronoun alone."""
    words = [PAD, *words_of(frames)]
    train, held_out = pronoun_sentences(frames, seed)
    config = EncoderConfig(
        vocab=len(words), context=16, dim=dim, layers=2, heads=heads, ffn_dim=2 * dim, token_types=0, head="masked"
    )
    model = Encoder(config)
    model.init_weights(torch.Generator().manual_seed(seed))
    found = PronounModel(model.to(dtype), words, train, held_out)
    every, answers = found.ids(train), torch.tensor([words.index(each.answer) for each in train])
    pronouns = torch.tensor([each.pronoun for each in train])
    optimizer = torch.optim.Adam(model.parameters(), learning_rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, learning_rate, total_steps=updates)
    with reference_mode(), torch.enable_grad():  # off the tape of a lesson
        for update in range(updates):
            rows = torch.from_numpy(generator(seed, update).integers(len(train), size=batch))
            logits = found.logits(every[rows], pronouns[rows].tolist())
            optimizer.zero_grad()
            cross_entropy(logits, answers[rows]).backward()
            optimizer.step()
            schedule.step()
    model.eval().requires_grad_(False)
    return found


@cache
def small_pronoun_model() -> PronounModel:
    """A model of one kind of sentence, in float64 so that every machine trains it to the same numbers."""
    return train_pronoun_model(300, frames=FRAMES[:1], dim=32, heads=2, learning_rate=5e-3, dtype=torch.float64)
