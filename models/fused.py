"""Layers fused on a CPU: fewer passes over memory, in pieces that stay in the cache. `models.packed` has the same in
PyTorch's operations.

The kernels' texts (models/kernels/*.cpp) say what each computes. Shape suffixes as in `models.packed`; X: either of D
and F.
"""

from collections.abc import Iterator
from itertools import pairwise
from threading import local
from typing import Any

import torch
from torch import Tensor

from models.kernels import kernel, pointer

BLOCK_ELEMENTS = 2**19
"""Hidden values (rows × width) that are worked on at a time: 2 MB in float32, so that what is written is read again
from the cache. Measured from 2^17 to 2^24 at widths 16 to 512."""

FEWEST_ROWS = 512
"""Rows of a piece at least: with fewer, products of wide matrices lose more than the cache gives."""


CACHE_LINE = 16
"""Numbers of single precision in it."""


class Normed:
    """activation(norm(z + bias + before)) + after, row by row, and its gradients.

    Args:
        epsilon: of the layer norm.
        bias_MX: added to rows of z.
        gain_MX, shift_MX: of the layer norm; None: no norm.
        gelu: whether GELU follows.
        stride: length of the rows that it is given: X, or more with zeros at their ends.
    """

    def __init__(
        self, epsilon: float, bias_MX: Tensor, gain_MX: Tensor | None, shift_MX: Tensor | None, gelu: bool, stride: int
    ):
        self.epsilon, self.width, self.stride = epsilon, bias_MX.shape[1], stride
        self.bias = widened(bias_MX, 1, stride)
        self.gain, self.shift = (t if t is None else widened(t, 1, stride) for t in (gain_MX, shift_MX))
        self.norm, self.gelu = int(gain_MX is not None), int(gelu)

    def forward(
        self, models: slice, z: Tensor, out: Tensor, statistics: Tensor, before: Tensor | None, after: Tensor | None
    ) -> None:
        """Writes `out` and, where there is a norm, the rows' means and scales; all [m, rows, stride] and
        contiguous."""
        run = kernel("norm", "norm_forward", z.dtype, "iinnnnd" + "p" * 8)
        run(self.norm, self.gelu, *self._sizes(z), self.epsilon, z.data_ptr(), *self._parameters(models, before),
            pointer(after), out.data_ptr(), statistics.data_ptr())  # fmt: skip

    def backward(
        self, models: slice, dout: Tensor, z: Tensor, statistics: Tensor, before: Tensor | None, dz: Tensor,
        activated: Tensor | None, gradients: "tuple[Tensor, Tensor, Tensor]",
    ) -> None:  # fmt: skip
        """Writes `dz` and, after a GELU, `activated`; adds to the gradients of bias, gain and shift [M, stride]."""
        run = kernel("norm", "norm_backward", z.dtype, "iinnnn" + "p" * 12)
        run(self.norm, self.gelu, *self._sizes(z), dout.data_ptr(), z.data_ptr(), *self._parameters(models, before),
            statistics.data_ptr(), dz.data_ptr(), pointer(activated),
            *(gradient[models].data_ptr() for gradient in gradients))  # fmt: skip

    def _sizes(self, z: Tensor) -> tuple[int, ...]:
        return z.shape[0], z.shape[1], self.width, self.stride

    def _parameters(self, models: slice, before: Tensor | None) -> tuple[int | None, ...]:
        gain, shift = (pointer(t if t is None else t[models]) for t in (self.gain, self.shift))
        return self.bias[models].data_ptr(), pointer(before), gain, shift

    def no_gradients(self) -> tuple[Tensor, Tensor, Tensor]:
        """Zeros to add gradients of bias, gain and shift to."""
        bias, gain, shift = torch.zeros(3, *self.bias.shape, dtype=self.bias.dtype)
        return bias, gain, shift


class NormedSum(torch.autograd.Function):
    """after + norm(z + bias + before) for z, before and after [M, B, L, D]: a branch's end and its residual."""

    @staticmethod
    def forward(
        ctx: Any, epsilon: float, z: Tensor, bias: Tensor, gain: Tensor, shift: Tensor, before: Tensor | None,
        after: Tensor | None,
    ) -> Tensor:  # fmt: skip
        normed = Normed(epsilon, bias, gain, shift, gelu=False, stride=z.shape[-1])
        shape = z.shape
        z = z.contiguous().view(shape[0], -1, shape[-1])
        before, after = (t if t is None else t.contiguous() for t in (before, after))
        out, statistics = torch.empty_like(z), z.new_empty(*z.shape[:2], 2)
        normed.forward(slice(None), z, out, statistics, before, after)
        ctx.save_for_backward(z, statistics, before, bias, gain, shift)
        ctx.epsilon, ctx.with_after = epsilon, after is not None
        return out.view(shape)

    @staticmethod
    def backward(ctx: Any, *douts: Tensor) -> tuple[Tensor | None, ...]:
        z, statistics, before, bias, gain, shift = ctx.saved_tensors
        normed = Normed(ctx.epsilon, bias, gain, shift, gelu=False, stride=z.shape[-1])
        dout, dz, gradients = douts[0].contiguous(), torch.empty_like(z), normed.no_gradients()
        normed.backward(slice(None), dout.view(z.shape), z, statistics, before, dz, None, gradients)
        dz = dz.view(dout.shape)
        return None, dz, *gradients, dz if before is not None else None, dout if ctx.with_after else None


class Hidden(torch.autograd.Function):
    """activation(norm(x·W_in + bias))·W_out: [M, B, L, D] → [M, B, L, D], with a norm, an activation, or both.

    W_in may be None: then x itself is normed. What is between is as wide as W_out has rows, and is never whole in
    memory but for the values before the norm, which the backward pass starts from. There its rows are as wide as whole
    cache lines, with zeros at their ends: products of matrices with odd rows take up to half as long again.
    """

    @staticmethod
    def forward(
        ctx: Any, epsilon: float, gelu: bool, keep: bool, x: Tensor, w_in: Tensor | None, bias: Tensor,
        gain: Tensor | None, shift: Tensor | None, w_out: Tensor,
    ) -> Tensor:  # fmt: skip
        shape, x = x.shape, x.contiguous().view(x.shape[0], -1, x.shape[-1])
        m, n, _ = x.shape
        width = w_out.shape[1] if w_in is None else whole_lines(w_out.shape[1])
        normed = Normed(epsilon, bias, gain, shift, gelu, width)
        wide_in, wide_out = None if w_in is None else widened(w_in, 2, width), widened(w_out, 1, width)
        statistics = x.new_empty(m, n, 2)
        h = x if wide_in is None else x.new_empty(m, n, width) if keep else None
        z, scratch = x.new_empty(m, n, w_out.shape[2]), scratch_like(x)
        for models, rows in blocks(m, n, width):
            hb = scratch("h", models, rows, width) if h is None else h[models, rows]
            if wide_in is not None:
                torch.bmm(x[models, rows], wide_in[models], out=hb)
            activated = scratch("activated", models, rows, width)
            normed.forward(models, hb, activated, statistics[models, rows], None, None)
            torch.bmm(activated, wide_out[models], out=z[models, rows])
        ctx.save_for_backward(x, h, statistics, w_in, bias, gain, shift, w_out)
        ctx.epsilon, ctx.gelu = epsilon, gelu
        return z.view(*shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, *dzs: Tensor) -> tuple[Tensor | None, ...]:
        x, h, statistics, w_in, bias, gain, shift, w_out = ctx.saved_tensors
        m, n, _ = x.shape
        width = w_out.shape[1] if w_in is None else h.shape[2]
        normed = Normed(ctx.epsilon, bias, gain, shift, ctx.gelu, width)
        gradients, scratch = normed.no_gradients(), scratch_like(x)
        dz = dzs[0].contiguous().view(m, n, -1)
        # copies of the weights, transposed: cheap beside products with them, which are faster so
        across_out = widened(w_out, 1, width).transpose(1, 2).contiguous()
        across_in = None if w_in is None else widened(w_in, 2, width).transpose(1, 2).contiguous()
        dx, dw_out = torch.empty_like(x), w_out.new_empty(m, width, w_out.shape[2])
        dw_in = None if w_in is None else w_in.new_empty(*w_in.shape[:2], width)
        for models, rows in blocks(m, n, width):
            hb, dzb, xb = h[models, rows], dz[models, rows], x[models, rows]
            activated = scratch("activated", models, rows, width)
            dh = dx[models, rows] if across_in is None else scratch("dh", models, rows, width)
            torch.bmm(dzb, across_out[models], out=dh)
            if not ctx.gelu:
                normed.forward(models, hb, activated, statistics[models, rows], None, None)
            normed.backward(models, dh, hb, statistics[models, rows], None, dh, activated, gradients)
            add_product(dw_out[models], activated, dzb, rows.start)
            if across_in is not None and dw_in is not None:
                add_product(dw_in[models], xb, dh, rows.start)
                torch.bmm(dh, across_in[models], out=dx[models, rows])
        narrow = w_out.shape[1]
        dbias, dgain, dshift = (gradient[:, :narrow] for gradient in gradients)
        return (
            None, None, None, dx.view(*dzs[0].shape[:-1], -1), dw_in if dw_in is None else dw_in[:, :, :narrow], dbias,
            *((None, None) if gain is None else (dgain, dshift)), dw_out[:, :narrow],
        )  # fmt: skip


def whole_lines(width: int) -> int:
    """The next width that fills cache lines."""
    return width + -width % CACHE_LINE


def widened(t: Tensor, axis: int, width: int) -> Tensor:
    """Parameters with zeros added along an axis up to `width`; contiguous."""
    more = width - t.shape[axis]
    if not more:
        return t.contiguous()
    return torch.nn.functional.pad(t, [0, 0] * (t.dim() - 1 - axis) + [0, more])


def add_product(total: Tensor, a: Tensor, b: Tensor, start: int) -> None:
    """total += aᵀ·b; the first rows' product is written over what is there."""
    if start == 0:
        torch.bmm(a.transpose(1, 2), b, out=total)
    else:
        total.baddbmm_(a.transpose(1, 2), b)


def blocks(models: int, rows: int, width: int) -> Iterator[tuple[slice, slice]]:
    """Pieces of [models, rows, width] of about BLOCK_ELEMENTS: several models whole, or rows of one."""
    one = rows * width
    if one <= BLOCK_ELEMENTS:
        group = BLOCK_ELEMENTS // one
        for start in range(0, models, group):
            yield slice(start, min(start + group, models)), slice(0, rows)
        return
    count = -(-rows // max(BLOCK_ELEMENTS // width, FEWEST_ROWS))
    bounds = [rows * i // count for i in range(count + 1)]
    for m in range(models):
        for low, high in pairwise(bounds):
            yield slice(m, m + 1), slice(low, high)


class Scratch:
    """Memory that values of a block are written to, again for every block."""

    def __init__(self, dtype: torch.dtype):
        self.dtype = dtype
        self.held: dict[str, Tensor] = {}

    def __call__(self, name: str, models: slice, rows: slice, width: int) -> Tensor:
        """[models, rows, width], contiguous, with what was there."""
        shape = (models.stop - models.start, rows.stop - rows.start, width)
        size = shape[0] * shape[1] * shape[2]
        if name not in self.held or self.held[name].numel() < size:
            with torch.inference_mode(False):  # an evaluation's memory serves training too
                self.held[name] = torch.empty(size, dtype=self.dtype)
        return self.held[name][:size].view(shape)


_scratches = local()


def scratch_like(x: Tensor) -> Scratch:
    """This thread's scratch memory for numbers of x's type: kept, as new memory costs a pass of its own."""
    held = _scratches.__dict__
    return held.setdefault(str(x.dtype), Scratch(x.dtype))
