"""The results of a study, as data frames, figures and records."""

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from parley import paths
from parley.analysis.simulations import simulation_table
from parley.analysis.summarize import make_tables, played_games
from parley.analysis.tables import read_table, typed
from parley.analysis.traces import TURNS, recorded, turn_table
from parley.api.frames import among, attempt_frame, check_columns, round_frame, selection, values_text
from parley.api.games import Records, Shown
from parley.columns import table_names
from parley.errors import UsageError
from parley.play.record_store import UsableRecords, played_part, read_records, tables_are_current, usable_part
from parley.study import Study
from parley.study.condition import Simulation
from parley.text import choose, counted, one_line

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEVELS = ("attempts", "rounds", "simulations", "conditions")
LEDGER = "ledger"  # a table that `parley ledger build` writes


class Results(Shown):
    """What is on the disk of a study. `Study.results` returns it.

    Tables are read where they are up to date, and else made in memory from the records; nothing is written. Damaged
    records are left out with a warning (logger `parley`), as `parley summarize` does.

    >>> import parley
    >>> results = parley.load("demo").results()
    >>> results.conditions[["n", "b", "simulations", "valid_consensus_rate"]]
       n  b  simulations  valid_consensus_rate
    0  4  0            3                   1.0
    1  5  1            3                   0.0
    """

    def __init__(self, study: Study, root: Path) -> None:
        self._planned = study.shown
        self._root = root
        self._reported: set[Path] = set()  # records of which a warning said that they are left out
        there = played_part(study)
        self._is_current = tables_are_current(there)
        self._whole = usable_part(there) if self._is_current else there  # with what is played again
        self._study = self._whole.shown

    @property
    def attempts(self) -> pd.DataFrame:
        """A row per attempt at a question: the axes, and the columns of the records (docs/data.md).

        Of a large study take some columns and conditions instead: see `frame`.

        >>> parley.load("demo").results().attempts[["b", "round", "phase", "agent"]].head(2)
           b  round    phase    agent
        0  0      1  propose  agent_1
        1  0      1  propose  agent_2
        """
        return self.frame("attempts")

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
        return self.frame("rounds")

    @property
    def simulations(self) -> pd.DataFrame:
        """A row per simulation: the axes, `seed`, `outcome`, `rounds`, the game's metrics, calls, tokens, seconds.

        >>> parley.load("demo").results().simulations[["b", "seed", "outcome", "rounds"]].head(2)
           b  seed          outcome  rounds
        0  0     0  valid_consensus       2
        1  1     0     no_consensus       8
        """
        return self.frame("simulations")

    @property
    def conditions(self) -> pd.DataFrame:
        """A row per condition: the axes, and of each outcome count, rate and limits of its 95% Wilson interval.

        >>> parley.load("demo").results().conditions["valid_consensus_low"].round(2).tolist()
        [0.44, 0.0]
        """
        return self.frame("conditions")

    def frame(
        self,
        level: Literal["attempts", "rounds", "simulations", "conditions"],
        columns: Sequence[str] | None = None,
        **chosen: Any,
    ) -> pd.DataFrame:
        """Return one of the four levels: only these columns, conditions and seeds, and no others are read.

        Conditions are chosen by values of axes, as a study or a path writes them, and simulations by `seed`; a list
        means any of its values. Raises UsageError for a column, an axis or a value that is not there.

        >>> results = parley.load("demo").results()
        >>> results.frame("attempts", columns=["agent", "phase"], b=1, seed=[0, 2]).shape[1]
        2
        """
        if level not in LEVELS:
            if level in self.tables:
                raise UsageError(f"{level!r} is a table, not a level; use results.table({level!r})")
            raise UsageError(f"{one_line(str(level), 60)!r}: no such level; {choose(level, LEVELS)}")
        with paths.rooted(self._root):
            if level in ("attempts", "rounds"):
                name = self._study.name
                records = [(s, s.record(name)) for s in among(self._simulations, selection(self._planned, chosen))]
                if not records:
                    asked = values_text(chosen)
                    raise UsageError(f"{name}: no records yet of {asked}; `results.simulations` lists what is there")
                return (attempt_frame if level == "attempts" else round_frame)(records, columns, self._reported)
            return self._part_of_table(level, columns, chosen)

    def table(self, name: str) -> pd.DataFrame:
        """Return a table as `parley summarize` writes it, such as `contrasts`, `quantities` or `rounds`.

        `tables` has the names. Raises UsageError for another name.

        >>> parley.load("demo").results().table("outcomes")[["b", "outcome", "count"]].head(1)
           b          outcome  count
        0  0  valid_consensus      3
        """
        with paths.rooted(self._root):
            return self._table(name)

    @property
    def tables(self) -> list[str]:
        """The names of the tables.

        >>> parley.load("demo").results().tables[:3]
        ['simulations', 'conditions', 'outcomes']
        """
        return [*table_names(), *([LEDGER] if self._study.game.evidence.keeps_ledger else [])]

    def figure(
        self,
        name: str,
        page: int = 1,
        width: Literal["screen", "column", "page"] | None = None,
        for_paper: bool = False,
    ) -> "Figure":
        """Return a page of a figure as a figure of Matplotlib, which a notebook shows; nothing is written.

        `figures` has the names. It is at most as wide as a screen, a column (3.4 in) or a page (7 in) on paper;
        `for_paper` leaves out what belongs into its caption. Raises UsageError for another name, or a page that it
        does not have.

        >>> figure = parley.load("demo").results().figure("outcome_rates")
        >>> figure.savefig("outcome_rates.pdf")
        """
        from parley.figures.make import draw
        from parley.figures.style import Look, own_style

        if name not in self.figures:
            raise UsageError(f"{one_line(str(name), 60)!r}: no figure of this study; {choose(name, self.figures)}")
        spec = next(spec for spec in self._planned.figures if spec.name == name)
        with paths.rooted(self._root), own_style(Look(width, for_paper)):
            study = self._study if self._is_current else self._usable.shown.study
            drawn = draw(study, spec, self._table)
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
        return [spec.name for spec in self._planned.figures]

    @property
    def records(self) -> Records:
        """The records, in the order of the simulations: a sequence, read record by record.

        >>> parley.load("demo").results().records[0].replay().identical
        True
        """
        return Records(self._planned, self._simulations, self._root)

    @cached_property
    def _simulations(self) -> list[Simulation]:
        return list(self._study.simulations())

    @cached_property
    def _usable(self) -> UsableRecords:
        usable = read_records(self._whole, reported=self._reported)
        self._reported.update(usable.left_out)
        return usable

    @cached_property
    def _made(self) -> Mapping[str, pd.DataFrame]:
        return make_tables(self._whole, self._usable)

    @cached_property
    def _made_simulations(self) -> pd.DataFrame:
        return simulation_table(played_games(self._usable.shown))

    def _table(self, name: str) -> pd.DataFrame:
        if name not in self.tables:
            raise UsageError(f"{one_line(str(name), 60)!r}: no such table; {choose(name, self.tables)}")
        if self._is_current or name == LEDGER:
            return read_table(self._study.name, name)
        if name == TURNS:
            games = played_games(self._usable.shown)
            turns: pd.DataFrame = turn_table(self._study, recorded(self._study, games)).to_pandas()
            return turns
        made = self._made_simulations if name == "simulations" else self._made[name]
        found: pd.DataFrame = typed(made, self._study, name).to_pandas()
        return found

    def _part_of_table(self, name: str, columns: Sequence[str] | None, chosen: dict[str, Any]) -> pd.DataFrame:
        """Return some columns and rows of a table."""
        if name == "conditions" and "seed" in chosen:
            raise UsageError("seed: a condition has many; leave it out, or take simulations")
        table = self._table(name)
        for column, values in selection(self._planned, chosen).items():
            table = table[table[column].isin(values)]
        return table[check_columns(columns, list(table.columns))].reset_index(drop=True)

    def _facts(self) -> dict[str, str]:
        planned = sum(len(condition.seeds) for condition in self._planned.conditions)
        made = "read from the tables that parley summarize wrote" if self._is_current else "made from the records"
        return {
            "Results of": f"{self._study.name}: {len(self._simulations):,} of {counted(planned, 'simulation')}",
            "tables": made,
            "figures": ", ".join(self.figures),
        }


def _png(figure: "Figure") -> bytes:
    from parley.figures.style import own_style

    image = BytesIO()
    with own_style():
        figure.savefig(image, format="png")
    return image.getvalue()
