"""What a figure shows."""

from collections.abc import Sequence
from typing import Any

from matplotlib.collections import LineCollection
from matplotlib.figure import Figure


def text_of(pages: Figure | Sequence[Figure]) -> str:
    """Return all texts of a figure, its panels and its legends."""
    return " ".join(_text_of(figure) for figure in _pages(pages))


def _text_of(figure: Figure) -> str:
    texts = [text.get_text() for text in figure.texts]
    for ax in figure.axes:
        if ax.get_visible():
            texts += [t.get_text() for t in (ax.title, ax.xaxis.label, ax.yaxis.label, *ax.texts)]
            texts += [label.get_text() for label in ax.get_xticklabels()]
    texts += [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    return " ".join(" ".join(texts).split())


def _pages(pages: Figure | Sequence[Figure]) -> Sequence[Figure]:
    return [pages] if isinstance(pages, Figure) else pages


def panels_of(pages: Figure | Sequence[Figure]) -> list[Any]:
    return [ax for figure in _pages(pages) for ax in figure.axes if ax.get_visible()]


def data(ax: Any) -> list[tuple[list[float], list[float]]]:
    """Return the lines through points of a panel, those of error bars left out."""
    drawn = [line for line in ax.lines if line.get_label().startswith("_child") and line.get_marker() in "osD^vPX*"]
    return [(list(line.get_xdata()), list(line.get_ydata())) for line in drawn]


def intervals(ax: Any) -> list[tuple[float, float]]:
    """Return the lower and upper ends of the error bars of a panel, in order."""
    return [
        (float(segment[0][1]), float(segment[1][1]))
        for bars in ax.collections
        if isinstance(bars, LineCollection) and bars.get_alpha() is None
        for segment in bars.get_segments()
    ]
