"""Dropout: a trial's own share, by noise from its own stream, in training alone."""

import numpy as np
import pytest
import torch

from models import MODELS
from models.dropout import Dropout
from sweep.data import drawn, dropout_keys, stacked, train_batch
from sweep.train import Pack, train
from sweep.trial import Trial
from tests.sweep.plain import kept, plain_losses
from tests.sweep.test_compiled import no_grad
from tests.sweep.test_train import curves, losses, trials

CPU = torch.device("cpu")
SHARES = (0.0, 0.5, 0.3, 0.0625)


def dropping(task="cases", model="nap", shares=SHARES, **values) -> list[Trial]:
    """Trials of one shape of which each drops another share."""
    some = trials(task, model, len(shares), precision="fp64", **values)
    return [
        Trial.from_values({**trial.as_dict(), "heads": trial.heads or 2, "dropout": share})
        for trial, share in zip(some, shares, strict=True)
    ]


@pytest.mark.parametrize("task", ["cases", "mode"])
@pytest.mark.parametrize("model", MODELS)
def test_a_pack_follows_plain_models_that_drop_the_same(task, model):
    some = dropping(task, model, width=7 if model in ("sum", "max") else 8)  # an odd width has half a word over
    data = stacked(some, lambda trial: train_batch(trial, 0))
    pack = Pack(some, CPU)
    packed = torch.stack([pack.step(*data.part(6 * step, 6 * step + 6), step)[0] for step in range(20)])
    tokens, labels = data.part(0, 120)
    for m, trial in enumerate(some):
        plain = plain_losses(trial, tokens[m].view(20, 6, -1), labels[m].view(20, 6))
        assert (packed[:, m] - torch.tensor(plain, dtype=torch.float64)).abs().max() < 1e-9


def test_a_trial_drops_the_same_alone_and_in_a_pack():
    some = dropping(epochs=2, steps_per_epoch=4)
    together = curves(some)
    for m in range(len(some)):
        assert losses(curves(some[m : m + 1])[0]) == pytest.approx(losses(together[m]), abs=1e-9)
    assert losses(curves(dropping(shares=(0.0,), epochs=2, steps_per_epoch=4))[0]) == pytest.approx(
        losses(together[0]), abs=1e-9
    )


def test_training_drops_and_evaluation_does_not():
    calm, dropped = (dropping(shares=(share,), learning_rate=1e-30) for share in (0.0, 0.5))
    (one,), (other,) = (list(train(some)) for some in (calm, dropped))
    assert one.measurements[0][0].loss != other.measurements[0][0].loss
    assert one.measurements[0][1:] == other.measurements[0][1:]


@pytest.mark.parametrize("model", ["nap", "bert", "sum"])
def test_the_compiled_step_drops_the_same(model):
    some = dropping(model=model)
    eager, functional = Pack(some, CPU), Pack(some, CPU)
    functional.update = lambda adam, *given: no_grad(
        functional.step_of.functional, adam, *given[:-1], (given[-1].keys, given[-1].share_M)
    )
    data = next(drawn(some, 0)).data
    for step in range(4):
        given = (*data.part(6 * step, 6 * step + 6), step)
        for one, other in zip(eager.step(*given), functional.step(*given)):
            assert torch.allclose(one.double(), other.double(), atol=1e-10)


def test_every_share_is_dropped_and_the_mean_stays():
    keys = torch.randint(-(2**31), 2**31 - 1, (4, 1, 2), dtype=torch.int32)
    dropout, ones = Dropout(keys, torch.tensor(SHARES)), torch.ones(4, 64, 128, 33)
    out = dropout(ones, 0, slice(0, 128), 128)
    dropped = (out == 0).flatten(1).double().mean(dim=1)
    assert dropped.tolist() == pytest.approx(SHARES, abs=2e-3)
    assert out.flatten(1).mean(dim=1).tolist() == pytest.approx([1.0] * 4, abs=4e-3)
    assert torch.equal(out[0], ones[0])
    assert np.array_equal(out[1] != 0, kept(keys[1, 0].numpy(), (64, 128, 33), 2**15, 128))


def test_noise_has_no_pattern_over_places_steps_sites_and_seeds():
    """Correlations of what two neighbours, two steps, two branches and two seeds keep: nothing beyond chance."""
    some = [Trial.from_values({**dropping()[0].as_dict(), "dropout": 0.5, "seed": seed}) for seed in (1, 2)]
    keys = dropout_keys(some, 0)
    ones = torch.ones(2, 32, 64, 32)
    dropped = [
        Dropout(keys[step], torch.full((2,), 0.5))(ones, site, slice(0, 64), 64)
        for step in range(2)
        for site in range(4)
    ]
    signs = torch.stack(dropped).unflatten(0, (2, 4)) - 1
    count = 32 * 64 * 32
    spread = 5 / count**0.5
    flat = signs.flatten(3)  # [steps, sites, seeds, values]
    for one, other in (
        (flat[..., 1:], flat[..., :-1]),
        (flat[..., 32:], flat[..., :-32]),
        (flat[..., 2048:], flat[..., :-2048]),
        (flat[0], flat[1]),
        (flat[:, 0], flat[:, 1]),
        (flat[:, :, 0], flat[:, :, 1]),
    ):
        assert (one * other).mean(dim=-1).abs().max() < spread
    assert not torch.equal(dropout_keys(some, 0), dropout_keys(some, 1))
