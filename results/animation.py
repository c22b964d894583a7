"""The heatmaps' evolution over the epochs, as an animated GIF."""

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from results.cells import Cells
from results.files import save_atomically
from results.heatmaps import Scale, panels, panels_of

MOST_FRAMES = 40
FRAME_MILLISECONDS = 250
LAST_MILLISECONDS = 2000
DOTS_PER_INCH = 110


def animate(cells: Cells, means: np.ndarray, scale: Scale, path: Path) -> int:
    """Saves the cells' means at each epoch, [cells, E] (results.curve_tables.evolution), as a GIF; thinned evenly
    beyond `MOST_FRAMES`, the last epoch always there. Returns how many frames it has.

    Raises: ValueError without an epoch; OSError.
    """
    epochs = means.shape[1]
    if not epochs:
        raise ValueError("there are no learning curves to animate")
    chosen = np.unique(np.linspace(0, epochs - 1, min(epochs, MOST_FRAMES)).round().astype(int))
    frames = []
    for epoch in chosen:
        now = [
            replace(cell, mean=float(mean) if np.isfinite(mean) else None)
            for cell, mean in zip(cells.cells, means[:, epoch], strict=True)
        ]
        figure = panels(panels_of(replace(cells, cells=tuple(now))), cells, scale)
        figure.text(0.995, 0.005, f"epoch {epoch + 1} of {epochs}", ha="right", va="bottom", size=8, weight="bold")
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=DOTS_PER_INCH)
        frames.append(Image.open(buffer).convert("P", palette=Image.Palette.ADAPTIVE, colors=256))
    durations = [FRAME_MILLISECONDS] * (len(frames) - 1) + [LAST_MILLISECONDS]
    first, *rest = frames
    save_atomically(
        path,
        lambda file: first.save(file, format="GIF", save_all=True, append_images=rest, duration=durations, loop=0),
    )
    return len(frames)
