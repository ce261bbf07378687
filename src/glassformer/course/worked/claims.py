"""What no formula can decide: facts about models, stated here or read from the models of this library."""

import inspect

import torch

from glassformer.course.worked.recomputing import Answer, Given, recomputes, states
from glassformer.equations.position_biases import relative_position_bucket
from glassformer.layers.block import Attention
from glassformer.models.t5 import T5, T5Config

# CLIP gives one vector for an image and one for a text, and a score for the two (Radford et al., 2021);
# DALL-E gives the tokens of an image for a text (Ramesh et al., 2021).
CLIP_GENERATES_IMAGES = False
DALLE_GENERATES_IMAGES = True


@states("clip-is-not-a-generator")
def _clip_is_not_a_generator(given: Given) -> Answer:
    return {"clip_generates_images": CLIP_GENERATES_IMAGES, "dalle_generates_images": DALLE_GENERATES_IMAGES}


@recomputes("t5-bias-scaling")
def _t5_bias_scaling(given: Given) -> Answer:
    with torch.device("meta"):
        model = T5(T5Config(vocab=8, layers=1))
    divides = [layer.scale != 1.0 for layer in model.modules() if isinstance(layer, Attention)]
    defaults = inspect.signature(relative_position_bucket.fn).parameters
    return {
        "t5_divides_by_sqrt_dk": any(divides),
        "t5_default_buckets": defaults["buckets"].default,
        "t5_default_max_distance": defaults["max_distance"].default,
    }


@states("airplane-neighbours")
def _airplane_neighbors(given: Given) -> Answer:
    # From word vectors that are not at hand; that they are in order and can be cosines is all there is to check.
    similarity = given.fact("similarity", list[float])
    return {
        "similarity": similarity,
        "sorted_descending": similarity == sorted(similarity, reverse=True),
        "within_minus1_and_1": all(-1 <= value <= 1 for value in similarity),
    }
