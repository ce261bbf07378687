"""Token embeddings that start from pretrained word vectors: GloVe, fastText, word2vec, or a model trained here."""

from pathlib import Path

import torch

from glassformer.checkpoints.load import load
from glassformer.checkpoints.vectors import WordVectors, load_vectors
from glassformer.checkpoints.word_tests import word_vectors
from glassformer.errors import CheckpointError, ConfigError
from glassformer.layers.model import Model
from glassformer.text.tokenizer import Tokenizer
from glassformer.training.task import Report

EMBEDDING = "embedding.weight"


def open_vectors(path: Path | str) -> WordVectors:
    """The word vectors of a file, or of the model in a folder."""
    if not Path(path).is_dir():
        return load_vectors(path)
    found = load(path)
    if found.tokenizer is None:
        raise CheckpointError(f"{path}: has no tokenizer, so its vectors belong to no words")
    return word_vectors(found.model, found.tokenizer)


@torch.no_grad()
def start_from_vectors(model: Model, tokenizer: Tokenizer | None, path: str, report: Report) -> None:
    """Replace the embedding of every token that is a word of the file by its vector; other tokens keep theirs.

    One factor scales all vectors to the standard deviation of fresh embeddings, which the model is designed for; their
    directions stay. A token is looked up as it is written, then in lower case, without the space before it. Without a
    path or a tokenizer nothing is done.
    """
    if not path or tokenizer is None:
        return
    report(f"reading word vectors from {path}")
    vectors = open_vectors(path)
    weight = model.get_parameter(EMBEDDING)
    dim, wanted = vectors.vectors.shape[1], weight.shape[1]
    if dim != wanted:
        key = "embedding_dim" if vars(model.config).get("embedding_dim") else "dim"
        narrower = f" or model.embedding_dim={dim}" if "embedding_dim" in vars(model.config) and key == "dim" else ""
        what = f"run.vectors is {path}, whose vectors have {dim} numbers, and model.{key} is {wanted}"
        raise ConfigError(f"{what}: set model.{key}={dim}{narrower}")
    unused = {*tokenizer.specials, *tokenizer.unused_ids(len(weight))}
    texts = {id: tokenizer.token(id).strip() for id in range(len(weight)) if id not in unused}
    words = {id: text for id, text in texts.items() if text}
    known = {id: vectors.row(word) for id, word in words.items() if word in vectors}
    if not known:
        example = ", ".join(list(words.values())[:3])
        why = f"none of the {len(words):,} tokens ({example}, …) has a vector"
        raise ConfigError(f"run.vectors is {path}, and {why}: train a tokenizer of words (tokenizer.kind=words)")
    chosen = vectors.vectors[list(known.values())]
    if not (spread := float(chosen.std())):
        raise ConfigError(f"run.vectors is {path}, whose vectors are all the same number")
    weight[list(known)] = (chosen * (float(weight.std()) / spread)).to(weight)
    report(f"{len(known):,} of {len(words):,} words start from a vector, the others from random numbers")
