"""The figure of effects: a row per effect, in percentage points."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from parley.analysis.effects import effect_table
from parley.figures.effects import effects
from parley.figures.style import own_style
from parley.games.consensus.game import ConsensusGame
from parley.games.evidence import EFFECTS
from parley.study.margins import Effects
from support.alike import AXES, Drawn
from support.figures import study_of, text_of, ticks


def table(never: bool = False) -> pd.DataFrame:
    drawn = Drawn(np.random.default_rng(1), 20, 0.3)
    for model, rate in {"a": 0.4, "b": 1e-12 if never else 0.7}.items():
        for prompt in "pq":
            drawn.play(rate, model=model, prompt=prompt)
    return effect_table(drawn.rows, AXES, ConsensusGame, Effects(interactions=(("prompt", "model"),)))


@pytest.fixture(scope="module")
def some() -> pd.DataFrame:
    return table()


def pages(shown: pd.DataFrame) -> list[Figure]:
    with own_style():
        return effects(study_of({"n": [3, 4]}, title="A study"), EFFECTS, shown)


def test_each_effect_has_a_row_with_its_number_and_interval(some: pd.DataFrame) -> None:
    [figure] = pages(some)
    [ax] = figure.axes
    ends = [segment[:, 0].tolist() for bars in ax.collections for segment in bars.get_segments()]  # type: ignore[attr-defined]
    assert ends == [pytest.approx([100 * row["low"], 100 * row["high"]]) for row in some.to_dict("records")]
    assert set(100 * some["effect"]) <= {line.get_xdata()[0] for line in ax.lines}  # type: ignore[index]
    labels = [label.replace("\n", " ") for label in ticks(ax)[1]]
    assert {"model: a → b", "prompt: p → q (model=b)", "prompt: p → q (change, model=a → b)"} <= set(labels)
    assert "valid consensus" in text_of(figure)
    assert "Open marks" not in text_of(figure)


def test_what_has_no_interval_or_no_fit_says_why(some: pd.DataFrame) -> None:
    [figure] = pages(table(never=True))
    assert "Open marks have no interval" in text_of(figure)
    assert "white" in {line.get_markerfacecolor() for line in figure.axes[0].lines}
    [figure] = pages(some.assign(effect=np.nan, low=np.nan, high=np.nan, note="Singular matrix"))
    assert text_of(figure).count("cannot be fitted") == len(some)
    assert "The fit warned: Singular matrix." in text_of(figure)
    assert "Nothing to draw" in text_of(pages(some.iloc[:0]))


def test_many_rows_go_on_on_the_next_page(some: pd.DataFrame) -> None:
    many = pd.concat([some] * 12, ignore_index=True)
    found = pages(many)
    assert sum(len(ax.get_yticks()) for figure in found for ax in figure.axes) == len(many)
    assert len(found) > 1
    assert max(figure.get_figheight() for figure in found) <= 9
