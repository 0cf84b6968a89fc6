"""The grids of a study file become conditions; every mistake is one line that names the key and the remedy."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

from parley.engine.models import ClusterRequest, ModelEntry
from parley.engine.weights import check_source
from parley.errors import UsageError, located
from parley.games.base import Game
from parley.games.evidence import ARM_AXIS, NO_ARM, TALK
from parley.games.parameters import GameParameters
from parley.identity import digest
from parley.policies.kinds import IMPORTED, LLM, ChosenPolicy, PolicyKind, find_kind
from parley.policies.own_code import plugin_kind
from parley.study.condition import (
    BASE_AXES,
    BYZANTINE_AXIS,
    Condition,
    Player,
    PlayerGroup,
    axis_value,
)
from parley.study.own_prompts import OwnPrompts
from parley.study.study_file import SAME, Grid, GroupEntry, PlayerChoice, PolicyChoice, StudyFile
from parley.text.yamlfile import check_known, is_slug, shown, validated
from parley.trust import POLICY_ENTRY_POINTS, entry_points

MAX_CONDITIONS = 10_000
MAX_SIMULATIONS = 100_000
_LONGEST_POPULATION = 150  # characters; the name becomes a folder, whose name may have 255 bytes
NOBODY = "none"  # what plays the agents of a role that no agent has


def telling_axes(axes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the axes that tell a condition from others: not what plays its adversaries if it says there are none."""
    return {a: value for a, value in axes.items() if (a, value) != (BYZANTINE_AXIS, NOBODY) or axes.get("b") != 0}


def seed_numbers(seeds: int | list[int]) -> Sequence[int]:
    """Return the seeds that a study file gives by their number, or lists."""
    return range(seeds) if isinstance(seeds, int) else tuple(seeds)


def check_size(where: str, conditions: int, simulations: int) -> None:
    """Raise UsageError for more than a study may have."""
    if conditions > MAX_CONDITIONS or simulations > MAX_SIMULATIONS:
        most = f"{MAX_CONDITIONS:,} conditions or {MAX_SIMULATIONS:,} simulations"
        raise UsageError(f"{where}: over {most}; make several studies")


@dataclass(frozen=True)
class _Population:
    """The agents of one condition, and what the axes say of them."""

    groups: tuple[PlayerGroup, ...]
    model: str
    byzantine: str


class Expander:
    """Turns the grids of a study file into conditions."""

    def __init__(
        self,
        where: str,
        content: StudyFile,
        game: type[Game],
        models: Mapping[str, ModelEntry],
        models_file: Path,
        needs_weights: bool,
    ) -> None:
        self._where = where
        self._content = content
        self._game = game
        self._models = models
        self._models_file = models_file
        self._needs_weights = needs_weights
        self.own_prompts = OwnPrompts(Path(where), content.prompts, game)
        self._checked: set[str] = set()
        self._varied = sorted({name for grid in content.grids for name in grid.vary})
        self._honest, self._byzantine = game.roles[0], game.roles[-1]
        self._by_byzantine = any(
            isinstance(grid.byzantine, list) or any(self._byzantine in group.role for group in grid.groups or [])
            for grid in content.grids
        )

    def conditions(self) -> tuple[Condition, ...]:
        """Expand all grids; every condition may appear once. Raises UsageError."""
        for index, grid in enumerate(self._content.grids):
            self._check_keys(grid, f"{self._where}: grids[{index}]")
        by_name: dict[str, tuple[str, Condition]] = {}
        simulations = 0
        for index, grid in enumerate(self._content.grids):
            key = f"grids[{index}]"
            for condition in self._grid(grid, f"{self._where}: {key}"):
                other, same = by_name.setdefault(condition.name, (key, condition))
                if same is not condition:
                    said = f"duplicate condition (also in {other})"
                    raise UsageError(f"{self._where}: {key}: {condition.name}: {said}; list it once")
                simulations += len(condition.seeds) * self._content.repeats
                check_size(f"{self._where}: grids", len(by_name), simulations)
        conditions = tuple(condition for _, condition in by_name.values())
        self.own_prompts.check(conditions)
        self._check_arms(conditions)
        return conditions

    def _check_arms(self, conditions: Sequence[Condition]) -> None:
        if self._content.compare_with is None:
            return
        names: dict[str, str] = {}
        for condition in conditions:
            if (same := names.setdefault(condition.identity, condition.name)) != condition.name:
                said = f"{same} and {condition.name} are the same games"
                raise UsageError(f"{self._where}: compare_with: {said}; put the two in studies of their own")
        if all(condition.axes[ARM_AXIS] == NO_ARM for condition in conditions):
            raise UsageError(
                f"{self._where}: compare_with: needs a condition with b: 0 whose agents are of one kind, and talk; "
                "or remove this key"
            )

    def _check_keys(self, grid: Grid, where: str) -> None:
        for name in grid.vary:
            own = [each for each in self._game.Parameters.model_fields if each not in (*BASE_AXES, BYZANTINE_AXIS)]
            check_known(f"{where}.vary", name, own, "parameter")
        for name in grid.prompt:
            check_known(f"{where}.prompt", name, [*self._game.prompts, *self.own_prompts.by_name], "prompt")
        if grid.groups is not None:
            for key in ("model", "n", "honest", "b", "byzantine"):
                if getattr(grid, key) is not None:
                    raise UsageError(f"{where}.{key}: the groups say it already; remove it")
        elif grid.model is None:
            raise UsageError(f"{where}.model: missing; add it, or give groups")
        elif (grid.n is None) == (grid.honest is None):
            raise UsageError(f"{where}: n: give either n (all agents) or honest (n is then honest + b)")

    # Conditions

    def _grid(self, grid: Grid, where: str) -> Iterator[Condition]:
        varied = [grid.vary.get(name, [None]) for name in self._varied]
        for population in self._shorthand(grid, where) if grid.groups is None else self._groups(grid, where):
            players = [group.player for group in population.groups]
            asked = {each.model: each.entry.cluster for each in players if each.model and each.entry}
            check_one_place(asked, where, self._models_file)
            for prompt, *values in product(grid.prompt, *varied):
                yield from self._conditions_of(grid, population, prompt, values, where)

    def _conditions_of(
        self, grid: Grid, population: _Population, prompt: str, values: Sequence[Any], where: str
    ) -> Iterator[Condition]:
        """Yield a condition, and what it is held against."""
        chosen = {name: value for name, value in zip(self._varied, values, strict=True) if name in grid.vary}
        parameters = self._parameters(chosen, f"{where}.vary" if chosen else f"{self._where}: parameters")
        counts = {role: sum(g.count for g in population.groups if g.role == role) for role in self._game.roles}
        replaced = counts[self._byzantine] if parameters.replaces_honest else 0
        axes: dict[str, str | int | float] = {
            "model": population.model,
            "n": sum(counts.values()) - replaced,
            "b": counts[self._byzantine],
            "prompt": prompt,
        }
        if self._by_byzantine:
            axes[BYZANTINE_AXIS] = population.byzantine
        for name in self._varied:
            value = axes[name] = axis_value(getattr(parameters, name))
            fits = is_slug(value.replace("+", "-")) if isinstance(value, str) else isinstance(value, int | float)
            if not fits:
                problem = "only plain numbers and names can be an axis"
                raise UsageError(f"{where}.vary.{name}: {shown(value)}: {problem}")
        condition = Condition(
            game=self._game,
            axes=axes,
            parameters=parameters,
            groups=population.groups,
            prompt=self.own_prompts.by_name.get(prompt, prompt),
            seeds=seed_numbers(grid.seeds or self._content.seeds),
        )
        with located(where):
            if replaced > counts[self._honest]:
                raise UsageError(f"{replaced} agents cannot replace {counts[self._honest]}; lower the count")
            self._game.check(parameters, condition.playing)
        yield from self._with_arms(condition, chosen)

    def _with_arms(self, condition: Condition, chosen: Mapping[str, Any]) -> Iterator[Condition]:
        """Yield a condition and what it is held against; axes of an arm are those of the condition."""
        if self._content.compare_with is None:
            yield condition
            return
        group, *others = condition.groups
        arms = {} if others or condition.axes["b"] else self._game.arms(condition.parameters, group.count)
        yield replace(condition, axes={**condition.axes, ARM_AXIS: TALK if arms else NO_ARM})
        for entry in self._content.compare_with if arms else ():
            [(arm, number)] = entry.items() if isinstance(entry, dict) else [(entry, None)]
            changes, count = arms[arm]
            parameters = self._parameters({**chosen, **changes}, f"{self._where}: compare_with")
            groups = (replace(group, count=number or count),)
            yield replace(condition, axes={**condition.axes, ARM_AXIS: arm}, parameters=parameters, groups=groups)

    def _parameters(self, chosen: Mapping[str, Any], where: str) -> GameParameters:
        return validated(self._game.Parameters, {**self._content.parameters, **chosen}, where)

    # Populations

    def _shorthand(self, grid: Grid, where: str) -> Iterator[_Population]:
        """Yield the populations of a grid with one honest and one Byzantine group."""
        sizes, added = (grid.honest or [], 1) if grid.n is None else (grid.n, 0)
        given = grid.byzantine if grid.byzantine is not None else SAME
        adversaries = given if isinstance(given, list) else [given]
        for model, size, b in product(grid.model or [], sizes, grid.b or [0]):
            total = size + added * b
            if total < 1:
                raise UsageError(f"{where}.honest: {size}: there must be at least one agent")
            if b > total:
                raise UsageError(f"{where}.b: {b}: more Byzantine agents than agents (n = {total}); lower b")
            player = self.player(model, f"{where}.model", self._honest)
            # All are looked up, so that a misspelled name is found even where nobody has the role.
            attacks = [(a, self._adversary(a, player, f"{where}.byzantine")) for a in adversaries]
            # Without Byzantine agents, what would play them makes no difference.
            for written, adversary in attacks if b else attacks[:1]:
                agents = (PlayerGroup(self._honest, total - b, player), PlayerGroup(self._byzantine, b, adversary))
                label = (SAME if written == SAME else adversary.label) if b else NOBODY
                yield _Population(tuple(group for group in agents if group.count), player.label, label)

    def _adversary(self, written: str | PlayerChoice, honest: Player, where: str) -> Player:
        if written != SAME:
            return self.player(written, where, self._byzantine, honest.model)
        self._check_role(honest.policy.kind, self._byzantine, where)
        return honest

    def _groups(self, grid: Grid, where: str) -> Iterator[_Population]:
        """Yield the populations of a grid that names its groups, each once."""
        choices: list[list[PlayerGroup]] = []
        for index, group in enumerate(grid.groups or []):
            here = list(self._choices(group, f"{where}.groups[{index}]"))
            nobody = next((each for each in here if not each.count), None)  # one of them: they make no difference
            choices.append([each for each in here if each.count or each is nobody])
        seen = set()
        for agents in product(*choices):
            # By role, as they sit: in which order a file names the roles makes no difference.
            by_role = sorted(agents, key=lambda group: self._game.roles.index(group.role))
            groups = tuple(group for group in by_role if group.count)
            if not groups:
                raise UsageError(f"{where}.groups: there must be at least one agent; raise a count")
            labels = [self._population(groups, role, where) for role in (self._honest, self._byzantine)]
            # What would play a group of nobody makes no difference.
            key = digest([[group.role, group.count, group.player.identity()] for group in groups])
            if len(groups) == len(agents) or key not in seen:
                seen.add(key)
                yield _Population(groups, *labels)

    def _choices(self, entry: GroupEntry, where: str) -> Iterator[PlayerGroup]:
        for role, count, written in product(entry.role, entry.count, entry.policy):
            check_known(f"{where}.role", role, self._game.roles, "role")
            policy = self._policy(written, f"{where}.policy", role)
            # A list of policies may mix those that ask a model with those that do not.
            asks = policy.kind.rule is None or len(entry.policy) == 1
            for model in entry.model if entry.model and asks else [None]:
                yield PlayerGroup(role, count, self._with_model(policy, model, where))

    def _population(self, groups: Sequence[PlayerGroup], role: str, where: str) -> str:
        """Return a readable name of what plays a role: one player's, or all with their counts."""
        players = [group for group in groups if group.role == role]
        if len(players) < 2:
            return players[0].player.label if players else NOBODY
        name = "+".join(f"{group.count}-{group.player.label}" for group in players)
        if len(name) > _LONGEST_POPULATION:
            raise UsageError(f"{where}.groups: {name[:60]}...: too long for a folder's name; use fewer groups")
        return name

    # Players

    def player(self, written: str | PlayerChoice, where: str, role: str, model: str | None = None) -> Player:
        """Return what a model entry or a policy stands for; raises UsageError if it may not play this role.

        A policy that asks a model asks the one that it names, else `model`.
        """
        if isinstance(written, str) and written in self._models:
            return self._with_model(self._policy(LLM.name, where, role), written, where)
        own, models = (None, list(self._models)) if isinstance(written, str) else (written.model, None)
        chosen = self._policy(written, where, role, models)
        return self._with_model(chosen, own or (model if chosen.kind.asks_model else None), where)

    def entry_as(self, model: str, recorded: ModelEntry) -> ModelEntry:
        """Return the entry of a model that is as the recorded one; raises UsageError if it is needed and not there."""
        own = self._models.get(model)
        if own is None or own.identity() != recorded.identity():
            if self._needs_weights:
                what = "another" if own else "no"
                said = f"{self._models_file} has {what} entry {model!r} than the records"
                raise UsageError(f"{self._where}: {said}; `parley show RECORD` prints theirs")
            return recorded
        return self._with_model(ChosenPolicy(LLM, LLM.Parameters()), model, self._where).entry or own

    def _policy(
        self, written: str | PolicyChoice, where: str, role: str, models: Sequence[str] | None = None
    ) -> ChosenPolicy:
        """Return the policy that is written, where names of `models` could stand as well."""
        name, parameters = (written, {}) if isinstance(written, str) else (written.name, written.parameters)
        if name in (*self._game.policies, IMPORTED.name):
            kind = find_kind(self._game.policies, name)
        else:
            if ":" not in name:
                what = "policy" if models is None else "model or policy"
                check_known(where, name, [*(models or ()), *self._game.policies, *self._installed], what)
            with located(where):
                kind = plugin_kind(name if ":" in name else self._installed[name], Path(self._where).parent)
        self._check_role(kind, role, where)
        return ChosenPolicy(kind, validated(kind.Parameters, parameters, f"{where}: {name}"))

    @cached_property
    def _installed(self) -> Mapping[str, str]:
        return entry_points(POLICY_ENTRY_POINTS)

    def _with_model(self, policy: ChosenPolicy, model: str | None, where: str) -> Player:
        if model is None:
            if policy.kind.asks_model:
                raise UsageError(f"{where}: {policy.kind.name}: needs a language model; name one with model")
            return Player(policy)
        if policy.kind.rule is not None:
            raise UsageError(f"{where}: {policy.kind.name}: a scripted policy, which asks no model; remove {model!r}")
        check_known(f"{where}.model", model, self._models, "model")
        if self._needs_weights and model not in self._checked:
            check_source(model, self._models[model], self._models_file)
            self._checked.add(model)
        return Player(policy, model, self._models[model])

    def _check_role(self, kind: PolicyKind, role: str, where: str) -> None:
        if kind.roles and role not in kind.roles:
            raise UsageError(f"{where}: {kind.name}: only for {' and '.join(kind.roles)} agents; choose another")


def check_one_place(requests: Mapping[str, ClusterRequest], where: str, models_file: Path) -> None:
    """Raise UsageError for models, by name, that one cluster job cannot play together."""
    for key in ("partition", "account", "constraint", "gpu_model", "qos", "gres"):
        asked = {model: own for model, request in requests.items() if (own := getattr(request, key)) is not None}
        if len(set(asked.values())) > 1:
            values = ", ".join(f"{model}: {own}" for model, own in asked.items())
            said = f"models that share one cluster job differ in cluster.{key} ({values})"
            raise UsageError(f"{where}: {said}; make them equal in {models_file}")
