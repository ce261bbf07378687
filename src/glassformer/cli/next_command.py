"""The command to type after training: how to use the model of a folder."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from glassformer.layers.model import Model
    from glassformer.text.tokenizer import Tokenizer


QUESTION = '"a question?" --context text.txt'


def next_command(model: "Model", tokenizer: "Tokenizer | None", folder: Path, task: str = "") -> str:
    """A command that uses a model as its kind is used: generate, chat, translate, classify, answer, fill or similar."""
    from glassformer.layers.causal_lm import CausalLM
    from glassformer.layers.encoder_decoder import EncoderDecoder
    from glassformer.models.clip import CLIP
    from glassformer.models.dalle import DALLE
    from glassformer.models.word2vec import SkipGram

    path, head = shlex.quote(str(folder)), vars(model.config).get("head")
    if head == "span" or task == "generate-answer":
        return f"glassformer answer {path} {QUESTION}"
    if isinstance(model, EncoderDecoder):
        written = '"a document"' if task == "summarize" else '"a sentence"'
        return f"glassformer {task if task == 'summarize' else 'translate'} {path} {written}"
    if isinstance(model, DALLE):
        return f'glassformer generate {path} "a caption" --image drawn.png'
    if task == "chat":
        return f"glassformer chat {path}"
    if isinstance(model, CausalLM):
        return f'glassformer generate {path} "The" --temperature 0.8'
    if isinstance(model, CLIP):
        return f"glassformer classify {path} picture.png --labels cat,dog"
    if head == "classifier":
        given = "picture.png" if tokenizer is None else '"a text"'
        return f"glassformer classify {path} {given}"
    if head == "masked" and tokenizer is not None:
        return f'glassformer fill {path} "a text with a [MASK]"'
    if isinstance(model, SkipGram) and tokenizer is not None:
        from glassformer.checkpoints.word_tests import word_vectors

        return f"glassformer similar {path} {shlex.quote(word_vectors(model, tokenizer).words[0])}"
    return f"glassformer evaluate {path}"
