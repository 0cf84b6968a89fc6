"""What changed in a study since its records were made: `parley diff`, and what `parley status` says of it.

A former configuration is compared with the condition of the study as it is now that is nearest to it.
"""

import shlex
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from parley import paths
from parley.identity import canonical_json
from parley.play.former import Configuration, Place, Survey
from parley.play.record_content import describe_condition
from parley.play.relocate import Moves, find_moves
from parley.study import Study
from parley.study.condition import Condition
from parley.text import one_line, table

_ABSENT = "-"
_HASH = 64  # hexadecimal digits
_MAX_VALUES = 4  # of one key, in a line
_MAX_COMPARED = 2_000  # conditions that a former one is compared with
_MAX_DEEP = 3  # mappings in mappings
_MAX_READ = 100  # records of one folder, besides those that were looked at to be moved
_ALIKE_FIRST = ("n", "b", "prompt")  # what a person would call the same condition

_FACTS = {
    "game": "game",
    "protocol_version": "version of the game",
    "game_code_sha256": "code of the game",
    "prompt": "prompt",
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
    seeds: int = 0  # records of seeds that the study no longer has
    unreadable: int = 0  # files that are called records and are none
    former_name: str | None = None  # of results that may be this study's

    @property
    def left_over(self) -> int:
        """Records that the study as it is now has no use for."""
        return sum(self.former.values()) + self.seeds


def changes_of(study: Study) -> Changes:
    """Return what changed. Of a folder of many former records only some are read; the others are taken to be alike."""
    survey = Survey(study)
    found = Changes(moves=find_moves(study, survey), former_name=survey.former_name())
    moved = {(s.condition.name, s.seed) for s in found.moves.simulations}
    missing = {(s.condition.name, s.seed) for s in survey.missing()} - moved
    total = sum(len(condition.seeds) for condition in study.conditions)
    found.kept = total - len(missing) - len(moved)
    again: set[tuple[str, int]] = set()
    nearest = _Nearest(study)
    counts: Counter[tuple[Difference, ...]] = Counter()
    for folder, condition in survey.planned.items():
        if (place := survey.places.get(folder)) is not None:
            found.seeds += len(set(place.seeds).difference(condition.seeds))
    for place in survey.former:
        for configuration, seeds in _by_configuration(survey, place):
            if configuration is None:
                found.unreadable += len(seeds)
            elif configuration.conditions:
                found.seeds += len(seeds.difference(*(condition.seeds for condition in configuration.conditions)))
            else:
                now, differences = nearest.to(configuration.described)
                counts[differences] += len(seeds)
                again |= {(now.name, seed) for seed in seeds} & missing
    found.former = dict(counts.most_common())
    found.again, found.new = len(again), len(missing) - len(again)
    return found


def _by_configuration(survey: Survey, place: Place) -> list[tuple[Configuration | None, set[int]]]:
    """Return the seeds of a former place by what their records say they are; None for those that cannot be read."""
    seeds: defaultdict[int, set[int]] = defaultdict(set)
    known: dict[int, Configuration | None] = {}
    unread: set[int] = set()
    left = _MAX_READ
    for seed in place.seeds:
        path = place.records.get(seed) or place.kept[seed]
        if not survey.was_read(path):
            if left == 0:
                unread.add(seed)
                continue
            left -= 1
        described = survey.read(path)
        configuration = None if described is None else described.configuration
        known[id(configuration)] = configuration
        seeds[id(configuration)].add(seed)
    if unread:
        seeds[max(seeds, key=lambda key: len(seeds[key]))] |= unread
    return [(known[key], found) for key, found in seeds.items()]


def renamed_lines(changes: Changes, study: Study) -> Iterator[str]:
    """Yield what to do where the file of a study was given another name, and its results were not."""
    if (name := changes.former_name) is not None:
        old = study.file.with_name(f"{name}{study.file.suffix}")
        command = f"parley rename {shlex.quote(str(old))} {shlex.quote(str(study.file))}"
        yield f"{paths.results(name)} holds its simulations; if you renamed {old}, run: {command}"


def former_lines(changes: Changes, study: str) -> Iterator[str]:
    """Yield what `parley status` says: how many records are of no use now, and why."""
    for differences, records in changes.former.items():
        told = ", ".join(f"{key} {then}, now {now}" for key, then, now in differences[:_MAX_VALUES])
        more = f", and {len(differences) - _MAX_VALUES} more" if len(differences) > _MAX_VALUES else ""
        yield f"{records:,} records of a former configuration ({told}{more})"
    if changes.seeds:
        yield f"{changes.seeds:,} records of seeds that the study no longer has"
    if changes.unreadable:
        yield f"{changes.unreadable:,} files at former paths are not records; `parley prune {study}` lists them"


def diff(study: Study) -> Iterator[str]:
    """Yield the lines of `parley diff`: which keys changed, then what that does."""
    changes = changes_of(study)
    yield from renamed_lines(changes, study)
    rows = [(*difference, records) for differences, records in changes.former.items() for difference in differences]
    if rows:
        yield from table(("key", "then", "now", "records"), rows)
        yield ""
    prune = f"parley prune {study.file} lists them"
    lines = [
        ("kept", changes.kept, "have their record"),
        ("moved", len(changes.moves.simulations), "lie at a former path; a run moves them"),
        ("played again", changes.again, "have records of a former configuration alone"),
        ("new", changes.new, "have no record"),
        ("left over", sum(changes.former.values()), f"records of a former configuration; {prune}"),
        ("left over", changes.seeds, f"records of seeds that the study no longer has; {prune}"),
        ("unreadable", changes.unreadable, f"files that are no records; {prune}"),
    ]
    if not (changes.left_over or changes.unreadable or changes.moves.files or changes.moves.notes):
        yield f"{study.name}: nothing changed since its records were made"
    yield from table(("what", "simulations", ""), [line for line in lines if line[1] or line[0] in ("kept", "new")])
    yield from changes.moves.notes


# What is compared


class _Nearest:
    """Finds the condition of a study that differs least from a former one."""

    def __init__(self, study: Study) -> None:
        self._study = study

    @cached_property
    def _facts(self) -> list[tuple[Condition, dict[str, str]]]:
        return [(c, facts(describe_condition(c))) for c in self._study.conditions[:_MAX_COMPARED]]

    @cached_property
    def _alike(self) -> dict[tuple[str, ...], list[tuple[Condition, dict[str, str]]]]:
        found: dict[tuple[str, ...], list[tuple[Condition, dict[str, str]]]] = {}
        for condition, known in self._facts:
            found.setdefault(_alike(known), []).append((condition, known))
        return found

    @cached_property
    def _values(self) -> dict[str, list[str]]:
        """All values of each key in the study as it is now."""
        found: dict[str, dict[str, None]] = {}
        for _, known in self._facts:
            for key, value in known.items():
                found.setdefault(key, {})[value] = None
        return {key: list(values) for key, values in found.items()}

    def to(self, described: Mapping[str, Any]) -> tuple[Condition, tuple[Difference, ...]]:
        """Return the nearest condition, and what differs."""
        then = facts(described)
        items = set(then.items())
        candidates = self._alike.get(_alike(then)) or self._facts
        condition, now = min(candidates, key=lambda candidate: len(items ^ set(candidate[1].items())))
        keys = sorted(key for key in {*then, *now} if then.get(key) != now.get(key))
        found = [(one_line(key, 60), _told(then.get(key)), self._now(key, now.get(key))) for key in keys]
        return condition, tuple(found) or (("something", "another", "not recorded"),)

    def _now(self, key: str, value: str | None) -> str:
        values = self._values.get(key, [])
        if value is None or len(values) < 2:
            return _told(value)
        return ", ".join(map(_told, values[:_MAX_VALUES])) + (", ..." if len(values) > _MAX_VALUES else "")


def _alike(known: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(known.get(key, "") for key in _ALIKE_FIRST)


def _told(value: str | None) -> str:
    if value is None:
        return _ABSENT
    return one_line(value, 12 if len(value) == _HASH and not value.strip("0123456789abcdef") else 60) or '""'


def facts(described: Mapping[str, Any]) -> dict[str, str]:
    """Return what a record says of its condition, by key, as text: what can change a result, and nothing else.

    What is no such description gives some of it, or nothing.
    """
    found: dict[str, str] = {}
    for key, name in _FACTS.items():
        _add(found, name, described.get(key))
    _add(found, "", described.get("parameters"))
    for name, value in _mapping(described.get("prompt_digests")).items():
        _add(found, f"prompt {name}", value)
    axes = _mapping(described.get("axes"))
    for axis in ("n", "b"):
        _add(found, axis, axes.get(axis))
    listed = described.get("groups")
    groups = [group for group in listed if isinstance(group, dict)] if isinstance(listed, list) else []
    roles = Counter(str(group.get("role")) for group in groups)
    seen: Counter[str] = Counter()
    for group in groups:
        role = str(group.get("role"))
        seen[role] += 1
        name = role if roles[role] == 1 else f"{role} {seen[role]}"
        left_out = (
            "role",
            "player",
            "model_name",
            *(["count"] if roles[role] == 1 else []),
        )  # n and b tell that count
        for key, value in group.items():
            if key not in left_out:
                _add(found, f"{name} {key}", value)
    return found


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _add(found: dict[str, str], name: str, value: Any, depth: int = 0) -> None:
    """Add a value under its name; a mapping's values each under their own."""
    if isinstance(value, dict) and depth < _MAX_DEEP:
        for key, inner in value.items():
            _add(found, f"{name} {key}".strip(), inner, depth + 1)
    elif isinstance(value, str):
        found[name] = value
    elif value is not None:
        try:
            found[name] = canonical_json(value)
        except (ValueError, RecursionError):
            found[name] = _ABSENT
