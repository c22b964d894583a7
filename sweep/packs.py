"""Trials into packs: how many of one shape train together, and in which order the packs go."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from sweep.trial import Trial

PACK_ELEMENTS = 2**19
"""Elements of the stream (models × sequences × length × width) that a pack may have on a CPU, where wider packs leave
the cache: at width 16 and length 128, packs of 8."""

MOST_IN_A_PACK = 64
"""A pack is lost whole, so it never gets wider than this."""


def pack_width(trial: Trial) -> int:
    """How many trials of this one's shape train together on a CPU."""
    elements = trial.batch_size * trial.length * trial.width
    return max(1, min(MOST_IN_A_PACK, PACK_ELEMENTS // elements))


def packs_of(trials: Iterable[Trial], width: int | None = None) -> list[list[Trial]]:
    """Packs of trials of one shape, the most expensive first so that none is waited for at the end.

    Args:
        trials: in any order.
        width: trials in a pack; None leaves it to `pack_width`.
    """
    shapes: dict[tuple, list[Trial]] = {}
    for trial in trials:
        shapes.setdefault(trial.shape, []).append(trial)
    packs = [pack for members in shapes.values() for pack in _cut(members, width or pack_width(members[0]))]
    return sorted(packs, key=lambda pack: -len(pack) * pack[0].cost)


def _cut(members: Sequence[Trial], width: int) -> list[list[Trial]]:
    """Runs of about equal length, at most `width` each."""
    count = -(-len(members) // width)
    bounds = [len(members) * i // count for i in range(count + 1)]
    return [list(members[low:high]) for low, high in pairwise(bounds)]
