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

    Tokens: 0 padding, then the digits, then MIN, MAX, MED, SM, then the bracket that ends an operator's arguments.
    Chance is 1 / 10, but 0 and 9 are the commonest values: always 0 is right in 16 of 100 at length 64, in 17 at 2,000.
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
            sizes = forest[0].sizes
            kept = np.flatnonzero((sizes > length // 4) & (sizes < length))[: count - done]
            labels[done : done + len(kept)] = filled(random, chosen(forest, kept), tokens[done:])
            done += len(kept)
            nodes = sum(len(level.sizes) for level in forest)
            trees = int(np.clip(DRAWN_NODES * trees // nodes, 16, 2**16))
        return Batch(tokens, labels)


@dataclass
class Level:
    """The nodes of one depth, children of one parent side by side.

    Attributes:
        sizes: tokens of each node with all that is under it.
        parents: which nodes have children, ascending.
        counts: how many children these have.
    """

    sizes: np.ndarray
    parents: np.ndarray
    counts: np.ndarray


def grown(random: np.random.Generator, trees: int, length: int) -> list[Level]:
    """Trees whose root is an operator, level by level. Those that get as long as `length` stop growing, and their size
    is at least `length`."""
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
        total += np.bincount(owner[grows], 1 + counts, minlength=trees).astype(np.int64)
        fits = total[owner[grows]] < length
        sizes = np.ones(nodes, np.int32)
        sizes[grows[~fits]] = length
        parents, counts = grows[fits], counts[fits]
        levels.append(Level(sizes, parents, counts))
        if not len(parents):
            break
        owner = np.repeat(owner[parents], counts)
    for level, below in zip(levels[-2::-1], levels[:0:-1], strict=True):
        level.sizes[level.parents] = 2 + np.add.reduceat(below.sizes, starts_of(level.counts))
    return levels


def starts_of(counts: np.ndarray) -> np.ndarray:
    """Where each parent's children begin in the level below."""
    return np.cumsum(counts) - counts


def chosen(levels: list[Level], nodes: np.ndarray) -> list[Level]:
    """The forest of these roots alone."""
    found = []
    for level in levels:
        number = np.full(len(level.sizes), -1, np.int32)
        number[nodes] = np.arange(len(nodes))
        mine = number[level.parents] >= 0
        found.append(Level(level.sizes[nodes], number[level.parents[mine]], level.counts[mine]))
        if not mine.any():
            break
        nodes = np.flatnonzero(np.repeat(mine, level.counts))
    return found


def filled(random: np.random.Generator, levels: list[Level], tokens: np.ndarray) -> np.ndarray:
    """Draws digits and operators, writes one expression a row, and returns their values."""
    digits = [random.integers(0, 10, len(level.sizes), dtype=np.int8) for level in levels]
    operators = [random.integers(0, len(OPERATORS), len(level.parents), dtype=np.int8) for level in levels]
    flat = tokens.reshape(-1)
    at = np.arange(len(levels[0].sizes)) * tokens.shape[1]  # where each node's first token goes
    for number, level in enumerate(levels):
        flat[at] = FIRST_DIGIT + digits[number]
        first = at[level.parents]
        flat[first] = FIRST_OPERATOR + operators[number]
        flat[first + level.sizes[level.parents] - 1] = END
        if len(first):
            sizes = levels[number + 1].sizes
            before = np.cumsum(sizes) - sizes
            at = before + np.repeat(first + 1 - before[starts_of(level.counts)], level.counts)
    for number in range(len(levels) - 2, -1, -1):
        level = levels[number]
        digits[number][level.parents] = values_of(operators[number], digits[number + 1], level.counts)
    return digits[0].astype(np.int64)


def values_of(operators: np.ndarray, arguments: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """What each operator makes of its `counts` arguments, which stand side by side."""
    rows = np.arange(len(counts))
    table = np.full((len(counts), MOST_ARGUMENTS), 10, np.int8)  # beyond every digit, so last when sorted
    table[np.arange(MOST_ARGUMENTS) < counts[:, None]] = arguments
    table.sort(axis=1)
    medians = (table[rows, (counts - 1) // 2] + table[rows, counts // 2]) // 2
    sums = np.add.reduceat(arguments, starts_of(counts), dtype=np.int8) % 10  # of at most 10 digits
    return np.choose(operators, (table[:, 0], table[rows, counts - 1], medians, sums))
