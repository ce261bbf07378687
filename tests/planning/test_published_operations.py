"""Operations of known models: those that were published, and the formula of the field, 2N a token plus attention."""

import pytest

from glassformer.planning.figures import Plan
from glassformer.planning.plan import plan


def planned(name: str, length: int | None) -> Plan:
    return plan(name, device="h200", batch=1, length=length)


def matrices(found: Plan, *left_out: str) -> int:
    """Parameters that every token is multiplied with: no norms, no positions, no table that is only looked up."""
    unused = ("norm", "positions", "bias", *left_out)
    return sum(count for part, count in found.parameters.by_part.items() if not any(word in part for word in unused))


# Kaplan et al., 2020 (arXiv:2001.08361), Table 1: 2N + 2·layers·length·dim of a forward pass, with causal attention;
# kernels as torch counts them compute the hidden half too, which doubles the second term.
DECODERS = {"gpt3": (2048, 12288, 96, ()), "llama-7b": (2048, 4096, 32, ("embedding",))}


@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_takes_two_operations_for_each_parameter_and_attention(name: str) -> None:
    length, dim, layers, looked_up = DECODERS[name]
    found = planned(name, length)
    per_token = 2 * matrices(found, *looked_up) + 4 * layers * length * dim
    assert found.operations.matmul_forward / found.operations.tokens == pytest.approx(per_token, rel=1e-4)


def test_training_gpt3_takes_what_was_published() -> None:
    """Brown et al., 2020 (arXiv:2005.14165), Table D.1: 3.14e23 for 300 billion tokens, 6ND without attention."""
    found = planned("gpt3", 2048)
    attention = 3 * 4 * 96 * 2048 * 12288
    matmul = (found.operations.matmul_forward + found.operations.matmul_backward) / found.operations.tokens
    assert (matmul - attention) * 300e9 == pytest.approx(3.14e23, rel=0.02)
    assert 6 * found.parameters.total * 300e9 == pytest.approx(3.14e23, rel=0.005)


def test_t5_small_takes_two_operations_for_each_parameter_and_attention() -> None:
    """Raffel et al., 2020 (arXiv:1910.10683): 60M parameters; encoder and decoder each read one text of the pair."""
    length, inner, layers = 512, 8 * 64, 6
    found = planned("t5-small", length)
    attention = 3 * layers * 4 * length**2 * inner  # of the encoder, of the decoder, and across
    products = 2 * length * matrices(found)  # the shared table counts once, as the output layer
    assert found.operations.matmul_forward == pytest.approx(products + attention, rel=1e-4)


def test_vit_b16_takes_what_was_published() -> None:
    """17.6 GMACs at 224 × 224 (torchvision's table for vit_b_16: 17.56), two operations each."""
    assert planned("vit-b16", None).operations.matmul_forward == pytest.approx(2 * 17.56e9, rel=0.005)
