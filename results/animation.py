"""The heatmaps' evolution over the epochs, as an animated GIF."""

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from results.cells import Cells
from results.files import save_atomically
from results.heatmaps import Panel, Scale, panels

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
        shown = [Panel(model, [cell for cell in now if cell.model == model]) for model in cells.models]
        label = f"{scale.label}, epoch {epoch + 1} of {epochs}"
        figure = panels(shown, cells, replace(scale, label=label))
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
