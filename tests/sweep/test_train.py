"""A pack is invisible, starts as it should, and keeps its models apart."""

import gc
import weakref

import pytest
import torch

from models import MODELS
from sweep.data import drawn, stacked, train_batch
from sweep.train import Pack, train
from sweep.trial import Trial
from tasks import TASK_NAMES
from tests.sweep.plain import plain_losses

SIZES = {"recall": {"pairs": 3}, "mqar": {"pairs": 3, "vocabulary": 40}}
RATES = [0.0027, 0.00081, 0.000243, 0.0000729, 0.00002]


def trials(task="mode", model="nap", count=5, **values) -> list[Trial]:
    """Trials of one shape that differ in everything in which a pack's may."""
    shape = dict(task=task, model=model, length=12, width=8, heads=2, batch_size=6, epochs=1, steps_per_epoch=20)
    shape |= dict(eval_samples=16, samples_per_case=4) | SIZES.get(task, {}) | values
    return [
        Trial.from_values(
            {
                "learning_rate": RATES[i % len(RATES)],
                "seed": i // 2,
                "weight_decay": 0.01 * (i % 3),
                "init_scale": 1.0 + i,
                "case_bias": (i - 2) if task in ("cases", "cases_first", "local_global") else 0,
                **shape,
            }
        )
        for i in range(count)
    ]


@pytest.mark.parametrize("task", TASK_NAMES)
@pytest.mark.parametrize("model", MODELS)
def test_a_pack_follows_plain_models_trained_one_at_a_time(task, model):
    pack_trials = trials(task, model, precision="fp64")
    data = stacked(pack_trials, lambda trial: train_batch(trial, 0))
    pack, packed = Pack(pack_trials, torch.device("cpu")), []
    for step in range(20):
        packed.append(pack.step(*data.part(6 * step, 6 * step + 6), step)[0])
    tokens, labels = data.part(0, 120)
    for m, trial in enumerate(pack_trials):
        shape = (20, 6, *labels.shape[2:])
        plain = plain_losses(trial, tokens[m].view(20, 6, -1), labels[m].view(shape))
        worst = (torch.stack(packed)[:, m] - torch.tensor(plain, dtype=torch.float64)).abs().max()
        assert worst < 1e-9, f"model {m} is {worst} off"


@pytest.mark.parametrize("model", ["nap", "non", "bert", "sum"])
@pytest.mark.parametrize(
    "values",
    [
        {"task": "first", "readout": "last_token", "positions": "sinusoidal"},
        {"task": "first", "readout": "mean", "position_scale": 5.0},
        {"task": "recall", "readout": "first_token", "positions": "sinusoidal", "pairs": 3},
        {"task": "parity", "readout": "last_token", "positions": "learned", "depth": 1},
        {"task": "majority", "readout": "mean", "depth": 3},
        {"task": "listops", "readout": "last_token", "length": 16},
        {"task": "first", "causal": True, "depth": 3},
        {"task": "majority", "causal": True, "readout": "mean"},
        {"task": "mqar", "positions": "sinusoidal", "position_scale": 5.0, "pairs": 2, "vocabulary": 30},
        {"task": "mqar", "positions": "rotary", "pairs": 2, "vocabulary": 30},
        {"task": "recall", "positions": "rotary", "pairs": 3},
        {"task": "mqar", "pairs": 2, "vocabulary": 30, "width": 12},  # heads of 6: 1/√6 is no exact number
    ],
)
def test_readouts_and_positions_follow_plain_models(model, values):
    if values.get("positions") == "rotary" and model == "sum":
        return  # it has no queries to turn
    pack_trials = trials(model=model, count=3, precision="fp64", **values)
    data = stacked(pack_trials, lambda trial: train_batch(trial, 0))
    pack = Pack(pack_trials, torch.device("cpu"))
    packed = [pack.step(*data.part(6 * step, 6 * step + 6), step)[0] for step in range(20)]
    tokens, labels = data.part(0, 120)
    for m, trial in enumerate(pack_trials):
        plain = plain_losses(trial, tokens[m].view(20, 6, -1), labels[m].view(20, 6, *labels.shape[2:]))
        worst = (torch.stack(packed)[:, m] - torch.tensor(plain, dtype=torch.float64)).abs().max()
        assert worst < 1e-9, f"model {m} is {worst} off"


def curves(pack_trials) -> list[list]:
    """Per trial, its measurements epoch by epoch."""
    records = list(train(pack_trials))
    return [[record.measurements[m] for record in records] for m in range(len(pack_trials))]


def losses(curve) -> list[float]:
    return [measurement.loss for epoch in curve for measurement in epoch]


@pytest.mark.parametrize("model", MODELS)
def test_a_trial_has_one_curve_alone_in_a_pack_of_2_and_in_a_pack_of_64(model):
    together = trials("cases", model, 64, length=8, epochs=2, steps_per_epoch=4, precision="fp64")
    in_64 = curves(together)
    in_2 = curves(together[3:5])
    alone = curves(together[3:4])
    assert losses(alone[0]) == pytest.approx(losses(in_2[0]), abs=1e-9)
    assert losses(alone[0]) == pytest.approx(losses(in_64[3]), abs=1e-9)
    assert [m.case for m in alone[0][0]] == ["all", "all", "argmin", "argmin", "first", "first", "argmax", "argmax"]


@pytest.mark.parametrize("model", MODELS)
def test_in_float32_a_trial_starts_the_same_in_every_pack(model):
    together = trials("mode", model, 6, steps_per_epoch=5)
    assert losses(curves(together[:1])[0]) == pytest.approx(losses(curves(together)[0]), rel=2e-3)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("diverging", [dict(learning_rate=1e30), dict(init_scale=1e30)])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_a_diverging_trial_changes_no_bit_of_its_neighbours(model, diverging, dropout):
    calm = trials("mode", model, 3, epochs=2)
    calm[1] = Trial.from_values({**calm[1].as_dict(), "heads": calm[1].heads or 1, "dropout": dropout})
    wild = Trial.from_values({**calm[1].as_dict(), "heads": calm[1].heads or 1, **diverging})
    with_calm, with_wild = list(train(calm)), list(train([calm[0], wild, calm[2]]))
    assert with_wild[-1].diverged_step[1] is not None
    assert with_wild[-1].diverged_step[0] is None
    for before, after in zip(with_calm, with_wild, strict=True):
        for m in (0, 2):
            assert before.measurements[m] == after.measurements[m]


def test_a_released_pack_is_gone_at_once():
    """Its memory on a GPU is the next pack's: it cannot wait for the garbage collector."""
    some = trials(count=2)
    pack = Pack(some, torch.device("cpu"))
    pack.train_steps(0, next(drawn(some, 0)))
    gone = weakref.ref(pack.adam)
    gc.disable()
    try:
        pack.release()
        del pack
        assert gone() is None
    finally:
        gc.enable()


def test_a_trial_is_judged_at_every_length_that_it_says():
    some = trials(count=2, eval_lengths="6,48")
    (record,) = train(some)
    found = [(each.split, each.length, each.case, each.count) for each in record.measurements[0]]
    assert found == [
        ("train", 12, "all", 120),
        ("eval", 24, "all", 16),
        ("eval", 6, "all", 16),
        ("eval", 48, "all", 16),
    ]
    (plain,) = train(trials(count=2))
    assert record.measurements[0][1] == plain.measurements[0][1]  # the task's own length has the same sequences
