"""A layer: a mixing branch and a feed-forward branch, each with its residual."""

from importlib import import_module

from torch import Tensor

from models import MIXERS
from models.mixers.base import Mixer
from models.packed import (
    Parameter,
    Parameters,
    gelu,
    inverse_sqrt,
    layer_norm,
    linear,
    linear_parameters,
    norm_parameters,
)
from models.spec import NetworkSpec


def make_mixer(spec: NetworkSpec) -> Mixer:
    """The mixer that the spec names, its code loaded."""
    module, _, name = MIXERS[spec.mixer].path.partition(":")
    return getattr(import_module(module), name)(spec.width, spec.heads)


class Block:
    """One layer of a transformer-like network, with any mixer."""

    def __init__(self, spec: NetworkSpec):
        self.spec = spec
        self.mixer = make_mixer(spec)

    def parameters(self) -> dict[str, Parameter]:
        """The layer's parameters by name."""
        spec, d, f = self.spec, self.spec.width, self.spec.hidden_width
        parameters = self.mixer.parameters()
        if spec.has_heads:
            if spec.mix_norm == "layer":
                parameters |= norm_parameters("mix_norm", d)
            parameters |= linear_parameters("output", d, d)
        parameters |= norm_parameters("branch_norm", d) | linear_parameters("feed_forward.in", d, f)
        if spec.hidden_norm:
            parameters |= norm_parameters("feed_forward.hidden_norm", f)
        return parameters | linear_parameters("feed_forward.out", f, d) | norm_parameters("feed_forward.norm", d)

    def __call__(self, p: Parameters, x_MBLD: Tensor, reads: int) -> Tensor:
        """[M, B, L, D] → [M, B, reads, D]: the layer's output for the leading tokens that are read."""
        length = x_MBLD.shape[2]
        mixed = self.mixer(p, x_MBLD, reads)
        if self.spec.has_heads:
            mixed = self.projected(p, mixed, length)
        x_MBRD = self.residual(p, "branch_norm", x_MBLD[:, :, :reads], mixed)
        hidden_MBRF = linear(p, "feed_forward.in", x_MBRD)
        if self.spec.hidden_norm:
            hidden_MBRF = layer_norm(p, "feed_forward.hidden_norm", hidden_MBRF)
        return self.residual(p, "feed_forward.norm", x_MBRD, linear(p, "feed_forward.out", gelu(hidden_MBRF)))

    def projected(self, p: Parameters, heads_MBRD: Tensor, length: int) -> Tensor:
        """The concatenated heads after norm, activation and output projection."""
        if self.spec.mix_norm == "layer":
            heads_MBRD = layer_norm(p, "mix_norm", heads_MBRD)
        elif self.spec.mix_norm == "inverse_sqrt_length":
            heads_MBRD = heads_MBRD * inverse_sqrt(length)
        if self.spec.mix_activation == "gelu":
            heads_MBRD = gelu(heads_MBRD)
        return linear(p, "output", heads_MBRD)

    def residual(self, p: Parameters, norm: str, x: Tensor, branch: Tensor) -> Tensor:
        """The stream after a branch, normalised where the block's norms stand."""
        if self.spec.norm_placement == "post":
            return layer_norm(p, norm, x + branch)
        return x + layer_norm(p, norm, branch)
