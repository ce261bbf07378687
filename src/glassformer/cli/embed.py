"""`glassformer embed`: the vectors of texts, to print or to save for NumPy."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from glassformer.cli.named_model import AS_STORED, LoadOptions, ModelName, load_named, vectors_named
from glassformer.cli.report import Json, MaybePath, UsageError, talk, write, write_json
from glassformer.cli.text_arguments import TextArgument, TextFile, pictures_among, texts_of

if TYPE_CHECKING:
    from torch import Tensor


def embed(
    model: ModelName,
    /,
    *texts: TextArgument,
    file: TextFile = None,
    npy: Annotated[MaybePath, Parameter(alias="-o")] = None,
    options: LoadOptions = AS_STORED,
    json: Json = False,
) -> None:
    """Print the vector of each text, or write all of them to a NumPy file.

    The model may also be a file of word vectors (GloVe, fastText, word2vec); each text is then one word. For a CLIP,
    the path of an image file is a picture.

    Parameters
    ----------
    texts
        Texts to embed; - is standard input, one text per line.
    file
        A file with one text per line; - is standard input.
    npy
        Write the vectors to this .npy file, one row per text, instead of printing them.
    """
    given = texts_of(texts, file)
    if npy is not None:
        _require_new(npy)
    found = _vectors(model, given, options)
    if npy is not None:
        import numpy as np

        np.save(npy, found.numpy())
        talk(f"wrote {len(given):,} vectors of {found.shape[1]:,} numbers to {npy}")
    if json:
        rows = zip(given, found.tolist(), strict=True)
        write_json([{"text": text, **({} if npy else {"vector": row})} for text, row in rows])
    elif npy is None:
        for text, row in zip(given, found.tolist(), strict=True):
            write("\t".join([text.replace("\n", " ").replace("\t", " "), " ".join(f"{x:.6g}" for x in row)]))


def _require_new(npy: Path) -> None:
    if npy.suffix != ".npy":
        raise UsageError(f"--npy: {npy} does not end in .npy")
    if npy.exists():
        raise UsageError(f"{npy}: already exists: name another file")
    if not npy.parent.is_dir():
        raise UsageError(f"{npy.parent}: no such folder")


def _vectors(model: str, texts: list[str], options: LoadOptions) -> "Tensor":
    import torch

    if (vectors := vectors_named(model)) is not None:
        return torch.stack([vectors[text.strip()] for text in texts])
    loaded = load_named(model, options)
    return loaded.embed(pictures_among(loaded, texts)).float()
