"""A layer: a mixing branch and a feed-forward branch, each with its residual."""

from collections.abc import Callable
from functools import partial
from importlib import import_module

import torch
from torch import Tensor

from models import MIXERS
from models.dropout import Dropout
from models.mixers.base import Mixer
from models.packed import (
    Parameter,
    Parameters,
    hidden,
    inverse_sqrt,
    linear_parameters,
    norm_parameters,
    normed_sum,
    read,
)
from models.spec import NetworkSpec

Drop = Callable[[Tensor], Tensor]
FIRST = slice(0, 1)
"""Where a pooling stands that is the same for all tokens."""


def make_mixer(spec: NetworkSpec) -> Mixer:
    """The mixer that the spec names, its code loaded."""
    module, _, name = MIXERS[spec.mixer].path.partition(":")
    wanted = {"causal": spec.causal, "rotary": spec.positions == "rotary"}
    options = {option: True for option, is_wanted in wanted.items() if is_wanted}
    return getattr(import_module(module), name)(spec.width, spec.heads, **options)


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

    def __call__(
        self, p: Parameters, x_MBLD: Tensor, reads: slice, dropout: Dropout | None = None, layer: int = 0
    ) -> Tensor:
        """[M, B, L, D] → [M, B, reads, D]: the layer's output for the tokens that are read.

        Args:
            dropout: in training, what acts on the ends of both branches.
            layer: which one this is, for `dropout`.
        """
        length = x_MBLD.shape[2]
        mixed, bias_MD = self.mixer(p, x_MBLD, reads), x_MBLD.new_zeros(len(x_MBLD), self.spec.width)
        if self.spec.has_heads:
            mixed, bias_MD = self.projected(p, mixed, length, reads), p["output.bias"]
        one_for_all = self.mixer.shared and not self.spec.causal
        drop = (
            partial(dropout, site=2 * layer, tokens=FIRST if one_for_all else reads, length=length) if dropout else None
        )
        x_MBRD = self.residual(p, "branch_norm", read(x_MBLD, reads), mixed, bias_MD, drop)
        norm = "feed_forward.hidden_norm" if self.spec.hidden_norm else None
        z_MBRD = hidden(p, x_MBRD, "feed_forward.in", norm, True, "feed_forward.out")
        drop = partial(dropout, site=2 * layer + 1, tokens=reads, length=length) if dropout else None
        return self.residual(p, "feed_forward.norm", x_MBRD, z_MBRD, p["feed_forward.out.bias"], drop)

    def projected(self, p: Parameters, heads_MBRD: Tensor, length: int, reads: slice) -> Tensor:
        """The concatenated heads after norm, activation and output projection, without its bias."""
        if self.spec.mix_norm == "inverse_sqrt_length" and self.spec.causal:
            seen_R = torch.arange(reads.start + 1, reads.stop + 1, device=heads_MBRD.device)
            heads_MBRD = heads_MBRD * seen_R.to(heads_MBRD.dtype).rsqrt()[:, None]
        elif self.spec.mix_norm == "inverse_sqrt_length":
            heads_MBRD = heads_MBRD * inverse_sqrt(length)
        norm = "mix_norm" if self.spec.mix_norm == "layer" else None
        return hidden(p, heads_MBRD, None, norm, self.spec.mix_activation == "gelu", "output")

    def residual(
        self, p: Parameters, norm: str, stream: Tensor, branch: Tensor, bias_MD: Tensor, drop: Drop | None
    ) -> Tensor:
        """The stream after a branch, whose bias is still to be added, normalised where the block's norms stand. `drop`
        acts on what is added to the stream."""
        post = self.spec.norm_placement == "post"
        if drop and post:
            branch, bias_MD = drop(branch + bias_MD[:, None, None]), torch.zeros_like(bias_MD)
        elif drop:
            return stream + drop(normed_sum(p, norm, branch, bias_MD))
        alike = stream.shape == branch.shape  # a pooling gives one value for all tokens
        if post:
            if alike:
                return normed_sum(p, norm, branch, bias_MD, before=stream)
            return normed_sum(p, norm, stream + branch, bias_MD)
        if alike:
            return normed_sum(p, norm, branch, bias_MD, after=stream)
        return stream + normed_sum(p, norm, branch, bias_MD)
