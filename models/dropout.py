"""Dropout in packs: every model leaves out its own share of values, by noise from its own stream.

The noise is a hash of a key and of where a value stands, so that it has the same bits on every device, in every pack
and whatever else of a layer is computed.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

HALF = 2**16
"""A value is kept or not by 16 bits: shares are rounded to 1/65,536."""

FIRST_FACTOR, SECOND_FACTOR = 0x7FEB352D, 0x846CA68B - 2**32
"""Of lowbias32 (Wellons 2018, "Prospecting for Hash Functions"), as signed numbers of 32 bits."""


@dataclass(frozen=True)
class Dropout:
    """The noise of one step, or of several.

    Attributes:
        keys: [M, S, 2], int32: two words for each of S places at which a model drops values; of several steps with an
            axis before these.
        share_M: [M], what share of them each model leaves out, below 1.
    """

    keys: Tensor
    share_M: Tensor

    def of_step(self, step: Tensor) -> "Dropout":
        """That of one step [1] of several."""
        return Dropout(self.keys.index_select(0, step).squeeze(0), self.share_M)

    def __call__(self, x_MBRD: Tensor, site: int, tokens: slice, length: int) -> Tensor:
        """`x_MBRD` with values left out and the rest scaled up, so that its mean stays.

        Args:
            x_MBRD: values of `tokens` of sequences of `length`.
            site: which of the S places this is.
        """
        left_out_M = (self.share_M * HALF).round()
        scale_M = HALF / (HALF - left_out_M)
        kept = self._noise(x_MBRD, site, tokens, length) >= (left_out_M - HALF // 2).to(torch.int16).view(-1, 1, 1, 1)
        return x_MBRD * (kept * scale_M.to(x_MBRD.dtype).view(-1, 1, 1, 1))

    def _noise(self, x_MBRD: Tensor, site: int, tokens: slice, length: int) -> Tensor:
        """[M, B, R, D], int16, all values as likely."""
        _, batch, _, d = x_MBRD.shape
        count = lambda start, stop: torch.arange(start, stop, dtype=torch.int32, device=x_MBRD.device)  # noqa: E731
        rows_BR = count(0, batch)[:, None] * length + count(tokens.start, tokens.stop)
        words = -(-d // 2)
        h = (rows_BR * words)[:, :, None] + count(0, words)
        first, second = self.keys[:, site, :, None, None, None].unbind(1)
        h = h ^ first
        h = (h ^ ((h >> 16) & 0xFFFF)) * FIRST_FACTOR
        h = h ^ second
        h = (h ^ ((h >> 15) & 0x1FFFF)) * SECOND_FACTOR
        h = h ^ ((h >> 16) & 0xFFFF)
        return h.view(torch.int16)[..., :d]
