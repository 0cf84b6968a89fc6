"""What changed in a study since its records were made: `parley diff`, and what `parley status` says of it.

A former condition is compared with those of the same axes in the study as it is now, or else with those that nobody
played yet and that differ from it in one axis: what differs from the nearest of them is what changed.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from parley.errors import RecordError
from parley.identity import canonical_json
from parley.play.record import peek_summary
from parley.play.record_content import describe_condition
from parley.play.stale_records import simulation_files
from parley.study import Study
from parley.study.condition import Condition
from parley.text import one_line, table

_HASH = 64  # hexadecimal digits
_MAX_VALUES = 4  # of one key, in a line
_MAX_LINES = 20  # of new conditions
_MAX_DEEP = 3  # mappings in mappings
_FACTS = {
    "game": "game",
    "protocol_version": "version of the game",
    "game_code_sha256": "code of the game",
    "prompt": "prompt",
    "parameters": "",
}

Difference = tuple[str, str, str]  # key, then, now


@dataclass(frozen=True)
class Changes:
    """What lies under a study's results, and what differs from the study as it is now."""

    kept: int  # simulations that have their record
    missing: int  # those without
    former: Mapping[tuple[Difference, ...], int]  # records of former configurations, by what changed
    added: Mapping[Difference, int]  # simulations of conditions and seeds without a record
    seeds: int  # records of seeds that the study no longer has

    def values(self) -> dict[str, Any]:
        """Return the same as JSON values: how many simulations and records, and which keys changed."""
        changed = [
            {"key": key, "then": then, "now": now, "records": records}
            for differences, records in self.former.items()
            for key, then, now in differences
        ]
        added = [
            {"key": key, "then": then, "now": now, "simulations": n} for (key, then, now), n in self.added.items()
        ]
        counts = {"kept": self.kept, "missing": self.missing, "seeds": self.seeds}
        return {**counts, "changed": changed, "added": added}


def changes_of(study: Study) -> Changes:
    """Return what changed. Of each folder one record is read; the others are taken to be of the same configuration."""
    played: dict[str, set[int]] = defaultdict(set)  # seeds with a record, by the spec of a condition
    stale: dict[str, list[Path]] = defaultdict(list)  # records of none, by folder
    places = {condition.folder for condition in study.conditions}
    for file in simulation_files(study.name):
        if not file.is_journal and file.place in places:
            played[file.spec].add(file.seed)
        elif not file.is_journal:
            stale[file.place].append(file.path)
    now = [_candidate(condition, not played[condition.spec]) for condition in study.conditions if stale]
    former: Counter[tuple[Difference, ...]] = Counter()
    explained: set[str] = set()  # names of conditions that a former one became
    for records in stale.values():
        near, differences = _changed(_described(records), now)
        explained.update(near)
        former[differences] += len(records)
    added: Counter[Difference] = Counter()
    kept = 0
    for condition in study.conditions:
        seeds, there = len(condition.seeds), len(played[condition.spec].intersection(condition.seeds))
        kept += there
        if there and there < seeds:
            added["seeds", f"{there:,} played", f"{seeds:,}"] += seeds - there
        elif not there and condition.name not in explained:
            added["condition", "-", condition.name] += seeds
    return Changes(
        kept=kept,
        missing=sum(len(condition.seeds) for condition in study.conditions) - kept,
        former=dict(former.most_common()),
        added=dict(added) if kept or former else {},
        seeds=sum(len(played[condition.spec].difference(condition.seeds)) for condition in study.conditions),
    )


def former_lines(changes: Changes) -> Iterator[str]:
    """Yield what `parley status` says: how many records are of no use now, and why."""
    for differences, records in changes.former.items():
        named = ", ".join(f"{key} {then}, now {now}" for key, then, now in differences[:_MAX_VALUES])
        more = f", and {len(differences) - _MAX_VALUES} more" if len(differences) > _MAX_VALUES else ""
        yield f"{records:,} records of a former configuration ({named}{more})"
    if changes.seeds:
        yield f"{changes.seeds:,} records of seeds that the study no longer has"


def diff(study: Study) -> Iterator[str]:
    """Yield the lines of `parley diff`: which keys, conditions and seeds changed, then what that does."""
    changes = changes_of(study)
    counts: Counter[Difference] = Counter()
    for differences, records in changes.former.items():
        counts.update(dict.fromkeys(differences, records))
    rows = [(*difference, records) for difference, records in counts.items()]
    rows += [(*difference, number) for difference, number in islice(changes.added.items(), _MAX_LINES)]
    if rows:
        yield from table(("key", "then", "now", "simulations"), rows)
        if (more := len(changes.added) - _MAX_LINES) > 0:
            yield f"and {more:,} more conditions that are new"
        yield ""
    elif not changes.seeds:
        what = "nothing changed since its records were made" if changes.kept else "it has no records"
        yield f"{study.name}: {what}"
    prune = f"parley prune {study.file} lists them"
    lines = [("kept", changes.kept, "have their record"), ("to play", changes.missing, "have none")]
    if former := sum(changes.former.values()):
        lines.append(("left over", former, f"records of a former configuration; {prune}"))
    if changes.seeds:
        lines.append(("left over", changes.seeds, f"records of seeds that the study no longer has; {prune}"))
    yield from table(("what", "simulations", ""), lines)


# What is compared


def _described(records: Sequence[Path]) -> Mapping[str, Any]:
    """Return what the first of some records that can be read says of its condition; nothing if none can."""
    for path in records:
        with suppress(RecordError):
            return peek_summary(path).simulation
    return {}


class _Candidate(NamedTuple):
    """A condition of the study as it is now, which a former one may have become."""

    name: str
    axes: Mapping[str, str]
    facts: Mapping[str, str]
    is_new: bool  # nobody played it


def _candidate(condition: Condition, is_new: bool) -> _Candidate:
    return _Candidate(condition.name, _axes(condition.axes), facts(describe_condition(condition)), is_new)


def _changed(described: Mapping[str, Any], now: Sequence[_Candidate]) -> tuple[list[str], tuple[Difference, ...]]:
    """Return the names of the conditions that are nearest to a former one, and what differs.

    Of a key that has several values in these conditions, all are named.
    """
    axes = _axes(described.get("axes"))
    if not axes:
        return [], (("record", "cannot be read", "-"),)
    # In how many axes each differs, of those that both have.
    differing = [sum(axes.get(axis, value) != value for axis, value in each.axes.items()) for each in now]
    alike = [each for each, number in zip(now, differing, strict=True) if number == 0]
    alike = alike or [each for each, number in zip(now, differing, strict=True) if each.is_new and number == 1]
    if not alike:
        return [], (("condition", one_line("/".join(f"{axis}={value}" for axis, value in axes.items()), 100), "-"),)
    then = facts(described)
    distances = [len(then.items() ^ each.facts.items()) for each in alike]
    least = min(distances)
    near = [each for each, distance in zip(alike, distances, strict=True) if distance == least]
    keys = sorted({*then, *near[0].facts})
    differences = [
        _difference(key, then.get(key), [each.facts[key] for each in near if key in each.facts])
        for key in keys
        if then.get(key) != near[0].facts.get(key)
    ]
    # A model or a prompt may have another name now, and be the same.
    differences = differences or [
        _difference(axis, value, [near[0].axes[axis]])
        for axis, value in axes.items()
        if near[0].axes.get(axis, value) != value
    ]
    return [each.name for each in near], tuple(differences) or (("something", "another", "not recorded"),)


def _axes(axes: Any) -> dict[str, str]:
    return {str(axis): str(value) for axis, value in axes.items()} if isinstance(axes, Mapping) else {}


def _difference(key: str, then: str | None, now: Sequence[str]) -> Difference:
    values = list(dict.fromkeys(now))
    more = ", ..." if len(values) > _MAX_VALUES else ""
    return one_line(key, 60), _short(then), ", ".join(map(_short, values[:_MAX_VALUES])) + more or "-"


def _short(value: str | None) -> str:
    if value is None:
        return "-"
    return one_line(value, 12 if len(value) == _HASH and not value.strip("0123456789abcdef") else 60) or '""'


def facts(described: Mapping[str, Any]) -> dict[str, str]:
    """Return what a record says of its condition, by key, as text: what can change a result, and nothing else.

    What is no such description gives some of it, or nothing.
    """
    found: dict[str, str] = {}
    for key, name in _FACTS.items():
        _add(found, name, described.get(key))
    _add(found, f"prompt {described.get('prompt')}", described.get("prompt_digests"))
    axes = described.get("axes")
    for axis in ("n", "b"):
        _add(found, axis, axes.get(axis) if isinstance(axes, dict) else None)
    listed = described.get("groups")
    groups = [group for group in listed if isinstance(group, dict)] if isinstance(listed, list) else []
    roles = Counter(str(group.get("role")) for group in groups)
    count: Counter[str] = Counter()
    for group in groups:
        role = str(group.get("role"))
        count[role] += 1
        alone = roles[role] == 1  # then n and b give its count
        _add(found, f"prompt {group.get('prompt')}", group.get("prompt_digests"))
        for key, value in group.items():
            if key not in ("role", "player", "model_name", "templates", "prompt_digests") and not (
                alone and key == "count"
            ):
                _add(found, f"{role if alone else f'{role} {count[role]}'} {key}", value)
    return found


def _add(found: dict[str, str], name: str, value: Any, depth: int = 0) -> None:
    """Add a value under its name; a mapping's values each under their own."""
    if isinstance(value, dict) and depth < _MAX_DEEP:
        for key, inner in value.items():
            _add(found, f"{name} {key}".strip(), inner, depth + 1)
    elif isinstance(value, str):
        found[name] = value
    elif value is not None:
        with suppress(ValueError, RecursionError):
            found[name] = canonical_json(value)
