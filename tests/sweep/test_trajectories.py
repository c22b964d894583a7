"""60 steps of the paper's own code are followed: initial sizes, epsilons, residual forms, clipping and schedules."""

from pathlib import Path

import numpy as np
import pytest
import torch

from sweep.train import Pack
from sweep.trial import Trial
from tests.models.quadratic import QuadraticNormalizedAttention

TRAJECTORIES = Path(__file__).parents[3] / "shared" / "reference" / "trajectories"
FILES = sorted(TRAJECTORIES.glob("*__*.npz"))
SCHEDULE_STEPS = 100
STEPS = 60
RATE = 0.0081

TOLERANCE = 1e-5
"""Of the loss at every step."""

NAP_TOLERANCE = 2e-3
"""NAP's deviation starts far below its epsilon, which amplifies the rounding of the reference's float32."""

COPIES = 8
"""Runs in float32, each from weights a rounding away, that show how far float32 carries. `cases` at this rate is
chaotic: after ten to twenty steps nobody can be followed more closely than such copies follow one another."""

NOISE_FACTOR = 3.0
"""How many times as far from our float64 as the farthest copy so far the reference's float32 may be."""

CHAOS = 1e-2
"""Of the loss: where copies of one run are farther apart than this, there is no trajectory left to follow."""

CALM_STEPS = 6
"""Fewest steps before that; of the 24 files, 17 are calm to the end."""

pytestmark = pytest.mark.skipif(not FILES, reason="the reference trajectories are not beside the checkout")


def pack_of(file: Path, precision: str, models: int) -> tuple[Pack, dict[str, np.ndarray]]:
    """Models that start where the reference did; in float32 each a rounding away, and with the formulas it used."""
    task, _, model = file.stem.partition("__")
    values = dict(task=task, model=model, width=16, length=32, batch_size=16, learning_rate=RATE, precision=precision)
    trial = Trial.from_values({**values, "epochs": 1, "steps_per_epoch": SCHEDULE_STEPS})
    pack = Pack([trial] * models, torch.device("cpu"))
    arrays = dict(np.load(file))
    names = {name.removeprefix("init/") for name in arrays if name.startswith("init/")}
    assert names == set(pack.p), "the parameters are the paper's, name by name"
    noise = torch.Generator().manual_seed(0)
    for name, p in pack.p.items():
        start = torch.from_numpy(arrays[f"init/{name}"]).to(p.dtype).reshape(p.shape[1:]).expand(p.shape).clone()
        if precision == "fp32":
            start *= 1 + 6e-8 * torch.randn(start.shape, generator=noise)
        with torch.no_grad():
            p.copy_(start)
    if precision == "fp32" and model == "nap":
        for block in pack.network.blocks:
            block.mixer = QuadraticNormalizedAttention(16, 4)
    return pack, arrays


def losses_along(pack: Pack, arrays: dict[str, np.ndarray]) -> np.ndarray:
    """[steps, models]: the loss before each update."""
    models, losses = len(pack.trials), []
    for step in range(STEPS):
        tokens = torch.from_numpy(arrays["tokens"][step]).long()
        labels = torch.from_numpy(arrays["labels"][step]).long()
        loss_M, _ = pack.step(tokens.expand(models, -1, -1), labels.expand(models, *labels.shape), step)
        losses.append(loss_M.tolist())
    return np.array(losses)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_papers_own_steps_are_followed(file):
    tolerance = NAP_TOLERANCE if file.stem.endswith("__nap") else TOLERANCE
    pack, arrays = pack_of(file, "fp64", 1)
    losses = losses_along(pack, arrays)
    off = np.abs(losses[:, 0] - arrays["losses"])
    if file.stem.startswith("mode__"):
        assert (off <= tolerance).all(), "where training is not chaotic, every step is within the stated tolerance"
        return
    copies = losses_along(*pack_of(file, "fp32", COPIES))
    noise = np.maximum.accumulate(np.abs(copies - losses).max(axis=1))
    calm = noise < CHAOS
    assert calm.sum() >= CALM_STEPS, "there is something to follow"
    assert (off <= tolerance + NOISE_FACTOR * noise)[calm].all()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_papers_trained_weights_give_its_scores_at_the_evaluation_length(file):
    pack, arrays = pack_of(file, "fp64", 1)
    for name, p in pack.p.items():
        with torch.no_grad():
            p.copy_(torch.from_numpy(arrays[f"final/{name}"]).double().reshape(p.shape))
    scores = pack.network(pack.p, torch.from_numpy(arrays["eval_tokens"]).long()[None])[0]
    expected = torch.from_numpy(arrays["eval_logits"]).double()
    assert scores.shape == expected.shape
    assert (scores - expected).abs().max() < 1e-4
