"""NAP and NON as their formulas read, with the L×L matrix: oracles for the linear forms."""

from torch import Tensor

from models.mixers.attention import DEVIATION_EPSILON, LinearAttention, NormalizedAttention
from models.packed import Parameters


class QuadraticNormalizedAttention(NormalizedAttention):
    """w = g·(ℓ − mean ℓ)/(std ℓ + 0.001) + b over the keys, with ℓ = q·k; then Σ w·v."""

    def __call__(self, p: Parameters, x_MBLD: Tensor, reads: slice) -> Tensor:
        m, b, _, d = x_MBLD.shape
        q, k, v = (
            part.reshape(m, b, part.shape[2], self.heads, -1).transpose(2, 3) for part in self.project(p, x_MBLD, reads)
        )
        logits = q @ k.transpose(-1, -2)
        centred = logits - logits.mean(dim=-1, keepdim=True)
        deviation = centred.square().mean(dim=-1, keepdim=True).sqrt()
        gain, bias = (p[name][:, None, :, None, None] for name in ("nap_gain", "nap_bias"))
        weights = gain * centred / (deviation + DEVIATION_EPSILON) + bias
        return (weights @ v).transpose(2, 3).reshape(m, b, reads.stop - reads.start, d)


class QuadraticLinearAttention(LinearAttention):
    """w = q·k/√E; then Σ w·v."""

    def __call__(self, p: Parameters, x_MBLD: Tensor, reads: slice) -> Tensor:
        m, b, _, d = x_MBLD.shape
        q, k, v = (
            part.reshape(m, b, part.shape[2], self.heads, -1).transpose(2, 3) for part in self.project(p, x_MBLD, reads)
        )
        weights = q @ k.transpose(-1, -2) / (d // self.heads) ** 0.5
        return (weights @ v).transpose(2, 3).reshape(m, b, reads.stop - reads.start, d)
