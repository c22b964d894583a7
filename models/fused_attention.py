"""Attention on a CPU by kernels: softmax and linear (NAP, NON), from projections to concatenated heads.

One kernel call takes all models, sequences and heads. Each is handed keys, values and queries side by side in one
tensor [M, B, L, 3·D], before their biases are added; or, where fewer tokens are read than there are, keys and values
[M, B, L, 2·D] and the queries [M, B, reads, D] of those tokens.
"""

from ctypes import byref
from typing import Any

import torch
from torch import Tensor

from models.kernels import kernel, pointer
from models.kernels.arguments import Projected, ProjectedGradient, Sizes

HEAD_WIDTHS = (1, 2, 4, 8, 16, 32)
"""Widths of a head that there are kernels for."""


class Heads:
    """Projections as kernels take them.

    Args:
        heads: H.
        kv: keys, values and perhaps queries, [M, B, L, 2·D or 3·D].
        q: queries [M, B, reads, D] where `kv` has none.
        bias: [M, 3·D], of keys, values and queries.
    """

    def __init__(self, heads: int, kv: Tensor, q: Tensor | None, bias: Tensor):
        self.kv, self.q, self.bias = kv.contiguous(), q if q is None else q.contiguous(), bias.contiguous()
        models, batch, length, _ = kv.shape
        self.width = d = bias.shape[1] // 3
        self.reads = length if q is None else q.shape[2]
        self.sizes = Sizes(models, batch, self.reads, length, heads, d // heads)
        biases = [bias.data_ptr() + place * d * bias.element_size() for place in (2, 0, 1)]
        self.projected = Projected(*self._rows(self.kv, self.q), *biases, 3 * d)

    def _rows(self, kv: Tensor, q: Tensor | None) -> tuple[int, ...]:
        step, wide = self.width * kv.element_size(), kv.shape[3]
        k = kv.data_ptr()
        return (k + 2 * step, k, k + step, wide, wide) if q is None else (q.data_ptr(), k, k + step, self.width, wide)

    @property
    def arguments(self) -> tuple:
        """The first two arguments of every kernel."""
        return byref(self.sizes), byref(self.projected)

    def new_heads(self) -> Tensor:
        """[M, B, reads, D]."""
        return self.kv.new_empty(*self.kv.shape[:2], self.reads, self.width)

    def new_gradients(self) -> tuple[Tensor, Tensor | None, ProjectedGradient]:
        """Gradients of `kv` and `q` to be written, and as kernels take them."""
        dkv, dq = torch.empty_like(self.kv), None if self.q is None else torch.empty_like(self.q)
        return dkv, dq, ProjectedGradient(*self._rows(dkv, dq))


def bias_gradient(dkv: Tensor, dq: Tensor | None) -> Tensor:
    """[M, 3·D]: the sums of the projections' gradients over all tokens."""
    parts = [each.flatten(1, 2).sum(dim=1) for each in (dkv, dq) if each is not None]
    return torch.cat(parts, dim=1)


class SoftmaxHeads(torch.autograd.Function):
    """softmax(q·k/√E)·v."""

    @staticmethod
    def forward(ctx: Any, heads: int, kv: Tensor, q: Tensor | None, bias: Tensor) -> Tensor:
        given = Heads(heads, kv, q, bias)
        out = given.new_heads()
        logsums = out.new_empty(*out.shape[:2], heads, given.reads)
        kernel("softmax", "softmax_forward", out.dtype, "sjpp")(*given.arguments, out.data_ptr(), logsums.data_ptr())
        ctx.save_for_backward(given.kv, given.q, given.bias, out, logsums)
        ctx.heads = heads
        return out

    @staticmethod
    def backward(ctx: Any, *douts: Tensor) -> tuple[Tensor | None, ...]:
        kv, q, bias, out, logsums = ctx.saved_tensors
        given, dout = Heads(ctx.heads, kv, q, bias), douts[0].contiguous()
        dkv, dq, gradient = given.new_gradients()
        run = kernel("softmax", "softmax_backward", out.dtype, "sjpppg")
        run(*given.arguments, out.data_ptr(), logsums.data_ptr(), dout.data_ptr(), byref(gradient))
        return None, dkv, dq, bias_gradient(dkv, dq)


class LinearHeads(torch.autograd.Function):
    """Normalised attention with gains and biases [M, H]; without them (None), plain linear attention."""

    @staticmethod
    def forward(
        ctx: Any, heads: int, epsilon: float, kv: Tensor, q: Tensor | None, bias: Tensor, gain: Tensor | None,
        shift: Tensor | None,
    ) -> Tensor:  # fmt: skip
        given = Heads(heads, kv, q, bias)
        out = given.new_heads()
        gain, shift = (t if t is None else t.contiguous() for t in (gain, shift))
        run = kernel("linear", "linear_forward", out.dtype, "sjippdp")
        run(*given.arguments, int(gain is not None), pointer(gain), pointer(shift), epsilon, out.data_ptr())
        ctx.save_for_backward(given.kv, given.q, given.bias, gain, shift)
        ctx.heads, ctx.epsilon = heads, epsilon
        return out

    @staticmethod
    def backward(ctx: Any, *douts: Tensor) -> tuple[Tensor | None, ...]:
        kv, q, bias, gain, shift = ctx.saved_tensors
        given, dout = Heads(ctx.heads, kv, q, bias), douts[0].contiguous()
        dkv, dq, gradient = given.new_gradients()
        dgain, dshift = kv.new_empty(2, *kv.shape[:2], ctx.heads)
        run = kernel("linear", "linear_backward", kv.dtype, "sjippdpgpp")
        run(*given.arguments, int(gain is not None), pointer(gain), pointer(shift), ctx.epsilon, dout.data_ptr(),
            byref(gradient), dgain.data_ptr(), dshift.data_ptr())  # fmt: skip
        of_norm = (None, None) if gain is None else (dgain.sum(dim=1), dshift.sum(dim=1))
        return None, None, dkv, dq, bias_gradient(dkv, dq), *of_norm
