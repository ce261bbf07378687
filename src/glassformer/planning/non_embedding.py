"""The size of a model as scaling laws count it: parameters without embeddings."""

from torch import nn

from glassformer.layers.basic import Embedding, LearnedPositions
from glassformer.layers.model import Model, TokenPredictor


def parameters_without_embeddings(model: Model) -> int:
    """Parameters without the tables of tokens and of positions and without the output layer over the vocabulary."""
    tables: list[nn.Module] = [part for part in model.modules() if isinstance(part, Embedding | LearnedPositions)]
    if isinstance(model, TokenPredictor) and model.output is not None:
        tables.append(model.output)
    left_out = {id(weight) for part in tables for weight in part.parameters()}
    return sum(weight.numel() for weight in model.parameters() if id(weight) not in left_out)
