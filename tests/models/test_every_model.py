"""The same questions, asked of every model in every variety."""

import dataclasses
import pickle

import pytest
import torch
from torch.testing import assert_close

from glassformer.equation import CHECKS, MODE
from glassformer.errors import ModelError
from glassformer.models.encoder import EncoderConfig
from glassformer.models.registry import build
from glassformer.recording import Tape
from tests.models.zoo import CAUSAL, PAIRED, READERS, STRAIGHT_THROUGH, TRANSLATORS, VOCAB, ZOO, specimen

EVERY = pytest.mark.parametrize("name", ZOO)


@EVERY
def test_a_model_can_be_sent_to_another_process(name: str) -> None:
    case = specimen(name)
    wanted = case()  # what it keeps from a run travels with it
    sent = pickle.loads(pickle.dumps(case.model))
    assert torch.equal(sent(**case.inputs), wanted) and repr(sent) == repr(case.model)


@EVERY
def test_replay_is_exact_and_reverse_equals_autograd(name: str) -> None:
    case = specimen(name)
    with Tape() as tape:
        y = case()
    seed = torch.randn(y.shape, generator=torch.Generator().manual_seed(1), dtype=y.dtype)
    parameters = [p for p in case.model.parameters() if p.requires_grad]  # a frozen part has no gradient
    wanted = torch.autograd.grad(y, parameters, seed, allow_unused=True)
    for deep in (False, True):
        assert torch.equal(tape.replay(deep), y)
        found = tape.reverse(seed, deep=deep)
        for parameter, reference in zip(parameters, wanted, strict=True):
            if reference is None:
                assert parameter not in found
            else:
                assert_close(found[parameter], reference, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", [name for name in ZOO if name not in STRAIGHT_THROUGH])
def test_reverse_equals_central_differences(name: str) -> None:
    """The slope along a random direction through all parameters at once, by rule and by two runs nearby."""
    case, generator = specimen(name), torch.Generator().manual_seed(2)
    with Tape() as tape:
        y = case()
    seed = torch.randn(y.shape, generator=generator, dtype=y.dtype)
    found = tape.reverse(seed)
    parameters = [p for p in case.model.parameters() if p in found]
    directions = [torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in parameters]
    slope = sum((found[p] * d).sum().item() for p, d in zip(parameters, directions, strict=True))
    sides = []
    for step in (1e-6, -1e-6):
        with torch.no_grad():
            for p, d in zip(parameters, directions, strict=True):
                p.add_(d, alpha=step)
            sides.append((case() * seed).sum().item())
            for p, d in zip(parameters, directions, strict=True):
                p.sub_(d, alpha=step)
    assert slope == pytest.approx((sides[0] - sides[1]) / 2e-6, rel=1e-4, abs=1e-4)


@EVERY
def test_nothing_happens_outside_an_equation(name: str) -> None:
    """Every float that enters the tape from outside is a parameter or an input."""
    case = specimen(name)
    with Tape() as tape:
        y = case()
    known = {id(t) for t in (*case.model.parameters(), *case.inputs.values())}
    assert [leaf.shape for leaf in tape.leaves if leaf.is_floating_point() and id(leaf) not in known] == []
    assert tape.steps[-1].output is y, "something was done to the last equation's result"


@EVERY
def test_fast_equals_shown(name: str) -> None:
    for dtype, room in {torch.float64: 1e-12, torch.float32: 1e-5}.items():
        case = specimen(name, dtype)
        with Tape():
            shown = case()
        assert_close(case(), shown, rtol=room, atol=room)


@EVERY
def test_bfloat16_stays_within_its_bound(name: str) -> None:
    """Fast and shown, each against the same weights in float64: within 6 % of the largest output."""
    case = specimen(name, torch.bfloat16)
    with Tape():
        shown = case()
    fast = case()
    exact = case.model.double()(**{k: v.double() if v.is_floating_point() else v for k, v in case.inputs.items()})
    for run in (shown, fast):
        assert run.dtype == torch.bfloat16
        assert (run.double() - exact).abs().max() <= 0.06 * exact.abs().max()


@pytest.mark.parametrize("name", [*CAUSAL, *TRANSLATORS])
def test_the_future_does_not_leak(name: str) -> None:
    """Change token t: outputs before t stay equal to the last bit."""
    case = specimen(name, torch.float32)
    key = "target" if name in TRANSLATORS else "ids"
    before = case()
    for t in range(1, case.inputs[key].shape[1]):
        changed = case.inputs[key].clone()
        changed[:, t:] = (changed[:, t:] + 1) % VOCAB
        after = case(**{key: changed})
        assert torch.equal(before[:, :t], after[:, :t])
        assert not torch.allclose(before[:, t], after[:, t]), "nothing depends on the token at all"


@pytest.mark.parametrize("name", [n for n in (*CAUSAL, *READERS, *TRANSLATORS) if n not in ("rnn", "lstm")])
def test_padding_changes_no_row(name: str) -> None:
    case = specimen(name)
    key = "source" if name in TRANSLATORS else "ids"
    tokens = case.inputs[key]
    for token in (0, VOCAB - 1):
        padded = torch.cat([tokens, torch.full((3, 4), token)], 1)
        keep = torch.arange(padded.shape[1]).expand_as(padded) < tokens.shape[1]
        after = case(**{key: padded}, attention_mask=keep)
        whole = (
            name in TRANSLATORS or ZOO[name].head in ("pooled", "sentence", "classifier") if name in READERS else False
        )
        if name == "encoder-span":
            after = after[..., : tokens.shape[1]]
        after = after if whole or name in TRANSLATORS else after[:, : tokens.shape[1]]
        assert_close(after, case(**{key: tokens}), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", [name for name in ZOO if name not in PAIRED])
def test_batching_changes_no_row(name: str) -> None:
    case = specimen(name)
    together = case()
    for row in range(len(together)):
        alone = case(**{key: value[row : row + 1] for key, value in case.inputs.items()})
        assert_close(alone[0], together[row], rtol=1e-9, atol=1e-11)


def has_gradient(parameter: torch.nn.Parameter) -> bool:
    return parameter.grad is not None and bool(parameter.grad.abs().sum() > 0)


@EVERY
def test_every_parameter_matters(name: str) -> None:
    """A parameter with no gradient is one that some forward forgot."""
    case = specimen(name)
    y = case(
        **({"token_types": case.inputs["ids"] % 2} if name.startswith("encoder") and ZOO[name].token_types else {})
    )
    y.square().sum().backward()
    forgotten = [n for n, p in case.model.named_parameters() if p.requires_grad and not has_gradient(p)]
    assert [n for n in forgotten if not n.endswith("key.bias")] == []  # a shift of all keys moves no softmax


@EVERY
def test_same_seed_same_weights(name: str) -> None:
    first, again, other = build(ZOO[name], 1), build(ZOO[name], 1), build(ZOO[name], 2)
    for a, b in zip(first.parameters(), again.parameters(), strict=True):
        assert torch.equal(a, b)
        assert a.isfinite().all()
    assert any(not torch.equal(a, b) for a, b in zip(first.parameters(), other.parameters(), strict=True))


@pytest.mark.parametrize("name", [name for name, config in ZOO.items() if hasattr(config, "dropout")])
def test_dropout_drops_in_training_only_and_replays(name: str) -> None:
    model = build(dataclasses.replace(ZOO[name], dropout=0.5))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)))
    inputs = specimen(name, torch.float32).inputs
    assert torch.equal(model.eval()(**inputs), model(**inputs))
    model.train()
    assert not torch.equal(model(**inputs), model(**inputs))
    with Tape() as tape:
        y = model(**inputs)
    assert torch.equal(tape.replay(), y), "a replay draws the same numbers"


@EVERY
def test_it_prints_as_a_tree(name: str) -> None:
    model = specimen(name).model
    text = repr(model)
    assert f"{model.parameter_count():,}" in text.splitlines()[0]
    assert all(f"{list(p.shape)}" in text for p in model.parameters())


BAD = [
    ("gpt", {"ids": torch.full((2, 3), VOCAB)}, r"GPT: ids holds the id 13, wanted ids from 0 to 12"),
    ("gpt", {"ids": torch.full((2, 3), -1)}, r"GPT: ids holds the id -1"),
    ("gpt", {"ids": torch.zeros(2, 17).long()}, r"GPT: ids has 17 tokens, wanted at most 16, the model's context"),
    ("gpt", {"ids": torch.zeros(2, 3)}, r"GPT: ids has type torch.float32, wanted token ids of type int64"),
    ("gpt", {"ids": torch.zeros(3).long()}, r"GPT: ids has shape \[3\], wanted \[batch seq\]"),
    (
        "gpt",
        {"ids": torch.zeros(2, 3).long(), "attention_mask": torch.ones(2, 4).bool()},
        r"GPT: attention_mask has shape \[2, 4\]",
    ),
    (
        "gpt",
        {"ids": torch.zeros(2, 3).long(), "attention_mask": torch.ones(2, 3)},
        r"GPT: attention_mask has type torch.float32",
    ),
    ("seq2seq", {"target": torch.zeros(2, 3).long()}, r"Seq2Seq: target has 2 sequences, wanted 3"),
    ("seq2seq", {"source": torch.full((3, 3), 99)}, r"Seq2Seq: source holds the id 99"),
    ("t5", {"target": torch.full((3, 3), 99)}, r"T5: target holds the id 99"),
    ("encoder", {"token_types": torch.full((3, 7), 2)}, r"Encoder: token_types holds the id 2, wanted ids from 0 to 1"),
    ("lstm", {"ids": torch.full((2, 3), 99)}, r"RNN: ids holds the id 99"),
    ("mlp", {"x": torch.zeros(2, 5)}, r"MLP: x has shape \[2, 5\].*wanted rows of 3 float numbers"),
]


@pytest.mark.parametrize(("name", "inputs", "message"), BAD, ids=[message for _, _, message in BAD])
def test_bad_input_is_named_before_anything_runs(name: str, inputs: dict, message: str) -> None:
    case = specimen(name)
    with Tape() as tape, pytest.raises(ModelError, match=f"^{message}"):
        case(**inputs)
    assert tape.steps == []
    assert MODE.checking and MODE.dispatcher is CHECKS


def test_a_decoder_block_without_its_memory_is_refused() -> None:
    decoder = specimen("seq2seq").model.decoder
    with pytest.raises(ModelError, match="encoder_output is missing"):
        decoder(torch.zeros(1, 3, 8, dtype=torch.float64))


def test_segments_of_a_model_without_them_are_refused() -> None:
    assert isinstance(ZOO["encoder-sentence"], EncoderConfig)
    with pytest.raises(ModelError, match="token_types"):
        specimen("encoder-sentence")(token_types=torch.ones(3, 7).long())
