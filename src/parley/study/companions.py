"""The studies that a study names beside it: its noise floor and its positive control."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from parley import paths
from parley.errors import ParleyError, UsageError
from parley.study.study import Study, load_study
from parley.text import counted, one_line

_LABELS = {"noise": "noise floor", "control": "positive control"}


@dataclass(frozen=True)
class Companion:
    """A study that another one names: as its noise floor (`noise`) or its positive control (`control`)."""

    kind: str
    study: Study

    @property
    def label(self) -> str:
        """What it is to the study that names it."""
        return _LABELS[self.kind]

    @property
    def text(self) -> str:
        """Its name, and how much it plays."""
        conditions = self.study.first_repeat.conditions
        times = len(self.study.conditions) // len(conditions)
        again = f", each seed played {times} times" if times > 1 else ""
        simulations = sum(len(condition.most_seeds) for condition in self.study.conditions)
        played = f"{counted(len(conditions), 'condition')}, {counted(simulations, 'simulation')}"
        return f"{self.study.name} ({played}{again})"


def companions(study: Study) -> list[Companion]:
    """Return the studies that a study names; raises UsageError if one is not there or does not fit."""
    if study.companions is None:
        return []
    found = []
    for kind, name in study.companions:
        if name is not None:
            where = f"{study.file}: companions.{kind}: {name}"
            if name == study.name:
                raise UsageError(f"{where}: is this study itself; name another one")
            beside = study.file.with_name(f"{name}.yaml")
            file = beside if beside.exists() else paths.study_file(name)
            try:
                other = load_study(file, study.models_file, needs_weights=False)
            except ParleyError as error:
                raise UsageError(f"{where}: {error}") from None
            if problem := next(_misfits(study, kind, other), None):
                raise UsageError(f"{where}: {problem}")
            found.append(Companion(kind, other))
    return found


def companion_lines(study: Study) -> list[str]:
    """Return a line for each companion of a study; one that says what is wrong where they cannot be had."""
    try:
        return [f"{each.label}: {each.text}" for each in companions(study)]
    except UsageError as error:
        return [one_line(str(error).removeprefix(f"{study.file}: "))]


def _misfits(study: Study, kind: str, other: Study) -> Iterator[str]:
    """Yield what is wrong with a companion, and what to do."""
    if other.game.name != study.game.name:
        yield f"plays {other.game.name}, and this study {study.game.name}; name a study of the same game"
    if kind == "control":
        questions = {question.name for question in study.questions}
        if questions and questions.isdisjoint(question.name for question in other.questions):
            yield f"answers no question of this study; give it one of the same name ({sorted(questions)[0]})"
        if asked := sorted({model for condition in other.conditions for model in condition.models}):
            yield f"asks a model ({asked[0]}); a control is scripted, since its answers have to be known"
        return
    if other.conditions[0].repeat is None:
        yield f"plays no seed again; add to {other.file} repeats: 2"
    own = {condition.place for condition in study.first_repeat.conditions}
    if own.isdisjoint(
        replace(each, repeat=study.conditions[0].repeat).place for each in other.first_repeat.conditions
    ):
        yield "plays no condition of this study; give it one of the same players, prompt and parameters"
