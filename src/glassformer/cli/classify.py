"""`glassformer classify`: the label of each text, or of each picture; by a classifier, or by a CLIP."""

from typing import Annotated

from cyclopts import Parameter

from glassformer.cli.named_model import AS_STORED, LoadOptions, ModelName, load_named
from glassformer.cli.output_files import PAGE_MARK, require_free
from glassformer.cli.report import Json, MaybePath, UsageError, talk, write, write_json
from glassformer.cli.text_arguments import TextArgument, TextFile, texts_of


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
) -> None:
    """Classify texts or pictures: the label of each, and its probability.

    A CLIP classifies pictures by any --labels.

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
    found = loaded.classify(given, labels=names, template=template)
    if attention is not None:
        attention.write_text(loaded.picture_attention(given[0]), encoding="utf-8")
        talk(f"wrote {attention}")
    if json:
        write_json([{"text": text, **vars(one)} for text, one in zip(given, found, strict=True)])
        return
    for text, one in zip(given, found, strict=True):
        write("\t".join([one.label, f"{one.probability:.3f}", text.replace("\n", " ")]))
