"""A study: one YAML file that names a game, its grids of conditions, its fixed parameters and its seeds.

The study expands into simulations: frozen, each with an identity that follows from everything that can change its
result and from nothing else (neither the study's name nor its place in it).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import prod
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag

from parley import paths
from parley.budget import Budget, check_prices
from parley.engine.models import ModelEntry, load_models
from parley.engine.weights import check_source
from parley.errors import UsageError
from parley.games import game_class
from parley.games.base import Game, GameParameters, new_game
from parley.identity import digest
from parley.text import one_line
from parley.yamlfile import Slug, is_slug, load_yaml, shown, tag, validated

BASE_AXES = ("model", "n", "b", "prompt")  # in the order of the path
_SEED_FILE = re.compile(r"seed=(0|[1-9][0-9]{0,8})\.parquet")
MOST_CONDITIONS = 10_000
MOST_SIMULATIONS = 100_000
SAME = "same"  # Byzantine agents are played by what plays the honest ones


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


def _listed(item: Any) -> Any:
    """Return the type of a list that is not empty, or one item that stands for a list of one."""
    listed = Annotated[list[item], Field(min_length=1)]
    return Annotated[listed, BeforeValidator(_as_list, json_schema_input_type=listed | item)]


_Count = Annotated[int, Field(strict=True, ge=0, le=10_000)]
_Positive = Annotated[int, Field(strict=True, ge=1, le=10_000)]


def _each_once(numbers: list[int]) -> list[int]:
    seen: set[int] = set()
    for number in numbers:
        if number in seen:
            raise ValueError(f"seed {number} is repeated; list it once")
        seen.add(number)
    return numbers


_SeedNumber = Annotated[int, Field(strict=True, ge=0, le=999_999_999)]  # as many digits as _SEED_FILE takes
_SeedList = Annotated[
    list[_SeedNumber],
    Field(min_length=1, max_length=10_000, json_schema_extra={"uniqueItems": True}),
    AfterValidator(_each_once),
]
# How many (seeds 0, 1, ...), or which. Told apart by type, so that an error is about the one that was meant.
_Seeds = Annotated[
    Annotated[_Positive, Tag(tag("count"))] | Annotated[_SeedList, Tag(tag("list"))],
    Discriminator(lambda value: tag("list") if isinstance(value, list) else tag("count")),
]


class Grid(BaseModel):
    """A block of conditions: every combination of the listed values."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: _listed(Slug) = Field(  # type: ignore[valid-type]
        description="What plays the honest agents: entries of models.yaml, or scripted policies of the game."
    )
    n: _listed(_Positive) | None = Field(  # type: ignore[valid-type]
        default=None, description="Number of all agents, Byzantine ones included."
    )
    honest: _listed(_Count) | None = Field(  # type: ignore[valid-type]
        default=None, description="Number of honest agents; instead of n, which is then honest + b."
    )
    b: _listed(_Count) = Field(  # type: ignore[valid-type]
        default=[0], description="Number of Byzantine agents."
    )
    prompt: _listed(Slug) = Field(description="Prompt variants of the game.")  # type: ignore[valid-type]
    byzantine: Slug = Field(
        default=SAME,
        description="What plays the Byzantine agents: an entry of models.yaml, a scripted policy, or `same`.",
    )
    vary: dict[str, _listed(Any)] = Field(  # type: ignore[valid-type]
        default_factory=dict, description="Game parameters that are axes too: a list of values for each."
    )
    seeds: _Seeds | None = Field(default=None, description="Seeds of these conditions; else the study's.")


class StudyFile(BaseModel):
    """The content of a study file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    game: str = Field(max_length=64, description="The game that is played.")
    title: str = Field(default="", max_length=200, description="One line for figures and the report.")
    seeds: _Seeds = Field(
        default=1, description="Simulations per condition, with the seeds 0 to seeds - 1; or a list of seed numbers."
    )
    shard_size: _Positive = Field(default=32, description="Simulations that share one engine; on a cluster, one job.")
    parameters: dict[str, Any] = Field(default_factory=dict, description="Fixed parameters of the game.")
    grids: list[Grid] = Field(min_length=1, description="Blocks of conditions.")
    budget: Budget | None = Field(default=None, description="What its models may spend; not part of the identity.")


@dataclass(frozen=True)
class Player:
    """What plays the agents of one role: a model entry or a scripted policy."""

    name: str
    entry: ModelEntry | None

    def identity(self) -> dict[str, Any]:
        """Return what can change its replies; a model's name in models.yaml cannot."""
        return {"scripted": self.name} if self.entry is None else {"model": self.entry.identity()}


@dataclass(frozen=True)
class Condition:
    """One cell of a study: a value for every axis."""

    game: type[Game]
    axes: Mapping[str, str | int | float]
    parameters: GameParameters
    counts: Mapping[str, int]  # role -> agents
    players: Mapping[str, Player]  # role -> what plays it, for roles with agents
    prompt: str
    seeds: Sequence[int]  # a range where the study gives their number, else the numbers that it lists

    @cached_property
    def identity(self) -> str:
        """SHA-256 of all that can change a result, but the seed."""
        return digest([*self._fixed(set()), dict(self.counts), self.prompt])

    @cached_property
    def spec(self) -> str:
        """Eight hexadecimal digits over what can change a result and is not an axis."""
        return digest(self._fixed(set(self.axes)))[:8]

    @cached_property
    def path(self) -> str:
        """The axes as folders, `axis=value/axis=value/...`."""
        return "/".join(f"{axis}={value}" for axis, value in self.axes.items())

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models that it needs, in order."""
        return tuple(sorted({player.name for player in self.players.values() if player.entry is not None}))

    def _fixed(self, axes: set[str]) -> list[Any]:
        parameters = self.parameters.model_dump(mode="json", exclude=axes)
        players = {role: player.identity() for role, player in self.players.items()}
        prompts = self.game.prompt_digests(self.prompt, list(self.players))
        return [self.game.name, self.game.protocol_version, parameters, players, prompts]


@dataclass(frozen=True)
class Simulation:
    """One condition with one seed: one game, played once."""

    condition: Condition
    seed: int

    @cached_property
    def id(self) -> str:
        """SHA-256 that names this simulation, in whatever study it is."""
        return digest([self.condition.identity, self.seed])

    def record(self, study: str) -> Path:
        """Return the path of its record."""
        return paths.simulation(study, self.condition.path, self.condition.spec, self.seed)

    def game(self) -> Game:
        """Return a fresh game, ready to be played once."""
        condition = self.condition
        return new_game(condition.game, condition.parameters, condition.counts, condition.prompt, self.seed)


@dataclass(frozen=True)
class Study:
    """A study, checked and expanded into conditions."""

    name: str
    file: Path
    models_file: Path
    title: str
    game: type[Game]
    shard_size: int
    conditions: tuple[Condition, ...]
    models: Mapping[str, ModelEntry]
    budget: Budget | None = None

    def simulations(self) -> Iterator[Simulation]:
        """Yield all simulations, seeds outermost (in the order of their lists), so that added seeds come last."""
        for place in range(max(len(condition.seeds) for condition in self.conditions)):
            for condition in self.conditions:
                if place < len(condition.seeds):
                    yield Simulation(condition, condition.seeds[place])

    def shards(self) -> dict[Path, tuple[str, int]]:
        """Return for each record its engine ("scripted" for none) and the number of its shard.

        The shards of an engine hold `shard_size` simulations each, in the order of `simulations`: added seeds
        fill new shards and move nothing.
        """
        counts: dict[str, int] = {}
        shards = {}
        for simulation in self.simulations():
            engine = simulation.condition.models[0] if simulation.condition.models else "scripted"
            position = counts.get(engine, 0)
            counts[engine] = position + 1
            shards[simulation.record(self.name)] = (engine, position // self.shard_size)
        return shards

    def notes(self) -> dict[str, str]:
        """Return what readers should know of the models that are used, by name."""
        used = sorted({name for condition in self.conditions for name in condition.models})
        return {name: self.models[name].note for name in used if self.models[name].note}

    @cached_property
    def plan(self) -> str:
        """Eight hexadecimal digits that name what tables and figures show: the title and the set of simulations."""
        return digest([self.title, *(str(simulation.record(self.name)) for simulation in self.simulations())])[:8]

    def find(self, record: Path) -> Simulation:
        """Return the simulation whose record has this path; raises UsageError if it is not in the study."""
        for condition in self.conditions:
            if record.parent == paths.simulation(self.name, condition.path, condition.spec, 0).parent:
                seed = _SEED_FILE.fullmatch(record.name)
                if seed and int(seed[1]) in condition.seeds:
                    return Simulation(condition, int(seed[1]))
        raise UsageError(
            f"{record}: not a simulation of {self.file}; `parley expand {self.file}` lists them "
            "(the path's spec changes when a parameter, prompt or model does)"
        )


def check_name(file: Path) -> None:
    """Raise UsageError if a study file's name cannot name its study."""
    if not is_slug(file.stem):
        raise UsageError(f"{file}: the file's name becomes a folder; use letters, digits, '.', '_' and '-'")


def load_study(file: Path, models_file: Path | None = None) -> Study:
    """Read and check a study; raises UsageError with one line: file, key, value, remedy."""
    where = str(file)
    content = validated(StudyFile, load_yaml(file), where)
    check_name(file)
    try:
        game = game_class(content.game)
    except UsageError as error:
        raise UsageError(f"{where}: game: {error}") from None
    models_file = models_file or paths.models_file(file)
    models = load_models(models_file)
    for name in models:
        if name in game.rules or name in (SAME, "scripted"):
            raise UsageError(f"{models_file}: models.{name}: a reserved name; rename the entry")
    conditions = _Expander(where, content, game, models, models_file).conditions()
    used = (name for condition in conditions for name in condition.models)
    check_prices(content.budget, used, models, where, models_file)
    return Study(
        name=file.stem,
        file=file,
        models_file=models_file,
        title=content.title or file.stem,
        game=game,
        shard_size=content.shard_size,
        conditions=conditions,
        models=models,
        budget=content.budget,
    )


def _numbers(seeds: int | list[int]) -> Sequence[int]:
    return range(seeds) if isinstance(seeds, int) else tuple(seeds)


class _Expander:
    """Turns the grids of a study file into conditions, with errors that name the key."""

    def __init__(
        self,
        where: str,
        content: StudyFile,
        game: type[Game],
        models: Mapping[str, ModelEntry],
        models_file: Path,
    ) -> None:
        self._where = where
        self._content = content
        self._game = game
        self._models = models
        self._models_file = models_file
        self._checked: set[str] = set()
        self._varied = sorted({name for grid in content.grids for name in grid.vary})

    def conditions(self) -> tuple[Condition, ...]:
        """Expand all grids; every condition may appear once."""
        self._parameters({}, f"{self._where}: parameters")
        for index, grid in enumerate(self._content.grids):
            self._check_varied(grid, f"{self._where}: grids[{index}].vary")
        self._check_size()
        found: dict[str, tuple[str, str]] = {}
        conditions = []
        for index, grid in enumerate(self._content.grids):
            key = f"grids[{index}]"
            for condition in self._grid(grid, f"{self._where}: {key}"):
                if condition.path in found:
                    other, spec = found[condition.path]
                    remedy = (
                        "list it once"
                        if spec == condition.spec
                        else (
                            "only axes may differ, and what plays the Byzantine agents is none: use a study of its own"
                        )
                    )
                    raise UsageError(
                        f"{self._where}: {key}: {condition.path}: duplicate condition (also in {other}); {remedy}"
                    )
                found[condition.path] = (key, condition.spec)
                conditions.append(condition)
        return tuple(conditions)

    def _check_size(self) -> None:
        """Refuse what would take minutes to expand, before it is expanded."""
        conditions = simulations = 0
        for grid in self._content.grids:
            lists = [grid.model, grid.n or grid.honest or [], grid.b, grid.prompt, *grid.vary.values()]
            count = prod(len(values) for values in lists)
            conditions += count
            simulations += count * len(_numbers(grid.seeds or self._content.seeds))
        if conditions > MOST_CONDITIONS or simulations > MOST_SIMULATIONS:
            raise UsageError(
                f"{self._where}: grids: {conditions:,} conditions and {simulations:,} simulations; a study may have "
                f"{MOST_CONDITIONS:,} and {MOST_SIMULATIONS:,}, so make several"
            )

    def _grid(self, grid: Grid, where: str) -> Iterator[Condition]:
        if (grid.n is None) == (grid.honest is None):
            raise UsageError(f"{where}: n: give either n (all agents) or honest (n is then honest + b)")
        for name in grid.prompt:
            if name not in self._game.prompts:
                known = ", ".join(self._game.prompts)
                raise UsageError(f"{where}.prompt: {name!r}: unknown prompt; choose one of: {known}")
        sizes = [(n, None) for n in grid.n] if grid.n is not None else [(None, h) for h in grid.honest or []]
        varied = list(product(*(grid.vary.get(name, [None]) for name in self._varied)))
        for model, (n, honest), b, prompt, values in product(grid.model, sizes, grid.b, grid.prompt, varied):
            total = n if n is not None else honest + b
            if total < 1:
                raise UsageError(f"{where}.honest: {honest}: there must be at least one agent")
            if b > total:
                raise UsageError(f"{where}.b: {b}: more Byzantine agents than agents (n = {total}); lower b")
            chosen = {name: value for name, value in zip(self._varied, values, strict=True) if name in grid.vary}
            yield self._condition(grid, where, model, total, b, prompt, chosen)

    def _condition(
        self, grid: Grid, where: str, model: str, n: int, b: int, prompt: str, chosen: Mapping[str, Any]
    ) -> Condition:
        parameters = self._parameters(chosen, f"{where}.vary" if chosen else f"{self._where}: parameters")
        honest_role, byzantine_role = self._game.roles[0], self._game.roles[-1]
        counts = {honest_role: n - b, byzantine_role: b}
        byzantine = model if grid.byzantine == SAME else grid.byzantine
        # Both are looked up, so that a misspelled name is found even where nobody has the role.
        named = {
            honest_role: self._player(model, f"{where}.model"),
            byzantine_role: self._player(byzantine, f"{where}.byzantine"),
        }
        players = {role: player for role, player in named.items() if counts[role]}
        axes: dict[str, str | int | float] = {"model": model, "n": n, "b": b, "prompt": prompt}
        for name in self._varied:
            axes[name] = self._axis_value(getattr(parameters, name), f"{where}.vary.{name}")
        condition = Condition(
            game=self._game,
            axes=axes,
            parameters=parameters,
            counts=counts,
            players=players,
            prompt=prompt,
            seeds=_numbers(grid.seeds or self._content.seeds),
        )
        if len(condition.models) > 1:
            raise UsageError(
                f"{where}.byzantine: {byzantine!r}: one simulation cannot use two models yet; "
                f"use {SAME!r} or a scripted policy"
            )
        return condition

    def _parameters(self, chosen: Mapping[str, Any], where: str) -> GameParameters:
        return validated(self._game.Parameters, {**self._content.parameters, **chosen}, where)

    def _check_varied(self, grid: Grid, where: str) -> None:
        for name in grid.vary:
            if name in BASE_AXES or name not in self._game.Parameters.model_fields:
                known = ", ".join(self._game.Parameters.model_fields)
                raise UsageError(f"{where}.{one_line(name, 60)}: unknown parameter; choose one of: {known}")

    def _player(self, name: str, where: str) -> Player:
        if name in self._game.rules:
            return Player(name, None)
        if name not in self._models:
            known = one_line(", ".join([*self._models, *self._game.rules]), 300)
            raise UsageError(f"{where}: {name!r}: unknown model or policy; choose one of: {known}")
        if name not in self._checked:
            check_source(name, self._models[name], self._models_file)
            self._checked.add(name)
        return Player(name, self._models[name])

    def _axis_value(self, value: Any, where: str) -> str | int | float:
        """Return a parameter's value as it stands in a path and in the tables."""
        if isinstance(value, Fraction):  # always text, so that an axis that mixes 1/2 and 2/3 has one type
            exact = str(float(value))
            value = exact if Fraction(exact) == value else f"{value.numerator}_{value.denominator}"
        if isinstance(value, bool) or not isinstance(value, str | int | float) or not is_slug(str(value)):
            raise UsageError(f"{where}: {shown(value)}: only plain numbers and names can be an axis")
        return value
