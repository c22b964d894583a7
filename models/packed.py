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

from models.fused import Hidden, NormedSum
from models.kernels import usable

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
        std: deviation of a normal start, before that and before truncation.
        decays: whether weight decay acts on it.
    """

    shape: tuple[int, ...]
    start: str = "normal"
    scaled: bool = True
    decays: bool = False
    std: float = INIT_STD

    def initial(self, random: np.random.Generator, init_scale: float) -> np.ndarray:
        """A start value, float64, drawn from `random`."""
        if self.start == "zeros":
            return np.zeros(self.shape)
        if self.start == "ones":
            return np.ones(self.shape)
        draw = random.standard_normal(self.shape)
        while (outside := np.abs(draw) > 2).any():
            draw[outside] = random.standard_normal(np.count_nonzero(outside))
        return draw * self.std * (init_scale if self.scaled else 1.0)


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
    y_MNF = torch.baddbmm(p[f"{name}.bias"].unsqueeze(1), x_MBLD.flatten(1, 2), p[f"{name}.weight"])
    return y_MNF.view(*x_MBLD.shape[:3], -1)


def product(x_MBLD: Tensor, w_MDF: Tensor) -> Tensor:
    """x·W per model: [M, B, L, D] → [M, B, L, F]."""
    return torch.bmm(x_MBLD.flatten(1, 2), w_MDF).view(*x_MBLD.shape[:3], -1)


def read(x_MBLD: Tensor, reads: slice) -> Tensor:
    """Some of the tokens. All of them are no slice: its gradient would be copied."""
    return x_MBLD if reads.stop - reads.start == x_MBLD.shape[2] else x_MBLD[:, :, reads]


class RowNorm(torch.autograd.Function):
    """Layer norm over the last axis by plain passes. On a GPU the library's gives a group of threads to each row: slow
    for rows as short as a head's, and where four does not divide them (docs/performance.md)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        x = x.float() if x.dtype == torch.bfloat16 else x
        variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
        inverse = variance.add_(NORM_EPSILON).rsqrt_()
        normed = torch.sub(x, mean).mul_(inverse)
        ctx.save_for_backward(normed, inverse)
        return normed

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        normed, inverse = ctx.saved_tensors
        along = (gradient * normed).mean(-1, keepdim=True)
        return torch.sub(gradient, gradient.mean(-1, keepdim=True)).addcmul_(normed, along, value=-1).mul_(inverse)


def layer_norm(p: Parameters, name: str, x_MBLD: Tensor) -> Tensor:
    """Layer norm over the last axis with each model's own gain and bias; epsilon as in Keras."""
    row = x_MBLD.shape[-1]
    slow = x_MBLD.is_cuda and (row <= 64 or (row % 4 and row < 384)) and not torch.compiler.is_compiling()
    normed = RowNorm.apply(x_MBLD) if slow else functional.layer_norm(x_MBLD, (row,), eps=NORM_EPSILON)
    return torch.addcmul(p[f"{name}.bias"][:, None, None], normed, p[f"{name}.gain"][:, None, None])


def normed_sum(
    p: Parameters, norm: str, z_MBLD: Tensor, bias_MD: Tensor, before: Tensor | None = None, after: Tensor | None = None
) -> Tensor:
    """after + layer norm of (z + bias + before): how a branch ends, with its residual; `before`, `after` like z."""
    if usable(z_MBLD):
        gain, shift = p[f"{norm}.gain"], p[f"{norm}.bias"]
        return NormedSum.apply(NORM_EPSILON, z_MBLD, bias_MD, gain, shift, before, after)
    z_MBLD = z_MBLD + bias_MD[:, None, None]
    normed = layer_norm(p, norm, z_MBLD if before is None else z_MBLD + before)
    return normed if after is None else after + normed


def hidden(p: Parameters, x_MBLD: Tensor, first: str | None, norm: str | None, with_gelu: bool, second: str) -> Tensor:
    """Linear layer `first`, layer norm, GELU, and the product with the weights of `second`, whose bias is left to what
    follows; what is None or False is left out. [M, B, L, D] → [M, B, L, D]."""
    if (norm or with_gelu) and usable(x_MBLD):
        w_in, bias = (p[f"{first}.weight"], p[f"{first}.bias"]) if first else (None, x_MBLD.new_zeros(len(x_MBLD), 1))
        gain, shift = (p[f"{norm}.gain"], p[f"{norm}.bias"]) if norm else (None, None)
        bias = bias.expand(-1, p[f"{second}.weight"].shape[1])
        keep = torch.is_grad_enabled()
        return Hidden.apply(NORM_EPSILON, with_gelu, keep, x_MBLD, w_in, bias, gain, shift, p[f"{second}.weight"])
    h_MBLF = linear(p, first, x_MBLD) if first else x_MBLD
    if norm:
        h_MBLF = layer_norm(p, norm, h_MBLF)
    return product(gelu(h_MBLF) if with_gelu else h_MBLF, p[f"{second}.weight"])


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


def fine(device: torch.device) -> dict[str, Any]:
    """How to make a table on a device, so that a step need not wait for a copy: in float64 where there is any."""
    return {"device": device, "dtype": torch.float32 if device.type == "mps" else torch.float64}


def inverse_sqrt(n: int) -> float:
    """1/√n."""
    return 1 / math.sqrt(n)
