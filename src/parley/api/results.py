"""The results of a study, as data frames, figures and records."""

from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from parley import paths
from parley.analysis.tables import read_table
from parley.api.frames import attempt_frame, round_frame
from parley.api.games import Record, Shown
from parley.columns import table_names
from parley.errors import UsageError
from parley.play.record_store import part_of_tables, played_part, usable_part
from parley.study import Study
from parley.text import choose, counted, one_line

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEDGER = "ledger"  # a table that `parley ledger build` writes


class Results(Shown):
    """What is on the disk of a study. `Study.results` returns it.

    Tables and figures are of the tables that `parley summarize`, or a run, made; attempts and rounds of the records,
    of which damaged ones are left out with a warning (logger `parley`).

    >>> import parley
    >>> results = parley.load("demo").results()
    >>> results.conditions[["n", "b", "simulations", "valid_consensus_rate"]]
       n  b  simulations  valid_consensus_rate
    0  4  0            3                   1.0
    1  5  1            3                   0.0
    """

    def __init__(self, study: Study, root: Path) -> None:
        self._planned, self._root = study, root
        there = played_part(study).shown
        self._simulations = [(each, each.record(study.name).absolute()) for each in there.simulations()]

    @property
    def attempts(self) -> pd.DataFrame:
        """A row per attempt at a question: the axes, and the columns of the records (docs/data.md).

        Of a large study read some columns alone from results/STUDY/simulations: docs/data.md has examples.

        >>> parley.load("demo").results().attempts[["b", "round", "phase", "agent"]].head(2)
           b  round    phase    agent
        0  0      1  propose  agent_1
        1  0      1  propose  agent_2
        """
        return attempt_frame(self._simulations)

    @property
    def rounds(self) -> pd.DataFrame:
        """A row per simulation and round: the axes, `seed`, `outcome`, `round`, and the measures of the game.

        Only rounds that were played. The table of the same name, `table("rounds")`, has their means by condition, in
        which finished games may keep their last value.

        >>> parley.load("demo").results().rounds[["b", "seed", "round", "agreement"]].head(2)
           b  seed  round  agreement
        0  0     0      1       0.25
        1  0     0      2       1.00
        """
        return round_frame(self._simulations)

    @property
    def simulations(self) -> pd.DataFrame:
        """A row per simulation: the axes, `seed`, `outcome`, `rounds`, the game's metrics, calls, tokens, seconds.

        >>> parley.load("demo").results().simulations[["b", "seed", "outcome", "rounds"]].head(2)
           b  seed          outcome  rounds
        0  0     0  valid_consensus       2
        1  1     0     no_consensus       8
        """
        return self.table("simulations")

    @property
    def conditions(self) -> pd.DataFrame:
        """A row per condition: the axes, and of each outcome count, rate and limits of its 95% Wilson interval.

        >>> parley.load("demo").results().conditions["valid_consensus_low"].round(2).tolist()
        [0.44, 0.0]
        """
        return self.table("conditions")

    def table(self, name: str) -> pd.DataFrame:
        """Return a table as `parley summarize` wrote it, such as `contrasts`, `quantities` or `rounds`.

        `tables` has the names. Raises UsageError for another name, RecordError where it is not made of the study as it
        is now.

        >>> parley.load("demo").results().table("outcomes")[["b", "outcome", "count"]].head(1)
           b          outcome  count
        0  0  valid_consensus      3
        """
        if name not in self.tables:
            raise UsageError(f"{one_line(str(name), 60)!r}: no such table; {choose(name, self.tables)}")
        with paths.rooted(self._root):
            part_of_tables(self._planned)
            return read_table(self._planned.name, name)

    @property
    def tables(self) -> list[str]:
        """The names of the tables.

        >>> parley.load("demo").results().tables[:3]
        ['simulations', 'conditions', 'outcomes']
        """
        return [*table_names(), *([LEDGER] if self._planned.game.evidence.keeps_ledger else [])]

    def figure(self, name: str, page: int = 1) -> "Figure":
        """Return a page of a figure as a figure of Matplotlib, which a notebook shows; nothing is written.

        `figures` has the names. Raises UsageError for another name, or a page that it does not have, RecordError as
        `table`.

        >>> figure = parley.load("demo").results().figure("outcome_rates")
        >>> figure.savefig("outcome_rates.pdf")
        """
        from parley.figures.make import draw
        from parley.figures.style import own_style

        if name not in self.figures:
            raise UsageError(f"{one_line(str(name), 60)!r}: no figure of this study; {choose(name, self.figures)}")
        with paths.rooted(self._root), own_style():
            study = usable_part(part_of_tables(self._planned)).shown
            spec = next(spec for spec in study.figures if spec.name == name)
            drawn = draw(study, spec, partial(read_table, study.name))
        if not 1 <= page <= len(drawn):
            raise UsageError(f"{name}: page {page}: it has {counted(len(drawn), 'page')}")
        figure = drawn[page - 1]
        # Without pyplot, which this needs not, IPython knows no way to show a figure.
        vars(figure)["_repr_png_"] = partial(_png, figure)
        return figure

    @property
    def figures(self) -> list[str]:
        """The names of the figures.

        >>> parley.load("demo").results().figures
        ['outcome_rates', 'outcomes_by_byzantine', 'trajectories']
        """
        return [spec.name for spec in self._planned.shown.figures]

    @property
    def records(self) -> list[Record]:
        """The records, in the order of the simulations; nothing is read before a record is asked for something.

        >>> [record.seed for record in parley.load("demo").results().records if record.axes["b"] == 1]
        [0, 1, 2]
        """
        return [Record(self._planned, simulation, self._root) for simulation, _ in self._simulations]

    def _facts(self) -> dict[str, str]:
        planned = sum(len(condition.seeds) for condition in self._planned.shown.conditions)
        return {
            "Results of": f"{self._planned.name}: {len(self._simulations):,} of {counted(planned, 'simulation')}",
            "figures": ", ".join(self.figures),
        }


def _png(figure: "Figure") -> bytes:
    from parley.figures.style import own_style

    image = BytesIO()
    with own_style():
        figure.savefig(image, format="png")
    return image.getvalue()
