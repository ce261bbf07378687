"""`glassformer classify`: the label of each text, by a classifier."""

from glassformer.cli.report import Json, RunStep, write, write_json
from glassformer.cli.text_arguments import TextArgument, texts_of


def classify(model: str, /, *texts: TextArgument, step: RunStep = None, json: Json = False) -> None:
    """Classify texts: the label of each, and its probability.

    Parameters
    ----------
    model
        Folder of a classifier.
    texts
        Texts to classify; - is standard input, one text per line.
    """
    from glassformer.interface import load

    given = texts_of(texts)
    found = load(model, step=step).classify(given)
    if json:
        write_json([{"text": text, **vars(one)} for text, one in zip(given, found, strict=True)])
        return
    for text, one in zip(given, found, strict=True):
        write("\t".join([one.label, f"{one.probability:.3f}", text.replace("\n", " ")]))
