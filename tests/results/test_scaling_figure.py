"""The initialisation experiment's figure: two log panels, and up to twenty lines that can be told apart."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from results.canvas import save
from results.scaling_figure import MIXER, line_styles, scaling_figure

LENGTHS = [2**k for k in range(12)]


def rows(name: str, power: float, factor: float = 1.0, lengths=LENGTHS) -> list[dict]:
    return [
        {"aggregator": name, "length": n, "std": factor * n**power, "norm": 11.3 * factor * n**power, "samples": 8}
        for n in lengths
    ]


def curves(axes) -> list[tuple[list, list]]:
    """Lengths and sizes of each line, in the order in which they are drawn."""
    return [(list(line.get_xdata()), list(line.get_ydata())) for line in axes.get_lines()]


def legend(figure) -> list[str]:
    (drawn,) = [axes.get_legend() for axes in figure.axes if axes.get_legend()]
    return [text.get_text() for text in drawn.get_texts()]


def test_each_panel_has_each_line_at_its_values_on_log_axes():
    figure = scaling_figure(rows("mean", -0.5) + rows("sum", 0.5))
    assert [(axes.get_xscale(), axes.get_yscale()) for axes in figure.axes] == [("log", "log")] * 2
    std, norm = figure.axes
    assert curves(std) == [(LENGTHS, [n**-0.5 for n in LENGTHS]), (LENGTHS, [n**0.5 for n in LENGTHS])]
    assert np.allclose(curves(norm)[0][1], [11.3 * n**-0.5 for n in LENGTHS])


def test_the_legend_is_in_the_order_in_which_lines_end():
    figure = scaling_figure(rows("mean", -0.5) + rows("normalized", 0.0) + rows("sum", 0.5))
    assert legend(figure) == ["sum", "normalized", "mean"]


def test_what_is_zero_throughout_is_said_and_not_drawn():
    figure = scaling_figure(rows("mean", -0.5) + rows("none (mixer)", 0.0, 0.0))
    assert legend(figure) == ["mean", "none (mixer): 0"]
    assert len(curves(figure.axes[0])) == 1


def test_twenty_lines_look_different_and_in_more_than_colour():
    names = ["softmax attention", "mean", "sum", "max", "normalized"]
    names += [f"{name}{MIXER}" for name in ("softmax", "mean", "sum", "max", *(f"other{k}" for k in range(11)))]
    styles = line_styles(names)
    looks = {name: (s["color"], s["linestyle"], s.get("marker"), s["linewidth"]) for name, s in styles.items()}
    assert len(set(looks.values())) == len(names) == 20
    assert styles["mean"]["color"] == styles["mean (mixer)"]["color"]
    assert styles["mean"]["linestyle"] != styles["mean (mixer)"]["linestyle"]


def test_the_legend_of_many_lines_stays_inside_the_figure_and_off_the_panels():
    figure = scaling_figure([row for k in range(20) for row in rows(f"a rather long name {k}{MIXER}", k / 20)])
    figure.draw_without_rendering()
    box = figure.axes[-1].get_legend().get_window_extent()
    assert box.x0 > figure.axes[-1].bbox.x1
    assert box.x1 <= figure.bbox.x1 and box.y0 >= 0 and box.y1 <= figure.bbox.y1


def test_ticks_are_lengths_and_few_enough_to_read():
    assert [text.get_text() for text in scaling_figure(rows("mean", -0.5)).axes[0].get_xticklabels()] == [
        "1", "4", "16", "64", "256", "1,024",
    ]  # fmt: skip


@pytest.mark.parametrize("table", [[], rows("mean", 0, lengths=[64]), rows("none (mixer)", 0, 0.0)])
def test_little_or_nothing_to_draw_is_drawn(table, tmp_path):
    save(scaling_figure(table), tmp_path / "figure")
    assert (tmp_path / "figure.svg").stat().st_size > 1_000


def test_a_length_that_is_missing_is_no_zero(tmp_path):
    figure = scaling_figure(rows("mean", -0.5, lengths=[1, 2, 4]) + rows("sum", 0.5) + rows("max", float("nan")))
    assert curves(figure.axes[0])[0][0] == [1, 2, 4]
    save(figure, tmp_path / "figure")


def test_the_figure_needs_no_torch():
    code = "import results.scaling_figure, sys; assert not {'torch', 'matplotlib.pyplot'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
