"""`glassformer classify`: the label of each text, by a classifier."""

from glassformer.cli.named_model import AS_STORED, LoadOptions, ModelName, load_named
from glassformer.cli.report import Json, write, write_json
from glassformer.cli.text_arguments import TextArgument, TextFile, texts_of


def classify(
    model: ModelName,
    /,
    *texts: TextArgument,
    file: TextFile = None,
    options: LoadOptions = AS_STORED,
    json: Json = False,
) -> None:
    """Classify texts: the label of each, and its probability.

    Parameters
    ----------
    texts
        Texts to classify; - is standard input, one text per line.
    file
        A file with one text per line; - is standard input.
    """
    given = texts_of(texts, file)
    found = load_named(model, options).classify(given)
    if json:
        write_json([{"text": text, **vars(one)} for text, one in zip(given, found, strict=True)])
        return
    for text, one in zip(given, found, strict=True):
        write("\t".join([one.label, f"{one.probability:.3f}", text.replace("\n", " ")]))
