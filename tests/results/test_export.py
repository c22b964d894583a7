"""Exports: what is written is read back as it was, and an Optuna study gets each trial once."""

import csv
import io
import json
import logging
import math
from datetime import UTC, timedelta

import optuna
import pyarrow.parquet as pq
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState

from results.export import Exported, ExportError, to_csv, to_optuna, to_parquet
from results.schema import CURVES, TRIALS
from results.shards import to_table

RATES = [0.3, 0.09, 0.027]


@pytest.fixture
def study(make):
    """Points and rows of two models, three widths, three learning rates and two seeds; `sum` has no heads, and
    diverges at the highest rate with seed 1."""

    def outcome(model, x, y, seed):
        if model == "sum" and y == 0.3 and seed == 1:
            return "diverged", 0.4
        return "ok", 0.5 + y

    points, rows = make.grid(["nap", "sum"], [8, 16, 32], RATES, outcome=outcome)
    for point in points:
        point |= {"heads": 4, "schedule": "linear", "hidden_norm": True}
        rows[point["id"]] |= {
            "heads": None if point["model"] == "sum" else 4,
            "schedule": "linear",
            "hidden_norm": True,
        }
    return points, rows


@pytest.fixture
def url(tmp_path) -> str:
    return f"sqlite:///{tmp_path}/optuna.db"


@pytest.fixture
def export(url, make, study):
    """Exports some points (all by default) with what their rows, and curves of three epochs, say."""
    points, rows = study

    def run(some=points, **options) -> list[Exported]:
        found = [rows[point["id"]] for point in some if point["id"] in rows]
        curves = to_table([row for trial in found for row in make.curve_rows(trial)], CURVES)
        return to_optuna(options.pop("url", url), "widths", some, to_table(found, TRIALS), curves, **options)

    return run


def trial_of(url: str, row: dict) -> optuna.trial.FrozenTrial:
    trials = optuna.load_study(study_name=f"widths/{row['model']}", storage=url).trials
    (found,) = [trial for trial in trials if trial.user_attrs["id"] == row["id"]]
    return found


def test_a_csv_is_one_line_a_trial_in_which_null_is_empty(tmp_path, make):
    error = 'Traceback, "quoted"\n  and broken, αβ'
    rows = [make.trial_row(0, accuracy=0.1 + 0.2, hidden_norm=True), make.trial_row(1, "failed", error=error)]
    to_csv(to_table(rows, TRIALS), tmp_path / "out.csv")
    text = (tmp_path / "out.csv").read_bytes().decode()
    header, *lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    assert header == TRIALS.names
    assert text.count("\r\n") == len(lines) + 1 == 3
    first, second = (dict(zip(header, line)) for line in lines)
    assert float(first["final_eval_accuracy"]) == 0.1 + 0.2
    assert (first["hidden_norm"], first["seed"], first["error"]) == ("true", "0", "")
    assert first["finished_at"] == "2026-03-01T12:00:00+00:00"
    assert (second["error"], second["final_eval_accuracy"]) == (error, "")


def test_a_csv_of_no_trials_has_its_header(tmp_path):
    to_csv(TRIALS.empty_table(), tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == ",".join(TRIALS.names) + "\n"


def test_a_parquet_file_has_the_schema_with_its_version_and_every_value(tmp_path, study):
    rows = to_table(list(study[1].values()), TRIALS)
    to_parquet(rows.select(["id", "status", "seed"]), tmp_path / "some.parquet")
    to_parquet(rows, tmp_path / "all.parquet")
    assert pq.read_table(tmp_path / "all.parquet").equals(rows, check_metadata=True)
    assert pq.read_table(tmp_path / "some.parquet").schema.equals(TRIALS, check_metadata=True)


@pytest.mark.parametrize("write", [to_csv, to_parquet])
def test_a_file_that_cannot_be_written_whole_leaves_the_old_one(tmp_path, write, monkeypatch):
    path = tmp_path / "out"
    path.write_text("old")
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        write(TRIALS.empty_table(), path)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("out", "old")]


def test_each_model_becomes_an_optuna_study_with_the_axes_as_parameters(export, url, study):
    assert export() == [Exported("widths/nap", 18, 0), Exported("widths/sum", 18, 0)]
    row = next(iter(study[1].values()))
    trial, opened = trial_of(url, row), optuna.load_study(study_name="widths/nap", storage=url)
    assert opened.direction == optuna.study.StudyDirection.MAXIMIZE
    assert trial.params == {"width": 8, "learning_rate": 0.3, "heads": 4, "schedule": "linear", "hidden_norm": True}
    assert trial.distributions == {
        "width": IntDistribution(8, 32, log=True),
        "learning_rate": FloatDistribution(0.027, 0.3, log=True),
        "heads": IntDistribution(4, 4),
        "schedule": CategoricalDistribution(["linear"]),
        "hidden_norm": CategoricalDistribution([True]),
    }
    assert trial.user_attrs == {"id": row["id"], "seed": 0, "status": "ok", "attempt": 1}
    assert (trial.value, trial.state) == (0.8, TrialState.COMPLETE)
    assert opened.best_value == 0.8
    assert "heads" not in trial_of(url, next(row for row in study[1].values() if row["model"] == "sum")).params


def test_evenly_spaced_values_get_a_linear_scale(url, make):
    points, rows = make.grid(["nap"], [-1, 0, 1, 2], [0.1, 0.2, 0.3], x="case_bias", y="weight_decay")
    to_optuna(url, "widths", points, to_table(list(rows.values()), TRIALS), CURVES.empty_table())
    trial = optuna.load_study(study_name="widths/nap", storage=url).trials[0]
    assert trial.distributions["case_bias"] == IntDistribution(-1, 2)
    assert trial.distributions["weight_decay"] == FloatDistribution(0.1, 0.3)


def test_a_curve_becomes_intermediate_values_on_the_metrics_own_sequences(url, make):
    row = make.trial_row()
    others = [
        {"split": "train"},
        {"length": 128},
        {"case": "argmin"},
        {"epoch": 4, "count": 0},
    ]
    curves = make.curve_rows(row) + [make.curve_rows(row)[0] | {"correct": 9} | other for other in others]
    tables = to_table([row], TRIALS), to_table(curves, CURVES)
    to_optuna(url, "widths", [{"id": row["id"], "model": "nap", "seed": 0}], *tables)
    assert trial_of(url, row).intermediate_values == {1: 0.1, 2: 0.2, 3: 0.3}


def test_a_loss_is_minimised_and_its_curve_is_the_loss(url, make):
    row = make.trial_row() | {"best_eval_loss": 0.25}
    tables = to_table([row], TRIALS), to_table(make.curve_rows(row), CURVES)
    to_optuna(url, "widths", [{"id": row["id"], "model": "nap", "seed": 0}], *tables, metric="best_eval_loss")
    opened = optuna.load_study(study_name="widths/nap", storage=url)
    assert (opened.direction, opened.best_value) == (optuna.study.StudyDirection.MINIMIZE, 0.25)
    assert trial_of(url, row).intermediate_values == {1: 1.0, 2: 0.5, 3: pytest.approx(1 / 3)}


def test_a_trial_took_its_wall_seconds_and_ended_when_it_finished(export, url, study):
    export()
    row = next(iter(study[1].values()))
    trial = trial_of(url, row)
    assert trial.datetime_complete.astimezone(UTC) == row["finished_at"]
    assert trial.duration == timedelta(seconds=2)


def test_a_result_is_not_a_failure_is_not_a_hole(export, url, study):
    points, rows = study
    row = next(row for row in rows.values() if row["status"] == "diverged")
    failed, out_of_memory, unmeasured, infinite = [row for row in rows.values() if row["model"] == "nap"][:4]
    missing = points[4]["id"]
    failed |= {"status": "failed", "final_eval_accuracy": None, "error": "it broke"}
    out_of_memory |= {"status": "oom", "final_eval_accuracy": None}
    unmeasured |= {"final_eval_accuracy": None}
    infinite |= {"final_eval_accuracy": math.nan}
    del rows[missing]
    export()
    trial = trial_of(url, row)
    assert (trial.state, trial.value, len(trial.intermediate_values)) == (TrialState.PRUNED, None, 3)
    assert (trial.user_attrs["status"], trial.user_attrs["diverged_step"]) == ("diverged", 7)
    assert trial_of(url, failed).user_attrs["error"] == "it broke"
    assert [trial_of(url, row).state for row in (failed, out_of_memory, unmeasured, infinite)] == [TrialState.FAIL] * 4
    trials = optuna.load_study(study_name="widths/nap", storage=url).trials
    assert len(trials) == 17 and missing not in {trial.user_attrs["id"] for trial in trials}


def test_an_exported_study_is_what_optuna_would_have_written(export, url, tmp_path):
    export()
    other = f"sqlite:///{tmp_path}/copy.db"
    optuna.copy_study(from_study_name="widths/sum", from_storage=url, to_storage=other)
    written, copied = (optuna.load_study(study_name="widths/sum", storage=storage) for storage in (url, other))
    assert [trial.number for trial in written.trials] == list(range(18))
    for ours, theirs in zip(written.trials, copied.trials, strict=True):
        ours._trial_id = theirs._trial_id
        assert ours == theirs


def test_an_export_that_breaks_off_adds_nothing_of_that_model(export, url, monkeypatch):
    monkeypatch.setattr("optuna.storages._rdb.models.TrialValueModel.value_to_stored_repr", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        export()
    assert optuna.load_study(study_name="widths/nap", storage=url).trials == []


def test_exporting_again_adds_only_what_is_new(export, url, study):
    points, rows = study
    export(points[:6])
    assert export() == [Exported("widths/nap", 12, 6), Exported("widths/sum", 18, 0)]
    assert export() == [Exported("widths/nap", 0, 18), Exported("widths/sum", 0, 18)]
    trials = optuna.load_study(study_name="widths/nap", storage=url).trials
    assert sorted(trial.user_attrs["id"] for trial in trials) == sorted(
        row["id"] for row in rows.values() if row["model"] == "nap"
    )


def test_a_failure_is_joined_by_the_result_that_it_got_later(export, url, study):
    row = next(iter(study[1].values()))
    result = dict(row)
    row |= {"status": "failed", "final_eval_accuracy": None}
    export()
    row["attempt"] = 2
    assert export()[0] == Exported("widths/nap", 0, 18), "it has failed once more"
    row |= result | {"attempt": 3}
    assert export()[0] == Exported("widths/nap", 1, 18)
    assert export()[0] == Exported("widths/nap", 0, 18)
    trials = optuna.load_study(study_name="widths/nap", storage=url).trials
    assert [trial.state for trial in trials if trial.user_attrs["id"] == row["id"]] == [
        TrialState.FAIL,
        TrialState.COMPLETE,
    ]


def test_points_that_are_one_trial_are_one_trial_of_each_of_their_models(url, make):
    row = make.trial_row(depth=2)
    points = [{"id": row["id"], "model": model, "seed": 0, "depth": depth} for model in "ab" for depth in (2, 3)]
    exported = to_optuna(url, "widths", points, to_table([row], TRIALS), CURVES.empty_table())
    assert exported == [Exported("widths/a", 1, 0), Exported("widths/b", 1, 0)]
    assert optuna.load_study(study_name="widths/a", storage=url).trials[0].params == {"depth": 2}


def test_a_study_that_has_grown_keeps_its_scales(export, url, study):
    points, _ = study
    export([point for point in points if point["width"] < 32])  # 8 and 16: too few for a logarithmic scale
    export()
    widths = [trial.distributions["width"] for trial in optuna.load_study(study_name="widths/nap", storage=url).trials]
    assert {width.log for width in widths} == {False}
    assert (widths[-1].low, widths[-1].high) == (8, 32)


def test_choices_that_optuna_cannot_add_are_refused_before_anything_is_added(export, url, study):
    points, _ = study
    export(points[:6])
    points[7]["schedule"] = "warmup_linear"
    with pytest.raises(ExportError, match="widths/nap knows no schedule warmup_linear"):
        export()
    assert len(optuna.load_study(study_name="widths/nap", storage=url).trials) == 6


def test_an_optuna_study_of_another_value_is_refused(export, url):
    export()
    with pytest.raises(ExportError, match="widths/nap has final_eval_accuracy as its value"):
        export(metric="best_eval_accuracy")


def test_an_optuna_study_of_somebody_else_is_refused(export, url):
    optuna.create_study(storage=url, study_name="widths/nap").add_trial(optuna.create_trial(value=1.0))
    with pytest.raises(ExportError, match="widths/nap was not exported by sweep"):
        export()
    assert len(optuna.load_study(study_name="widths/nap", storage=url).trials) == 1


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("optuna.db", "cannot export to optuna.db: Could not parse"),
        (
            "sqlite:////no/such/folder/optuna.db",
            "cannot export to sqlite:////no/such/folder/optuna.db: .*unable to open",
        ),
        ("nosql://user:secret@host/db", r"cannot export to nosql://user:\*\*\*@host/db"),
    ],
)
def test_a_database_that_cannot_be_used_is_named_in_one_line_without_its_password(export, url, says):
    with pytest.raises(ExportError, match=says) as caught:
        export(url=url)
    assert "\n" not in str(caught.value) and "secret" not in str(caught.value)


def test_a_file_that_is_no_database_is_refused_and_left_alone(export, url, tmp_path):
    (tmp_path / "optuna.db").write_text("notes " * 1000)
    with pytest.raises(ExportError, match="not a database"):
        export()
    assert (tmp_path / "optuna.db").read_text().startswith("notes")


def test_a_column_that_is_no_metric_is_refused(export):
    with pytest.raises(ExportError, match=r"cannot export wall_seconds: one of .*final_eval_accuracy"):
        export(metric="wall_seconds")


def test_optunas_log_is_as_before(export, caplog):
    optuna.logging.set_verbosity(optuna.logging.INFO)
    optuna.logging.enable_propagation()
    with caplog.at_level(logging.INFO):
        export()
    optuna.logging.disable_propagation()
    assert optuna.logging.get_verbosity() == optuna.logging.INFO
    assert not caplog.records


def test_the_dashboard_shows_what_was_exported(export, url, study):
    dashboard = pytest.importorskip("optuna_dashboard")
    export()
    app = dashboard.wsgi(optuna.storages.RDBStorage(url))
    assert "Optuna Dashboard" in get(app, "/dashboard/")
    summaries = json.loads(get(app, "/api/studies"))["study_summaries"]
    assert {summary["study_name"] for summary in summaries} == {"widths/nap", "widths/sum"}
    detail = json.loads(get(app, f"/api/studies/{summaries[1]['study_id']}"))
    states = [trial["state"] for trial in detail["trials"]]
    assert (states.count("Complete"), states.count("Pruned")) == (15, 3)
    assert {len(trial["intermediate_values"]) for trial in detail["trials"]} == {3}


def get(app, path: str) -> str:
    """The body that a WSGI application answers with, which must say 200."""
    statuses: list[str] = []
    environ = {
        "REQUEST_METHOD": "GET",
        "PATH_INFO": path,
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "80",
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(),
        "wsgi.errors": io.StringIO(),
    }
    body = b"".join(app(environ, lambda status, *_: statuses.append(status)))
    assert statuses[0].startswith("200"), (path, statuses)
    return body.decode()
