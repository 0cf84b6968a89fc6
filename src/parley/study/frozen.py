"""The preregistration of a study: what was to be asked and played, frozen before it ran, beside the study file.

The file is Markdown that a person completes. Its fenced block is Parley's: the questions, the conditions with all that
can change their results, the seeds and the rules, to which a study is compared; the time, and how many games were
there by then, which `parley.analysis.registration` compares with the games; earlier freezes; and a hash over all.
"""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel

from parley import __version__, paths
from parley.errors import RecordError, UsageError
from parley.files import read_regular, write_atomically
from parley.identity import digest
from parley.study.comparisons import question_text
from parley.study.condition import Simulation
from parley.study.load import plan_of, run_plan
from parley.study.prompt_sent import word_diff
from parley.study.study import Study
from parley.text import counted, one_line

CHANGED = "CHANGED"
_MAX_BYTES = 50_000_000
_FORM = Path(__file__).with_name("preregistration.md.j2").read_text(encoding="utf-8")
_BLANKS = re.findall(r"(?<!\*)\*[^*\n]+\*(?!\*)", _FORM)  # which a person fills in
_BLOCK = re.compile(r"^```json parley-frozen\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_RULES = {
    "stopping": "Every condition gets the seeds listed here. No p decides whether more are played.",
    "exclusion": "A simulation counts whatever its outcome. Left out is a record that is damaged and cannot be read: "
    "the tables count it and the report names it. A reply that cannot be used is asked for again as often as the "
    "parameters say, and then counts by the rules of the game.",
    "analysis": "All questions are one family: p corrected by Holm's method, below 0.05 is an answer. All else in the "
    "report is exploratory.",
}


def _is_time(time: str) -> str:
    datetime.fromisoformat(time)
    return time


class Frozen(BaseModel):
    """The block of a preregistration: what was frozen, its hash, and when."""

    format: Literal[2] = 2
    parley: str = __version__
    hash: str = ""
    time: Annotated[str, AfterValidator(_is_time)]  # UTC, as in records, by the clock of the machine
    played: dict[str, int] = {}  # by condition: games that were played or begun by then
    earlier: list[dict[str, Any]] = []  # of each that this one replaced: time, hash, games, and whether it was edited
    content: dict[str, Any]  # of any shape, if it was edited

    @property
    def true_hash(self) -> str:
        """The hash over all of the block but `hash` itself."""
        return digest(self.model_dump(exclude={"hash"}))

    @property
    def is_edited(self) -> bool:
        """Whether the block is not the one that the hash is of."""
        return self.true_hash != self.hash


def content_of(study: Study) -> dict[str, Any]:
    """Return what is frozen of a study, as plain JSON values; not its name, nor the order of its conditions."""
    return {
        "game": study.game.name,
        "questions": study.questions_json,
        "conditions": {
            each.name: [each.identity, len(each.seeds) if isinstance(each.seeds, range) else list(each.seeds)]
            for each in study.conditions
        },
        "rules": _RULES,
    }


def _seeds_text(seeds: Any) -> str:
    return counted(seeds if isinstance(seeds, int) else len(seeds), "seed")


def write_frozen(study: Study, force: bool = False) -> Path:
    """Write the preregistration of a study beside its file and return the path.

    Raises UsageError if there is one already, unless `force` says to write it anew. One that was frozen as the study
    is keeps its time: what was declared then stays declared.
    """
    path = paths.frozen(study.file)
    if not paths.IN_CLONE and path.is_relative_to(paths.CHECKOUT):
        raise UsageError(f"{study.file}: is the installed package's; copy it into {paths.CONFIG}/, and freeze that")
    if path.exists() and not force:
        raise UsageError(f"{path}: is there already; --force writes it anew, and what you wrote in it is lost")
    if not study.content.questions:
        raise UsageError(f"{study.file}: questions: none; declare what the study is to answer before you freeze it")
    now = datetime.now(UTC).isoformat(timespec="seconds")
    frozen = Frozen(time=now, played=_begun(study), content=content_of(study))
    try:
        old = read_frozen(study)
        if digest(old.content) == digest(frozen.content) and not old.is_edited:
            frozen = old
        else:
            told = {"time": old.time, "hash": old.hash, "played": sum(old.played.values()), "edited": old.is_edited}
            frozen.earlier = [*old.earlier, told]
    except FileNotFoundError:
        pass
    except RecordError:
        frozen.earlier = [{"time": None, "edited": True}]  # nobody can say what it was
    frozen.hash = frozen.true_hash
    write_atomically(path, lambda file: file.write(_text(study, frozen).encode()))
    return path


def _begun(study: Study) -> dict[str, int]:
    """Return how many games of each condition are played or begun, where any is."""
    records = {c.name: [Simulation(c, seed).record(study.name) for seed in c.seeds] for c in study.conditions}
    begun = {name: sum(r.exists() or paths.journal(r).exists() for r in own) for name, own in records.items()}
    return {name: number for name, number in begun.items() if number}


def frozen_state(study: Study) -> str:
    """Return in one line whether a study is as it was frozen; what cannot be read is said, too."""
    path = paths.frozen(study.file)
    try:
        frozen, now = read_frozen(study), content_of(study)
    except FileNotFoundError:
        return f"none; parley plan {paths.study_argument(study.file)} --freeze writes one"
    except RecordError as error:
        return one_line(str(error))
    now["rules"] = frozen.content.get("rules")  # told to people; seeds say what is played
    lacks = frozen_lacks(study)
    name = f"{path.name}, {frozen.hash[:8]}, {frozen.time}{lacks and f', {lacks}'}"
    if frozen.is_edited:
        return f"{name}: the frozen block was edited: its hash is {frozen.true_hash[:8]}"
    if digest(now) == digest(frozen.content):
        return f"{name}: the study is as it was frozen"
    changes = "; ".join(_changes(frozen.content, now)) or "questions in another order"
    return one_line(f"{name}: {CHANGED} since it was frozen: {changes}")


def frozen_lacks(study: Study) -> str:
    """Return in words what a preregistration lacks that others can read and check; "" for nothing, or without one."""
    path = paths.frozen(study.file)
    try:
        page = read_regular(path, _MAX_BYTES)
    except OSError:
        return ""
    blanks = [one_line(blank, 60) for blank in _BLANKS if blank.encode() in page]
    left = [f"left as a form ({', '.join(blanks)})"] * bool(blanks) + ["not committed"] * (not _committed(path, page))
    return " and ".join(left)


def _committed(path: Path, page: bytes) -> bool:
    """Return whether git has a file as it is; True without git, where nobody can tell."""
    command = ["git", "-C", str(path.parent), "show", f"HEAD:./{path.name}"]
    try:
        return subprocess.run(command, capture_output=True, timeout=20).stdout == page
    except (OSError, subprocess.SubprocessError):
        return True


def frozen_when(study: Study) -> str:
    """Return in a line whether a study was frozen before its games; raises as `read_frozen`."""
    before = sum(read_frozen(study).played.values())
    number = counted(sum(len(condition.seeds) for condition in study.conditions), "game")
    if before:
        return f"frozen after {before} of {number}: the questions that these answer are exploratory"
    return f"frozen before the first of {number}: commit it, and what you play from now on is confirmatory"


def read_frozen(study: Study) -> Frozen:
    """Return what was frozen; raises FileNotFoundError, or RecordError if it is no block that Parley wrote."""
    path = paths.frozen(study.file)
    wrong = f"{path.name}: its frozen block cannot be read; restore it, or write it anew with --freeze --force"
    try:
        block = _BLOCK.search(read_regular(path, _MAX_BYTES).decode("utf-8"))
        return Frozen.model_validate_json(block[1] if block else "")
    except FileNotFoundError:
        raise
    except (OSError, ValueError, TypeError, LookupError):
        raise RecordError(wrong) from None


def _changes(frozen: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Yield what differs, in a few words each."""
    if frozen["game"] != now["game"]:
        yield f"game {frozen['game']} -> {now['game']}"
    questions = ({str(question.get("name")): question for question in part["questions"]} for part in (frozen, now))
    for what, (old, new) in {"question": questions, "condition": (frozen["conditions"], now["conditions"])}.items():
        kinds = {
            "added": [name for name in new if name not in old],
            "removed": [name for name in old if name not in new],
            "changed": [name for name in new if name in old and new[name] != old[name]],
        }
        for kind, names in kinds.items():
            if names:
                yield f"{counted(len(names), what)} {kind}" + f": {', '.join(names)}" * (what == "question")


def _questions(study: Study) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the name of each question, its text, and the lines in which prompts differ that it compares."""
    for question in study.content.questions:
        mine = [each for each in study.comparisons if each.question == question]
        prompts = dict.fromkeys(pair for each in mine for pair in each.prompts)
        lines = [line.plain for pair in prompts for line in word_diff(study, *pair)]
        smallest = f"{question.smallest:g}{' rounds' * question.of_time}"
        text = f"{question_text(question, mine)} Smallest difference that matters: {smallest}."
        yield question.name, text, lines


def _chosen(study: Study) -> dict[str, str]:
    """Return the parameters that some condition has not by default, with their values."""
    chosen: dict[str, dict[str, None]] = {}
    for condition in study.conditions:
        for name, value in condition.parameters.model_dump(mode="json", exclude_defaults=True).items():
            chosen.setdefault(name, {})[json.dumps(value)] = None
    return {name: " or ".join(values) for name, values in chosen.items()}


def _text(study: Study, frozen: Frozen) -> str:
    """Return the preregistration: a form for a person, and the frozen block."""
    from jinja2 import Template  # slow to import

    simulations = counted(sum(len(condition.seeds) for condition in study.conditions), "simulation")
    text: str = Template(_FORM, trim_blocks=True, keep_trailing_newline=True).render(
        title=one_line(study.title),
        command=f"parley plan {paths.study_argument(study.file)} --freeze",
        questions=list(_questions(study)),
        parameters=sorted(_chosen(study).items()),
        size=f"{counted(len(study.conditions), 'condition')}, {simulations}",
        conditions={path: _seeds_text(seeds) for path, (_, seeds) in frozen.content["conditions"].items()},
        rules=_RULES,
        block=frozen.model_dump_json(indent=1),
    )
    return text


def report_plan(study: Study) -> str:
    """Return the hash over what a report is made of: the simulations and what was frozen; the study's plan without."""
    frozen = paths.frozen(study.file).exists()
    return digest([study.plan, frozen_state(study)])[:8] if frozen else study.plan


def planned_report(study: Study) -> str:
    """Return the plan of the report of the run that this process is part of; outside of a run that of now."""
    run = run_plan()
    return run.report if run is not None and run.study == plan_of(study) else report_plan(study)
