"""The columns of a store: explicit Arrow schemas with a version.

Explicit, because a shard in which a column happens to be all null would otherwise lose its type, and because a
reader must know what a missing column of an older store meant.
"""

import pyarrow as pa

SCHEMA_VERSION = 4
"""Grows when a column is added or changes meaning. Older shards are read with `OLDER` for what came later, else with
nulls; a newer one is refused."""

OLDER = {"causal": False, "position_scale": 1.0, "dropout": 0.0}
"""What trials had that were stored before there was the column."""

VERSION_KEY = b"sweep.schema_version"
"""Key of the version in a shard's Parquet metadata."""

VALUES = [
    # what was trained: the parts a task's name stands for …
    ("task", pa.string()),
    ("readout", pa.string()),
    ("length", pa.int32()),
    ("vocabulary", pa.int32()),
    ("case_bias", pa.int32()),
    # … the parts a model's name stands for …
    ("model", pa.string()),
    ("mixer", pa.string()),
    ("norm_placement", pa.string()),
    ("mix_norm", pa.string()),  # null where the mixer has no heads
    ("mix_activation", pa.string()),  # null where the mixer has no heads
    ("hidden_norm", pa.bool_()),
    ("feed_forward", pa.string()),
    ("positions", pa.string()),
    ("depth", pa.int32()),
    ("width", pa.int32()),
    ("heads", pa.int32()),  # null: the mixer has none
    ("init_scale", pa.float64()),
    # … and how it was trained and judged
    ("optimizer", pa.string()),
    ("schedule", pa.string()),
    ("clip_norm", pa.float64()),  # 0: no clipping
    ("learning_rate", pa.float64()),
    ("weight_decay", pa.float64()),
    ("batch_size", pa.int32()),
    ("epochs", pa.int32()),
    ("steps_per_epoch", pa.int32()),
    ("seed", pa.int64()),
    ("precision", pa.string()),
    ("eval_length", pa.int32()),
    ("eval_samples", pa.int32()),
    ("samples_per_case", pa.int32()),
    ("pairs", pa.int32()),  # since 3, as the next; of `recall`, `pairs` of `mqar` too; else null
    ("values", pa.int32()),
    ("eval_lengths", pa.string()),  # since 3; further evaluation lengths, "64,128"
    ("causal", pa.bool_()),  # since 4, as the next two
    ("position_scale", pa.float64()),
    ("dropout", pa.float64()),
    ("code", pa.string()),  # since 2; hash of a user's own mixer or task, null where both ship
]
"""Every value of a trial, in the order in which tables show them."""

DERIVED = ("model", "eval_length")
"""Those of VALUES that only name or follow from others: a later version may call them otherwise."""

OUTCOME = [
    ("status", pa.string()),  # one of STATUSES
    ("error", pa.string()),  # null, or the traceback's end
    ("diverged_step", pa.int32()),  # 0-based optimizer step of the first loss that was not finite
    # best: over the recorded epochs. final: after the last planned epoch, null if diverged. last: last recorded epoch.
    *(
        (f"{which}_{split}_{metric}", pa.float64())
        for split in ("train", "eval")
        for metric in ("accuracy", "loss")
        for which in ("best", "final", "last")
    ),
    ("best_eval_epoch", pa.int32()),  # 1-based epoch of best_eval_accuracy, the first of equals
]

PROVENANCE = [
    ("wall_seconds", pa.float64()),  # this trial's share of its pack's wall time
    ("train_flops", pa.float64()),
    ("pack_width", pa.int32()),
    ("device", pa.string()),
    ("threads", pa.int32()),
    ("host", pa.string()),
    ("sweep_version", pa.string()),
    ("git_commit", pa.string()),
    ("torch_version", pa.string()),
    ("finished_at", pa.timestamp("us", tz="UTC")),
    ("attempt", pa.int32()),  # 1-based; grows with each recorded rerun
]

TRIALS = pa.schema(
    [("id", pa.string()), *VALUES, *OUTCOME, *PROVENANCE], metadata={VERSION_KEY: str(SCHEMA_VERSION).encode()}
)

CURVES = pa.schema(
    [
        ("id", pa.string()),
        ("attempt", pa.int32()),
        ("epoch", pa.int32()),  # 1-based
        ("split", pa.string()),  # train (running mean over the epoch) or eval (fresh sequences)
        ("length", pa.int32()),  # length of the sequences
        ("case", pa.string()),  # "all", or a case of the task's equalised set
        ("loss", pa.float64()),  # mean cross-entropy, nats
        ("correct", pa.int64()),
        ("count", pa.int64()),
    ],
    metadata={VERSION_KEY: str(SCHEMA_VERSION).encode()},
)

RESULTS = ("ok", "diverged")
"""Statuses that are results: never run again."""

STATUSES = (*RESULTS, "failed", "oom")
