"""A layer: a mixing branch and a feed-forward branch, each with its residual."""

from importlib import import_module

from torch import Tensor

from models import MIXERS
from models.mixers.base import Mixer
from models.packed import (
    Parameter,
    Parameters,
    hidden,
    inverse_sqrt,
    leading,
    linear_parameters,
    norm_parameters,
    normed_sum,
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
        mixed, bias_MD = self.mixer(p, x_MBLD, reads), x_MBLD.new_zeros(len(x_MBLD), self.spec.width)
        if self.spec.has_heads:
            mixed, bias_MD = self.projected(p, mixed, length), p["output.bias"]
        x_MBRD = self.residual(p, "branch_norm", leading(x_MBLD, reads), mixed, bias_MD)
        norm = "feed_forward.hidden_norm" if self.spec.hidden_norm else None
        z_MBRD = hidden(p, x_MBRD, "feed_forward.in", norm, True, "feed_forward.out")
        return self.residual(p, "feed_forward.norm", x_MBRD, z_MBRD, p["feed_forward.out.bias"])

    def projected(self, p: Parameters, heads_MBRD: Tensor, length: int) -> Tensor:
        """The concatenated heads after norm, activation and output projection, without its bias."""
        if self.spec.mix_norm == "inverse_sqrt_length":
            heads_MBRD = heads_MBRD * inverse_sqrt(length)
        norm = "mix_norm" if self.spec.mix_norm == "layer" else None
        return hidden(p, heads_MBRD, None, norm, self.spec.mix_activation == "gelu", "output")

    def residual(self, p: Parameters, norm: str, stream: Tensor, branch: Tensor, bias_MD: Tensor) -> Tensor:
        """The stream after a branch, whose bias is still to be added, normalised where the block's norms stand."""
        alike = stream.shape == branch.shape  # a pooling gives one value for all tokens
        if self.spec.norm_placement == "post":
            if alike:
                return normed_sum(p, norm, branch, bias_MD, before=stream)
            return normed_sum(p, norm, stream + branch, bias_MD)
        if alike:
            return normed_sum(p, norm, branch, bias_MD, after=stream)
        return stream + normed_sum(p, norm, branch, bias_MD)
