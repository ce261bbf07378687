"""Pictures from text: sample the tokens of pictures after a caption, guided by it, and rank them by a CLIP."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from glassformer.data.captions import Pictures
from glassformer.data.picture_batches import TokenLayout
from glassformer.decoding.config import GenerationConfig
from glassformer.decoding.sampling import next_token, random_numbers
from glassformer.equations.sampling import classifier_free_guidance
from glassformer.errors import DecodingError
from glassformer.inference.pair_embeddings import embed_images, embed_texts
from glassformer.inference.picture_tokens import decode_pictures
from glassformer.inference.prepare import inference_mode
from glassformer.layers.model import Model
from glassformer.models.clip import CLIP
from glassformer.models.dalle import DALLE
from glassformer.text.tokenizer import Tokenizer

AT_ONCE = 128  # pictures
UNGUIDED = 1.0  # the guidance scale that changes nothing
Steps = Callable[[int, int], None]


def no_progress(done: int, steps: int) -> None:
    """Report nothing."""


@dataclass(frozen=True, kw_only=True)
class DrawingConfig:
    """How pictures are sampled: how many for each prompt, how closely they follow it, and how freely.

    `guidance` exaggerates what the prompt changes, 1 not at all. `top_k` and `top_p` cut off unlikely tokens; a
    `top_k` of 1 takes the most likely token at each step.
    """

    n: int = 1
    guidance: float = 3.0
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.guidance, int | float) or not 0 <= self.guidance < float("inf"):
            raise DecodingError(f"guidance is {self.guidance!r}, wanted a number of at least 0")
        if not isinstance(self.temperature, int | float) or not 0 < self.temperature < float("inf"):
            raise DecodingError(f"temperature is {self.temperature!r}, wanted a number above 0: top_k=1 is greedy")
        self.sampling(1)

    def sampling(self, tokens: int) -> GenerationConfig:
        """The same as settings of text generation, for pictures of so many tokens."""
        return GenerationConfig(
            max_new_tokens=tokens, n=self.n, temperature=self.temperature, top_k=self.top_k, top_p=self.top_p,
            seed=self.seed,
        )  # fmt: skip


USUAL = DrawingConfig()


def require_artist(model: Model) -> DALLE:
    """The model as one that draws, or an error that says which do."""
    if not isinstance(model, DALLE):
        raise DecodingError(f"{type(model).__name__} does not draw: `glassformer train dalle` makes models that do")
    return model


def draw(
    model: Model,
    tokenizer: Tokenizer,
    prompts: Sequence[str],
    config: DrawingConfig = USUAL,
    progress: Steps = no_progress,
) -> Pictures:
    """Pictures for prompts, `config.n` for each in their order, [prompts · n, height, width, channels].

    The pictures of a prompt depend on it, on the seed and on their number alone.
    """
    artist = require_artist(model)
    for prompt in prompts:
        if not isinstance(prompt, str):
            raise DecodingError(f"a prompt is of the type {type(prompt).__name__}, wanted a text")
        if not prompt.strip():
            raise DecodingError("the prompt is empty, wanted a text to draw")
    codes, limit = artist.config.autoencoder.codes, config.top_k
    if limit is not None and limit > codes:
        raise DecodingError(f"top_k is {limit}, wanted at most {codes}, the codes of pictures")
    layout = TokenLayout(artist.config.text_length, artist.config.text_vocab, tokenizer.required("pad"))
    rows = [row[: layout.text_length] for row in tokenizer.encode_batch(list(prompts))]
    jobs = [(row, sample) for row in rows for sample in range(config.n)]
    steps = -(-len(jobs) // AT_ONCE) * artist.config.autoencoder.tokens
    found = []
    for start in range(0, len(jobs), AT_ONCE):
        part, before = jobs[start : start + AT_ONCE], len(found) * artist.config.autoencoder.tokens
        found.append(_sample(artist, layout, part, config, lambda done, before=before: progress(before + done, steps)))
    return decode_pictures(artist.autoencoder, torch.cat(found) if found else torch.empty(0, 0, device="cpu").long())


def _sample(
    model: DALLE,
    layout: TokenLayout,
    jobs: Sequence[tuple[Sequence[int], int]],
    config: DrawingConfig,
    done: Callable[[int], None],
) -> Tensor:
    """The codes [pictures, tokens] of one picture for each caption; the captions are read once more left empty."""
    tokens, device = model.config.autoencoder.tokens, model.embedding.weight.device
    sampling, guided = config.sampling(tokens), config.guidance != UNGUIDED
    text = layout.text([row for row, _ in jobs])
    if guided:
        text = torch.cat([text, torch.full_like(text, layout.pad)])
    u = torch.stack([random_numbers(row, sample, sampling) for row, sample in jobs]).to(device)
    codes: list[Tensor] = []
    with inference_mode(model):
        cache = model.prefill(text.tolist(), model.config.context, model.config.text_length)
        last = text[:, -1:].to(device)
        for step in range(tokens):
            logits = model.decode_step(last, cache)[:, -1]
            if guided:
                logits = classifier_free_guidance(*logits.chunk(2), config.guidance)
            chosen = next_token(logits[:, model.config.text_vocab :], sampling, u[:, step])
            codes.append(chosen)
            last = (chosen + layout.text_vocab)[:, None].repeat(2 if guided else 1, 1)
            done(step + 1)
    return torch.stack(codes, 1)


def similarity_to_prompt(
    clip: Model, tokenizer: Tokenizer, prompt: str, pixels: Pictures
) -> Float[np.ndarray, " pictures"]:
    """The cosine of each picture and the prompt, by a CLIP."""
    if not isinstance(clip, CLIP):
        raise DecodingError(f"{type(clip).__name__} does not compare pictures and texts, wanted a CLIP")
    (text,) = embed_texts(clip, tokenizer, [prompt])
    return (embed_images(clip, pixels) @ text).numpy()


def best_first(scores: Float[np.ndarray, " pictures"]) -> list[int]:
    """The numbers of pictures in the order of their scores, equal ones in the order they have."""
    return np.argsort(-scores, kind="stable").tolist()
