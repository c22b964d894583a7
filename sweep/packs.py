"""Trials into packs: how many of one shape train together, and in which order the packs go."""

import math
from collections.abc import Callable, Iterable, Sequence

from sweep.trial import Trial

PACK_ELEMENTS = 2**20
"""Elements (models × sequences × `NetworkSpec.elements`) that a pack may have on a CPU: at width 16 and length 128,
packs of 16. Up to there a model's step gets cheaper with every doubling of narrow packs; beyond, nothing more is gained
(docs/performance.md)."""

MOST_IN_A_PACK = 64
"""A pack is lost whole, so on a CPU it never gets wider than this."""

MEMORY_SHARE = 0.2
"""Share of a GPU's free memory that a pack's models may need for what their gradients and optimizer must keep: with
what comes and goes in a step, a pack took 2.4 to 4.1 times that on an H200 (docs/performance.md)."""

MOST_ON_A_GPU = 256
"""From 256 to 512 models a model's step gets 2% cheaper on an H200, and twice as much is lost with a pack."""

WORTH_SHARING = 20.0
"""Seconds of work from which packs are narrowed so that every worker has some."""

MOST_SECONDS = 600.0
"""A pack that is lost with its worker should cost no more than this."""


def pack_width(trial: Trial, memory: int | None = None) -> int:
    """How many trials of this one's shape train together.

    Args:
        trial: any of the shape.
        memory: free bytes of the GPU that is to train them; None: a CPU does.
    """
    if memory is not None:
        fit = int(MEMORY_SHARE * memory // trial.network.training_bytes(trial.batch_size))
        return max(1, min(MOST_ON_A_GPU, fit))
    elements = trial.batch_size * trial.network.elements(trial.length)
    return max(1, min(MOST_IN_A_PACK, PACK_ELEMENTS // elements))


def packs_of(
    trials: Iterable[Trial],
    width: int | None = None,
    memory: int | None = None,
    workers: int = 1,
    seconds: Callable[[Trial], float] | None = None,
) -> list[list[Trial]]:
    """Packs of trials of one shape, the most expensive first so that none is waited for at the end.

    Args:
        trials: in any order.
        width: trials in a pack; None leaves it to `pack_width` and what follows.
        memory: free bytes of the GPU that is to train them; None: a CPU does.
        workers: that share the packs: none gets more than half of an equal part at a time, unless all is short.
        seconds: what a trial is expected to take: no pack takes more than `MOST_SECONDS`.
    """
    shapes: dict[tuple, list[Trial]] = {}
    for trial in trials:
        shapes.setdefault(trial.shape, []).append(trial)
    most = sum(len(members) * members[0].cost for members in shapes.values()) / (2 * workers)
    expected = sum(len(members) * seconds(members[0]) for members in shapes.values()) if seconds else math.inf
    packs = []
    for members in shapes.values():
        first = members[0]
        widest = width or pack_width(first, memory)
        if width is None and workers > 1 and expected > WORTH_SHARING:
            widest = min(widest, max(int(most / first.cost), 1))
        if width is None and seconds is not None:
            widest = min(widest, max(int(MOST_SECONDS / seconds(first)), 1))
        packs += _cut(members, widest)
    return sorted(packs, key=lambda pack: -len(pack) * pack[0].cost)


def _cut(members: Sequence[Trial], width: int) -> list[list[Trial]]:
    """As few runs as there can be of at most `width`, all of one width but the last: what is compiled for one serves
    the others."""
    even = -(-len(members) // -(-len(members) // width))
    return [list(members[low : low + even]) for low in range(0, len(members), even)]
