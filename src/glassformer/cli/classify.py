"""`glassformer classify`: the label of each text, or of each picture; by a classifier, or by a CLIP."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from glassformer.cli.named_model import AS_STORED, LoadOptions, ModelName, load_named
from glassformer.cli.output_files import PAGE_MARK, require_free
from glassformer.cli.report import Json, MaybePath, UsageError, complain, talk, write, write_json
from glassformer.cli.text_arguments import TextArgument, TextFile, texts_of
from glassformer.errors import FAILED, DataError, PathError

if TYPE_CHECKING:
    from glassformer.asking.retrieval import Picture
    from glassformer.interface import LoadedModel
    from glassformer.layers.model import Model


def classify(
    model: ModelName,
    /,
    *texts: TextArgument,
    file: TextFile = None,
    labels: Annotated[str | None, Parameter(help="Labels to choose from, with commas between them (CLIP).")] = None,
    template: Annotated[
        str, Parameter(help="The text that a label becomes (CLIP); {} is the label.")
    ] = "a picture of {}",
    attention: MaybePath = None,
    options: LoadOptions = AS_STORED,
    json: Json = False,
) -> int | None:
    """Classify texts or pictures: the label of each, and its probability.

    A CLIP classifies pictures by any --labels. A picture that cannot be read is named, and the others are classified.

    Parameters
    ----------
    texts
        Texts to classify, or image files for a model that reads pictures; - is standard input, one per line.
    file
        A file with one text, or the path of one picture, per line; - is standard input.
    attention
        Write an HTML page that shows on the picture where each head looks.
    """
    given = texts_of(texts, file)
    names = None if labels is None else [label.strip() for label in labels.split(",")]
    if attention is not None and len(given) != 1:
        raise UsageError(f"--attention draws on one picture, and {len(given)} are given")
    require_free([(attention, PAGE_MARK)])
    loaded = load_named(model, options)
    reads_pictures, count = takes_pictures(loaded._model), len(given)
    items: Sequence[str | Picture] = given
    if reads_pictures and count > 1:
        given, items = readable_pictures(loaded, given)
    elif not reads_pictures:
        _tell_all_unknown(given, loaded)
    found = loaded.classify(list(items), labels=names, template=template)
    if attention is not None:
        attention.write_text(loaded.picture_attention(given[0]), encoding="utf-8")
        talk(f"wrote {attention}")
    if json:
        key = "file" if reads_pictures else "text"
        write_json([{key: text, **vars(one)} for text, one in zip(given, found, strict=True)])
    for text, one in () if json else zip(given, found, strict=True):
        write("\t".join([one.label, f"{one.probability:.3f}", text.replace("\n", " ")]))
    return FAILED if len(given) < count else None


def takes_pictures(model: "Model") -> bool:
    """Whether a model classifies pictures."""
    from glassformer.layers.image_classifier import ImageClassifier
    from glassformer.models.clip import CLIP

    return isinstance(model, ImageClassifier | CLIP)


def readable_pictures(loaded: "LoadedModel", files: Sequence[str]) -> "tuple[list[str], list[Picture]]":
    """The image files that can be read, and their pixels; the others are named, and counted."""
    from glassformer.asking.picture_inputs import read_pixels
    from glassformer.asking.retrieval import read_picture
    from glassformer.models.clip import CLIP

    model, kept, pictures = loaded._model, [], []
    for file in files:
        try:
            pictures.append(read_picture(model, Path(file))[0] if isinstance(model, CLIP) else read_pixels(model, file))
            kept.append(file)
        except (DataError, PathError) as error:
            complain(f"error: {error}")
    if len(kept) < len(files):
        complain(f"error: {len(files) - len(kept):,} of {len(files):,} pictures cannot be read and are skipped")
    return kept, pictures


def _tell_all_unknown(texts: Sequence[str], loaded: "LoadedModel") -> None:
    """Say of which texts the model knows no word, if there are any."""
    if (tokenizer := loaded.tokenizer) is None or (unk := tokenizer.unk) is None:
        return
    around = tokenizer.specials - {unk}
    for text in texts:
        if {unk} == set(tokenizer.encode(text)) - around:
            talk(f"no word of {text[:60]!r} is in the model's vocabulary: all are read as {tokenizer.roles['unk']}")
