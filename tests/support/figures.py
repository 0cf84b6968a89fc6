"""What figures show; a game that offers every kind of evidence, made of the consensus game, and studies of it."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
import yaml
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from parley.analysis.summarize import summarize
from parley.analysis.tables import read_table
from parley.figures.make import draw
from parley.figures.style import Look, own_style
from parley.games.base import Outcome
from parley.games.consensus.evidence import ConsensusEvidence
from parley.games.consensus.game import ConsensusGame
from parley.games.evidence import FigureSpec, Indicator, Measure, Quantity
from parley.play.record import write_record
from parley.study import Study
from support.playing import play_of
from support.studies import MODELS
from support.studies import study_of as study_of  # for the tests of figures


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The working directory of a module, for the studies that its tests share: each has a name of its own."""
    folder = tmp_path_factory.mktemp("home")
    with chdir(folder):
        Path("models.yaml").write_text(yaml.safe_dump(MODELS), encoding="utf-8")
        yield folder


def pages_of(study: Study, name: str, look: Look | None = None, **changes: Any) -> list[Figure]:
    """Draw a figure of a study that was played: the one of this name, or the first of this kind."""
    specs = [*study.figures, *study.game.evidence.figures]
    spec = next(spec for spec in specs if name in (spec.name, spec.kind))
    with own_style(look):
        return draw(study, dataclasses.replace(spec, **changes), lambda table: read_table(study.name, table))


def ticks(ax: Any) -> tuple[list[str], list[str]]:
    """Return the labels along x and along y."""
    return [t.get_text() for t in ax.get_xticklabels()], [t.get_text() for t in ax.get_yticklabels()]


def text_of(pages: Figure | Sequence[Figure]) -> str:
    """Return all texts of a figure, its panels and its legends."""
    texts: list[Any] = []
    for figure in _pages(pages):
        texts += figure.texts
        for ax in panels_of(figure):
            texts += [ax.title, ax.xaxis.label, ax.yaxis.label, *ax.texts, *ax.get_xticklabels()]
        texts += [text for legend in figure.legends for text in legend.get_texts()]
    return " ".join(" ".join(text.get_text() for text in texts).split())


def _pages(pages: Figure | Sequence[Figure]) -> Sequence[Figure]:
    return [pages] if isinstance(pages, Figure) else pages


def panels_of(pages: Figure | Sequence[Figure]) -> list[Any]:
    return [ax for figure in _pages(pages) for ax in figure.axes if ax.get_visible()]


def data(ax: Any) -> list[tuple[list[float], list[float]]]:
    """Return the lines through points of a panel, those of error bars left out."""
    drawn = [line for line in ax.lines if line.get_marker() in "osD^vPX*"]
    return [(list(line.get_xdata()), list(line.get_ydata())) for line in drawn]


def intervals(ax: Any) -> list[tuple[float, float]]:
    """Return the lower and upper ends of the error bars of a panel, in order."""
    return [
        (float(segment[0][1]), float(segment[1][1]))
        for bars in ax.collections
        if isinstance(bars, LineCollection) and bars.get_alpha() is None
        for segment in bars.get_segments()
    ]


class MeasuredEvidence(ConsensusEvidence):
    """Measures, indicators and quantities, and figures of each."""

    measures = (
        Measure("agreed", "share that agrees"),
        Measure("stopping", "share that votes to stop"),
        Measure("unheard", "what nobody has"),
    )
    indicators = (
        Indicator("unanimous", "all agree"),
        Indicator("early", "stopped early"),
        Indicator("unanswered", "what has no answer"),
    )
    quantities = (
        Quantity("value_changes", "changes of value"),
        Quantity("size", "size of what was said", "kB"),
        Quantity("unmeasured", "what has no number", "s"),
        Quantity("final_honest_share", "share that agrees in the end", share=True),
    )
    figures = (
        FigureSpec("by_round", "curves", "By round", "Means by round.", of=("agreed", "stopping")),
        FigureSpec("in_the_end", "indicators", "In the end", "Rates.", x="n", of=("unanimous", "early", "unanswered")),
        FigureSpec("sizes", "quantities", "Sizes", "Means.", x="n", of=("size", "value_changes", "seconds")),
    )

    def series(
        self, outcome: Mapping[str, Any], trace: Sequence[Mapping[str, Any]]
    ) -> Mapping[str, Sequence[tuple[int, float]]]:
        """Return the share that agrees and the share that votes to stop, by round."""
        agents = {entry["round"]: len(entry["votes"]) for entry in trace}
        return {
            "agreed": [(entry["round"], entry["honest_share"]) for entry in trace],
            "stopping": [(entry["round"], entry["stop_votes"] / agents[entry["round"]]) for entry in trace],
            "undeclared": [(1, 0.5)],
        }


class MeasuredGame(ConsensusGame):
    """The consensus game with a metric for each of them."""

    evidence = MeasuredEvidence()

    def outcome(self, rounds: int, *, stopped: bool) -> Outcome:
        """Return the outcome with a metric for each indicator and quantity."""
        found = super().outcome(rounds, stopped=stopped)
        share = found.metrics["final_honest_share"]
        more = {
            "unanimous": None if share is None else share == 1,
            "early": stopped,
            "unanswered": None,
            "size": len(self.agents) * rounds / 4,
            "unmeasured": None,
        }
        return dataclasses.replace(found, metrics={**found.metrics, **more})


def measured(study: Study, evidence: MeasuredEvidence = MeasuredGame.evidence) -> Study:
    """Return the study of the measured game, which shows this in the place of its own."""
    game = type("ShownGame", (MeasuredGame,), {"evidence": evidence})
    conditions = tuple(dataclasses.replace(condition, game=game) for condition in study.conditions)
    return dataclasses.replace(study, game=game, conditions=conditions)


def recorded(study: Study) -> Study:
    """Play all simulations of a scripted study."""
    for simulation in study.simulations():
        write_record(simulation.record(study.name), simulation, play_of(simulation), {})
    return study


def played(study: Study) -> Study:
    """Play all simulations of a scripted study and make its tables."""
    summarize(recorded(study))
    return study
