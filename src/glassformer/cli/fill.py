"""`glassformer fill`: the most likely tokens for the masks in a text, by a masked language model."""

from glassformer.cli.named_model import AS_STORED, LoadOptions, ModelName, load_named
from glassformer.cli.report import Json, named_as_options, write, write_json
from glassformer.cli.text_arguments import TextArgument, TextFile, texts_of


def fill(
    model: ModelName,
    /,
    *texts: TextArgument,
    file: TextFile = None,
    top_k: int = 5,
    options: LoadOptions = AS_STORED,
    json: Json = False,
) -> None:
    """Predict the masked tokens of texts such as "The [MASK] sat on the mat".

    Parameters
    ----------
    texts
        Texts with one or more masks, `[MASK]` or `<mask>`; - is standard input, one text per line.
    file
        A file with one text per line; - is standard input.
    top_k
        Number of tokens to show for each mask.
    """
    given = texts_of(texts, file)
    loaded = load_named(model, options)
    with named_as_options("top_k"):
        found = loaded.fill(given, top_k=top_k)
    if json:
        write_json([{"text": text, "masks": masks} for text, masks in zip(given, found, strict=True)])
        return
    for text, masks in zip(given, found, strict=True):
        write(text.replace("\n", " "))
        for one in masks:
            write("  " + ", ".join(f"{token.strip()} {share:.3f}" for token, share in one.probabilities.items()))
