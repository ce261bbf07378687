"""`glassformer fill`: the most likely tokens for the masks in a text, by a masked language model."""

from glassformer.cli.report import Json, RunStep, write, write_json
from glassformer.cli.text_arguments import TextArgument, texts_of


def fill(model: str, /, *texts: TextArgument, top_k: int = 5, step: RunStep = None, json: Json = False) -> None:
    """Predict the masked tokens of texts such as "The [MASK] sat on the mat".

    Parameters
    ----------
    model
        Folder of a masked language model.
    texts
        Texts with one or more masks, [MASK] or <mask>; - is standard input, one text per line.
    top_k
        Number of tokens to show for each mask.
    """
    from glassformer.interface import load

    given = texts_of(texts)
    found = load(model, step=step).fill(given, top_k=top_k)
    if json:
        write_json([{"text": text, "masks": masks} for text, masks in zip(given, found, strict=True)])
        return
    for text, masks in zip(given, found, strict=True):
        write(text.replace("\n", " "))
        for one in masks:
            write("  " + ", ".join(f"{token.strip()} {share:.3f}" for token, share in one.probabilities.items()))
