"""`glassformer classify`: the label of each text, by a classifier, or of each picture, by a CLIP."""

from typing import Annotated

from cyclopts import Parameter

from glassformer.cli.named_model import AS_STORED, LoadOptions, ModelName, load_named
from glassformer.cli.report import Json, write, write_json
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
    options: LoadOptions = AS_STORED,
    json: Json = False,
) -> None:
    """Classify texts: the label of each, and its probability. A CLIP classifies pictures by any --labels.

    Parameters
    ----------
    texts
        Texts to classify, or for a CLIP image files; - is standard input, one per line.
    file
        A file with one text per line; - is standard input.
    """
    given = texts_of(texts, file)
    names = None if labels is None else [label.strip() for label in labels.split(",")]
    found = load_named(model, options).classify(given, labels=names, template=template)
    if json:
        write_json([{"text": text, **vars(one)} for text, one in zip(given, found, strict=True)])
        return
    for text, one in zip(given, found, strict=True):
        write("\t".join([one.label, f"{one.probability:.3f}", text.replace("\n", " ")]))
