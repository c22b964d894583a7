"""What is measured of models in training: losses and right answers, kept where they are computed until asked for."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from tasks import IGNORED


@dataclass(frozen=True)
class Measurement:
    """How one model did on one set of sequences.

    Attributes:
        split: "train" (running mean over the epoch) or "eval".
        length: of the sequences.
        case: "all", or a case of the task's equalised set.
        loss: mean cross-entropy, nats.
        correct, count: right answers, answers.
    """

    split: str
    length: int
    case: str
    loss: float
    correct: int
    count: int


@dataclass
class Totals:
    """Sums over sequences, per model.

    Attributes:
        split, length, case: what they are of; see `Measurement`.
        loss_M: summed losses, nats.
        correct_M: right answers.
        count: answers a model.
    """

    split: str
    length: int
    case: str
    loss_M: Tensor
    correct_M: Tensor
    count: int = 0

    @classmethod
    def zero(cls, split: str, length: int, case: str, models: int, device: torch.device) -> "Totals":
        """Nothing yet."""
        kind = exact(device)
        return cls(split, length, case, *torch.zeros(2, models, dtype=kind, device=device))

    def add(self, loss_M: Tensor, correct_M: Tensor, count: int) -> None:
        """Adds mean losses and right answers of `count` answers a model."""
        self.loss_M += loss_M * count
        self.correct_M += correct_M
        self.count += count


def exact(device: torch.device) -> torch.dtype:
    """The type that sums are kept in: Apple's GPUs have no float64."""
    return torch.float32 if device.type == "mps" else torch.float64


def measurements(totals: Sequence[Totals]) -> list[list[Measurement]]:
    """For each of the totals, a measurement a model. The device is waited for once."""
    sums = torch.stack([torch.stack([total.loss_M, total.correct_M]) for total in totals]).tolist()
    return [
        [
            Measurement(total.split, total.length, total.case, loss / max(total.count, 1), round(correct), total.count)
            for loss, correct in zip(losses, corrects)
        ]
        for total, (losses, corrects) in zip(totals, sums)
    ]


def losses_and_hits(scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Mean cross-entropy [M] and right answers [M] of scores [M, …, C] against labels [M, …]."""
    m = scores.shape[0]
    flat = functional.cross_entropy(scores.flatten(0, -2), labels.flatten(), reduction="none")
    correct_M = (scores.detach().argmax(dim=-1) == labels).flatten(1).sum(dim=1)
    return flat.view(m, -1).mean(dim=1), correct_M


def asked_of(labels: Tensor, asked: int | None) -> tuple[Tensor, Tensor | None]:
    """The labels [M, B, K] of the K tokens of each sequence that have one, and where these stand, [M, B, K]; without
    `asked` the labels as they are, and None."""
    if asked is None:
        return labels, None
    places = torch.argsort((labels != IGNORED).to(torch.int8), dim=2, descending=True, stable=True)[:, :, :asked]
    return labels.gather(2, places), places
