"""Triton kernels against the equations they fuse: on a GPU, or elsewhere in Triton's interpreter."""

import os
from collections.abc import Callable
from importlib.util import find_spec

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from glassformer.decoding.config import GenerationConfig
from glassformer.decoding.generate import generate
from glassformer.equations.activations import gelu, gelu_tanh, relu, silu
from glassformer.equations.algebra import add, linear, multiply, residual
from glassformer.equations.attention import attention
from glassformer.equations.losses import cross_entropy
from glassformer.equations.masks import padding_mask
from glassformer.equations.normalization import layer_norm, rms_norm
from glassformer.equations.quantization import int8_linear, quantize_rows
from glassformer.equations.rotary import rotary, rotary_frequencies
from glassformer.equations.sampling import greedy
from glassformer.equations.softmax import logsumexp
from glassformer.inference import compiled_step
from glassformer.inference.compiled_step import static_cache
from glassformer.inference.linear import PackedLinear
from glassformer.inference.prepare import Form, for_inference, inference_mode
from glassformer.inference.triton_decoder import TritonBatchDecoder, TritonDecoder
from tests.decoding.tiny_generators import PROMPTS, biased, words, writer

ON_GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if ON_GPU else "cpu")
pytestmark = [
    pytest.mark.skipif(
        find_spec("triton") is None or not (ON_GPU or os.environ.get("TRITON_INTERPRET") == "1"),
        reason="needs triton, and a GPU or TRITON_INTERPRET=1 (make kernels)",
    ),
    pytest.mark.filterwarnings("ignore:overflow encountered in exp:RuntimeWarning"),  # numpy's, in the interpreter
]
ACTIVATIONS = {0: lambda z: z, 1: gelu, 2: gelu_tanh, 3: silu, 4: relu}
# the interpreter runs one program after another: few outputs, but every kind of tile
SHAPES = [(768, 50), (100, 7), (3072, 33), (4096, 12), (1, 1), (1030, 257)]
SHAPES = SHAPES if ON_GPU else [(100, 7), (1030, 3), (2048, 5)]


@pytest.fixture(autouse=True)
def interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are interpreted where there is no GPU; Triton reads this when they are defined."""
    if not ON_GPU:
        monkeypatch.setenv("TRITON_INTERPRET", "1")


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE, dtype)


def near(found: Tensor, wanted: Tensor) -> None:
    """Within the rounding of float32 sums, or of the dtype found."""
    error = (found.double() - wanted).norm() / wanted.norm().clamp_min(1e-30)
    assert error < (1e-5 if found.dtype == torch.float32 else 1e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("inputs", "outputs"), SHAPES)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_product_fuses_norm_activation_gate_and_residual(
    inputs: int, outputs: int, activation: int, dtype: torch.dtype
) -> None:
    from glassformer.inference.triton_kernels import Norm, Weights, product

    for texts in (1, 3) if ON_GPU else (2,):
        x, w, u = (draw(n, inputs, seed=n, dtype=dtype) for n in (texts, outputs, outputs + 9))
        u = u[:outputs]
        b, past = draw(outputs, dtype=dtype), draw(texts, outputs, seed=5, dtype=dtype)
        gamma, beta = draw(inputs, seed=6, dtype=dtype), draw(inputs, seed=7, dtype=dtype)
        X, W, U, B, P, G, H = (t.double() for t in (x, w, u, b, past, gamma, beta))
        activate = ACTIVATIONS[activation]
        near(product(x, Weights(w, None, None)), linear(X, W.T))
        found = product(x, Weights(w, None, b), Norm(gamma, beta, 1e-5), activation, residual=past)
        near(found, residual(P, activate(linear(layer_norm(X, G, H, 1e-5), W.T, B))))
        h = rms_norm(X, G, 1e-6)
        found = product(x, Weights(w, None, None), Norm(gamma, None, 1e-6), activation, Weights(u, None, None))
        near(found, multiply(activate(linear(h, W.T)), linear(h, U.T)))


def test_a_product_with_int8_weights() -> None:
    from glassformer.inference.triton_kernels import Weights, product

    x, w, b = draw(2, 300), draw(40, 300, seed=1), draw(40, seed=2)
    q, s = quantize_rows(w, 127)
    s = s.squeeze(-1)
    near(product(x, Weights(q, s, b)), int8_linear(x.double(), q, s.double(), b.double()))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dim", [1, 100, 768, 4096])
def test_a_residual_is_added_and_normalized(dim: int, dtype: torch.dtype) -> None:
    from glassformer.inference.triton_kernels import Norm, add_norm

    x, change = draw(5, dim, dtype=dtype), draw(5, dim, seed=1, dtype=dtype)
    bias, gamma, beta = (draw(dim, seed=n, dtype=dtype) for n in (2, 3, 4))
    y, h = add_norm(x, change, bias, Norm(gamma, beta, 1e-5))
    near(y, residual(x.double(), add(change.double(), bias.double())))
    near(h, layer_norm(y.double(), gamma.double(), beta.double(), 1e-5))
    y, h = add_norm(x, change, None, Norm(gamma, None, 1e-6))
    near(y, residual(x.double(), change.double()))
    near(h, rms_norm(y.double(), gamma.double(), 1e-6))


@pytest.mark.parametrize("splits", [1, 8])
@pytest.mark.parametrize("kv_heads", [4, 1, 2] if ON_GPU else [2])
@pytest.mark.parametrize("layout", [None, "halves", "adjacent"])
@pytest.mark.parametrize("padded", [False, True])
def test_attention_appends_to_the_cache_and_attends_to_all_of_it(
    splits: int, kv_heads: int, layout: str | None, padded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from glassformer.inference import triton_kernels
    from glassformer.inference.triton_kernels import Attend, Rotation

    texts, heads, head_dim, slots = 3, 4, 64, 160
    monkeypatch.setattr(triton_kernels, "PROGRAMS", splits * texts * heads)
    attend = Attend(texts, heads, head_dim, DEVICE)
    assert attend.splits == splits
    for count in (0, 5, 63, 64, 130) if ON_GPU else (0, 130):
        qkv = draw(texts, (heads + 2 * kv_heads) * head_dim, seed=count)
        keys, values = draw(texts, kv_heads, slots, head_dim, seed=1), draw(texts, kv_heads, slots, head_dim, seed=2)
        old_keys, old_values = keys.clone(), values.clone()
        padding = torch.tensor([0, min(3, count), count], device=DEVICE) if padded else None
        rotation = None
        q, k, v = qkv.view(texts, -1, 1, head_dim).double().split([heads, kv_heads, kv_heads], 1)
        if layout is not None:
            frequencies = rotary_frequencies(head_dim, 10000.0, dtype=torch.float32, device=DEVICE)
            rotation = Rotation(frequencies, layout == "adjacent", 1.2)
            empty = torch.zeros(texts, 1, dtype=torch.long, device=DEVICE) if padding is None else padding[:, None]
            positions = (count - empty)[:, None]
            q, k = (1.2 * rotary(part, positions, 10000.0, frequencies.double(), layout) for part in (q, k))
        found = attend(qkv, keys, values, torch.tensor(count, device=DEVICE), padding, 0.3, rotation)
        assert_close(keys[:, :, count].double(), k[:, :, 0], rtol=1e-5, atol=1e-5)
        assert torch.equal(values[:, :, count].double(), v[:, :, 0])
        for new, old in ((keys, old_keys), (values, old_values)):
            others = torch.arange(slots, device=DEVICE) != count
            assert torch.equal(new[:, :, others], old[:, :, others])
        mask = None
        if padding is not None:
            mask = padding_mask(torch.arange(count + 1, device=DEVICE) >= padding[:, None], dtype=torch.float64)
        cached = (t[:, :, : count + 1].double() for t in (keys, values))
        near(found, attention(q, *cached, mask, scale=0.3).reshape(texts, -1))


def test_the_argmax_is_the_first_of_the_largest_and_is_written() -> None:
    from glassformer.inference.triton_kernels import write_argmax

    for vocab in (1, 7, 2048, 5000):
        logits = draw(3, vocab + 5, seed=vocab)[:, :vocab]  # a view, as a product padded to a multiple of eight gives
        logits[:, vocab // 2 :: max(1, vocab // 3)] = logits.max() + 1
        step, following = torch.tensor([2], device=DEVICE), torch.zeros(3, 1, dtype=torch.long, device=DEVICE)
        ids, seen = (torch.full((3, n), -1, device=DEVICE) for n in (4, 9))
        log_p = torch.zeros(3, 4, device=DEVICE)
        write_argmax(logits, step, following, ids, log_p, seen)
        chosen, none = greedy(logits).tolist(), [-1] * 3
        assert following[:, 0].tolist() == chosen and step.tolist() == [3]
        assert ids.T.tolist() == [none, none, chosen, none]
        assert seen.T.tolist() == [*[none] * 7, chosen, none]
        assert_close(log_p[:, 2], logits.amax(-1) - logsumexp(logits), rtol=1e-5, atol=1e-5)
        assert log_p[:, [0, 1, 3]].count_nonzero() == 0


@pytest.mark.skipif(not ON_GPU, reason="the interpreter refuses a maximum of nothing but NaN")
def test_the_argmax_of_nan_is_still_a_token() -> None:
    from glassformer.inference.triton_kernels import write_argmax

    following, step, ids, seen = (
        torch.zeros(shape, dtype=torch.long, device=DEVICE) for shape in ((2, 1), (1,), (2, 4), (2, 5))
    )
    log_p = torch.zeros(2, 4, device=DEVICE)
    write_argmax(torch.full((2, 2100), torch.nan, device=DEVICE), step, following, ids, log_p, seen)
    assert ((following >= 0) & (following < 2100)).all()


@pytest.mark.parametrize(
    ("name", "form", "kind"),
    [("gpt", "packed", TritonDecoder), ("llama", "int8", TritonDecoder), ("llama-3", "packed", TritonBatchDecoder)],
)
def test_a_step_of_kernels_is_a_step_of_the_model(name: str, form: Form, kind: type[TritonDecoder]) -> None:
    model = for_inference(writer(name), form).to(DEVICE)
    ids = torch.tensor([[3, 4, 5, 6], [7, 8, 9, 10]], device=DEVICE)
    padding = torch.tensor([0, 1], device=DEVICE)
    with inference_mode(model):
        plain, cache = model.new_cache(2, 8, padding), static_cache(model.new_cache(2, 8), 8, 0)
        cache.padding.copy_(padding)
        decoder = kind(model, cache)
        pairs = [(decoder.logits(part), model.decode_step(part, plain)[:, -1]) for part in ids.split(1, 1)]
    found, wanted = (torch.stack(logits) for logits in zip(*pairs[1:], strict=True))  # the first column is padding
    # on a CPU the model's int8 kernel rounds its inputs too
    assert (found - wanted).norm() / wanted.norm() < (0.03 if form == "int8" else 1e-5)


@pytest.mark.skipif(ON_GPU, reason="tests/gpu captures these steps")
@pytest.mark.parametrize("config", [{}, {"temperature": 0.9, "repetition_penalty": 1.2, "min_new_tokens": 2}], ids=str)
def test_generated_texts_are_the_same_by_kernels(config: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    rows = words().vocab_size + 5
    model = for_inference(biased("gpt", rows, words().unused_ids(rows), 50.0), "packed")
    model.output = PackedLinear(model.output.weight.T, model.output.bias)  # kernels take no plain linear layer
    plain = generate(model, words(), PROMPTS[:2], GenerationConfig(max_new_tokens=3, **config))
    monkeypatch.setattr(compiled_step, "triton_decoder", TritonDecoder)
    monkeypatch.setattr(compiled_step, "capture", lambda run, _: run)
    found = generate(model, words(), PROMPTS[:2], GenerationConfig(max_new_tokens=3, compile=True, **config))
    assert [text.ids for text in found] == [text.ids for text in plain]
    for one, other in zip(found, plain, strict=True):
        assert one.log_probabilities == pytest.approx(other.log_probabilities, abs=1e-4)


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
@pytest.mark.parametrize(("classes", "columns"), [(65, 128), (2500, 2560), (7, 7)])
def test_rows_of_cross_entropy_become_their_gradients(classes: int, columns: int, epsilon: float) -> None:
    from glassformer.equations.cross_entropy_kernel import cross_entropy_rows  # imports triton

    z, targets = 5 * draw(4, columns), torch.tensor([0, classes - 1, -100, classes // 2], device=DEVICE)
    logits = z[:, :classes].double().requires_grad_()
    wanted = cross_entropy.fn(logits, targets, epsilon, -100, "none")
    wanted.sum().backward()
    near(cross_entropy_rows(z, targets, classes, epsilon, -100), wanted.detach())
    assert logits.grad is not None
    near(z[:, :classes], logits.grad)
    assert not z[:, classes:].any() and not z[2].any()


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_an_impossible_class_is_infinitely_surprising_to_smoothed_targets(epsilon: float) -> None:
    from glassformer.equations.cross_entropy_kernel import cross_entropy_rows

    z, targets = draw(1, 64), torch.tensor([1], device=DEVICE)
    z[0, 3] = -torch.inf
    wanted = cross_entropy.fn(z[:, :50].double(), targets, epsilon, -100, "none")
    assert bool(wanted.isinf()) == (epsilon > 0)
    assert_close(cross_entropy_rows(z, targets, 50, epsilon, -100).double(), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")  # numpy's, in the interpreter
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_row_left_out_of_the_loss_has_no_gradient_whatever_its_logits(bad: float) -> None:
    from glassformer.equations.cross_entropy_kernel import cross_entropy_rows

    z, targets = draw(2, 64), torch.tensor([1, -100], device=DEVICE)
    z[1, 0] = z[1, 7] = bad
    assert cross_entropy_rows(z, targets, 50, 0.1, -100)[1] == 0
    assert not z[1].any() and z[0].isfinite().all()


def document_bounds(documents: list[list[int]]) -> Tensor:
    """Bounds of documents of these lengths, row by row."""
    return torch.tensor([[0, *torch.tensor(row).cumsum(0).tolist()] for row in documents], dtype=torch.int32).to(DEVICE)


KERNELS = ["_forward", "_backward", "_query_backward"]  # of attention within documents
LENGTHS = [[5, 0, 16, 1, 26, 0], [20, 20, 0, 0, 8, 0]]  # of documents, empty ones among them
OTHERS = [[9, 3, 0, 30, 2, 4], [17, 1, 12, 0, 8, 10]]


@pytest.mark.parametrize(("scale_up", "longest"), [(1, 32), (3, 96)])  # one block for a document, and several
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("p", [0.0, 0.3])
def test_attention_within_short_documents_equals_the_formula(
    scale_up: int, longest: int, causal: bool, p: float
) -> None:
    from glassformer.equations.document_attention_kernel import DocumentBounds, backward, forward
    from glassformer.equations.packed_attention import document_mask, packed_attention

    c, e = (document_bounds([[scale_up * n for n in row] for row in side]) for side in (LENGTHS, OTHERS))
    e = c if causal else e
    tokens, keys = int(c[0, -1]), int(e[0, -1])
    dtype = torch.bfloat16 if ON_GPU else torch.float32  # a GPU multiplies float32 in fewer bits
    q, k = (draw(2, n, 2, 16, seed=n, dtype=dtype).transpose(1, 2) for n in (tokens, keys))
    v = draw(2, 2, keys, 32, dtype=dtype)  # dense by head
    documents = DocumentBounds([c, e, torch.tensor([7], device=DEVICE)], longest, causal, 0.25, p)
    # Values that are rows of the identity show the weights, a few keys at a time.
    parts = [torch.eye(keys, dtype=dtype, device=DEVICE)[:, at : at + 32] for at in range(0, keys, 32)]
    parts = [torch.nn.functional.pad(part, (0, 32 - part.shape[1])).expand(2, 2, -1, -1).contiguous() for part in parts]
    shown = torch.cat([forward(q, k, part, documents)[0] for part in parts], -1)[..., :keys]
    exact = [t.double().requires_grad_() for t in (q, k, v)]
    visible = document_mask.fn(c, e, tokens, keys, causal) == 0
    scores = (exact[0] @ exact[1].mT * 0.25).masked_fill(~visible, -1e30)
    weights = scores.softmax(-1) * visible  # a row may see nothing
    wanted = (weights * (shown != 0) / (1 - p)) @ exact[2]
    o, lse = forward(q, k, v, documents)
    near(o, wanted.detach())
    if p:
        assert 0.6 < float((shown != 0).sum() / visible.expand_as(shown).sum()) < 0.8
    else:
        near(o, packed_attention.fn(*(t.detach() for t in exact), c, e, longest, causal, 0.25))
    o_bar = draw(*o.shape, seed=3, dtype=dtype)
    found = backward(o_bar, q, k, v, o, lse, documents)
    for gradient, right in zip(found, torch.autograd.grad(wanted, exact, o_bar.double()), strict=True):
        near(gradient, right)


@pytest.mark.parametrize("p", [0.0, 0.3])
def test_attention_within_short_documents_compiles_with_its_gradient(p: float) -> None:
    from glassformer.equations.document_attention import _attention

    bounds = document_bounds(LENGTHS)
    documents = [bounds, bounds] if p == 0 else [bounds, bounds, torch.tensor([3], device=DEVICE)]
    inputs = [draw(2, 48, 2, 16, seed=n).transpose(1, 2) for n in range(3)]

    def gradients(call: object) -> list[Tensor]:
        q, k, v = (t.clone().requires_grad_() for t in inputs)
        o = call(q, k, v)  # type: ignore[operator]
        return [o.detach(), *torch.autograd.grad(o.square().sum(), (q, k, v))]

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return _attention(2 * q, k, v, documents, 32, True, 0.25, p)[0]

    compiled = torch.compile(attend, backend="aot_eager", fullgraph=True)
    for found, right in zip(gradients(compiled), gradients(attend), strict=True):
        assert_close(found, right)


@pytest.mark.parametrize("longest", [3, 96])  # one block for a document, and several
@pytest.mark.parametrize("axis", [0, 1, 2], ids=["batch", "heads", "tokens"])
def test_offsets_in_memory_have_64_bits(axis: int, longest: int) -> None:
    from glassformer.equations.document_attention_kernel import DocumentBounds, backward, forward

    shape, strides = (3, 3, 3, 16), [144, 48, 16, 1]
    strides[axis] = 2**30  # the last of three is 2^31 numbers away: 4 GiB, of which next to nothing is touched
    memory = torch.empty(2**31 + 4 * 512, dtype=torch.float16, device=DEVICE)
    far = [memory.as_strided(shape, strides, 512 * n) for n in range(4)]
    near_by = [draw(*shape, seed=n, dtype=torch.float16) for n in range(4)]
    for one, other in zip(far, near_by, strict=True):
        one.copy_(other)
    c = document_bounds([[1, 2], [2, 1], [3, 0]])
    documents = DocumentBounds([c, c], longest, False, 0.25, 0.0)
    found, wanted = (forward(q, k, v, documents) for q, k, v, _ in (far, near_by))
    assert_close(found, wanted, rtol=0, atol=0)
    found, wanted = (backward(o_bar, q, k, v, *wanted, documents) for q, k, v, o_bar in (far, near_by))
    assert_close(found, wanted, rtol=0, atol=0)


def test_kernels_are_launched_on_the_device_of_their_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    from glassformer.equations import cross_entropy_kernel, document_attention_kernel

    current: list[Tensor | None] = [None]
    launched: list[Tensor | None] = []

    class Noted(torch.cuda.device_of):
        def __init__(self, obj: Tensor) -> None:
            super().__init__(obj)
            self.tensor = obj

        def __enter__(self) -> None:
            current.append(self.tensor)

        def __exit__(self, *_: object) -> None:
            current.pop()

    class Kernel:
        def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
            return lambda *_, **__: launched.append(current[-1])

    monkeypatch.setattr(torch.cuda, "device_of", Noted)
    for module, names in ((cross_entropy_kernel, ["_rows"]), (document_attention_kernel, KERNELS)):
        for name in names:
            monkeypatch.setattr(module, name, Kernel())
    z, c = draw(1, 64), document_bounds([[3]])
    cross_entropy_kernel.cross_entropy_rows(z, torch.tensor([1], device=DEVICE), 64, 0.0, -100)
    documents = document_attention_kernel.DocumentBounds([c, c], 96, False, 0.25, 0.0)
    q, k, v, o_bar = (draw(1, 1, 3, 16, seed=n) for n in range(4))
    o, lse = document_attention_kernel.forward(q, k, v, documents)
    document_attention_kernel.backward(o_bar, q, k, v, o, lse, documents)
    assert [id(each) for each in launched] == [id(each) for each in (z, q, q, q)]
