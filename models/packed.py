"""Many models at once: every tensor carries a leading axis M of models that share nothing but their shape.

Shape suffixes in this package: M models, B sequences, L tokens, D width, F hidden width, H heads, E width of a head,
N = B·L.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

INIT_STD = 0.02
"""Standard deviation of the (truncated) normal that weights start from, before `init_scale`."""

NORM_EPSILON = 1e-3
"""Added to a layer norm's variance: Keras's default. PyTorch's 1e-5 gives visibly other results at the start."""

Parameters = Mapping[str, Tensor]
"""Stacked parameters by name, each [M, *shape]."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of one model.

    Attributes:
        shape: without the axis of models.
        start: "normal" (truncated at two deviations), "zeros" or "ones".
        scaled: whether `init_scale` multiplies the start.
        decays: whether weight decay acts on it.
    """

    shape: tuple[int, ...]
    start: str = "normal"
    scaled: bool = True
    decays: bool = False

    def initial(self, random: np.random.Generator, init_scale: float) -> np.ndarray:
        """A start value, float64, drawn from `random`."""
        if self.start == "zeros":
            return np.zeros(self.shape)
        if self.start == "ones":
            return np.ones(self.shape)
        draw = random.standard_normal(self.shape)
        while (outside := np.abs(draw) > 2).any():
            draw[outside] = random.standard_normal(np.count_nonzero(outside))
        return draw * INIT_STD * (init_scale if self.scaled else 1.0)


def linear_parameters(name: str, width_in: int, width_out: int) -> dict[str, Parameter]:
    """The parameters of a linear layer: NAME.weight [in, out] and NAME.bias [out]."""
    return {
        f"{name}.weight": Parameter((width_in, width_out), decays=True),
        f"{name}.bias": Parameter((width_out,), "zeros"),
    }


def norm_parameters(name: str, width: int) -> dict[str, Parameter]:
    """The parameters of a layer norm: NAME.gain [width] and NAME.bias [width]."""
    return {f"{name}.gain": Parameter((width,), "ones"), f"{name}.bias": Parameter((width,), "zeros")}


def stack(
    parameters: Mapping[str, Parameter],
    models: Sequence[tuple[Callable[[str], np.random.Generator], float]],
) -> dict[str, np.ndarray]:
    """Start values of several models, stacked: name → float64 [M, *shape].

    Args:
        parameters: what one model has.
        models: per model, what gives the random stream of a parameter's name, and the model's `init_scale`.
    """
    return {
        name: np.stack([parameter.initial(random_of(name), scale) for random_of, scale in models])
        for name, parameter in parameters.items()
    }


def linear(p: Parameters, name: str, x_MBLD: Tensor) -> Tensor:
    """x·W + b per model: [M, B, L, D] → [M, B, L, F]."""
    return linear_with(x_MBLD, p[f"{name}.weight"], p[f"{name}.bias"])


def linear_with(x_MBLD: Tensor, w_MDF: Tensor, b_MF: Tensor) -> Tensor:
    """x·W + b per model, for weights at hand: [M, B, L, D] → [M, B, L, F]."""
    m, b, length, d = x_MBLD.shape
    y_MNF = torch.baddbmm(b_MF.unsqueeze(1), x_MBLD.reshape(m, b * length, d), w_MDF)
    return y_MNF.view(m, b, length, -1)


def layer_norm(p: Parameters, name: str, x_MBLD: Tensor) -> Tensor:
    """Layer norm over the last axis with each model's own gain and bias; epsilon as in Keras."""
    gain_MD, bias_MD = p[f"{name}.gain"], p[f"{name}.bias"]
    if x_MBLD.device.type == "cpu" and x_MBLD[0].numel() >= FUSED_NORM_ELEMENTS:
        return FusedLayerNorm.apply(x_MBLD, gain_MD, bias_MD)
    normed = functional.layer_norm(x_MBLD, x_MBLD.shape[-1:], eps=NORM_EPSILON)
    return torch.addcmul(bias_MD[:, None, None], normed, gain_MD[:, None, None])


FUSED_NORM_ELEMENTS = 2**14
"""Elements a model from which its own kernel call costs less than the passes over memory that it saves. It depends on
one model's shape alone, so that a trial is computed the same in every pack."""


class FusedLayerNorm(torch.autograd.Function):
    """Layer norm of [M, B, L, D] with gains and biases [M, D]: PyTorch's fused kernels, a call a model.

    They take one gain and one bias a call. Applying them to the whole stack after a norm without them costs four more
    passes over memory, and on a CPU up to 2.4 times the time (docs/performance.md).
    """

    @staticmethod
    def forward(ctx: Any, x_MBLD: Tensor, gain_MD: Tensor, bias_MD: Tensor) -> Tensor:
        x_MND = x_MBLD.contiguous().view(len(gain_MD), -1, gain_MD.shape[1])
        shape = x_MND.shape[2:]
        normed = [
            torch.native_layer_norm(x, shape, gain, bias, NORM_EPSILON)
            for x, gain, bias in zip(x_MND, gain_MD, bias_MD)
        ]
        out_MND, mean_MN1, scale_MN1 = (stacked(parts) for parts in zip(*normed))
        ctx.save_for_backward(x_MND, gain_MD, bias_MD, mean_MN1, scale_MN1)
        return out_MND.view(x_MBLD.shape)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x_MND, gain_MD, bias_MD, mean_MN1, scale_MN1 = ctx.saved_tensors
        g_MND, shape = gradients[0].contiguous().view(x_MND.shape), x_MND.shape[2:]
        backward = torch.ops.aten.native_layer_norm_backward
        parts = [
            backward(g, x, shape, mean, scale, gain, bias, (True, True, True))
            for g, x, mean, scale, gain, bias in zip(g_MND, x_MND, mean_MN1, scale_MN1, gain_MD, bias_MD)
        ]
        dx_MND, dgain_MD, dbias_MD = (stacked(part) for part in zip(*parts))
        return dx_MND.view(gradients[0].shape), dgain_MD, dbias_MD


def stacked(tensors: Sequence[Tensor]) -> Tensor:
    """`torch.stack`, but a single tensor is not copied."""
    return torch.stack(list(tensors)) if len(tensors) > 1 else tensors[0].unsqueeze(0)


def gelu(x: Tensor) -> Tensor:
    """GELU in its tanh form, as in BERT's and the paper's code."""
    return functional.gelu(x, approximate="tanh")


def safe_sqrt(x: Tensor) -> Tensor:
    """√max(x, 0) whose gradient at 0 is 0: a row without any deviation must not turn its model into NaNs."""
    positive = x > 0
    return torch.where(positive, torch.sqrt(torch.where(positive, x, 1.0)), 0.0)


def head_blocks(width: int, heads: int, like: Tensor) -> Tensor:
    """[D, D], 1 where row and column belong to one head, else 0.

    Products of all heads at once, masked by this, cost more arithmetic and far fewer calls than a product a head.
    """
    head = torch.arange(width, device=like.device) // (width // heads)
    return (head[:, None] == head).to(like.dtype)


def inverse_sqrt(n: int) -> float:
    """1/√n."""
    return 1 / math.sqrt(n)
