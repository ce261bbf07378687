"""Zero-shot classification: the label whose text is nearest to a picture, by a CLIP not trained on labels."""

from collections.abc import Sequence

import torch

from glassformer.asking.classification import Classification
from glassformer.asking.reading import device_of
from glassformer.asking.retrieval import Picture, read_picture
from glassformer.equations.sampling import greedy
from glassformer.equations.softmax import softmax
from glassformer.errors import ModelError
from glassformer.inference.pair_embeddings import embed_images, embed_texts
from glassformer.inference.prepare import inference_mode
from glassformer.layers.model import Model
from glassformer.models.clip import CLIP
from glassformer.text.tokenizer import Tokenizer

TEMPLATE = "a picture of {}"
LABEL = "{}"  # where a label goes in a template


def require_clip(model: Model, what: str) -> CLIP:
    """The model, if it compares pictures with texts."""
    if not isinstance(model, CLIP):
        raise ModelError(f"{type(model).__name__} does not {what}, wanted a CLIP")
    return model


def classify_pictures(
    model: CLIP, tokenizer: Tokenizer, pictures: Sequence[Picture], labels: Sequence[str], template: str = TEMPLATE
) -> list[Classification]:
    """The most likely of some labels for each picture, by the logits of its pairs with the text of each label."""
    if LABEL not in template:
        raise ModelError(f"the template is {template[:60]!r}, wanted {LABEL} in it, where the label goes")
    if len(set(labels)) < 2 or not all(label.strip() for label in labels):
        raise ModelError(f"labels are {', '.join(map(repr, labels)) or 'none'}, wanted at least two different ones")
    names = list(dict.fromkeys(labels))
    text = embed_texts(model, tokenizer, [template.replace(LABEL, name) for name in names])
    found: list[Classification] = []
    for picture in pictures:
        image = embed_images(model, read_picture(model, picture))
        with inference_mode(model):
            device, dtype = device_of(model), next(model.parameters()).dtype
            logits = model.logits(image.to(device, dtype), text.to(device, dtype)).float().cpu()
        best, row = int(greedy(logits)[0]), softmax(logits)[0].tolist()
        found.append(Classification(names[best], row[best], dict(zip(names, row, strict=True))))
    return found


def embed_pairs(model: CLIP, tokenizer: Tokenizer | None, items: Sequence[str | Picture]) -> torch.Tensor:
    """Embeddings [items, dim] of length one: of texts, and of pictures given as paths or arrays."""
    written = [item for item in items if isinstance(item, str)]
    texts = iter(() if tokenizer is None else embed_texts(model, tokenizer, written))
    rows = [next(texts) if isinstance(i, str) else embed_images(model, read_picture(model, i))[0] for i in items]
    return torch.stack(rows) if rows else torch.empty(0, model.config.embedding_dim)
