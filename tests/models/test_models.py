"""Mixers against their formulas, and the paper's sizes."""

import itertools

import numpy as np
import pytest
import torch
from torch.nn import functional

from models import MIXERS, MODELS
from models.blocks import make_mixer
from models.dropout import Dropout
from models.mixers.attention import (
    DEVIATION_EPSILON,
    LinearAttention,
    NormalizedAttention,
    SoftmaxAttention,
    rotations,
    turned,
)
from models.network import Network
from models.packed import NORM_EPSILON, Parameter, RowNorm, safe_sqrt, stack
from sweep.trial import Trial
from tests.models.quadratic import QuadraticLinearAttention, QuadraticNormalizedAttention

M, B = 3, 2


def random_parameters(mixer, seed=0, scale=1.0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        name: scale * torch.randn(M, *parameter.shape, generator=generator, dtype=torch.float64)
        for name, parameter in mixer.parameters().items()
    }


@pytest.mark.parametrize(
    ("linear", "quadratic"),
    [(NormalizedAttention, QuadraticNormalizedAttention), (LinearAttention, QuadraticLinearAttention)],
)
@pytest.mark.parametrize(("width", "heads", "length", "reads"), [(8, 2, 16, 16), (32, 1, 9, 1), (64, 4, 130, 130)])
@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_the_linear_form_is_the_quadratic_form(linear, quadratic, width, heads, length, reads, scale):
    p = random_parameters(linear(width, heads), scale=scale)
    x = torch.randn(M, B, length, width, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for tensor in p.values():
        tensor.requires_grad_()
    read = slice(length - reads, length)
    one, other = linear(width, heads)(p, x, read), quadratic(width, heads)(p, x, read)
    assert torch.allclose(one, other, rtol=1e-10, atol=1e-12 * other.abs().max().item())
    direction = torch.randn_like(one)
    names = list(p)
    gradients = [torch.autograd.grad((o * direction).sum(), list(p.values())) for o in (one, other)]
    for name, ours, theirs in zip(names, *gradients, strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-7, atol=1e-10 * theirs.abs().max().item() + 1e-12), name


def weights_of_nap(bias: float, logit_scale: float) -> torch.Tensor:
    """A row of NAP's weights: with values that are the unit vectors, the output is the weights."""
    length = 64
    mixer = NormalizedAttention(length, 1)
    p = random_parameters(mixer, scale=logit_scale)
    p["nap_gain"], p["nap_bias"] = torch.ones(M, 1).double(), torch.full((M, 1), bias).double()
    p["value.weight"] = torch.eye(length).double().expand(M, -1, -1)
    p["value.bias"] = torch.zeros(M, length).double()
    x = torch.eye(length).double().expand(M, 1, -1, -1)
    return mixer(p, x, slice(0, length))


def test_naps_rows_sum_to_bias_times_length_and_have_norm_near_the_root_of_length():
    plain, biased = weights_of_nap(0.0, 1.0), weights_of_nap(0.5, 1.0)
    assert plain.sum(dim=-1).abs().max() < 1e-9
    assert torch.allclose(biased.sum(dim=-1), torch.tensor(0.5 * 64).double(), atol=1e-9)
    assert torch.allclose(plain.norm(dim=-1), torch.tensor(8.0).double(), rtol=1e-3)


def test_naps_epsilon_is_added_to_the_deviation_so_small_logits_give_small_weights():
    norms = weights_of_nap(0.0, 1e-2).norm(dim=-1)
    assert 0 < norms.max() < 8.0 * 0.9
    assert DEVIATION_EPSILON == 1e-3


def test_nap_does_not_see_what_all_keys_share():
    mixer = NormalizedAttention(8, 2)
    p = random_parameters(mixer)
    x = torch.randn(M, B, 10, 8).double()
    moved = {**p, "key.bias": p["key.bias"] + 3.0}
    assert torch.allclose(mixer(p, x, slice(0, 10)), mixer(moved, x, slice(0, 10)), atol=1e-9)


def test_a_sequence_of_equal_tokens_gives_nap_a_finite_gradient():
    mixer = NormalizedAttention(8, 2)
    p = {name: tensor.requires_grad_() for name, tensor in random_parameters(mixer).items()}
    x = torch.ones(M, B, 5, 8).double()
    gradients = torch.autograd.grad(mixer(p, x, slice(0, 5)).sum(), list(p.values()))
    assert all(torch.isfinite(gradient).all() for gradient in gradients)
    root = torch.zeros(2, requires_grad=True)
    assert torch.autograd.grad(safe_sqrt(root).sum(), root)[0].tolist() == [0.0, 0.0]


def test_softmax_attention_is_the_textbooks():
    mixer = SoftmaxAttention(6, 1)
    p = random_parameters(mixer)
    x = torch.randn(M, B, 7, 6).double()
    for m, b in itertools.product(range(M), range(B)):
        q, k, v = (x[m, b] @ p[f"{n}.weight"][m] + p[f"{n}.bias"][m] for n in ("query", "key", "value"))
        expected = torch.softmax(q @ k.T / 6**0.5, dim=-1) @ v
        assert torch.allclose(mixer(p, x, slice(0, 7))[m, b], expected)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "values",
    [{"task": "mode"}, {"task": "cases_first"}, {"task": "first"}, {"task": "first", "causal": True, "heads": 2}],
)
def test_reading_one_token_computes_one_token_and_changes_nothing(model, values):
    """Not even what is dropped."""
    trial = Trial.from_values(dict(model=model, width=16, length=12, **values))
    network = Network(trial.network)
    p = start(network)
    tokens = torch.randint(0, 10, (M, B, 12))
    dropout = Dropout(torch.randint(-(2**31), 2**31 - 1, (M, 4, 2), dtype=torch.int32), torch.tensor([0.0, 0.3, 0.6]))
    shortcut, dropped = (network.scores(p, network.embedded(p, tokens), noise) for noise in (None, dropout))
    for block in network.blocks:
        whole = block.__class__.__call__
        block_call = lambda p, x, reads, *rest, block=block, whole=whole: (  # noqa: E731
            whole(block, p, x, slice(0, x.shape[2]), *rest)[:, :, reads]
        )
        network.blocks[network.blocks.index(block)] = block_call
    for noise, expected in ((None, shortcut), (dropout, dropped)):
        assert torch.allclose(network.scores(p, network.embedded(p, tokens), noise), expected, atol=1e-10)
    assert torch.allclose(shortcut[0], dropped[0], atol=1e-10) and not torch.allclose(shortcut[1:], dropped[1:])


@pytest.mark.parametrize("positions", ["learned", "rotary"])
@pytest.mark.parametrize("model", MODELS)
def test_a_causal_network_does_not_see_what_comes_later(model, positions):
    if positions == "rotary" and not MIXERS[MODELS[model]["mixer"]].rotary:
        return
    values = dict(task="mqar", model=model, width=16, length=12, pairs=2, vocabulary=20, positions=positions)
    network = Network(Trial.from_values(values).network)
    p, tokens = start(network), torch.randint(0, 20, (M, B, 12))
    scores = network(p, tokens)
    for place in (3, 7):
        changed = tokens.clone()
        changed[:, :, place + 1 :] = torch.randint(0, 20, (M, B, 11 - place))
        other = network(p, changed)
        assert torch.allclose(other[:, :, : place + 1], scores[:, :, : place + 1], atol=1e-12)
        assert model == "none" or not torch.allclose(other[:, :, place + 2 :], scores[:, :, place + 2 :], atol=1e-3)
        assert torch.allclose(network(p, tokens[:, :, : place + 1]), scores[:, :, : place + 1], atol=1e-10)


@pytest.mark.parametrize("mixer", [name for name, entry in MIXERS.items() if entry.rotary])
def test_rotary_attention_sees_how_far_apart_tokens_stand_and_not_where(mixer):
    trial = Trial.from_values(dict(task="mode", mixer=mixer, width=16, length=12, positions="rotary"))
    made = make_mixer(trial.network)
    p, x = random_parameters(made), torch.randn(M, B, 6, 16).double()
    cos, sin = rotations(40, 4, x)
    turned_at = lambda first: turned(x, 4, cos[first : first + 6], sin[first : first + 6])  # noqa: E731
    logits = [made.split_heads(turned_at(first)) @ made.split_heads(turned_at(first)).mT for first in (0, 30)]
    assert torch.allclose(*logits, atol=1e-10)
    swapped = x.clone()
    swapped[:, :, [1, 4]] = x[:, :, [4, 1]]
    last = slice(5, 6)
    assert not torch.allclose(made(p, x, last), made(p, swapped, last), atol=1e-3)
    plain = make_mixer(Trial.from_values(dict(task="mode", mixer=mixer, width=16, length=12)).network)
    assert torch.allclose(plain(p, x, last), plain(p, swapped, last), atol=1e-10)


def start(network) -> dict[str, torch.Tensor]:
    arrays = stack(network.parameters(), [(lambda name, m=m: np.random.default_rng(m), 10.0) for m in range(M)])
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


@pytest.mark.parametrize("mixer", MIXERS)
def test_a_mixer_gives_what_its_block_expects(mixer):
    trial = Trial.from_values(dict(task="cases", mixer=mixer, width=16, length=12))
    made = make_mixer(trial.network)
    p = random_parameters(made)
    x = torch.randn(M, B, 12, 16).double()
    for reads in (slice(0, 1), slice(11, 12), slice(0, 12)):
        shape = made(p, x, reads).shape
        assert shape[:2] == (M, B) and shape[2] in (1, reads.stop - reads.start) and shape[3] == 16


def parameter_count(**values) -> int:
    network = Network(Trial.from_values(values).network)
    return sum(int(np.prod(parameter.shape)) for parameter in network.parameters().values())


def test_pooling_models_have_about_as_many_parameters_as_attention_models():
    for width in (8, 16, 128, 512):
        attention = parameter_count(task="mode", model="mte", width=width)
        assert parameter_count(task="mode", model="sum", width=width) == pytest.approx(attention, rel=0.02)


@pytest.mark.parametrize(("width", "hidden"), [(16, 97), (128, 769), (8, 49)])
def test_pooling_models_have_the_papers_feed_forward(width, hidden):
    trial = Trial.from_values(dict(task="mode", model="sum", width=width))
    assert trial.network.hidden_width == hidden


def test_a_start_is_truncated_at_two_deviations_and_scaled():
    draw = Parameter((200, 50)).initial(np.random.default_rng(0), 3.0)
    assert np.abs(draw).max() <= 2 * 0.02 * 3
    assert draw.std() == pytest.approx(0.02 * 3 * 0.8796, rel=0.02)
    position = Parameter((200, 50), scaled=False).initial(np.random.default_rng(0), 3.0)
    assert np.abs(position).max() <= 2 * 0.02


def test_flops_count_the_matrix_products_of_a_step():
    trial = Trial.from_values(
        dict(task="cases", model="mte", width=32, length=16, depth=1, epochs=1, steps_per_epoch=1)
    )
    per_token = 2 * (4 * 32 * 32 + 8 * 32 * 32 + 2 * 16 * 32 + 32)
    assert trial.train_flops == 3 * per_token * 16 * 32


def test_a_narrow_models_time_is_mostly_not_in_its_matrix_products():
    narrow, wide = (Trial.from_values(dict(task="cases", model="sum", width=width)).network for width in (8, 1024))
    assert narrow.forward_cost(128) > 3 * narrow.forward_flops(128)
    assert wide.forward_cost(128) < 1.3 * wide.forward_flops(128)


def test_a_model_read_at_one_token_costs_less():
    costs = [Trial.from_values(dict(task=task, model="nap")).train_flops for task in ("cases", "cases_first")]
    assert costs[1] < 0.75 * costs[0]


@pytest.mark.parametrize("row", [1, 2, 8, 97])
def test_the_norm_for_short_rows_is_the_librarys(row):
    x = torch.randn(3, 5, row, dtype=torch.float64, requires_grad=True)
    direction = torch.randn_like(x)
    ours, theirs = RowNorm.apply(x), functional.layer_norm(x, (row,), eps=NORM_EPSILON)
    assert (ours - theirs).abs().max() < 1e-12
    gradients = [torch.autograd.grad(out, x, direction)[0] for out in (ours, theirs)]
    assert (gradients[0] - gradients[1]).abs().max() < 1e-11
