"""What changed in a study since its records were made: `parley diff`, and what `parley status` says of it.

A former condition is compared with that of the same axes in the study as it is now. Where there is none it is gone, or
one axis alone tells it from conditions that are new.
"""

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from parley import paths
from parley.identity import canonical_json
from parley.play.record_content import describe_condition
from parley.play.stale_records import Moves, Survey, find_moves
from parley.study import Study
from parley.study.condition import Condition
from parley.text import one_line, table

_HASH = 64  # hexadecimal digits
_MAX_VALUES = 4  # of one key, in a line
_MAX_COMPARED = 1_000  # conditions that a former one is compared with
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


@dataclass
class Changes:
    """What lies under a study's results besides the records of the study as it is now."""

    kept: int = 0  # simulations that have their record
    again: int = 0  # without one, and a former configuration of them has one
    new: int = 0  # without any
    moves: Moves = field(default_factory=Moves)
    former: dict[tuple[Difference, ...], int] = field(default_factory=dict)  # records, by what changed
    added: dict[Difference, int] = field(default_factory=dict)  # simulations of conditions and seeds without a record
    seeds: int = 0  # records of seeds that the study no longer has
    unreadable: int = 0  # files that are called records and are none
    renamed_from: str | None = None  # of results that may be this study's

    def values(self) -> dict[str, Any]:
        """Return the same as JSON values: how many simulations and records, and which keys changed."""
        counts = {
            name: getattr(self, name) for name in ("kept", "again", "new", "seeds", "unreadable", "renamed_from")
        }
        changed = [
            {"key": key, "then": then, "now": now, "records": records}
            for differences, records in self.former.items()
            for key, then, now in differences
        ]
        added = [
            {"key": key, "then": then, "now": now, "simulations": n} for (key, then, now), n in self.added.items()
        ]
        return {**counts, "moved": len(self.moves.simulations), "changed": changed, "added": added}


def changes_of(study: Study) -> Changes:
    """Return what changed. Of each folder one record is read; the others are taken to be of the same configuration."""
    survey = Survey(study)
    moves = find_moves(study, survey)
    changes = Changes(moves=moves, renamed_from=survey.renamed_from())
    moved = {(s.condition.name, s.seed) for s in moves.simulations}
    missing = {(s.condition.name, s.seed) for s in survey.missing} - moved
    changes.kept = sum(len(condition.seeds) for condition in study.conditions) - len(missing) - len(moved)
    for condition in study.conditions:
        changes.seeds += len(set(survey.played(condition.place)).difference(condition.seeds))
    again: set[tuple[str, int]] = set()
    counts: Counter[tuple[Difference, ...]] = Counter()
    now = [(condition, _axes(condition.axes)) for condition in study.conditions]
    gone: list[tuple[dict[str, str], int]] = []
    for folder in survey.stale:
        seeds = set(survey.played(folder))
        described = survey.described(folder) if seeds else None
        if described is None:
            changes.unreadable += len(seeds)
        elif owners := survey.conditions_of(described["id"], described["seed"]):
            changes.seeds += len(seeds.difference(*(condition.seeds for condition in owners)))
        elif same := [condition for condition, axes in now if not _differing(_axes(described.get("axes")), axes)]:
            nearest, differences = _nearest(facts(described), same[:_MAX_COMPARED])
            counts[differences] += len(seeds)
            again |= {(nearest.name, seed) for seed in seeds} & missing
        else:
            gone.append((_axes(described.get("axes")), len(seeds)))
    changes.former = dict(counts.most_common())
    changes.again, changes.new = len(again), len(missing) - len(again)
    of_former = {name for name, _ in again}
    _compare(study, changes, gone, Counter(name for name, _ in missing if name not in of_former))
    return changes


def _compare(study: Study, changes: Changes, gone: list[tuple[dict[str, str], int]], lacking: Counter[str]) -> None:
    """Note which conditions are gone and which are new, and which have seeds without a record.

    `gone` has the axes and the number of records of each, `lacking` says how many seeds of a condition have none.
    """
    new = {c.name: _axes(c.axes) for c in study.conditions if lacking[c.name] == len(c.seeds)}
    there = {pair for condition in study.conditions for pair in _axes(condition.axes).items()}
    named: set[str] = set()
    for axes, records in gone:
        parts = {name: _differing(axes, other) for name, other in islice(new.items(), _MAX_COMPARED)}
        near = {name: min(part) for name, part in parts.items() if len(part) == 1}
        difference = ("condition", one_line("/".join(f"{axis}={value}" for axis, value in axes.items()), 100), "-")
        if len({*near.values()}) == 1:
            axis = min(near.values())
            others = [f"{name}={axes[name]}" for name in study.varying if name != axis and name in axes]
            # Other conditions still have this value.
            where = f" of {' '.join(others)}" if others and (axis, axes[axis]) in there else ""
            difference = _difference(f"{axis}{where}", axes[axis], [new[name][axis] for name in near])
            named |= near.keys()
        changes.former[(difference,)] = changes.former.get((difference,), 0) + records
    added: Counter[Difference] = Counter()
    for condition in study.conditions if changes.kept or changes.former else ():
        seeds, number = len(condition.seeds), lacking[condition.name]
        if number and condition.name not in new:
            added["seeds", f"{seeds - number:,} played", f"{seeds:,}"] += number
        elif number and condition.name not in named:
            added["condition", "-", condition.name] += number
    changes.added = dict(added)


def _axes(axes: Any) -> dict[str, str]:
    return {str(axis): str(value) for axis, value in axes.items()} if isinstance(axes, Mapping) else {}


def _differing(one: Mapping[str, str], other: Mapping[str, str]) -> set[str]:
    """Return the axes in which two conditions differ, of those that both have."""
    return {axis for axis in one.keys() & other.keys() if one[axis] != other[axis]}


def renamed_lines(changes: Changes, study: Study) -> Iterator[str]:
    """Yield what to do where the file of a study was given another name, and its results were not."""
    if (name := changes.renamed_from) is not None:
        old = study.file.with_name(f"{name}{study.file.suffix}")
        command = f"parley rename {shlex.quote(str(old))} {shlex.quote(str(study.file))}"
        yield f"{paths.results(name)} holds its simulations; if you renamed {old}, run: {command}"


def former_lines(changes: Changes, study: str) -> Iterator[str]:
    """Yield what `parley status` says: how many records are of no use now, and why."""
    for differences, records in changes.former.items():
        named = ", ".join(f"{key} {then}, now {now}" for key, then, now in differences[:_MAX_VALUES])
        more = f", and {len(differences) - _MAX_VALUES} more" if len(differences) > _MAX_VALUES else ""
        yield f"{records:,} records of a former configuration ({named}{more})"
    if changes.seeds:
        yield f"{changes.seeds:,} records of seeds that the study no longer has"
    if changes.unreadable:
        yield f"{changes.unreadable:,} files at former paths are not records; `parley prune {study}` lists them"


def diff(study: Study) -> Iterator[str]:
    """Yield the lines of `parley diff`: which keys, conditions and seeds changed, then what that does."""
    changes = changes_of(study)
    yield from renamed_lines(changes, study)
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
    prune = f"parley prune {study.file} lists them"
    left_over = [
        ("left over", sum(changes.former.values()), f"records of a former configuration; {prune}"),
        ("left over", changes.seeds, f"records of seeds that the study no longer has; {prune}"),
        ("unreadable", changes.unreadable, f"files that are no records; {prune}"),
    ]
    lines = [
        ("kept", changes.kept, "have their record"),
        ("moved", len(changes.moves.simulations), "lie at a former path; a run moves them"),
        ("played again", changes.again, "have records of a former configuration alone"),
        ("new", changes.new, "have no record"),
        *left_over,
    ]
    if not (rows or any(number for _, number, _ in left_over) or changes.moves.files or changes.moves.notes):
        yield f"{study.name}: nothing changed since its records were made"
    yield from table(("what", "simulations", ""), [line for line in lines if line[1] or line[0] in ("kept", "new")])
    yield from changes.moves.notes


# What is compared


def _nearest(then: Mapping[str, str], conditions: Sequence[Condition]) -> tuple[Condition, tuple[Difference, ...]]:
    """Return the condition that differs least from a former one, and what differs.

    Of a key that has several values in these conditions, all are named.
    """
    candidates = [(condition, facts(describe_condition(condition))) for condition in conditions]
    condition, now = min(candidates, key=lambda candidate: len(then.items() ^ candidate[1].items()))
    differences = []
    for key in sorted({*then, *now}):
        if then.get(key) != now.get(key):
            values = [other[key] for _, other in candidates if key in other] if key in now else [None]
            differences.append(_difference(key, then.get(key), values))
    return condition, tuple(differences) or (("something", "another", "not recorded"),)


def _difference(key: str, then: str | None, now: Iterable[str | None]) -> Difference:
    values = list(dict.fromkeys(now))
    more = ", ..." if len(values) > _MAX_VALUES else ""
    return one_line(key, 60), _short(then), ", ".join(map(_short, values[:_MAX_VALUES])) + more


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
