"""Attention with heads: softmax, normalised (NAP) and not normalised (NON).

Formulas: Richter & Wattenhofer, "Normalized Attention Without Probability Cage" (arXiv 2005.09561), as its code has
them.
"""

import torch
from torch import Tensor
from torch.nn import functional

from models.fused_attention import HEAD_WIDTHS, LinearHeads, SoftmaxHeads
from models.kernels import usable
from models.mixers.base import Mixer
from models.packed import (
    Parameter,
    Parameters,
    fine,
    head_blocks,
    inverse_sqrt,
    linear_parameters,
    product,
    safe_sqrt,
)

DEVIATION_EPSILON = 1e-3
"""Added to NAP's deviation (not under its root). Logits start with a deviation near 1e-4, so this sets the start's
gain."""


SOFTMAX_HEAD_WIDTHS = (1, 2, 4, 8, 16)
"""Widths of a head at which the kernel beats PyTorch's `scaled_dot_product_attention` on a CPU: it takes less than half
the time at 4, two thirds at 8, four fifths at 16, and more at 32 (docs/performance.md)."""


HEAD_BY_HEAD = 64
"""Width of a head from which products head by head, without kernels, beat masked products of all heads at once."""


class Attention(Mixer):
    """Queries, keys and values from one linear layer each; subclasses say what becomes of them."""

    def parameters(self) -> dict[str, Parameter]:
        return {
            name: parameter
            for projection in ("query", "key", "value")
            for name, parameter in linear_parameters(projection, self.width, self.width).items()
        }

    def takes_kernels(self, x_MBLD: Tensor, head_widths: tuple[int, ...], hides: bool) -> bool:
        """Whether kernels for heads of these widths can do it: they turn no queries, and hide no tokens."""
        return not hides and not self.rotary and self.width // self.heads in head_widths and usable(x_MBLD)

    def projected(self, p: Parameters, x_MBLD: Tensor, reads: slice) -> tuple[Tensor, Tensor | None, Tensor]:
        """What kernels take: keys, values and queries [M, B, L, 3·D] before their biases, or keys and values
        [M, B, L, 2·D] and the queries [M, B, reads, D] of the tokens that are read; and the biases [M, 3·D]."""
        bias_MF = torch.cat([p[f"{name}.bias"] for name in ("key", "value", "query")], dim=1)
        few = reads.stop - reads.start < x_MBLD.shape[2]
        names = ("key", "value") if few else ("key", "value", "query")
        kv = product(x_MBLD, torch.cat([p[f"{name}.weight"] for name in names], dim=2))
        return kv, product(x_MBLD[:, :, reads], p["query.weight"]) if few else None, bias_MF

    def project(self, p: Parameters, x_MBLD: Tensor, reads: slice) -> tuple[Tensor, Tensor, Tensor]:
        """Queries [M, B, reads, D] of the tokens that are read, keys and values [M, B, L, D] of all."""
        kv, few, bias_MF = self.projected(p, x_MBLD, reads)
        parts = (kv + bias_MF[:, None, None, : kv.shape[3]]).split(self.width, dim=3)
        q = parts[2] if few is None else few + bias_MF[:, None, None, 2 * self.width :]
        k, v = parts[:2]
        if self.rotary:
            cos, sin = rotations(k.shape[2], self.width // self.heads, k)
            q, k = turned(q, self.heads, cos[reads], sin[reads]), turned(k, self.heads, cos, sin)
        return q, k, v

    def split_heads(self, x_MBLD: Tensor) -> Tensor:
        """[M, B, L, D] → [M·B, H, L, E]."""
        m, b, length, d = x_MBLD.shape
        return x_MBLD.reshape(m * b, length, self.heads, d // self.heads).transpose(1, 2)

    def joined(self, o_NHRE: Tensor, models: int) -> Tensor:
        """[M·B, H, R, E] → [M, B, R, D]."""
        n, _, reads, _ = o_NHRE.shape
        return o_NHRE.transpose(1, 2).reshape(models, n // models, reads, self.width)


class SoftmaxAttention(Attention):
    """softmax(q·k/√E) over the keys."""

    def __call__(self, p: Parameters, x_MBLD: Tensor, reads: slice) -> Tensor:
        x_MBLD, hides = self.seen(x_MBLD, reads)
        if self.takes_kernels(x_MBLD, SOFTMAX_HEAD_WIDTHS, hides):
            return SoftmaxHeads.apply(self.heads, *self.projected(p, x_MBLD, reads))
        q, k, v = (self.split_heads(part) for part in self.project(p, x_MBLD, reads))
        return self.joined(functional.scaled_dot_product_attention(q, k, v, is_causal=hides), len(x_MBLD))


class NormalizedAttention(Attention):
    """NAP: per query, logits q·k (not scaled) less their mean over the keys, divided by their deviation + 0.001,
    times a gain, plus a bias (one of each a head). The weights have no sign and no sum imposed on them.

    Computed without the L×L matrix. With centred keys k̃ = k − mean(k), a query's centred logits are q·k̃_j, its
    variance is q·C·q with C = Σ_j k̃_j k̃_jᵀ / L, and Σ_j (q·k̃_j) v_j = q·(Σ_j k̃_j v_jᵀ): linear in length and exact.
    A causal one has other keys for every query: it computes the matrix, with mean and deviation over the keys seen.
    """

    def parameters(self) -> dict[str, Parameter]:
        return {
            **super().parameters(),
            "nap_gain": Parameter((self.heads,), "ones"),
            "nap_bias": Parameter((self.heads,), "zeros"),
        }

    def __call__(self, p: Parameters, x_MBLD: Tensor, reads: slice) -> Tensor:
        x_MBLD, hides = self.seen(x_MBLD, reads)
        if self.takes_kernels(x_MBLD, HEAD_WIDTHS, hides):
            gain, bias = p["nap_gain"], p["nap_bias"]
            return LinearHeads.apply(self.heads, DEVIATION_EPSILON, *self.projected(p, x_MBLD, reads), gain, bias)
        q, k, v = self.project(p, x_MBLD, reads)
        return (self._causal if hides else self._linear)(p, q, k, v, reads)

    def _linear(self, p: Parameters, q: Tensor, k: Tensor, v: Tensor, reads: slice) -> Tensor:
        m, b, length, d = k.shape
        k = k - k.mean(dim=2, keepdim=True)
        qC, qKV = key_products(q, k, (k, v), self.heads)
        heads = (m, b, q.shape[2], self.heads, d // self.heads)
        deviation = safe_sqrt((qC * q).view(heads).sum(dim=4, keepdim=True) / length)
        gain = p["nap_gain"][:, None, None, :, None] / (deviation + DEVIATION_EPSILON)
        v_sum = v.sum(dim=2, keepdim=True).view(m, b, 1, self.heads, -1)
        return torch.addcmul(p["nap_bias"][:, None, None, :, None] * v_sum, gain, qKV.view(heads)).flatten(3)

    def _causal(self, p: Parameters, q: Tensor, k: Tensor, v: Tensor, reads: slice) -> Tensor:
        seen_RL = visible(reads, k.shape[2], k.device).to(k.dtype)
        counts_R1 = seen_RL.sum(dim=1, keepdim=True)
        logits = self.split_heads(q) @ self.split_heads(k).transpose(2, 3)
        centred = (logits - (logits * seen_RL).sum(dim=3, keepdim=True) / counts_R1) * seen_RL
        deviation = safe_sqrt(centred.square().sum(dim=3, keepdim=True) / counts_R1)
        of_heads = lambda name: p[name].repeat_interleave(k.shape[1], dim=0)[:, :, None, None]  # noqa: E731
        weights = of_heads("nap_gain") / (deviation + DEVIATION_EPSILON) * centred + of_heads("nap_bias") * seen_RL
        return self.joined(weights @ self.split_heads(v), len(k))


class LinearAttention(Attention):
    """NON: the logits q·k/√E themselves are the weights; without the L×L matrix, since (QKᵀ)V = Q(KᵀV), unless it is
    causal."""

    def __call__(self, p: Parameters, x_MBLD: Tensor, reads: slice) -> Tensor:
        x_MBLD, hides = self.seen(x_MBLD, reads)
        if self.takes_kernels(x_MBLD, HEAD_WIDTHS, hides):
            return LinearHeads.apply(self.heads, 0.0, *self.projected(p, x_MBLD, reads), None, None)
        q, k, v = self.project(p, x_MBLD, reads)
        scale = inverse_sqrt(self.width // self.heads)
        if hides:
            logits = self.split_heads(q) @ self.split_heads(k).transpose(2, 3)
            weights = logits * scale * visible(reads, k.shape[2], k.device)
            return self.joined(weights @ self.split_heads(v), len(k))
        (qKV,) = key_products(q, k, (v,), self.heads)
        return qKV * scale


def visible(reads: slice, length: int, device: torch.device) -> Tensor:
    """Which of `length` tokens each of those read may see: itself and those before it; bool [reads, length]."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()[reads]


def rotations(length: int, head: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines and sines of position · 10,000^(−2i/E), each [L, 1, E/2]: rotary positions (Su et al. 2021, RoFormer,
    arXiv 2104.09864)."""
    on = fine(like.device)
    rates = 10_000.0 ** (-torch.arange(0, head, 2, **on) / head)
    angles = (torch.arange(length, **on)[:, None] * rates)[:, None]
    return angles.cos().to(like.dtype), angles.sin().to(like.dtype)


def turned(x_MBRD: Tensor, heads: int, cos: Tensor, sin: Tensor) -> Tensor:
    """Every pair of neighbouring features of a head turned by its angle, so that products of queries and keys depend on
    how far apart they stand."""
    even, odd = x_MBRD.unflatten(3, (heads, -1, 2)).unbind(5)
    return torch.stack([even * cos - odd * sin, odd * cos + even * sin], dim=5).flatten(3)


def key_products(q_MBRD: Tensor, k_MBLD: Tensor, others: tuple[Tensor, ...], heads: int) -> list[Tensor]:
    """For each other [M, B, L, D]: per head q·(kᵀ·other), each [M, B, R, D] like the queries."""
    m, b, reads, d = q_MBRD.shape
    if d // heads >= HEAD_BY_HEAD:
        split = lambda x: x.reshape(m * b, -1, heads, d // heads).transpose(1, 2)  # noqa: E731
        k_NHEL = split(k_MBLD).transpose(2, 3)
        parts = [split(q_MBRD) @ (k_NHEL @ split(other)) for other in others]
        return [part.transpose(1, 2).reshape(m, b, reads, d) for part in parts]
    k_NDL = k_MBLD.reshape(m * b, -1, d).transpose(1, 2)
    q_NRD = q_MBRD.reshape(m * b, reads, d)
    blocks = head_blocks(d, heads, q_MBRD)
    products = []
    for other in others:
        memory_NDD = torch.bmm(k_NDL, other.reshape(m * b, -1, d)) * blocks
        products.append(torch.bmm(q_NRD, memory_NDD).view(m, b, reads, d))
    return products
