"""What people do with single games in a terminal: play one, live, send a prompt, read a record, try forks of it."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from parley.engine.supervisor import temporary_engine
from parley.errors import RecordError, UsageError
from parley.play.degenerate import REMEDIES
from parley.play.forks import check_parents
from parley.play.matrix import WatchedGame, decided
from parley.play.matrix_text import LiveScreen, can_draw, outcome_line, print_final
from parley.play.record import Summary, provenance_warnings, read_record
from parley.play.replay import play_recorded, rebuild_game, replay
from parley.play.runner import Exchange, Play, Watcher, all_of, request
from parley.play.simulate import Answering, connect, engine_places, paid, play_simulation, policy_of
from parley.policies import GIVEN, Policy
from parley.policies.reply_text import read_reply
from parley.study import Study
from parley.study.condition import Simulation
from parley.study.load import study_of
from parley.study.prompt_sent import PromptSent
from parley.text import one_line
from parley.text.yamlfile import plain, yaml_text

_LONGEST_TEXT = 300  # characters of a text


def play(
    study: Study,
    axes: Mapping[str, Any],
    seed: int,
    endpoints: Sequence[Path],
    engine_timeout: float,
    reasoning: bool,
    show: Callable[[str], None],
    terminal: TextIO,
) -> None:
    """Play the study's first condition that has the given `axes`, and show it.

    As a matrix on `terminal`, if it is one that has room and colors; else a line for each reply goes to `show`, when
    its phase is over. With `reasoning` the lines have the texts, and come below the matrix, too.

    Starts an engine of its own where one is needed and none of `endpoints` is for its model. Raises UsageError if no
    condition fits, if an endpoint is not wanted, or if the key of a service is missing.
    """
    condition = study.fitting(axes)[0]
    simulation = Simulation(condition, seed)
    heading = [f"{study.name}: {condition.name.replace('/', ' ')}, seed {seed}"]
    if about := simulation.game().about:
        heading.append(one_line(about))
    several = len(condition.groups) > len({group.role for group in condition.groups})
    for at, group in enumerate(condition.groups if several else ()):
        names = ", ".join(seat.name for seat in simulation.seats if seat.group == at)
        heading.append(f"({at + 1}) {group.role} · {group.player.label}: {names}")
    transcript = Transcript(show, reasoning, condition.game.read_texts)
    if can_draw(terminal):
        screen = LiveScreen(simulation.game(), heading, terminal)
        played = asyncio.run(play_once(study, simulation, endpoints, engine_timeout, [screen], screen.shown()))
        if reasoning:
            transcript.phase_over(played.exchanges)
        return
    for line in heading:
        show(line)
    played = asyncio.run(play_once(study, simulation, endpoints, engine_timeout, [transcript]))
    show(outcome_line(condition.game, played.outcome))


async def play_once(
    study: Study,
    simulation: Simulation,
    endpoints: Sequence[Path],
    engine_timeout: float,
    watchers: Sequence[Watcher] = (),
    shown: AbstractContextManager[None] | None = None,
) -> Play:
    """Play a simulation with the engines that it needs, and record nothing.

    Those that are no services and not among `endpoints` are started, and stopped at the end. `shown` lasts while it is
    played.
    """
    engines = ExitStack()
    try:
        answering = engines.enter_context(answering_for(study, [simulation], endpoints, engine_timeout))
        with shown or nullcontext():
            played, _ = await play_simulation(simulation, answering, watchers=watchers)
    finally:
        await asyncio.to_thread(engines.close)  # a server takes seconds to end, and others may play
    return played


@contextmanager
def answering_for(
    study: Study, simulations: Sequence[Simulation], endpoints: Sequence[Path], engine_timeout: float
) -> Iterator[Answering]:
    """Provide what answers in simulations that are recorded nowhere; what is no service and not given is started."""
    entries = {name: entry for each in simulations for name, entry in each.condition.entries.items()}
    places = engine_places(entries, endpoints)
    with ExitStack() as stack:
        for model, entry in entries.items():
            if model not in places:
                places[model] = stack.enter_context(temporary_engine(model, study.models_file, entry))
        budget = stack.enter_context(paid(study, simulations))
        yield Answering(places, engine_timeout, budget)


class Transcript(Watcher):
    """Shows the replies of a game as lines for people, under a heading for each phase, when that is over.

    Of texts only the `decisive` ones are there, or all with `reasoning`, each cut to its `longest` characters.
    """

    def __init__(
        self,
        show: Callable[[str], None],
        reasoning: bool,
        decisive: frozenset[str],
        longest: int | None = _LONGEST_TEXT,
    ) -> None:
        self._show, self._reasoning, self._decisive, self._longest = show, reasoning, decisive, longest
        self._heading = ""

    def phase_over(self, exchanges: Sequence[Exchange]) -> None:
        """Show the replies of a phase."""
        for exchange in exchanges:
            heading = f"Round {exchange.entry.round}, {exchange.entry.phase}"
            if heading != self._heading:  # where agents speak in turn, each is a phase of its own
                self._show(heading)
            self._heading = heading
            for line in self._reply_lines(exchange):
                self._show(line)

    def _reply_lines(self, exchange: Exchange) -> Iterator[str]:
        """Yield one line with what was decided, and one per other text if these are shown."""
        head = f"  {exchange.entry.agent:<9} {exchange.ask.role:<10}"
        if exchange.reply.value is None:
            yield f"{head} {exchange.lacking}"
            texts = {"written": exchange.entry.text}
        else:
            values, texts = decided(exchange, self._decisive)
            if not values:  # a message, which decides nothing
                values, texts = list(texts.values()), {}
            yield " ".join([head, *(one_line(str(value), self._longest) for value in values)])
        if self._reasoning:
            for key, value in {"thought": exchange.entry.reasoning or "", **texts}.items():
                if text := one_line(value, self._longest):
                    yield f"      {key}: {text}"


# `parley prompts --try`


def try_prompts(
    study: Study,
    prompts: Sequence[PromptSent],
    times: int,
    endpoints: Sequence[Path],
    engine_timeout: float,
    show: Callable[[str], None],
) -> None:
    """Send each prompt so many times to the model of its agent, and show every reply as it came and as it was read.

    The seeds are those of the attempts in a game, and nothing is recorded. Raises UsageError for an agent that no
    model plays, and EngineError as a game does.
    """
    alone = []  # with the agents of one player: no other needs an engine
    for sent in prompts:
        if sent.player.entry is None:
            raise UsageError(f"{sent.ask.agent} is played by {sent.player.label}, which reads no prompt; add --model")
        groups = tuple(group for group in sent.condition.groups if group.player == sent.player)
        alone.append(Simulation(replace(sent.condition, groups=groups), sent.seed))

    async def ask(number: int, sent: PromptSent, policy: Policy) -> Exchange:
        entry = await request(Simulation(sent.condition, sent.seed).id, sent.ask, policy, number)
        return Exchange(sent.ask, entry, read_reply(sent.ask, entry.text, entry.finish_reason, sent.player.reading))

    async def ask_all(answering: Answering) -> list[Exchange]:
        async with AsyncExitStack() as stack:
            engines = [await connect(stack, simulation, answering) for simulation in alone]
            asked = [(sent, policy_of(sent.player, own)) for sent, own in zip(prompts, engines, strict=True)]
            return await all_of(ask(number, *pair) for number in range(times) for pair in asked)

    with answering_for(study, alone, endpoints, engine_timeout) as answering:
        replies = iter(asyncio.run(ask_all(answering)))
    for number in range(1, times + 1):
        for sent in prompts:
            show(f"\nreply {number} of {times}" + (f", {sent.condition.name}" if len(prompts) > 1 else ""))
            for line in _tried_lines(next(replies)):
                show(line)


def _tried_lines(exchange: Exchange) -> Iterator[str]:
    """Yield a reply as it came, what was read of it, and what it took; characters that print nothing are escaped."""
    entry, reply = exchange.entry, exchange.reply
    for line in entry.text.split("\n"):
        yield "  | " + "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)
    if entry.reasoning:
        yield f"  thought: {one_line(entry.reasoning)}"
    if reply.value is not None:
        yield f"  read: {one_line(reply.value.model_dump_json(exclude_unset=True))}"
    elif reply.failure is not None:
        yield f"  not read: {reply.failure}: {one_line(reply.detail or '')}; what helps: {REMEDIES[reply.failure]}"
    tokens = f"{entry.prompt_tokens or 'unknown'} tokens of prompt, {entry.completion_tokens or 'unknown'} of reply"
    yield f"  {entry.seconds:.1f} s, {tokens}, seed {entry.seed}"


# `parley show`: what is printed of a record is YAML, whose strings are escaped, since it may come from anyone


def summary_text(path: Path, summary: Summary) -> str:
    """Return what a record says of its simulation as a whole, provenance in full, as YAML."""
    of_engines = provenance_warnings(summary.provenance)
    return yaml_text(
        {
            "record": str(path),
            "simulation": summary.simulation,
            "outcome": summary.outcome,
            "telemetry": summary.telemetry,
            "digest": summary.digest,
            **({"warnings": of_engines} if of_engines else {}),
            "provenance": summary.provenance,
        }
    )


def show_replies(path: Path, show: Callable[[str], None], terminal: TextIO) -> None:
    """Show the replies of a record in full, a line for each and one for each text, then how the game ended.

    A `terminal` that can show it gets the matrix at the end. Where this version cannot play the game again, such as an
    imported one without its prompts, replies come as they were written. Raises RecordError if it cannot be read.
    """
    summary, entries = read_record(path)
    try:
        watched = WatchedGame(rebuild_game(path, summary))
        played = play_recorded(summary, watched.game, entries, [watched])
    except RecordError as error:
        show(f"# As they were written; {one_line(str(error))}")
        for entry in entries:
            where = f"round {entry.round}, {one_line(entry.phase)}, {one_line(entry.agent)}"
            show(f"{where}: {one_line(entry.text)}")
        return
    Transcript(show, True, watched.game.read_texts, longest=None).phase_over(played.exchanges)
    if can_draw(terminal):
        print_final(watched, [one_line(str(path))], terminal)
    else:
        show(outcome_line(type(watched.game), played.outcome))


# `parley fork`: forks of one recorded game by hand, in this process; nothing is recorded


def study_of_record(
    record: Path, at: Sequence[str], changes: Sequence[str], repeats: int, models: Path | None
) -> Study:
    """Return the study of forks of one record; raises UsageError or RecordError before anything is played.

    `at` and `changes` are as a study file has them.
    """
    summary, _ = read_record(record)
    wanted = {
        "game": summary.simulation.get("game"),
        "fork": {
            "of": str(record.absolute()),
            "at": [int(each) if each.isdecimal() else each for each in at],
            "change": [plain(text) for text in changes],
            "repeats": repeats,
        },
    }
    study = study_of("fork", wanted, models)
    check_parents(study)
    return study


def play_forks(study: Study, endpoints: Sequence[Path], engine_timeout: float) -> Iterator[tuple[Simulation, Play]]:
    """Yield each fork as it was played, with engines that are started once."""
    simulations = list(study.simulations())
    with answering_for(study, simulations, endpoints, engine_timeout) as answering:
        for simulation in simulations:
            yield simulation, asyncio.run(play_simulation(simulation, answering))[0]


def show_forks(
    study: Study, endpoints: Sequence[Path], engine_timeout: float, reasoning: bool, show: Callable[[str], None]
) -> None:
    """Play the forks of one recorded game; show the first from its change on, and how the game and each fork ended."""
    game = study.game
    recorded = replay(next(iter(study.parents))).play
    assert recorded is not None, "a game that cannot be replayed was refused"
    ends = game.class_of(recorded.outcome.name, recorded.outcome.detail)
    same = number = 0
    for number, (simulation, play) in enumerate(play_forks(study, endpoints, engine_timeout), 1):
        if number == 1:
            new = [exchange for exchange in play.exchanges if exchange.entry.given != GIVEN]
            Transcript(show, reasoning, game.read_texts).phase_over(new)
            show(f"recorded: {outcome_line(game, recorded.outcome)}")
        show(f"fork {number}, {simulation.condition.axes['change']}: {outcome_line(game, play.outcome)}")
        same += game.class_of(play.outcome.name, play.outcome.detail) == ends
    show(f"{same} of {number} forks end as the recorded game did")
