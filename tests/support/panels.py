"""What a figure shows."""

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure


def text_of(pages: Sequence[Figure]) -> str:
    """Return all texts of a figure, its panels and its legends."""
    return " ".join(_text_of(figure) for figure in pages)


def _text_of(figure: Figure) -> str:
    texts = [text.get_text() for text in figure.texts]
    for ax in figure.axes:
        if ax.get_visible():
            texts += [t.get_text() for t in (ax.title, ax.xaxis.label, ax.yaxis.label, *ax.texts)]
            texts += [label.get_text() for label in ax.get_xticklabels()]
    texts += [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    return " ".join(" ".join(texts).split())


def panels_of(pages: Sequence[Figure]) -> list[Any]:
    return [ax for figure in pages for ax in figure.axes if ax.get_visible()]


def data(ax: Any) -> list[tuple[list[float], list[float]]]:
    """Return the lines through points of a panel, those of error bars left out."""
    drawn = [line for line in ax.lines if line.get_label().startswith("_child") and line.get_marker() in "osD^vPX*"]
    return [(list(line.get_xdata()), list(line.get_ydata())) for line in drawn]
