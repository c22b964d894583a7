"""Tasks that ask at some tokens: what is counted, and what is refused."""

import numpy as np
import pytest
import torch

from sweep.data import stacked, train_batch
from sweep.measure import asked_of, losses_and_hits
from sweep.packs import pack_width
from sweep.train import train
from sweep.trial import Trial
from tasks import IGNORED, TASKS, Batch

MQAR = dict(task="mqar", model="mte", pairs=3, vocabulary=40, length=16, width=8, heads=2, batch_size=4, epochs=1,
            steps_per_epoch=3, eval_samples=10, seed=1)  # fmt: skip


def test_loss_and_right_answers_are_of_the_labelled_tokens_alone():
    labels = torch.full((2, 2, 5), IGNORED)
    labels[0, 0, [1, 4]] = torch.tensor([0, 2])
    labels[0, 1, [0, 2]] = torch.tensor([1, 1])
    labels[1, :, 3:] = 0
    scores = torch.randn(2, 2, 5, 3, generator=torch.Generator().manual_seed(0))
    scores[0, 0, 1, 0] = scores[0, 1, 2, 1] = 9.0
    scores[0, 0, 4, 2] = scores[0, 1, 0, 1] = -9.0
    found, places = asked_of(labels, 2)
    assert places.tolist() == [[[1, 4], [0, 2]], [[3, 4], [3, 4]]]
    assert found.tolist() == [[[0, 2], [1, 1]], [[0, 0], [0, 0]]]
    loss_M, hits_M = losses_and_hits(scores.gather(2, places[..., None].expand(-1, -1, -1, 3)), found)
    assert hits_M[0] == 2
    by_hand = [-scores[0, b, t].log_softmax(0)[labels[0, b, t]] for b, t in ((0, 1), (0, 4), (1, 0), (1, 2))]
    assert loss_M[0].item() == pytest.approx(sum(by_hand).item() / 4, rel=1e-5)
    assert asked_of(labels, None) == (labels, None)


def test_every_pair_of_mqar_is_asked_once_and_counted():
    (record,) = train([Trial.from_values(MQAR)])
    trained, judged = record.measurements[0]
    assert (trained.count, judged.count) == (3 * 4 * 3, 10 * 3)
    assert 0 <= judged.correct <= judged.count and abs(judged.loss - np.log(40)) < 0.3


def test_scores_of_a_large_vocabulary_narrow_packs():
    wide, narrow = (Trial.from_values({**MQAR, "batch_size": 32, "vocabulary": v}) for v in (40, 8192))
    assert pack_width(wide) > 4 * pack_width(narrow)


class Uneven(type(TASKS["mqar"])):  # type: ignore[misc]
    """Labels another number of tokens in its second sequence."""

    name = "uneven"

    def sequences(self, random, count, length, vocabulary):
        batch = super().sequences(random, count, length, vocabulary)
        labels = batch.labels.copy()
        labels[1] = IGNORED
        return Batch(batch.tokens, labels)


def test_a_task_that_labels_other_tokens_than_it_says_is_refused(monkeypatch):
    monkeypatch.setitem(TASKS, "mqar", Uneven())
    with pytest.raises(ValueError, match=r"sequences of 16 tokens have 0 to 3 labels, and Task\.asked says 3"):
        stacked([Trial.from_values(MQAR)], lambda trial: train_batch(trial, 0))
