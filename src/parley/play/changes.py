"""What changed in a study since its records were made: `parley diff`, and what `parley status` says of it.

A former condition is compared with the one that is nearest to it in the study as it is now: one of the same axes, or
else one that nobody played yet and that differs from it in one axis.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from parley.errors import RecordError
from parley.identity import canonical_json
from parley.play.record import peek_summary
from parley.play.record_content import describe_condition
from parley.play.stale_records import simulation_files
from parley.study import Study
from parley.text import one_line, table

_HASH = 64  # hexadecimal digits
_MAX_SAID = 4  # differences in a line
_MAX_LINES = 20  # of new conditions
_MAX_DEEP = 3  # mappings in mappings
_FACTS = {
    "game": "game",
    "protocol_version": "version of the game",
    "game_code_sha256": "code of the game",
    "prompt": "prompt",
    "parameters": "",
}
_NOT_OF_GROUPS = ("role", "count", "player", "model_name", "templates", "prompt_digests")

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
    played: dict[str, set[int]] = defaultdict(set)  # seeds with a record, by the folder of a condition
    stale: dict[str, list[Path]] = defaultdict(list)  # records of none, by folder
    places = {condition.folder for condition in study.conditions}
    for file in simulation_files(study.name):
        if not file.is_journal and file.place in places:
            played[file.place].add(file.seed)
        elif not file.is_journal:
            stale[file.place].append(file.path)
    now = {
        condition.name: (_described(describe_condition(condition)), not played[condition.folder])
        for condition in study.conditions
        if stale
    }
    former: Counter[tuple[Difference, ...]] = Counter()
    explained: set[str] = set()  # names of conditions that a former one became
    for records in stale.values():
        near, differences = _changed(records, now)
        explained.add(near)
        former[differences] += len(records)
    added: Counter[Difference] = Counter()
    kept = left = 0
    for condition in study.conditions:
        seeds, there = len(condition.seeds), len(played[condition.folder].intersection(condition.seeds))
        kept += there
        left += len(played[condition.folder]) - there
        if there and there < seeds:
            added["seeds", f"{there:,} played", f"{seeds:,}"] += seeds - there
        elif not there and condition.name not in explained:
            added["condition", "-", condition.name] += seeds
    missing = sum(len(condition.seeds) for condition in study.conditions) - kept
    return Changes(kept, missing, dict(former.most_common()), dict(added) if kept or former else {}, left)


def former_lines(changes: Changes) -> Iterator[str]:
    """Yield what `parley status` says: how many records are of no use now, and why."""
    for differences, records in changes.former.items():
        named = ", ".join(f"{key} {then}, now {now}" for key, then, now in differences[:_MAX_SAID])
        more = f", and {len(differences) - _MAX_SAID} more" if len(differences) > _MAX_SAID else ""
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


_Described = tuple[dict[str, str], dict[str, str]]  # axes, and all that can change a result, by key


def _changed(
    records: Sequence[Path], now: Mapping[str, tuple[_Described, bool]]
) -> tuple[str, tuple[Difference, ...]]:
    """Return the name of the condition that is nearest to the one of some records, and what differs.

    `now` are the conditions by name, and whether nobody played them.
    """
    axes: Mapping[str, str] = {}
    for path in records:  # those that cannot be read say nothing
        with suppress(RecordError):
            axes, then = _described(peek_summary(path).simulation)
            break
    if not axes:
        return "", (("record", "cannot be read", "-"),)

    def other_axes(name: str) -> list[str]:
        (its_axes, _), _ = now[name]
        return [axis for axis, value in its_axes.items() if axes.get(axis, value) != value]

    near = [name for name, (_, is_new) in now.items() if len(other_axes(name)) <= is_new]
    if not near:
        return "", (("condition", one_line("/".join(f"{axis}={value}" for axis, value in axes.items()), 100), "-"),)
    nearest = min(near, key=lambda name: (len(other_axes(name)), len(then.items() ^ now[name][0][1].items())))
    its_axes, facts = now[nearest][0]
    keys = [key for key in sorted({*then, *facts}) if then.get(key) != facts.get(key)]
    differences = [(one_line(key, 60), _short(then.get(key)), _short(facts.get(key))) for key in keys]
    # A model or a prompt may have another name now, and be the same.
    differences = differences or [(axis, _short(axes[axis]), _short(its_axes[axis])) for axis in other_axes(nearest)]
    return nearest, tuple(differences) or (("something", "another", "not recorded"),)


def _short(value: str | None) -> str:
    if value is None:
        return "-"
    return one_line(value, 12 if len(value) == _HASH and not value.strip("0123456789abcdef") else 60) or '""'


def _described(described: Mapping[str, Any]) -> _Described:
    """Return the axes of a condition, and what a record says of it: what can change a result, and nothing else.

    What is no such description gives some of it, or nothing.
    """
    listed = described.get("axes")
    axes = {str(axis): str(value) for axis, value in listed.items()} if isinstance(listed, Mapping) else {}
    facts = {axis: value for axis, value in axes.items() if axis in ("n", "b")}
    for key, name in _FACTS.items():
        _add(facts, name, described.get(key))
    _add(facts, f"prompt {described.get('prompt')}", described.get("prompt_digests"))
    groups = list(described.get("groups", []))  # mappings, which have a role: `metadata_problem` looked
    roles = Counter(str(group["role"]) for group in groups)
    count: Counter[str] = Counter()
    for group in groups:
        role = str(group["role"])
        count[role] += 1
        of_several = f"{role} {count[role]}"
        if roles[role] > 1:  # else n and b give its count
            _add(facts, f"{of_several} count", group.get("count"))
        _add(facts, f"prompt {group.get('prompt')}", group.get("prompt_digests"))
        for key in [key for key in group if key not in _NOT_OF_GROUPS]:
            _add(facts, f"{of_several if roles[role] > 1 else role} {key}", group[key])
    return axes, facts


def _add(facts: dict[str, str], name: str, value: Any, depth: int = 0) -> None:
    """Add a value under its name; a mapping's values each under their own."""
    if isinstance(value, Mapping) and depth < _MAX_DEEP:
        for key, inner in value.items():
            _add(facts, f"{name} {key}".strip(), inner, depth + 1)
    elif isinstance(value, str):
        facts[name] = value
    elif value is not None:
        with suppress(ValueError, RecursionError):
            facts[name] = canonical_json(value)
