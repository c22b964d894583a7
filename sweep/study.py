"""A study: a TOML file that names a task, fixed values and a grid, and expands lazily into trials."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod
from pathlib import Path
from typing import Any

from sweep.axes import axis
from sweep.boxes import Box, union_size
from sweep.errors import UsageError, shown, unknown
from sweep.plugins import load_plugins
from sweep.study_file import Figure, parsed, with_sets
from sweep.trial import COUPLINGS, FIELDS, INDEPENDENT, PARTS, Trial, Variants
from sweep.values import check_name, checked

STUDIES = Path(__file__).parent / "studies"

NAMING = ("task", "readout", "positions", "position_scale", "model", *PARTS, "heads", "samples_per_case")
"""Values that can make two points of a grid one trial: names of parts, parts, and what a model may have no use for."""

COUPLED = ("batch_size", "vocabulary", "steps_per_epoch", "length", "pairs", *COUPLINGS)
"""Values that can do so too where a study declares a coupling."""

STRUCTURE = (*NAMING, *COUPLED, "values", "case_bias", "width", "causal", "eval_lengths")
"""Values that may not go together. The others never make a trial impossible."""

MOST_CHECKED = 5_000
"""Combinations of structure that are checked when a study is loaded; the rest are when they are expanded. And as many
are kept while it is expanded."""


@dataclass(frozen=True)
class Grid:
    """The Cartesian product of some axes: name → values, in the order in which the study has them."""

    axes: Mapping[str, Sequence[Any]]

    @property
    def size(self) -> int:
        """How many points there are."""
        return prod(map(len, self.axes.values()))

    def points(self) -> Iterator[dict[str, Any]]:
        """The values of every point, the last axis fastest. Lazy, also where an axis is long."""
        names = list(self.axes)
        for values in _product(list(self.axes.values())):
            yield dict(zip(names, values, strict=True))


class Study:
    """A study, checked.

    Attributes:
        name: "quickstart", "paper/mode-width", or the file's stem.
        given: what loads it again: its name, or the path of its file.
        title, description: as in the file.
        text: the TOML as read.
        sets: what the command line replaced.
        plugins: the user's modules that it needs, imported.
        fixed: values that all trials have.
        grids: the grid's blocks; the study is their union.
        x, y: axes of the heatmaps, or None.
    """

    def __init__(self, name: str, text: str, sets: Sequence[str] = (), given: str | None = None):
        self.name, self.text, self.sets, self.given = name, text, tuple(sets), given or name
        file = parsed(name, text)
        self.title, self.description = file.title, file.description
        self.plugins = tuple(file.plugins)
        try:
            load_plugins(self.plugins)
        except UsageError as error:
            raise UsageError(f"{name}: {error}") from error
        blocks = file.grid if isinstance(file.grid, list) else [file.grid]
        fixed, blocks = with_sets(file.fixed, [dict(block) for block in blocks], sets)
        if file.task is not None and "task" not in fixed and not any("task" in block for block in blocks):
            fixed["task"] = file.task
        elif file.task is not None and not any(text.partition("=")[0].strip() == "task" for text in sets):
            raise UsageError(f"{name}: task is set at the top and in [fixed] or [grid]: keep one of them")
        self.fixed = {key: checked(key, value, f"{name}: fixed") for key, value in fixed.items()}
        self.grids = [self._grid(block) for block in blocks]
        if not self.grids:
            raise UsageError(f"{name}: [[grid]] is empty: a study needs at least one axis")
        self.x, self.y = self._figure_axes(file.figure)
        self._check_structure()

    @classmethod
    def load(cls, name_or_path: str | Path, sets: Sequence[str] = ()) -> "Study":
        """The study of a name (see `study_names`) or of a TOML file.

        Args:
            name_or_path: "paper/mode-width" or "my/study.toml".
            sets: replacements like "width=8,16" or "seed={count=2}".

        Raises:
            UsageError: no such study, or one that is not right.
        """
        given = str(name_or_path)
        shipped = STUDIES / f"{given}.toml"
        if given in study_names():
            return cls(given, shipped.read_text(encoding="utf-8"), sets)
        path = Path(given)
        try:
            if path.is_dir():
                raise UsageError(f"cannot read study {given}: it is a folder")
            if path.is_file():
                return cls(path.stem, path.read_text(encoding="utf-8-sig"), sets, given)
        except OSError as error:
            raise UsageError(f"cannot read study {shown(given)}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise UsageError(f"cannot read study {given}: it is not UTF-8 text") from None
        if path.suffix == ".toml":
            raise UsageError(f"cannot read study {given}: no such file")
        raise UsageError(f"{unknown('study', given, study_names())} (or give the path of a .toml file)")

    @cached_property
    def size(self) -> int:
        """How many different trials there are; exact, and computed without expanding the axes that never collide."""
        return sum(union_size(boxes) for boxes in self._boxes.values())

    def __len__(self) -> int:
        """`size`, where it is one that Python's `len` can say (below 2^63)."""
        return self.size

    @property
    def points_count(self) -> int:
        """How many points the blocks' products have, those included that make one trial."""
        return sum(grid.size for grid in self.grids)

    def points(self) -> Iterator[tuple[dict[str, Any], Trial]]:
        """Every point of the grid, lazily: the values of the axes, and the trial that they make.

        Several points can make one trial: BERT with MTE's parts is MTE. What blocks have alike comes once.
        """
        names = self.axis_names
        seen: set[tuple] | None = set() if len(self.grids) > 1 else None
        for point, independent, variants in self._expanded():
            trial = variants.trial(independent)
            label = {name: point[name] if name in point else getattr(trial, name, None) for name in names}
            if seen is not None:
                if (key := tuple(label.values())) in seen:
                    continue
                seen.add(key)
            yield {"model": variants.model, "seed": trial.seed, **label}, trial

    def trials(self) -> Iterator[Trial]:
        """Every trial once, lazily."""
        if self.points_count == self.size:
            yield from (variants.trial(independent) for _, independent, variants in self._expanded())
            return
        seen: set[str] = set()
        for _, independent, variants in self._expanded():
            if (id_ := variants.id(independent)) not in seen:
                seen.add(id_)
                yield variants.trial(independent)

    def ids(self) -> Iterator[str]:
        """The id of every point's trial, lazily and without making it."""
        return (variants.id(independent) for _, independent, variants in self._expanded())

    def _expanded(self) -> Iterator[tuple[dict[str, Any], dict[str, Any], Variants]]:
        """Every point of every block, those of its values that are `INDEPENDENT`, and what these make trials of.

        What is resolved and checked of a point is kept for those that differ from it in independent values alone.
        """

        @lru_cache(maxsize=MOST_CHECKED)
        def resolved(values: tuple[tuple[str, Any], ...]) -> Variants:
            return Variants(Trial.from_values({**self.fixed, **dict(values)}))

        for grid in self.grids:
            for point in grid.points():
                independent = {name: value for name, value in point.items() if name in INDEPENDENT}
                try:
                    variants = resolved(tuple(item for item in point.items() if item[0] not in INDEPENDENT))
                except UsageError as error:
                    raise UsageError(f"{self.name}: {error}") from None
                yield point, independent, variants

    def __contains__(self, trial: Trial) -> bool:
        """Whether the study has this trial; expands nothing."""
        boxes = self._boxes.get(self._key(trial), ())
        return any(all(getattr(trial, name) in values for name, values in box.items()) for box in boxes)

    @property
    def axis_names(self) -> list[str]:
        """Names of the axes, in the order in which the study has them."""
        return list(dict.fromkeys(name for grid in self.grids for name in grid.axes))

    @property
    def swept(self) -> list[str]:
        """Axes along which the study has more than one value."""
        values: dict[str, set] = {}
        for grid in self.grids:
            for name, axis_values in {**{k: [v] for k, v in self.fixed.items()}, **grid.axes}.items():
                values.setdefault(name, set()).update(itertools.islice(axis_values, 2))
        return [name for name in self.axis_names if len(values[name]) > 1]

    def _grid(self, block: Mapping[str, Any]) -> Grid:
        for name in block:
            check_name(name, f"{self.name}: grid")
            if name in self.fixed:
                raise UsageError(f"{self.name}: {name} is in [fixed] and in [grid]: keep one of them")
        if not block:
            raise UsageError(f"{self.name}: [grid] is empty: a study needs at least one axis")
        return Grid({name: axis(name, form, f"{self.name}: grid") for name, form in block.items()})

    def _figure_axes(self, figure: Figure) -> tuple[str | None, str | None]:
        for key, name in (("x", figure.x), ("y", figure.y)):
            if name is not None and name not in self.axis_names:
                raise UsageError(f"{self.name}: figure.{key}: {unknown('axis', name, self.axis_names)}")
            if name in ("model", "seed"):
                raise UsageError(
                    f"{self.name}: figure.{key} = {name}: there is a heatmap a model, and a cell has all seeds"
                )
        if figure.x is not None and figure.x == figure.y:
            raise UsageError(f"{self.name}: figure.x and figure.y are both {figure.x}: give two different axes")
        free = [name for name in self.swept if name not in ("model", "mixer", "seed", figure.x, figure.y)]
        y = figure.y or ("learning_rate" if "learning_rate" in free else None)
        x = figure.x or next((name for name in free if name != y), None)
        return x, y

    def _combinations(self, names: Sequence[str]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """Per block, every combination of the axes in `names`, and the first value of each other axis."""
        for grid in self.grids:
            some = {name: values for name, values in grid.axes.items() if name in names}
            first = {name: values[0] for name, values in grid.axes.items() if name not in names}
            for point in Grid(some).points():
                yield {**self.fixed, **first, **point}, {k: v for k, v in grid.axes.items() if k not in names}

    def _check_structure(self) -> None:
        for values, _ in itertools.islice(self._combinations(STRUCTURE), MOST_CHECKED):
            try:
                Trial.from_values(values)
            except UsageError as error:
                raise UsageError(f"{self.name}: {error}") from None

    @cached_property
    def _boxes(self) -> dict[tuple, list[Box]]:
        """For each combination of what can collide, the products of the other axes that go with it."""
        boxes: dict[tuple, list[Box]] = {}
        for values, others in self._combinations(self._colliding):
            trial = Trial.from_values(values)
            free = {name: [getattr(trial, name)] for name in FIELDS if name not in self._colliding}
            boxes.setdefault(self._key(trial), []).append({**free, **others})
        return boxes

    @cached_property
    def _colliding(self) -> tuple[str, ...]:
        """Names of the values by which different points can be one trial."""
        couples = any(name in {**self.fixed, **grid.axes} for name in COUPLINGS for grid in self.grids)
        return (*NAMING, *COUPLED) if couples else NAMING

    def _key(self, trial: Trial) -> tuple:
        return tuple(getattr(trial, name) for name in FIELDS if name in self._colliding)


def study_names() -> list[str]:
    """Names of the studies that ship."""
    return sorted(str(path.relative_to(STUDIES).with_suffix("")) for path in STUDIES.rglob("*.toml"))


def _product(axes: list[Sequence[Any]]) -> Iterator[tuple]:
    """`itertools.product`, which would first copy every axis."""
    if not axes:
        yield ()
        return
    for head in axes[0]:
        for tail in _product(axes[1:]):
            yield (head, *tail)
