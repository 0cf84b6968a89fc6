"""Where problems come from: how a study says what is deliberated, whatever the game.

Simulation seed s deliberates problem number s of the order that the source's own `order` draws, so that conditions
share problems by seed, and added seeds move nothing.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, model_serializer

from parley import paths
from parley.errors import UsageError
from parley.games.problems import data_sets
from parley.games.problems.problem import Kind, Problem, is_letter, letters
from parley.identity import stream
from parley.text import one_line
from parley.text.yamlfile import ByModel, StrictModel

if TYPE_CHECKING:
    import numpy as np


class _Source(StrictModel):
    """What every source has; the other fields of a kind are its parameters.

    As it stands, a source of problems that a seed makes: problem number s depends on `order`, s and the parameters.
    """

    kind: str
    order: int = Field(default=0, ge=0, le=999_999_999, description="Seed of the order of the problems.")
    first: int | None = Field(
        default=None, ge=1, le=1_000_000, description="Use the first problems of the order only; default: all."
    )

    _answers: ClassVar[Kind]

    @property
    def problem_kind(self) -> Kind:
        """What an answer is."""
        return self._answers

    @property
    def label(self) -> str:
        """A readable name for paths and tables: the kind and what is not as usual."""
        return self._name + self._changed(("order", "first"))

    def __str__(self) -> str:
        return self.label

    @property
    def _name(self) -> str:
        shared = {"kind", "version", *_Files.model_fields}
        return self.kind + self._changed(name for name in type(self).model_fields if name not in shared)

    def _changed(self, names: Iterable[str]) -> str:
        fields = type(self).model_fields
        changed = [(name, value) for name in names if (value := getattr(self, name)) != fields[name].default]
        return "".join("-unshuffled" if value is False else f"-{name}-{value}" for name, value in changed)

    @property
    def size(self) -> int | None:
        """The number of different problems; None where there is no end of them. Raises UsageError like `check`."""
        return self.first

    @property
    def has_facts(self) -> bool:
        """Whether any of the problems has facts that agents may hold."""
        return False

    def check(self) -> None:
        """Raise UsageError, in one line with the remedy, if the problems cannot be had."""

    def problem(self, seed: int) -> Problem:
        """Return the problem of simulation seed `seed` (from 0): a finite set begins again. Raises UsageError."""
        number = seed % self.first if self.first else seed
        return self._made(f"{self._name}-{self.order}-{number}", stream("problem", self.kind, self.order, number))

    def another(self, seed: int) -> Problem:
        """Return a problem, drawn by the seed, that asks something else than its own; raises UsageError."""
        most, own = self.size or 10**9, self.problem(seed)
        start = int(stream("another problem", self.kind, self.order, seed).integers(most))
        for place in range(min(most, 1_000)):
            problem = self.problem((start + place) % most)
            if problem.question != own.question:
                return problem
        raise UsageError(f"problems: {self}: has no two different problems, as are needed; use others")

    def _made(self, problem_id: str, rng: "np.random.Generator") -> Problem:
        """Return the problem with this id, drawn with `rng`."""
        raise NotImplementedError


class Arithmetic(_Source):
    """Calculations such as `17 * 4 - 23`, generated; the default, and a control that no model saw in training."""

    kind: Literal["arithmetic"] = "arithmetic"
    version: Literal[1] = Field(default=1, description="Of the generator; other problems have another version.")
    steps: int = Field(default=3, ge=2, le=6, description="Operations in a calculation.")
    digits: int = Field(default=2, ge=1, le=4, description="Most digits of a number in it.")

    _answers: ClassVar[Kind] = "number"

    def _made(self, problem_id: str, rng: "np.random.Generator") -> Problem:
        """Return a calculation of `steps` operations on numbers of up to `digits` digits.

        Multiplication and division come first, as usual; every intermediate value is an integer, and nothing is
        divided by 1 or by itself.
        """
        largest = 10**self.digits - 1

        def drawn() -> int:
            return int(rng.integers(2, largest + 1))

        total, sign = 0, 1
        term = drawn()
        text = str(term)
        for _ in range(self.steps):
            operation = "+-*/"[int(rng.integers(4))]
            divisors = [d for d in range(2, min(largest, term - 1) + 1) if term % d == 0] if operation == "/" else []
            if divisors:
                operand = divisors[int(rng.integers(len(divisors)))]
                term //= operand
            else:
                operand = drawn()
                if operation == "*" and term * operand <= largest**2:
                    term *= operand
                else:  # also what cannot be divided, and products that would grow without bound
                    operation = operation if operation in "+-" else "+"
                    total += sign * term
                    term, sign = operand, -1 if operation == "-" else 1
            text += f" {operation} {operand}"
        return Problem(problem_id, "number", f"What is {text}?", str(total + sign * term))


class _Stored(_Source):
    """Problems that are stored. Identity is what they are, by their SHA-256, not where."""

    sha256: str | None = Field(
        default=None, pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the problems, which is then checked."
    )

    @property
    def size(self) -> int:
        """The number of different problems."""
        return self.first or len(self._stored())

    def check(self) -> None:
        """Raise UsageError, in one line, if the problems are not those named, or too few."""
        self._stored()

    def problem(self, seed: int) -> Problem:
        """Return problem number `seed` of the order; after the last one the first comes again."""
        problems = self._stored()
        order = _order(self.order, len(problems))
        return problems[order[seed % (self.first or len(problems))]]

    @model_serializer(mode="plain")
    def _identity(self) -> dict[str, Any]:
        """Return what can change a result: no path, but what is there, loaded unless the study names it."""
        kept = {name: getattr(self, name) for name in type(self).model_fields if name not in ("path", "sha256")}
        return {**kept, "sha256": self.sha256 or self._loaded().sha256}

    def _loaded(self) -> data_sets.ProblemSet:
        """Return the problems of the files, loaded once; raises UsageError."""
        raise NotImplementedError

    def _stored(self) -> Sequence[Problem]:
        loaded, where = self._loaded(), getattr(self, "path", None) or self.kind
        if self.sha256 not in (None, loaded.sha256):
            raise UsageError(
                f"{where}: not the problems that the study names (their SHA-256 is {loaded.sha256}); get those, or "
                "change sha256"
            )
        if len(loaded.problems) < (self.first or 1):
            remedy = f"lower first ({self.first:,})" if loaded.problems else "add some, or take others of the file"
            raise UsageError(f"{where}: {len(loaded.problems):,} problems; {remedy}")
        return loaded.problems


class _Files(_Stored):
    """Problems of files."""

    path: str | None = Field(
        default=None,
        min_length=1,
        description="File or folder; relative paths start at the folder of results/. Not identity.",
    )

    def check(self) -> None:
        """Raise UsageError, in one line, if the files are missing, not what they should be, or not those named.

        Where a study names the problems by their SHA-256, files that are not here are missed only when it is played:
        its records hold their problems.
        """
        if self.sha256 is None or (self.path is not None and os.path.exists(self._at())):
            super().check()

    def _at(self) -> Path:
        """Return where the files are; raises UsageError if there are none, as in a source read from a record."""
        if self.path is None:
            raise UsageError(f"{self.kind}: its path is missing; add path (a record does not hold it)")
        return paths.root() / os.path.expanduser(self.path)

    def _file(self) -> Path:
        if not os.path.exists(path := self._at()):
            raise UsageError(
                f"{one_line(str(self.path), 300)}: no such file or folder; relative paths start at the folder of "
                "results/"
            )
        return path


class Gsm8k(_Files):
    """GSM8K: grade school math problems with a number as answer."""

    kind: Literal["gsm8k"] = "gsm8k"
    split: Literal["train", "test"] = Field(default="test", description="Part of the data set.")

    _answers: ClassVar[Kind] = "number"

    @property
    def _name(self) -> str:
        return f"{self.kind}-{self.split}"

    def _loaded(self) -> data_sets.ProblemSet:
        file = self._file()
        return _load(data_sets.load_gsm8k, file / f"{self.split}.jsonl" if file.is_dir() else file, self.split)


class Delidata(_Files):
    """DeliData: the Wason card problems that 500 groups of people deliberated."""

    kind: Literal["delidata"] = "delidata"

    _answers: ClassVar[Kind] = "cards"

    def _loaded(self) -> data_sets.ProblemSet:
        return _load(data_sets.load_delidata, self._file())


class _Choices(_Stored):
    """Problems of which some may be choices."""

    shuffle: bool = Field(default=True, description="Whether the choices stand in another order for each seed.")

    @property
    def has_facts(self) -> bool:
        """Whether any of the problems has facts that agents may hold."""
        return any(problem.facts for problem in self._stored())

    def problem(self, seed: int) -> Problem:
        """Return problem number `seed` of the order, its choices shuffled by the seed unless they could be letters."""
        problem = super().problem(seed)
        fixed = any(is_letter(option, problem.options) for option in problem.options)  # `B` as A would be two answers
        if problem.kind != "choice" or not self.shuffle or fixed:
            return problem
        at = [int(place) for place in stream("choices", self.order, seed).permutation(len(problem.options))]
        right = at.index(letters(problem.options).index(str(problem.answer)))
        options = tuple(problem.options[place] for place in at)
        return replace(problem, answer=letters(options)[right], options=options)


class JsonLines(_Choices, _Files):
    """Problems of one's own, a JSON object in each line: question, answer, perhaps choices or policies, and facts."""

    kind: Literal["jsonl"] = "jsonl"
    answers: data_sets.Answers = Field(
        default="number", description="What an answer is; `choices` are what to choose from, or the policies."
    )

    @property
    def problem_kind(self) -> Kind:
        """What an answer is."""
        return self.answers

    @property
    def _name(self) -> str:
        return f"{self.kind}-{(self.sha256 or self._loaded().sha256)[:6]}" + self._changed(["shuffle"])

    def _loaded(self) -> data_sets.ProblemSet:
        return _load(data_sets.load_json_lines, self._file(), self.answers)


class HiddenProfiles(_Choices):
    """Twenty choices of ours: no agent can tell the right one by the facts that it holds, all of them together can.

    After Stasser and Titus (1985): what all know speaks for a wrong choice, and each of the four facts rules out one.
    """

    kind: Literal["hidden_profiles"] = "hidden_profiles"

    _answers: ClassVar[Kind] = "choice"

    def _loaded(self) -> data_sets.ProblemSet:
        return _load(data_sets.load_json_lines, data_sets.OUR_PROFILES, "choice")


class HiddenBench(_Choices, _Files):
    """HiddenBench: hidden profiles in which each agent gets the shared facts and one hidden fact."""

    kind: Literal["hidden_bench"] = "hidden_bench"
    agents: int | None = Field(
        default=None, ge=2, le=100, description="Only the tasks for so many agents: those with so many hidden facts."
    )

    _answers: ClassVar[Kind] = "choice"

    def _loaded(self) -> data_sets.ProblemSet:
        return _load(data_sets.load_hidden_bench, self._file(), self.agents)


class Policies(_Stored):
    """Ten problems of ours: which of some policies should come first? None is right."""

    kind: Literal["policies"] = "policies"

    _answers: ClassVar[Kind] = "policies"

    def _loaded(self) -> data_sets.ProblemSet:
        return _load(data_sets.load_json_lines, data_sets.OUR_POLICIES, "policies")


def _load(load: Callable[..., data_sets.ProblemSet], path: Path, *more: Any) -> data_sets.ProblemSet:
    """Return what a loader finds, loaded once in a process, and again if the file's size or time changed."""
    state = path.stat() if path.exists() else None
    return _kept(state and (state.st_size, state.st_mtime_ns), load, path, *more)


@lru_cache(maxsize=16)
def _kept(_: object, load: Callable[..., data_sets.ProblemSet], *where: Any) -> data_sets.ProblemSet:
    return load(*where)


@lru_cache(maxsize=64)
def _order(seed: int, size: int) -> tuple[int, ...]:
    """Return the places of `size` problems in the order that `seed` draws."""
    return tuple(int(place) for place in stream("problem order", seed).permutation(size))


_Kind = Arithmetic | Gsm8k | Delidata | JsonLines | HiddenProfiles | HiddenBench | Policies
# Alone stand those that need no path.
ProblemSource = Annotated[_Kind, ByModel("problems", alone=Literal["arithmetic", "hidden_profiles", "policies"])]
