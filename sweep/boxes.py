"""Counting unions of products without expanding them."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

Box = Mapping[str, Sequence[Any]]
"""A product: name → values, all different."""


def union_size(boxes: Sequence[Box]) -> int:
    """How many different points some boxes of the same names hold together.

    One box is a product. Of several, an axis is cut into runs of values that lie in the same boxes, and each run counts
    as many times as the rest of those boxes, together, has points.
    """
    if not boxes:
        return 0
    if len(boxes) == 1 or not boxes[0]:
        size = 1
        for values in boxes[0].values():
            size *= len(values)
        return size
    name = next(iter(boxes[0]))
    rests = [{key: values for key, values in box.items() if key != name} for box in boxes]
    if all(box[name] == boxes[0][name] for box in boxes):
        return len(boxes[0][name]) * union_size(rests)
    ranges = [values for box in boxes if isinstance(values := box[name], range) and values.step == 1]
    if len(ranges) == len(boxes):  # however long: cut at their ends
        ends = sorted({end for values in ranges for end in (values.start, values.stop)})
        return sum(
            (high - low) * union_size([rest for rest, values in zip(rests, ranges) if low in values])
            for low, high in pairwise(ends)
        )
    holders: dict[Any, list[int]] = {}
    for index, box in enumerate(boxes):
        for value in box[name]:
            holders.setdefault(value, []).append(index)
    counts: dict[tuple[int, ...], int] = {}
    for indices in holders.values():
        counts[tuple(indices)] = counts.get(tuple(indices), 0) + 1
    return sum(count * union_size([rests[index] for index in indices]) for indices, count in counts.items())
