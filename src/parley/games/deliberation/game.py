"""Unanimous deliberation ("Achieving Unanimous Consensus Through Multi-Agent Deliberation", sections V, VI, XI).

Agents answer a problem, a share of them by chain of thought. In each turn of reflection they get their own last answer
and others', and improve theirs. They end unanimous, or hung; a hung problem may go to another panel of agents.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from math import ceil, comb, floor
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
from parley.games.problems.sources import HiddenBench, HiddenProfiles, JsonLines
from parley.policies import Ask, Reply
from parley.policies.reply_text import MAX_FREE_TEXT
from parley.text import by_number, one_line


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
        p = self.parameters
        placebo, real = p.hears == ANOTHER_PROBLEM, p.peer_record == "real"
        both = self.material if (placebo or real) and isinstance(self.material, dict) else {"problem": self.material}
        self.problem = Problem.from_json(both.get("problem"))
        self.another = Problem.from_json(both.get(ANOTHER_PROBLEM)) if placebo else None
        self._earlier = [Problem.from_json(each) for each in both.get("earlier", ())] if real else []
        wrong = self.problem.wrong(self.rng)
        self.target: Value = wrong if self.problem.definitive else (wrong,)
        self._aside: Mapping[str, Said | None] = {}  # what the panel answered to the other problem
        # Of a generator of its own, so that all else is drawn as it is without other problems and records.
        apart = self.rng.spawn(1)[0]
        others = [self.another] if self.another else self._earlier
        self._other_targets: Mapping[Problem, Value] = {problem: problem.wrong(apart) for problem in others}
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
        self._records: Mapping[str, int] = {}  # on how many earlier problems agents are said to have been right
        if p.peer_record == "drawn":
            most, reliable = ceil(p.reliability * p.earlier), apart.permutation(names)[: len(names) // 2]
            self._records = {name: most if name in reliable else p.earlier - most for name in names}
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
        if parameters.fewest_honest > (most := min(size, counts[HONEST])):
            raise UsageError(
                f"fewest_honest: {parameters.fewest_honest}: a panel has {most} honest agents at most; lower it"
            )
        if (possible := comb(n, size) - comb(counts[BYZANTINE], size)) <= parameters.redeliberations:
            raise UsageError(
                f"redeliberations: {parameters.redeliberations}: {possible} panels of {size} can be made of these "
                "agents, and none may deliberate twice on a problem; lower it, or raise n"
            )
        if parameters.reading != "exact" and parameters.problems.problem_kind != "number":
            raise UsageError(
                f"reading: {parameters.reading}: is for numbers, and {parameters.problems} asks for "
                f"{parameters.problems.problem_kind}; remove it"
            )
        parameters.problems.check()
        if isinstance(parameters.problems, HiddenBench) and parameters.facts == "dealt":
            parameters.problems.check_agents(n)
        if parameters.facts == "all" and not has_facts(parameters):
            raise UsageError(
                f"facts: all: {parameters.problems} has problems without facts; use problems: hidden_profiles, or "
                "remove it"
            )

    @classmethod
    def draw_material(cls, parameters: DeliberationParameters, seed: int) -> Any:
        """Return the problem of this seed; raises UsageError if its source cannot be read."""
        problem = parameters.problems.problem(seed).as_json()
        if parameters.hears == ANOTHER_PROBLEM:
            [other] = parameters.problems.others(seed)
            return {"problem": problem, ANOTHER_PROBLEM: other.as_json()}
        if parameters.peer_record == "real":
            earlier = parameters.problems.others(seed, parameters.earlier)
            return {"problem": problem, "earlier": [each.as_json() for each in earlier]}
        return problem

    @classmethod
    def imported_material(
        cls, parameters: DeliberationParameters, roles: Mapping[str, str], recorded: Mapping[str, Any]
    ) -> Any:
        """Return the problem; raises ValueError if there is none, or one of another kind than `problems` has."""
        problem = Problem.from_json(recorded.get("problem"))
        if problem.kind != (kind := parameters.problems.problem_kind):
            raise ValueError(
                f"problem {problem.id}: is of the kind {problem.kind}, and parameters.problems has {kind}"
            )
        return problem.as_json()

    @classmethod
    def arms(cls, parameters: DeliberationParameters, agents: int) -> Mapping[str, tuple[Mapping[str, Any], int]]:
        """Return the arms of a game whose agents talk: the same without others, or what its replies could be besides.

        Who talks reads more than who answers alone: where arguments are as long as problems, five agents pay three
        times as much for an answer. So there are three independent answers for each of the game.
        """
        p = parameters
        talks = p.turns and not p.talk and (p.panel_size or agents) > 1 and p.hears not in ("nobody", ANOTHER_PROBLEM)
        dealt = p.facts == "dealt" and has_facts(p)  # more agents would know less each
        # What talk decides is the plurality at its end where nobody deliberates again.
        if not talks or p.redeliberations or dealt or not p.definitive:
            return {}
        alone = {"hears": "nobody", "order": "at_once", "peer_record": "none"}
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

    # One deliberation

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
        yield from self._ask_other_problems()
        turns: list[DeliberationTurn] = []
        milliseconds = 0
        for number in range(p.turns + 1):
            heard = heard_by(names, self._reach, p.hears, number) if number else dict.fromkeys(names, ())
            before = turns[-1] if turns else None
            self._said = []
            if before and p.talk:
                milliseconds += yield from self._talk(number, before, heard)
                replies = yield [self._ask_after_talk(name, number, before, heard[name]) for name in names]
                milliseconds += _slowest(replies)
                heard = dict.fromkeys(names, ())  # nobody's answer
            elif before and p.order == IN_TURN:
                replies = yield from self._one_by_one(number, before, heard)
                milliseconds += sum(reply.milliseconds for reply in replies)
            else:
                replies = yield [self._ask(name, number, before, heard[name]) for name in names]
                milliseconds += _slowest(replies)
            if self._aside:  # nobody heard of the problem at hand
                heard = dict.fromkeys(names, ())
            turns.append(self._turn(number, before, replies, heard))
            self.trace.append(turns[-1])
            if (ended := verdict(p, honest, turns, milliseconds)) is not None:
                turns[-1]["verdict"] = ended
                return

    def _one_by_one(
        self, number: int, before: DeliberationTurn, heard: Mapping[str, Sequence[str]]
    ) -> Generator[list[Ask], list[Reply], list[Reply]]:
        """Ask one agent after the other: what it hears of those before it is what they have just answered."""
        replies, latest = list[Reply](), before
        for name in self._panel:
            replies += yield [self._ask(name, number, latest, heard[name])]
            value, said = self._read(replies[-1], self.problem)
            answers, texts = {**latest["answers"], name: value}, {**latest["said"], name: said}
            latest = {**latest, "answers": answers, "said": texts}
        return replies

    def _talk(
        self, number: int, before: DeliberationTurn, heard: Mapping[str, Sequence[str]]
    ) -> Generator[list[Ask], list[Reply], int]:
        """Keep what agents say to each other before they answer in a turn; return how long it took."""
        milliseconds = 0
        for place in range(self.parameters.talk):
            asks = [
                partial(self._ask_after_talk, name, number, before, heard[name], message=True) for name in self._panel
            ]
            one_by_one = not place and self.parameters.order == IN_TURN
            self._said.append({})
            for together in [[ask] for ask in asks] if one_by_one else [asks]:
                replies = yield [ask() for ask in together]
                milliseconds += _slowest(replies)
                spoke = self._panel[len(self._said[-1]) :]
                for name, reply in zip(spoke, replies, strict=False):
                    text = None if reply.value is None else one_line(reply.value.model_dump()["argument"])
                    self._said[-1][name] = text
        return milliseconds

    def _ask_after_talk(
        self, name: str, turn: int, before: DeliberationTurn, heard: Sequence[str], message: bool = False
    ) -> Ask:
        """Return what an agent is asked that heard messages: for a message of its own, or for its answer."""
        p, seat, problem = self.parameters, self._seats[name], self.problem
        style = "cot" if name in self._by_thought else "zero_shot"
        phase = phase_of(MESSAGE, p) if message else voted_after(phase_of(style, p))
        texts = {each: said for messages in self._said for each, said in messages.items()}  # the last of each
        latest = {each: problem.read(text or "") for each, text in texts.items()}
        told = [Said(answer="", argument=m[each] or "") for m in self._said for each in (name, *heard) if each in m]
        view = DeliberationView(
            phase=phase.name,
            agent=name,
            role=seat.role,
            turn=turn,
            problem=problem,
            own=latest.get(name) or before["answers"].get(name),
            heard={peer: latest[peer] for peer in heard if peer in latest},
            target=None if seat.role == HONEST else self.target,
            facts=self._known(name, None, dict(enumerate(told))),
        )
        values = places(p, view, self._shown[name], len(self._panel), before["said"].get(name), {}, "")
        rounds = len(self._said)
        values |= {"messages": transcript(self._said, name, heard, p.shown_chars), "round": rounds, "rounds": p.talk}
        if message and problem.kind == "choice":  # else letters would name nothing
            values["problem"] = f"{values['problem']}\n{values['form']}"
        written = phase.written(p.format_for(seat))
        chars = p.argument_chars if written == "json" else MAX_FREE_TEXT
        model = message_model(chars)
        if not message:
            model = reply_model(style, problem.kind, problem.options, p.answer_chars, chars)
        number = self._round(turn) - (p.talk + 1 - rounds if message else 0)
        return self.ask(seat, number, phase, values, model, view)

    def _round(self, turn: int) -> int:
        """Return the number of the round in which the answers of a turn are given."""
        return self._session * self.parameters.session_rounds + turn * (1 + self.parameters.talk)

    def _ask_other_problems(self) -> Generator[list[Ask], list[Reply], None]:
        """Keep what the agents answer to the other problem, or on how many earlier ones they are right."""
        if self._earlier:
            self._records = dict.fromkeys(self._panel, 0)
        for problem in self._other_targets:
            replies = yield [self._ask(name, 0, None, (), of=problem) for name in self._panel]
            read = {name: self._read(reply, problem) for name, reply in zip(self._panel, replies, strict=True)}
            if problem is self.another:
                self._aside = {name: said for name, (_, said) in read.items()}
            else:
                self._records = {n: count + (read[n][0] == problem.answer) for n, count in self._records.items()}

    def _ask(
        self, name: str, turn: int, before: DeliberationTurn | None, heard: Sequence[str], of: Problem | None = None
    ) -> Ask:
        """Return what an agent is asked, of the problem at hand or `of` another one, whose facts nobody holds."""
        p, problem, seat = self.parameters, of or self.problem, self._seats[name]
        style = "reflect" if before else "cot" if name in self._by_thought else "zero_shot"
        phase = phase_of(style, p)
        if of:
            own_name = ANOTHER_PROBLEM if of is self.another else f"earlier_{self._earlier.index(of) + 1}"
            phase = replace(phase, name=own_name, sampling=phase.name)
        said = (self._aside or before["said"]) if before else {}
        others = {peer: said[peer] for peer in heard}
        own = before["said"].get(name) if before else None
        view = DeliberationView(
            phase=phase.name,
            agent=name,
            role=seat.role,
            turn=turn,
            problem=problem,
            own=before["answers"].get(name) if before else None,
            heard={peer: before["answers"][peer] for peer in heard} if before and not self._aside else {},
            target=None if seat.role == HONEST else self._other_targets[of] if of else self.target,
            facts=() if of else self._known(name, own, others),
            records={peer: self._records[peer] for peer in heard if self._records},
        )
        other = self.another.question if self.another else ""
        values = places(p, view, () if of else self._shown[name], len(self._panel), own, others, other)
        # Free text is as long as its tokens, and never cut: an agent gets its own argument back as it wrote it.
        argument_chars = p.argument_chars if phase.written(p.format_for(seat)) == "json" else MAX_FREE_TEXT
        model = reply_model(style, problem.kind, problem.options, p.answer_chars, argument_chars)
        return self.ask(seat, self._round(turn), phase, values, model, view)

    def _known(self, name: str, own: Said | None, others: Mapping[Any, Said | None]) -> tuple[str, ...]:
        """Return the facts that an agent was dealt, and those that stand word for word in what it gets."""
        texts = [said["argument"] for said in (own, *others.values()) if said is not None]
        dealt = self._facts[name]
        return tuple(f for f in self.problem.facts if f in dealt or any(one_line(f) in text for text in texts))

    def _read(self, reply: Reply, problem: Problem) -> tuple[Value | None, Said | None]:
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
        replies: Sequence[Reply],
        heard: Mapping[str, tuple[str, ...]],
    ) -> DeliberationTurn:
        """Return a turn as the trace has it, without its verdict."""
        p = self.parameters
        honest = [name for name in self._panel if name in self._honest]
        read = {name: self._read(reply, self.problem) for name, reply in zip(self._panel, replies, strict=True)}
        entry: DeliberationTurn = {
            "round": self._round(number),
            "session": self._session,
            "turn": number,
            "answers": {name: value for name, (value, _) in read.items()},
            "said": {name: said for name, (_, said) in read.items()},
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
        if self._records and not number:
            entry["records"] = {name: self._records[name] for name in read}
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
        nodes = range(len(names))
        return [[names[a], names[b]] for a in nodes for b in self.network.neighbors[a] if a < b]


def _slowest(replies: Sequence[Reply]) -> int:
    return max((reply.milliseconds for reply in replies), default=0)


def has_facts(parameters: DeliberationParameters) -> bool:
    """Whether any of the problems has facts that agents may hold."""
    source = parameters.problems
    if isinstance(source, HiddenBench):  # whose file may be missed only when it is played
        return True
    return isinstance(source, JsonLines | HiddenProfiles) and any(each.facts for each in source.stored().problems)
