"""The CPU's kernels against the same in PyTorch's operations, and what happens where they cannot be built."""

import warnings

import pytest
import torch

import models.kernels
from models import fused, packed
from models.fused_attention import HEAD_WIDTHS
from models.kernels import built, enabled, usable
from models.mixers import attention
from models.network import Network
from models.packed import hidden, normed_sum
from sweep.trial import Trial

M, B, L = 3, 2, 21
CLOSE = {torch.float32: 1e-5, torch.float64: 1e-12}
"""Deviation from the truth (PyTorch's operations in float64) allowed to kernels, relative to the largest value, beside
four times what PyTorch's operations in the same precision deviate."""

pytestmark = pytest.mark.skipif(not enabled(), reason="no C++ compiler here, so there are no kernels to test")


@pytest.fixture(autouse=True)
def generator():
    torch.manual_seed(0)


def without_kernels(call):
    """What `call` gives by PyTorch's operations."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (packed, attention):
            patch.setattr(module, "usable", lambda *tensors: False)
        return call()


def same(call, inputs: dict[str, torch.Tensor], dtype: torch.dtype):
    """Asserts that kernels give the same values and gradients of all inputs as operations, and that kernels ran."""
    at = {kind: {name: t.to(kind).requires_grad_() for name, t in inputs.items()} for kind in (dtype, torch.float64)}
    ours, theirs = call(at[dtype]), without_kernels(lambda: call(at[dtype]))
    truth = without_kernels(lambda: call(at[torch.float64]))
    assert "Backward" in type(ours.grad_fn).__name__
    direction = torch.randn_like(truth)
    results = []
    for out, given in ((ours, at[dtype]), (theirs, at[dtype]), (truth, at[torch.float64])):
        results.append([out, *torch.autograd.grad((out * direction.to(out.dtype)).sum(), list(given.values()))])
    largest = max(true.abs().max().item() for true in results[2])
    for name, mine, other, true in zip(["value", *inputs], *results, strict=True):
        scale = max(true.abs().max().item(), 0.03 * largest)
        allowed = CLOSE[dtype] * scale + 4 * (other - true).abs().max().item()
        assert (mine - true).abs().max().item() <= allowed, name


@pytest.fixture(params=[torch.float32, torch.float64], ids=["fp32", "fp64"])
def dtype(request):
    return request.param


@pytest.mark.parametrize("width", [2, 7, 16, 97])
@pytest.mark.parametrize("residual", ["before", "after", None])
def test_a_branchs_end_is_the_layer_norm_written_out(dtype, width, residual):
    names = ["z", *([residual] if residual else [])]
    rows = {name: torch.randn(M, B, L, width) for name in names}
    p = {name: torch.randn(M, width) for name in ("n.gain", "n.bias", "bias")}
    kept = ("before", "after")
    same(lambda t: normed_sum(t, "n", t["z"], t["bias"], *map(t.get, kept)), {**rows, **p}, dtype)


@pytest.mark.parametrize(("first", "norm", "gelu"), [
    (True, True, True), (True, False, True), (True, True, False), (False, True, True), (False, False, True),
    (False, True, False),
])  # fmt: skip
@pytest.mark.parametrize("block", [64, 2**19])
def test_a_hidden_layer_is_its_parts_in_turn(dtype, first, norm, gelu, block, monkeypatch):
    monkeypatch.setattr(fused, "BLOCK_ELEMENTS", block)
    monkeypatch.setattr(fused, "FEWEST_ROWS", 4)
    width, inside = 6, 19 if first else 6
    shapes = {"out.weight": (inside, width)}
    shapes |= {"in.weight": (width, inside), "in.bias": (inside,)} if first else {}
    shapes |= {"n.gain": (inside,), "n.bias": (inside,)} if norm else {}
    inputs = {name: torch.randn(M, *shape) for name, shape in {**shapes, "x": (B, L, width)}.items()}
    call = lambda t: hidden(t, t["x"], "in" if first else None, "n" if norm else None, gelu, "out")  # noqa: E731
    same(call, inputs, dtype)
    with torch.inference_mode():
        judged = call(inputs)
    assert torch.equal(call(inputs), judged)


MIXERS = {
    "softmax": (attention.SoftmaxAttention, attention.SOFTMAX_HEAD_WIDTHS),
    "nap": (attention.NormalizedAttention, HEAD_WIDTHS),
    "non": (attention.LinearAttention, HEAD_WIDTHS),
}


LENGTHS = [(1, 1), (16, 16), (37, 37), (300, 300), (37, 1), (37, 20)]
CASES = [
    (name, head, length, reads)
    for name, (_, heads) in MIXERS.items()
    for head in heads
    for length, reads in LENGTHS
    if name != "nap" or (length > 1 and head > 1)  # there deviations are nearly 0, and their gradients rounding alone
]


@pytest.mark.parametrize(("mixer", "head", "length", "reads"), CASES)
def test_attention_is_the_same(dtype, mixer, head, length, reads):
    made = MIXERS[mixer][0](2 * head, 2)
    p = {name: 0.5 * torch.randn(M, *parameter.shape) for name, parameter in made.parameters().items()}
    same(
        lambda t: made(t, t["x"], slice(length - reads, length)), {"x": torch.randn(M, B, length, 2 * head), **p}, dtype
    )


def test_a_query_without_deviation_has_no_gradient_and_no_nan():
    made = attention.NormalizedAttention(8, 2)
    p = {name: torch.zeros(1, *parameter.shape).requires_grad_() for name, parameter in made.parameters().items()}
    x = torch.randn(1, 1, 5, 8, requires_grad=True)
    out = made(p, x, slice(0, 5))
    assert all(torch.equal(g, torch.zeros_like(g)) for g in torch.autograd.grad(out.sum(), [x, p["query.weight"]]))


@pytest.mark.parametrize("model", ["nap", "mte", "bert", "sum"])
@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
def test_a_models_nan_stays_its_own_and_is_seen(model, poison):
    trial = Trial.from_values(dict(task="cases", model=model, width=16, length=12))
    network = Network(trial.network)
    p = {name: torch.randn(M, *parameter.shape) for name, parameter in network.parameters().items()}
    tokens = torch.randint(0, 10, (M, B, 12))
    clean = network(p, tokens)
    p["0.feed_forward.in.weight"][1, 0, 0] = poison
    spoiled = network(p, tokens)
    assert torch.equal(clean[[0, 2]], spoiled[[0, 2]])
    assert not torch.isfinite(spoiled[1]).any()


@pytest.mark.parametrize(("models", "rows", "width"), [(1, 1, 1), (8, 4096, 112), (64, 512, 48), (1, 4096, 3088)])
def test_blocks_are_every_row_of_every_model_once(models, rows, width):
    seen = torch.zeros(models, rows)
    for m, r in fused.blocks(models, rows, width):
        assert m.stop - m.start == 1 or (r.start, r.stop) == (0, rows)
        assert (r.stop - r.start) * (m.stop - m.start) * width <= max(fused.BLOCK_ELEMENTS, fused.FEWEST_ROWS * width)
        seen[m, r] += 1
    assert (seen == 1).all()


@pytest.fixture
def fresh_build(monkeypatch, tmp_path):
    """As if nothing was built or asked for yet; afterwards as before."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for cached in (enabled, models.kernels.library):
        cached.cache_clear()
    yield
    for cached in (enabled, models.kernels.library):
        cached.cache_clear()


@pytest.mark.parametrize("compiler", ["no-such-compiler", "false"])
def test_without_a_compiler_there_is_one_warning_and_the_same_result(fresh_build, monkeypatch, compiler):
    trial = Trial.from_values(dict(task="cases", model="nap", width=16, length=12))
    network = Network(trial.network)
    p = {name: torch.randn(M, *parameter.shape).double() for name, parameter in network.parameters().items()}
    tokens = torch.randint(0, 10, (M, B, 12))
    monkeypatch.setenv("CXX", compiler)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        one, again = network(p, tokens), network(p, tokens)
    assert len(caught) == 1 and "no CPU kernels" in str(caught[0].message)
    assert not usable(one)
    monkeypatch.undo()
    for cached in (enabled, models.kernels.library):
        cached.cache_clear()
    assert enabled() and torch.equal(one, again)
    assert torch.allclose(network(p, tokens), one, atol=1e-10)


def test_kernels_can_be_turned_off(fresh_build, monkeypatch):
    monkeypatch.setenv("SWEEP_KERNELS", "off")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not usable(torch.zeros(1))


def test_what_is_built_is_kept_and_built_again_where_its_text_differs(fresh_build, monkeypatch, tmp_path):
    first = built("norm")
    time = first.stat().st_mtime_ns
    assert built("norm") == first and first.stat().st_mtime_ns == time
    monkeypatch.setattr(models.kernels, "FLAGS", (*models.kernels.FLAGS, "-DANOTHER"))
    assert built("norm") != first
    assert sorted(path.suffix for path in first.parent.iterdir()) == [".so", ".so"]
