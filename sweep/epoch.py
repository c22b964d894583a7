"""An epoch's steps. They work on tensors that stay where they are, so that on a CUDA device one step, from choosing its
sequences to the update, is captured as a graph and replayed: an epoch does not wait for Python."""

import warnings
from collections.abc import Callable

import torch
from torch import Tensor

from models.dropout import Dropout
from sweep.data import Stacked
from sweep.step import Outcome

WARM_UP = 3
"""Steps before a capture: in them libraries choose their algorithms and take their memory."""


class Epoch:
    """The steps of an epoch, and what is measured in them.

    Args:
        update: a step: takes tokens [M, B, L], labels, learning rates [M, 1] and what is dropped, and gives mean losses
            [M] and right answers [M].
        data: an epoch's sequences: S·B of each draw.
        steps: S.
        rates_SM1: a first epoch's learning rates, [S, M, 1], on the device.
        dropout: a first epoch's, on the device; None where nothing is dropped.
        capture: whether to capture steps where the device can.
    """

    def __init__(
        self,
        update: Callable[[Tensor, Tensor, Tensor, Dropout | None], Outcome],
        data: Stacked,
        rates_SM1: Tensor,
        dropout: Dropout | None,
        capture: bool = True,
    ):
        steps, models, _ = rates_SM1.shape
        self.update, self.steps = update, steps
        self.rates = torch.empty_like(rates_SM1)
        self.dropout = Dropout(torch.empty_like(dropout.keys), dropout.share_M) if dropout else None
        device = rates_SM1.device
        self.draw_M = data.draw_M.to(device)
        self.tokens, self.labels = (
            torch.empty(self._by_step(t).shape, dtype=t.dtype, device=device) for t in (data.tokens, data.labels)
        )
        self.at = torch.zeros(1, dtype=torch.int64, device=device)
        self.losses_SM = torch.zeros(steps, models, dtype=rates_SM1.dtype, device=device)
        self.hits_SM = torch.zeros(steps, models, dtype=torch.int64, device=device)
        self.captured = Captured() if capture and device.type == "cuda" else None

    def _by_step(self, t: Tensor) -> Tensor:
        """[U, S·B, …] → [U, S, B, …]."""
        return t.unflatten(1, (self.steps, -1))

    def run(self, data: Stacked, rates_SM1: Tensor, dropout: Dropout | None) -> Outcome:
        """Trains an epoch with these learning rates and this dropout. Returns losses and right answers of every step,
        [S, M]; the next epoch writes over them."""
        self.tokens.copy_(self._by_step(data.tokens), non_blocking=True)
        self.labels.copy_(self._by_step(data.labels), non_blocking=True)
        self.rates.copy_(rates_SM1)
        if self.dropout is not None and dropout is not None:
            self.dropout.keys.copy_(dropout.keys)
        self.at.zero_()
        for _ in range(self.steps):
            if self.captured is None:
                self._step()
            else:
                self.captured(self._step)
        return self.losses_SM, self.hits_SM

    def _step(self) -> None:
        tokens, labels = (t.index_select(1, self.at).squeeze(1)[self.draw_M] for t in (self.tokens, self.labels))
        dropout = self.dropout.of_step(self.at) if self.dropout else None
        loss_M, hits_M = self.update(tokens, labels, self.rates.index_select(0, self.at).squeeze(0), dropout)
        self.losses_SM.index_copy_(0, self.at, loss_M.unsqueeze(0))
        self.hits_SM.index_copy_(0, self.at, hits_M.unsqueeze(0))
        self.at += 1


class Captured:
    """Calls one function again and again, which takes nothing, returns nothing and works on tensors that stay where
    they are; from the fourth call on as a replayed graph. Where the device cannot capture it, one warning and calls as
    before. It does not hold the function, which is its owner's: a circle would keep a pack's memory from the next."""

    def __init__(self) -> None:
        self.calls = 0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.fails = False

    def __call__(self, step: Callable[[], None]) -> None:
        self.calls += 1
        if self.graph is None and self.calls > WARM_UP and not self.fails:
            self._capture(step)
        if self.graph is not None:
            self.graph.replay()
        elif self.fails:
            step()
        else:
            self._aside(step)

    def _aside(self, step: Callable[[], None]) -> None:
        """A call on a stream of its own, as captures want it before them."""
        here, aside = torch.cuda.current_stream(), torch.cuda.Stream()
        aside.wait_stream(here)
        with torch.cuda.stream(aside):
            step()
        here.wait_stream(aside)

    def _capture(self, step: Callable[[], None]) -> None:
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):  # the thread that draws goes on pinning
                step()
        except torch.cuda.OutOfMemoryError:
            raise
        except RuntimeError as error:
            self.fails = True
            reason = (str(error).strip().splitlines() or ["RuntimeError"])[0]
            warnings.warn(f"this step cannot be captured as a CUDA graph, going on without: {reason}", stacklevel=3)
        else:
            self.graph = graph
