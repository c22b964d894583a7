"""ListOps: the value of a nested expression such as [MAX 2 9 [MIN 4 7] 0].

Nangia & Bowman 2018 (arXiv 1804.06028), with the generator of the Long Range Arena (Tay et al. 2020, arXiv 2011.04006;
listops.py). Their sequences have more than 500 and fewer than 2,000 tokens; here more than a quarter of `length`, and
fewer than it, so that 2,000 is theirs and 64 a short variant.
"""

from dataclasses import dataclass

import numpy as np

from tasks.base import Batch, Task

DEPTH = 10
"""Nodes on the longest way from the root; those at the end are digits."""

OPERATOR_SHARE = 0.25
"""Probability that a node is an operator."""

MOST_ARGUMENTS = 10
"""Arguments of an operator at most; at least 2, all numbers as likely."""

PADDING, FIRST_DIGIT, FIRST_OPERATOR, END, TOKENS = 0, 1, 11, 15, 16
OPERATORS = ("MIN", "MAX", "MED", "SM")
"""Smallest, largest, median rounded down, sum modulo 10."""

DRAWN_NODES = 2**17
"""Nodes that are drawn at a time, about."""


class ListOps(Task):
    """The value, 0 to 9, of an expression of digits and nested operators; padding follows it.

    Tokens: 0 padding, then the digits, then MIN, MAX, MED, SM, then the bracket that ends an operator's arguments. 0
    and 9 are the commonest values: at length 2,000 always answering 0 is right in 17 of 100.
    """

    name = "listops"
    summary = "the value of a nested expression of MIN, MAX, MED and sum modulo 10"
    readouts = ("first_token", "mean", "last_token")
    positions = "learned"
    vocabulary = TOKENS
    JUDGED = 2_000

    def check(self, length: int, vocabulary: int) -> None:
        if length < 8:
            raise ValueError(f"length = {length}: {self.name} needs room for an expression: at least 8")
        if vocabulary != TOKENS:
            raise ValueError(f"vocabulary = {vocabulary}: the tokens of {self.name} are {TOKENS}")

    def classes(self, length: int, vocabulary: int) -> int:
        return 10

    def sequences(self, random: np.random.Generator, count: int, length: int, vocabulary: int) -> Batch:
        tokens = np.full((count, length), PADDING, np.int32)
        labels = np.empty(count, np.int64)
        trees, done = 256, 0
        while done < count:
            forest = grown(random, trees, length)
            sizes, values = forest[0].sizes, forest[0].values
            kept = np.flatnonzero((sizes > length // 4) & (sizes < length))[: count - done]
            labels[done : done + len(kept)] = values[kept]
            write(forest, tokens, kept, done)
            done += len(kept)
            nodes = sum(len(level.sizes) for level in forest)
            trees = int(np.clip(DRAWN_NODES * trees // nodes, 16, 2**16))
        return Batch(tokens, labels)


@dataclass
class Level:
    """The nodes of one depth, children of one parent side by side.

    Attributes:
        sizes: tokens of each node with all that is under it.
        values: what each comes to; that of a node without children is its digit.
        parents: which nodes have children.
        operators: what those are.
        counts: how many children they have.
    """

    sizes: np.ndarray
    values: np.ndarray
    parents: np.ndarray
    operators: np.ndarray
    counts: np.ndarray


def grown(random: np.random.Generator, trees: int, length: int) -> list[Level]:
    """Expressions whose root is an operator, level by level. Those that get as long as `length` stop growing, and their
    size is at least `length`."""
    levels = []
    owner, total = np.arange(trees, dtype=np.int32), np.ones(trees, np.int64)
    for depth in range(1, DEPTH + 1):
        nodes = len(owner)
        if depth == 1:
            grows = np.arange(trees)
        elif depth < DEPTH:
            grows = np.flatnonzero(random.random(nodes, dtype=np.float32) < OPERATOR_SHARE)
        else:
            grows = np.arange(0)
        counts = random.integers(2, MOST_ARGUMENTS + 1, len(grows))
        operators = random.integers(0, len(OPERATORS), len(grows), dtype=np.int8)
        digits = random.integers(0, 10, nodes, dtype=np.int8)
        total += np.bincount(owner[grows], 1 + counts, minlength=trees).astype(np.int64)
        sizes = np.ones(nodes, np.int32)
        fits = total[owner[grows]] < length
        sizes[grows[~fits]] = length
        parents, counts, operators = grows[fits], counts[fits], operators[fits]
        sizes[parents] = 2
        levels.append(Level(sizes, digits, parents, operators, counts))
        if not len(parents):
            break
        owner = np.repeat(owner[parents], counts)
    for level, below in zip(levels[-2::-1], levels[:0:-1], strict=True):
        _add_up(level, below)
    return levels


def _add_up(level: Level, below: Level) -> None:
    """Sizes and values of the nodes that have children."""
    counts, parents, rows = level.counts, level.parents, np.arange(len(level.parents))
    starts = np.cumsum(counts) - counts
    level.sizes[parents] += np.add.reduceat(below.sizes, starts)
    arguments = np.full((len(parents), MOST_ARGUMENTS), 10, np.int8)  # beyond every digit, so last when sorted
    arguments[np.arange(MOST_ARGUMENTS) < counts[:, None]] = below.values
    arguments.sort(axis=1)
    medians = (arguments[rows, (counts - 1) // 2] + arguments[rows, counts // 2]) // 2
    sums = np.add.reduceat(below.values, starts, dtype=np.int8) % 10  # of at most 10 digits
    results = (arguments[:, 0], arguments[rows, counts - 1], medians, sums)
    level.values[parents] = np.choose(level.operators, results)


def write(levels: list[Level], tokens: np.ndarray, kept: np.ndarray, first: int) -> None:
    """Writes the expressions `kept` into rows of `tokens` from `first` on."""
    flat = tokens.reshape(-1)
    at = np.full(len(levels[0].sizes), -1, np.int64)  # where a node's first token goes; −1: nowhere
    at[kept] = (first + np.arange(len(kept))) * tokens.shape[1]
    for number, level in enumerate(levels):
        written = np.flatnonzero(at >= 0)
        flat[at[written]] = FIRST_DIGIT + level.values[written]
        mine = at[level.parents] >= 0
        parents, counts = level.parents[mine], level.counts[mine]
        flat[at[parents]] = FIRST_OPERATOR + level.operators[mine]
        flat[at[parents] + level.sizes[parents] - 1] = END
        if number + 1 == len(levels):
            return
        sizes = levels[number + 1].sizes
        children = np.flatnonzero(np.repeat(mine, level.counts))
        after = np.cumsum(sizes[children])
        before = after - sizes[children]
        starts = np.cumsum(counts) - counts
        shift = at[parents] + 1 - before[starts]
        at = np.full(len(sizes), -1, np.int64)
        at[children] = before + np.repeat(shift, counts)
