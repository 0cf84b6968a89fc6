"""Unanimous deliberation ("Achieving Unanimous Consensus Through Multi-Agent Deliberation", sections V, VI, XI).

Agents answer a problem, a share of them by chain of thought. In each turn of reflection they get their own last answer
and others', and improve theirs. They end unanimous, or hung; a hung problem may go to another panel of agents.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import comb, floor
from typing import Any

from parley.errors import UsageError
from parley.games.base import Game, Outcome, Paper
from parley.games.deliberation import decisions
from parley.games.deliberation.evidence import DeliberationEvidence
from parley.games.deliberation.parameters import (
    ANOTHER_PROBLEM,
    IN_TURN,
    TALK,
    DeliberationParameters,
    DeliberationTurn,
    DeliberationView,
    Said,
    Value,
    message_model,
    reply_model,
    values_of,
)
from parley.games.deliberation.policies import POLICIES
from parley.games.deliberation.prompts import MESSAGE, DeliberationPrompts, phase_of, places, transcript, voted_after
from parley.games.deliberation.turns import graded, heard_by, turn_measures, verdict
from parley.games.parameters import BYZANTINE, HONEST, Group
from parley.games.problems.problem import MATCHING, Problem, read_answer
from parley.games.problems.sources import HiddenBench
from parley.games.prompts import Phase
from parley.policies import Ask, Reply
from parley.policies.reply_text import MAX_FREE_TEXT
from parley.text import by_number, one_line

Read = tuple[Value | None, Said | None]  # an answer as it was read, and what was said


class DeliberationGame(Game[DeliberationParameters]):
    """N agents, B of them malicious, deliberate on a problem until they are unanimous, or hang."""

    name = "deliberation"
    does = (
        "Agents answer a problem, read each other's arguments and answer again, until all of them give the "
        "same answer or time is over."
    )
    paper = Paper(
        "Achieving Unanimous Consensus Through Multi-Agent Deliberation",
        "https://arxiv.org/abs/2504.02128",
    )
    protocol_version = 2  # 2: numbers are read more carefully, policies have prompts of their own, cuts are marked
    outcomes = decisions.OUTCOMES
    Parameters = DeliberationParameters
    policies = POLICIES
    read_texts = frozenset({"answer"})
    prompts = DeliberationPrompts()
    evidence = DeliberationEvidence()

    def set_up(self) -> None:
        """Read the problem; draw the wrong answer to push, and who thinks first. Raises ValueError for no problem."""
        placebo = self.parameters.hears == ANOTHER_PROBLEM
        both = self.material if placebo and isinstance(self.material, dict) else {"problem": self.material}
        self.problem = Problem.from_json(both.get("problem"))
        self.another = Problem.from_json(both.get(ANOTHER_PROBLEM)) if placebo else None
        wrong = self.problem.wrong(self.rng)
        self.target: Value = wrong if self.problem.definitive else (wrong,)
        self._aside: Mapping[str, Said | None] = {}  # what the panel answered to the other problem
        # Of a generator of its own, so that all else is drawn as it is without another problem.
        self._other_target = self.another.wrong(self.rng.spawn(1)[0]) if self.another else None
        # Listed in the order of the neutral names, which says nothing about roles.
        self._seats = {seat.name: seat for seat in sorted(self.seats, key=lambda seat: by_number(seat.name))}
        self._ranks = dict(zip(self._seats, self.rng.permutation(len(self.seats)), strict=True))
        names = list(self._seats)
        self._honest = frozenset(seat.name for seat in self.seats if seat.role == HONEST)
        self._drawn: set[frozenset[str]] = set()  # the panels that deliberated
        # By agent, whose utterances gossip brings to it: those of all in its part of the network.
        parts = {name: self.network.component(place) for place, name in enumerate(names)}
        self._reach = {name: {names[other] for other in part} - {name} for name, part in parts.items()}
        self._facts = self._dealt(names)
        self._shown = {name: self._shuffled(held) for name, held in self._facts.items()}
        self._said = list[dict[str, str | None]]()  # by round of talk, before the answers of a turn
        self.trace: list[DeliberationTurn] = []

    def _dealt(self, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return the facts of the problem that each agent holds; of one without facts nothing is drawn."""
        facts = self.problem.facts
        if not facts or self.parameters.facts == "all":
            return dict.fromkeys(names, facts)
        order, holders = self.rng.permutation(len(facts)), self.rng.permutation(len(names))
        held = {agent: sorted(order[place :: len(names)]) for place, agent in enumerate(holders)}
        return {name: tuple(facts[fact] for fact in held[at]) for at, name in enumerate(names)}

    def _shuffled(self, held: tuple[str, ...]) -> tuple[str, ...]:
        """Return what an agent is shown: the facts that it holds, among those that all share if there are such."""
        known = (*self.problem.shared, *held)
        return tuple(known[place] for place in self.rng.permutation(len(known))) if self.problem.shared else held

    @property
    def about(self) -> str:
        """The problem, with its right answer if it has one."""
        right = f" (right: {self.problem.answer})" if self.problem.answer else ""
        return f"{self.problem.id}: {self.problem.question}{right}"

    def play(self) -> Generator[list[Ask], list[Reply], Outcome]:
        """Deliberate until a panel agrees, or until the last one that is allowed hangs."""
        for session in range(self.parameters.redeliberations + 1):
            yield from self._deliberate(self._drawn_panel(), session)
            if self.trace[-1]["verdict"]["agreed"]:
                break
        return decisions.outcome_of(self.problem, self.parameters, self._honest, self.trace)

    @classmethod
    def check(cls, parameters: DeliberationParameters, groups: Sequence[Group]) -> None:
        """Raise UsageError if there are no such problems or networks, or too few panels to deliberate again."""
        super().check(parameters, groups)
        counts = {role: sum(group.count for group in groups if group.role == role) for role in cls.roles}
        if not counts[HONEST]:
            raise UsageError("deliberation needs an honest agent; raise n or lower b")
        n = sum(counts.values())
        size = parameters.panel_size or n
        if size > n:
            raise UsageError(f"panel_size: {size}: more than the agents (n = {n}); lower it")
        if (possible := comb(n, size) - comb(counts[BYZANTINE], size)) <= parameters.redeliberations:
            raise UsageError(
                f"redeliberations: {parameters.redeliberations}: {possible} panels of {size} can be made of these "
                "agents, and none may deliberate twice on a problem; lower it, or raise n"
            )
        problems = parameters.problems
        problems.check()
        if isinstance(problems, HiddenBench) and parameters.facts == "dealt" and problems.agents != n:
            raise UsageError(f"problems: {problems}: each agent gets one hidden fact; write agents: {n}")

    @classmethod
    def draw_material(cls, parameters: DeliberationParameters, seed: int) -> Any:
        """Return the problem of this seed; raises UsageError if its source cannot be read."""
        problem = parameters.problems.problem(seed).as_json()
        if parameters.hears == ANOTHER_PROBLEM:
            return {"problem": problem, ANOTHER_PROBLEM: parameters.problems.another(seed).as_json()}
        return problem

    @classmethod
    def arms(cls, parameters: DeliberationParameters, agents: int) -> Mapping[str, tuple[Mapping[str, Any], int]]:
        """Return the arms of a game whose agents talk: the same without others, or what its replies could be besides.

        Who talks reads more than who answers alone: where arguments are as long as problems, five agents pay three
        times as much for an answer. So there are three independent answers for each of the game.
        """
        p = parameters
        talks = p.turns and not p.talk and (p.panel_size or agents) > 1 and p.hears not in ("nobody", ANOTHER_PROBLEM)
        # What talk decides is the plurality at its end where nobody deliberates again.
        if not talks or p.redeliberations or not p.definitive:
            return {}
        if p.facts == "dealt" and p.problems.has_facts:  # more agents would know less each
            return {}
        alone = {"hears": "nobody", "order": "at_once"}
        answers = {**alone, "turns": 0, "topology": "complete", "panel_size": None}
        return {
            "independent": (answers, 3 * agents * (p.turns + 1)),
            "self_correction": (alone, agents),
            "placebo": ({**alone, "hears": ANOTHER_PROBLEM}, agents),
        }

    @classmethod
    def possible_outcomes(cls, parameters: DeliberationParameters, groups: Sequence[Group]) -> frozenset[str]:
        """Return the outcomes that the kind of the problems allows: among policies none is right or wrong."""
        return frozenset(
            {decisions.CORRECT, decisions.WRONG, decisions.HUNG}
            if parameters.definitive
            else {decisions.GRADED, decisions.HUNG}
        )

    def _drawn_panel(self) -> Sequence[str]:
        """Draw who deliberates, one of them honest at least; none twice: a hung problem goes on (Definition XI.2)."""
        names = list(self._seats)
        size = self.parameters.panel_size or len(names)
        if size == len(names):
            return names
        while True:
            panel = [names[place] for place in sorted(self.rng.choice(len(names), size, replace=False))]
            if self._honest.intersection(panel) and frozenset(panel) not in self._drawn:
                self._drawn.add(frozenset(panel))
                return panel

    def _deliberate(self, names: Sequence[str], session: int) -> Generator[list[Ask], list[Reply], None]:
        p = self.parameters
        self._panel, self._session = names, session
        # Those of lowest rank answer first by chain of thought.
        by_thought = floor(p.cot_share * len(names) + Fraction(1, 2))
        self._by_thought = frozenset(sorted(names, key=self._ranks.__getitem__)[:by_thought])
        honest = [name for name in names if name in self._honest]
        if another := self.another:
            replies = yield [self._ask(name, 0, None, (), of=another) for name in names]
            self._aside = {name: self._read(reply, another)[1] for name, reply in zip(names, replies, strict=True)}
        turns: list[DeliberationTurn] = []
        milliseconds = 0
        for number in range(p.turns + 1):
            before = turns[-1] if turns else None
            heard = heard_by(names, self._reach, p.hears, number) if before else dict.fromkeys(names, ())
            self._said = []
            if before and p.talk:
                milliseconds += yield from self._talk(number, before, heard)
            read, took = yield from self._answers(number, before, heard)
            milliseconds += took
            if self._said or self._aside:  # nobody heard an answer to the problem at hand
                heard = dict.fromkeys(names, ())
            turns.append(self._turn(number, before, read, heard))
            self.trace.append(turns[-1])
            if (ended := verdict(p, honest, turns, milliseconds)) is not None:
                turns[-1]["verdict"] = ended
                return

    def _answers(
        self, number: int, before: DeliberationTurn | None, heard: Mapping[str, Sequence[str]]
    ) -> Generator[list[Ask], list[Reply], tuple[dict[str, Read], int]]:
        """Return the answers of a turn, as they are read, and how long they took: the slowest of each that are asked.

        Who speaks in turn hears of those before it what they have just answered.
        """
        in_turn = before and self.parameters.order == IN_TURN and not self._said
        read, milliseconds, latest = dict[str, Read](), 0, before
        for together in [[name] for name in self._panel] if in_turn else [self._panel]:
            if before and self._said:
                replies = yield [self._ask_after_talk(name, number, before, heard[name]) for name in together]
            else:
                replies = yield [self._ask(name, number, latest, heard[name]) for name in together]
            milliseconds += _slowest(replies)
            read |= {name: self._read(reply, self.problem) for name, reply in zip(together, replies, strict=True)}
            if latest:
                answers = {**latest["answers"], **{name: value for name, (value, _) in read.items()}}
                latest = {**latest, "answers": answers, "said": {**latest["said"], **_said_of(read)}}
        return read, milliseconds

    def _talk(
        self, number: int, before: DeliberationTurn, heard: Mapping[str, Sequence[str]]
    ) -> Generator[list[Ask], list[Reply], int]:
        """Keep what agents say to each other before they answer in a turn; return how long it took."""
        milliseconds = 0
        for place in range(self.parameters.talk):
            one_by_one = not place and self.parameters.order == IN_TURN
            self._said.append({})
            for together in [[name] for name in self._panel] if one_by_one else [self._panel]:
                replies = yield [self._ask_after_talk(n, number, before, heard[n], message=True) for n in together]
                milliseconds += _slowest(replies)
                for name, reply in zip(together, replies, strict=True):
                    text = None if reply.value is None else one_line(reply.value.model_dump()["argument"])
                    self._said[-1][name] = text
        return milliseconds

    def _ask(
        self, name: str, turn: int, before: DeliberationTurn | None, heard: Sequence[str], of: Problem | None = None
    ) -> Ask:
        """Return what an agent is asked, of the problem at hand or `of` another one, whose facts nobody holds."""
        p, problem = self.parameters, of or self.problem
        style = "reflect" if before else self._first_style(name)
        phase = phase_of(style, p)
        if of:
            phase = replace(phase, name=ANOTHER_PROBLEM, sampling=phase.name)
        said = (self._aside or before["said"]) if before else {}
        others = {peer: said[peer] for peer in heard}
        own = before["said"].get(name) if before else None
        view = self._view(
            phase.name,
            name,
            turn,
            problem=problem,
            own=before["answers"].get(name) if before else None,
            heard={peer: before["answers"][peer] for peer in heard} if before and not self._aside else {},
            facts=() if of else self._known(name, [own, *others.values()]),
        )
        other = self.another.question if self.another else ""
        values = places(p, view, () if of else self._shown[name], len(self._panel), own, others, other)
        return self._question(style, phase, self._round(turn), values, view)

    def _ask_after_talk(
        self, name: str, turn: int, before: DeliberationTurn, heard: Sequence[str], message: bool = False
    ) -> Ask:
        """Return what an agent is asked that heard messages: for a message of its own, or for its answer."""
        p, problem = self.parameters, self.problem
        style = MESSAGE if message else self._first_style(name)
        phase = phase_of(style, p) if message else voted_after(phase_of(style, p))
        texts = {each: said for messages in self._said for each, said in messages.items()}  # the last of each
        latest = {each: problem.read(text or "") for each, text in texts.items()}
        told = [Said(answer="", argument=m[each] or "") for m in self._said for each in (name, *heard) if each in m]
        view = self._view(
            phase.name,
            name,
            turn,
            problem=problem,
            own=latest.get(name) or before["answers"].get(name),
            heard={peer: latest[peer] for peer in heard if peer in latest},
            facts=self._known(name, told),
        )
        values = places(p, view, self._shown[name], len(self._panel), before["said"].get(name), {}, "")
        rounds = len(self._said)
        values |= {"messages": transcript(self._said, name, heard, p.shown_chars), "round": rounds, "rounds": p.talk}
        if message and problem.kind == "choice":  # else letters would name nothing
            values["problem"] = f"{values['problem']}\n{values['form']}"
        return self._question(style, phase, self._round(turn) - (p.talk + 1 - rounds if message else 0), values, view)

    def _first_style(self, name: str) -> str:
        return "cot" if name in self._by_thought else "zero_shot"

    def _view(self, phase: str, name: str, turn: int, problem: Problem, **seen: Any) -> DeliberationView:
        """Return what an agent sees, with the wrong answer to push if it is a malicious one."""
        role = self._seats[name].role
        pushed = self.target if problem is self.problem else self._other_target
        return DeliberationView(phase, name, role, turn, problem, target=None if role == HONEST else pushed, **seen)

    def _question(
        self, style: str, phase: Phase, number: int, values: Mapping[str, object], view: DeliberationView
    ) -> Ask:
        p, seat, problem = self.parameters, self._seats[view.agent], view.problem
        # Free text is as long as its tokens, and never cut: an agent gets its own argument back as it wrote it.
        chars = p.argument_chars if phase.written(p.format_for(seat)) == "json" else MAX_FREE_TEXT
        if style == MESSAGE:
            model = message_model(chars)
        else:
            model = reply_model(style, problem.kind, problem.options, p.answer_chars, chars)
        return self.ask(seat, number, phase, values, model, view)

    def _round(self, turn: int) -> int:
        """Return the number of the round in which the answers of a turn are given."""
        return self._session * self.parameters.session_rounds + turn * (1 + self.parameters.talk)

    def _known(self, name: str, told: Sequence[Said | None]) -> tuple[str, ...]:
        """Return the facts that an agent was dealt, and those that stand word for word in what it gets."""
        texts = [said["argument"] for said in told if said is not None]
        dealt = self._facts[name]
        return tuple(f for f in self.problem.facts if f in dealt or any(one_line(f) in text for text in texts))

    def _read(self, reply: Reply, problem: Problem) -> Read:
        """Return an answer as it was read, and what was said; an agent without a usable reply is silent."""
        if reply.value is None:
            return None, None
        fields = reply.value.model_dump()
        argument = one_line(fields["argument"])
        if problem.definitive:
            answer = one_line(fields["answer"])
            read = read_answer(problem.kind, problem.options, answer, argument, self.parameters.reading)
            return read, {"answer": answer, "argument": argument}
        named = [one_line(policy) for policy in fields["policies"]]
        said: Said = {"answer": "; ".join(named), "argument": argument}
        if named:
            said["policies"] = named
        if unknown := problem.unknown(named):
            said["unknown"] = unknown
        return problem.read_policies(named), said

    def _turn(
        self,
        number: int,
        before: DeliberationTurn | None,
        read: Mapping[str, Read],
        heard: Mapping[str, tuple[str, ...]],
    ) -> DeliberationTurn:
        """Return a turn as the trace has it, without its verdict."""
        p = self.parameters
        honest = [name for name in self._panel if name in self._honest]
        entry: DeliberationTurn = {
            "round": self._round(number),
            "session": self._session,
            "turn": number,
            "answers": {name: value for name, (value, _) in read.items()},
            "said": _said_of(read),
            "heard": {name: list(peers) for name, peers in heard.items()},
            "measures": {},
        }
        if self._said:
            entry["talk"] = self._said
        elif number and p.order == IN_TURN:
            entry["in_turn"] = True
        entry["measures"] = turn_measures(self.problem, honest, before, entry, p.theta)
        if not number:
            prioritized = {} if self.problem.definitive else {"theta": str(p.theta), "matching": MATCHING}
            entry["subject"] = {key: value for key, value in self.problem.as_json().items() if key != "answer"}
            if self.problem.facts:
                entry["facts"] = {name: list(self._facts[name]) for name in read}
            entry["rules"] = {
                "turns": p.turns,
                "stop_when_unanimous": p.stop_when_unanimous,
                "time_limit": p.time_limit,
                "fewest_honest": p.fewest_honest,
                "redeliberations": p.redeliberations,
                "hears": p.hears,
                **({"order": p.order} if p.order == IN_TURN else {}),
                **({TALK: p.talk} if p.talk else {}),
                "reading": p.reading,
                "topology": str(p.topology),
                "links": self._links(),
                "malicious": len(self._panel) - len(honest),
                **prioritized,
            }
        if self.another and not number:
            entry["another_problem"] = {"problem": self.another.as_json(), "said": self._aside}
        if not self.problem.definitive:
            levels = graded(values_of(entry, honest), p.theta).levels
            entry["levels"] = {policy: str(level) for policy, level in levels.items()}
        return entry

    def _links(self) -> list[list[str]] | None:
        if self.network.is_complete:
            return None
        names = list(self._seats)
        return [[names[a], names[b]] for a, peers in enumerate(self.network.neighbors) for b in peers if a < b]


def _said_of(read: Mapping[str, Read]) -> dict[str, Said | None]:
    return {name: said for name, (_, said) in read.items()}


def _slowest(replies: Sequence[Reply]) -> int:
    return max((reply.milliseconds for reply in replies), default=0)
