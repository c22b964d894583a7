"""Sequences drawn ahead of their use: the same, in order, and no more than memory allows."""

import threading
import time

import pytest
import torch

from sweep import data
from sweep.data import Ahead, drawn, eval_sets
from tests.sweep.test_train import trials

CPU = torch.device("cpu")


def test_what_is_drawn_ahead_is_what_would_be_drawn():
    some = trials("cases", "sum", 3)
    with Ahead(drawn(some, 0), CPU) as ahead:
        for one, other in zip(ahead, drawn(some, 0), strict=True):
            assert (one.split, one.length, one.case) == (other.split, other.length, other.case)
            assert torch.equal(one.data.tokens, other.data.tokens) and torch.equal(one.data.labels, other.data.labels)


def test_a_trial_is_judged_by_these_sets():
    (trial,) = trials("cases", "sum", 1)
    assert eval_sets(trial)[0] == ("all", trial.eval_length)
    assert [each.case for each in drawn([trial], 0)] == ["all", *[case for case, _ in eval_sets(trial)]]


def test_no_more_waits_than_memory_allows_and_the_thread_ends(monkeypatch):
    items = list(drawn(trials("cases", "sum", 2), 0))
    made = []

    def source():
        for item in items:
            made.append(item)
            yield item

    monkeypatch.setattr(data, "MOST_AHEAD", items[0].data.nbytes)
    before = threading.active_count()
    with Ahead(source(), CPU) as ahead:
        time.sleep(0.2)
        assert len(made) == 2, "one waits, and one is held until there is room"
        assert next(ahead) is items[0]
    assert threading.active_count() == before


def test_an_error_while_drawing_is_raised_where_it_is_waited_for():
    def source():
        yield from list(drawn(trials("mode", "sum", 1), 0))[:1]
        raise MemoryError("too many sequences")

    with Ahead(source(), CPU) as ahead:
        next(ahead)
        with pytest.raises(MemoryError, match="too many sequences"):
            next(ahead)
