"""Beam search as a tree: the winner is what `translate` returns, and every node adds up."""

from collections.abc import Iterator

import msgspec
import pytest

from glassformer.decoding.config import GenerationConfig
from glassformer.decoding.generate import generate, listen
from glassformer.equations.sampling import length_penalty
from glassformer.errors import DecodingError
from glassformer.studio.beam import BeamNode, BeamRequest, BeamTree, beam_tree
from tests.decoding.tiny_generators import PROMPTS, words, writer


def searched(name: str, text: str, **settings: float) -> BeamTree:
    request = BeamRequest(text, **settings)
    return beam_tree(lambda config, hear: listen(writer(name), words(), text, config, hear), words(), request)


def walked(parts: list[BeamNode], before: float = 0.0, length: int = 0) -> Iterator[BeamNode]:
    """Every node; its score is that of the node before it and its own."""
    for node in parts:
        assert node.score == pytest.approx(before + node.log_probability, abs=1e-4)
        assert node.length == length + 1 and node.log_probability <= 0
        assert not node.parts or node.state in ("kept", "dropped")
        yield node
        yield from walked(node.parts, node.score, node.length)


@pytest.mark.parametrize("name", ["seq2seq", "gpt", "lstm"])
@pytest.mark.parametrize(("beams", "alpha"), [(1, 0.6), (2, 0.0), (4, 0.6), (8, 2.0)])
def test_the_winner_is_the_text_that_generate_returns(name: str, beams: int, alpha: float) -> None:
    for prompt in PROMPTS:
        tree = searched(name, prompt, num_beams=beams, length_penalty=alpha, max_new_tokens=6)
        config = GenerationConfig(num_beams=beams, length_penalty=alpha, max_new_tokens=6)
        (best,) = generate(writer(name), words(), prompt, config)
        assert (tree.text, tree.ids) == (best.text, best.ids)
        nodes = list(walked(tree.parts))
        assert [node.token for node in nodes if node.winner] == tree.ids, "one path from the root, in order"
        (won,) = [node for node in nodes if node.winner and node.state == "finished"]
        assert won.rank == pytest.approx(tree.rank, abs=1e-5)
        finished = [node for node in nodes if node.state == "finished"]
        assert all(node.rank == pytest.approx(node.score / length_penalty(node.length, alpha)) for node in finished)
        assert max(node.rank for node in finished) == won.rank, "no finished text is better"
        assert sum(node.state in ("finished", "open") for node in nodes) == beams, "the last beam"


def test_a_pruned_branch_ends_and_a_dropped_one_leads_nowhere() -> None:
    tree = searched("seq2seq", PROMPTS[2], num_beams=3, max_new_tokens=8)
    nodes = list(walked(tree.parts))
    assert {node.state for node in nodes} >= {"kept", "pruned", "finished"}
    for node in nodes:
        below = {part.state for part in node.parts}
        assert node.state != "dropped" or below <= {"pruned", "dropped"}
        assert node.state != "kept" or below & {"kept", "open", "finished"}
        assert not (node.winner and node.state in ("pruned", "dropped", "open"))
    dead = [node for node in nodes if node.state == "pruned"]
    assert all(node.rank is None and not node.parts for node in dead)


def test_too_much_is_refused_in_words() -> None:
    with pytest.raises(DecodingError, match="at most 8 beams"):
        searched("gpt", "one", num_beams=9)
    with pytest.raises(DecodingError, match="num_beams is 0"):
        searched("gpt", "one", num_beams=0)


def test_a_tree_is_json() -> None:
    tree = searched("gpt", "one", num_beams=2, max_new_tokens=3)
    assert msgspec.json.decode(msgspec.json.encode(tree), type=BeamTree) == tree
