"""Pooling: every token gets the same summary of all tokens. No parameters, no heads.

Sum and max: Richter & Wattenhofer (arXiv 2005.09561). Mean and none are controls.
"""

from torch import Tensor

from models.mixers.base import Mixer
from models.packed import Parameters


class Sum(Mixer):
    """Sum over the tokens."""

    def __call__(self, p: Parameters, x_MBLD: Tensor, reads: int) -> Tensor:
        return x_MBLD.sum(dim=2, keepdim=True)


class Mean(Mixer):
    """Mean over the tokens: a sum whose scale does not depend on the length."""

    def __call__(self, p: Parameters, x_MBLD: Tensor, reads: int) -> Tensor:
        return x_MBLD.mean(dim=2, keepdim=True)


class Max(Mixer):
    """Largest value over the tokens, for every feature apart."""

    def __call__(self, p: Parameters, x_MBLD: Tensor, reads: int) -> Tensor:
        return x_MBLD.amax(dim=2, keepdim=True)


class NoMixing(Mixer):
    """Nothing: what a model can do that looks at each token alone."""

    def __call__(self, p: Parameters, x_MBLD: Tensor, reads: int) -> Tensor:
        return x_MBLD.new_zeros(()).expand(x_MBLD.shape[0], x_MBLD.shape[1], 1, x_MBLD.shape[3])
