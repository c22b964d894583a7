"""A compiled step is the step; one program serves all packs of a shape; without a compiler training goes on."""

import warnings

import pytest
import torch

from models import MODELS
from sweep import compiled
from sweep.compiled import COMPILE_SECONDS, compiled_step, pays
from sweep.data import drawn
from sweep.train import Options, Pack, matrix_products, train
from tests.sweep.test_train import losses, trials


@pytest.fixture(autouse=True)
def nothing_compiled(monkeypatch):
    monkeypatch.setattr(compiled, "_compiled", {})
    monkeypatch.setattr(compiled, "_broken", [])


def curves(some, compile: str) -> list[list]:
    records = list(train(some, options=Options(compile)))
    return [[record.measurements[m] for record in records] for m in range(len(some))]


@pytest.mark.parametrize("model", MODELS)
def test_the_step_that_is_compiled_is_the_step_by_autograd(model):
    some = trials("cases", model, precision="fp64", clip_norm=0.001 if model == "nap" else 0.0)
    eager, functional = Pack(some, torch.device("cpu")), Pack(some, torch.device("cpu"))
    functional.update = lambda adam, *rest: no_grad(functional.step_of.functional, adam, *rest)
    data = next(drawn(some, 0)).data
    for step in range(4):
        given = (*data.part(6 * step, 6 * step + 6), step)
        for one, other in zip(eager.step(*given), functional.step(*given)):
            assert torch.allclose(one.double(), other.double(), atol=1e-10)


@torch.no_grad()
def no_grad(step, adam, *rest):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("models.packed.usable", lambda *_: False)  # as under the compiler
        patch.setattr("models.mixers.attention.usable", lambda *_: False)
        return step((adam.flat, adam.mean, adam.square), adam.decay, *rest)


def test_one_program_serves_every_pack_of_a_shape():
    first = trials("mode", "sum", 2, epochs=3, steps_per_epoch=2)
    later = trials("mode", "sum", 2, epochs=3, steps_per_epoch=2, learning_rate=0.5, seed=7)
    before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    for some in (first, later):
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="torch.compile does not work here")
            compiled_losses = losses(curves(some, "on")[0])
        assert compiled_losses == pytest.approx(losses(curves(some, "off")[0]), rel=2e-3)
    assert len(compiled._compiled) == 1
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == before + 1


def test_without_a_compiler_there_is_one_warning_and_the_result_is_the_same(monkeypatch):
    def no_compiler(*_, **__):
        raise RuntimeError("no compiler\nat all")

    monkeypatch.setattr(torch, "compile", lambda function, **_: no_compiler)
    some = trials("mode", "sum", 2, epochs=3, steps_per_epoch=3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ours = [curves(some, "on") for _ in range(2)]
    assert [str(warning.message) for warning in caught] == [
        "torch.compile does not work here, going on without: no compiler at all"
    ]
    assert losses(ours[0][0]) == pytest.approx(losses(curves(some, "off")[0]), rel=2e-3)
    assert ours[0] == ours[1]


def test_compiling_pays_only_where_enough_is_still_to_come():
    gpu, key = torch.device("cuda"), ("a shape",)
    share = compiled.SAVED_SHARE["cuda"]
    assert not pays("auto", gpu, key, 0.9 * COMPILE_SECONDS / share)
    assert pays("auto", gpu, key, 1.1 * COMPILE_SECONDS / share)
    assert not pays("auto", torch.device("cpu"), key, 1e9), "kernels are faster there"
    assert pays("on", torch.device("cpu"), key, 0) and not pays("off", gpu, key, 1e9)


def test_what_is_compiled_already_is_used():
    some = trials("mode", "sum", 2)
    pack = Pack(some, torch.device("cpu"))
    compiled_step(pack.step_of, pack.key, pack.update)
    assert pays("auto", torch.device("cuda"), pack.key, 0)


def test_only_tf32_lets_a_gpu_round_and_only_while_training():
    before = torch.get_float32_matmul_precision()
    with matrix_products("tf32"):
        assert torch.get_float32_matmul_precision() == "high"
        with matrix_products("fp32"):
            assert torch.get_float32_matmul_precision() == "highest"
    assert torch.get_float32_matmul_precision() == before


@pytest.mark.parametrize("model", ["nap", "bert", "sum"])
def test_bf16_trains_and_is_not_fp32(model):
    rounded, exact = (curves(trials("mode", model, 2, precision=precision), "off") for precision in ("bf16", "fp32"))
    assert losses(rounded[0]) != losses(exact[0])
    assert losses(rounded[0]) == pytest.approx(losses(exact[0]), rel=0.05)
