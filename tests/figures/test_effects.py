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
from parley.study import Study
from parley.study.margins import Effects
from support.alike import AXES, Drawn
from support.studies import StudyFactory


def table(never: bool = False) -> pd.DataFrame:
    drawn = Drawn(np.random.default_rng(1), 20, 0.3)
    for model, rate in {"a": 0.4, "b": 1e-12 if never else 0.7}.items():
        for prompt in "pq":
            drawn.play(rate, model=model, prompt=prompt)
    return effect_table(drawn.rows, AXES, ConsensusGame, Effects(interactions=(("prompt", "model"),)))


def texts(figure: Figure) -> list[str]:
    [ax] = figure.axes
    return [text.get_text() for text in (*figure.texts, *ax.texts, *ax.get_yticklabels())]


def drawn(study: Study, shown: pd.DataFrame) -> Figure:
    with own_style():
        return effects(study, EFFECTS, shown)[0]


@pytest.fixture
def study(study_factory: StudyFactory) -> Study:
    return study_factory({"n": [3, 4]}, title="A study")


def test_each_effect_has_a_row_with_its_number_and_interval(study: Study) -> None:
    shown = table()
    figure = drawn(study, shown)
    told = texts(figure)
    [ax] = figure.axes
    ends = [segment[:, 0].tolist() for bars in ax.collections for segment in bars.get_segments()]  # type: ignore[attr-defined]
    assert ends == [pytest.approx([100 * row["low"], 100 * row["high"]]) for row in shown.to_dict("records")]
    assert set(100 * shown["effect"]) <= {line.get_xdata()[0] for line in ax.lines}  # type: ignore[index]
    labels = [text.replace("\n", " ") for text in told]
    assert "model: a → b" in labels
    assert "prompt: p → q (model=b)" in labels
    assert "prompt: p → q (change, model=a → b)" in labels
    assert "valid consensus" in " ".join(labels)
    assert not any("Open marks" in text for text in labels)


def test_effects_without_an_interval_are_open_and_the_note_says_why(study: Study) -> None:
    figure = drawn(study, table(never=True))
    [ax] = figure.axes
    assert "Open marks have no interval" in " ".join(texts(figure))
    assert "white" in {line.get_markerfacecolor() for line in ax.lines}


def test_what_cannot_be_fitted_says_so(study: Study) -> None:
    shown = table().assign(effect=np.nan, low=np.nan, high=np.nan, note="Singular matrix")
    told = texts(drawn(study, shown))
    assert told.count("cannot be fitted") == len(shown)
    assert "The fit warned: Singular matrix." in " ".join(told)


def test_many_rows_go_on_on_the_next_page(study: Study) -> None:
    many = pd.concat([table()] * 20, ignore_index=True)
    with own_style():
        pages = effects(study, EFFECTS, many)
    assert sum(len(ax.get_yticks()) for figure in pages for ax in figure.axes) == len(many)
    assert len(pages) > 1
    assert max(figure.get_figheight() for figure in pages) <= 9


def test_nothing_to_draw_says_so(study: Study) -> None:
    assert "Nothing to draw" in " ".join(texts(drawn(study, table().iloc[:0])))
