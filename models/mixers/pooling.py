"""Pooling: every token gets the same summary of all tokens; where it is causal, of those up to itself. No parameters,
no heads.

Sum and max: Richter & Wattenhofer (arXiv 2005.09561). Mean and none are controls.
"""

import torch
from torch import Tensor

from models.mixers.base import Mixer
from models.packed import Parameters


class Sum(Mixer):
    """Sum over the tokens."""

    shared = True

    def __call__(self, p: Parameters, x_MBLD: Tensor, reads: slice) -> Tensor:
        x_MBLD, hides = self.seen(x_MBLD, reads)
        return x_MBLD.cumsum(dim=2)[:, :, reads] if hides else x_MBLD.sum(dim=2, keepdim=True)


class Mean(Mixer):
    """Mean over the tokens: a sum whose scale does not depend on the length."""

    shared = True

    def __call__(self, p: Parameters, x_MBLD: Tensor, reads: slice) -> Tensor:
        x_MBLD, hides = self.seen(x_MBLD, reads)
        if not hides:
            return x_MBLD.mean(dim=2, keepdim=True)
        counts_L1 = torch.arange(1, x_MBLD.shape[2] + 1, device=x_MBLD.device)[:, None]
        return (x_MBLD.cumsum(dim=2) / counts_L1)[:, :, reads]


class Max(Mixer):
    """Largest value over the tokens, for every feature apart."""

    shared = True

    def __call__(self, p: Parameters, x_MBLD: Tensor, reads: slice) -> Tensor:
        x_MBLD, hides = self.seen(x_MBLD, reads)
        return x_MBLD.cummax(dim=2).values[:, :, reads] if hides else x_MBLD.amax(dim=2, keepdim=True)


class NoMixing(Mixer):
    """Nothing: what a model can do that looks at each token alone."""

    shared = True

    def __call__(self, p: Parameters, x_MBLD: Tensor, reads: slice) -> Tensor:
        return x_MBLD.new_zeros(()).expand(x_MBLD.shape[0], x_MBLD.shape[1], 1, x_MBLD.shape[3])
