"""What is known of a study and its run: who, when, with what, from where; from its file and its records."""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from parley import __version__
from parley.analysis.registration import registered_lines
from parley.analysis.simulations import simulation_table
from parley.analysis.summarize import played_games
from parley.games.base import Paper
from parley.play.record_store import UsableRecords
from parley.text import counted, every, limited_logger, one_line

NO_LICENSE = "No license was given for these results: ask their author before you pass them on."


@dataclass(frozen=True)
class About:
    """A study and its run, in words and numbers; no names of users or hosts, no paths."""

    title: str
    description: str
    license: str  # an SPDX identifier, a URL, or words
    author: str  # may be empty
    sources: tuple[Mapping[str, str], ...]  # of imported games: format, source, license
    started: datetime
    ended: datetime
    software: Mapping[str, str]  # versions by name; several are joined by ", "
    players: tuple[str, ...]
    models: Mapping[str, tuple[str, str]]  # by name: license of the weights, note
    paper: Paper | None
    left_out: int


def about(records: UsableRecords, license_note: str, author: str) -> About:
    """Return what is known of the study that has these records."""
    study, made = records.study, [summary.provenance for summary in records.summaries]
    sources = {
        (one["format"], one["source"], one["license"]) for each in made if (one := each.get("imported")) is not None
    }
    axes = ", ".join(study.axes)
    conditions = {condition.name for condition in study.conditions}
    what = (
        f"{counted(len(records.simulations), 'simulation')} of groups of agents "
        f"in {counted(len(conditions), 'condition')} (axes: {axes}). Game: {study.game.name.replace('_', ' ')}."
    )
    from_where = "".join(
        f" Imported, not played by Parley: {source} (license: {terms})." for _, source, terms in sources
    )
    first = records.first_repeat
    lines = registered_lines(simulation_table(played_games(first)), first.study)
    registered = f" What its questions are: {'; '.join(lines)}." if lines else ""
    title = one_line(study.title) or study.name
    return About(
        title=title,
        description=f"{title.rstrip('.')}. {what}{registered}{one_line(from_where) and ' ' + one_line(from_where)}",
        license=one_line(license_note, 300)
        or one_line("; ".join(sorted({terms for *_, terms in sources})))
        or NO_LICENSE,
        author=one_line(author, 200),
        sources=tuple({"format": f, "source": s, "license": terms} for f, s, terms in sorted(sources)),
        started=min(datetime.fromisoformat(each["started"]) for each in made),
        ended=max(datetime.fromisoformat(each["ended"]) for each in made),
        software=_software(made),
        players=tuple(sorted({str(g["player"]) for each in records.summaries for g in each.simulation["groups"]})),
        models={
            name: (one_line(entry.license), one_line(entry.note))
            for condition in study.conditions
            for name, entry in condition.entries.items()
        },
        paper=study.game.paper,
        left_out=len(records.left_out),
    )


def _software(made: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    found: dict[str, set[str]] = {"parley": set(), "python": set()}
    for each in made:
        engines = [engine.get("versions", {}) for engine in each.get("engines", {}).values()]
        own = {"parley": each.get("parley", __version__), "python": each.get("python", "")}
        for versions in (own, each.get("packages", {}), *engines):
            for name, version in versions.items():
                found.setdefault(name, set()).add(str(version))
    return {name: ", ".join(sorted(versions - {""})) for name, versions in found.items()}


_SAY_SECONDS = 5.0
_log = limited_logger(__name__)
_T = TypeVar("_T")


def with_progress(items: Iterable[_T], total: int, what: str) -> Iterator[_T]:
    """Yield the items, and say every few seconds how many of them are done."""
    began = time.monotonic()
    for number, item in enumerate(items):
        _log.info("%d of %s", number, counted(total, what), extra=every(_SAY_SECONDS, since=began))
        yield item
