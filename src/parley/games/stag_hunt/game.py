"""The stag hunt with cheap talk, after appendix A of "Byzantine Cheap Talk" (`StagHuntGame.paper`).

N players hunt together over several rounds. Each broadcasts one word, then all choose at once between the stag, which
takes all of them, and the hare, which takes nobody else. Words and actions are seen along a network.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any

from parley.errors import UsageError
from parley.games.base import Game, Outcome, Paper
from parley.games.evidence import OutcomeClass
from parley.games.network import Links, Star
from parley.games.parameters import BYZANTINE, HONEST, Group, Seat
from parley.games.prompts import Instruction, Phase
from parley.games.stag_hunt import prompts as texts
from parley.games.stag_hunt.betrayal import betrayal_metrics
from parley.games.stag_hunt.evidence import StagHuntEvidence
from parley.games.stag_hunt.parameters import (
    HARE,
    PUBLISHED,
    STAG,
    YOU,
    Action,
    HuntRound,
    SeenRound,
    StagHuntParameters,
    StagHuntView,
    counted,
    hunt_model,
    one_word,
)
from parley.games.stag_hunt.policies import POLICIES
from parley.policies import Ask, Reply
from parley.text import by_number, one_line

COOPERATION = "cooperation"
PARTIAL = "partial_cooperation"
EXPLOITED = "exploited"
DEFECTION = "defection"
EXCLUDED = "excluded"


class StagHuntGame(Game[StagHuntParameters]):
    """N players, B of them Byzantine, hunt a stag together, or hares alone."""

    name = "stag_hunt"
    does = (
        "Players send messages, then each chooses in secret: hunt the stag, which pays most but only if "
        "enough others do, or a hare, which pays less and always."
    )
    paper = Paper(
        "Byzantine Cheap Talk: Adversarial Resilience and Topology Effects in LLM Coordination Games",
        "https://arxiv.org/abs/2606.07790",
    )
    protocol_version = 3
    outcomes = (
        OutcomeClass(COOPERATION, "all honest players hunt the stag, and get it", "#0072B2", ""),
        OutcomeClass(PARTIAL, "some honest players get the stag", "#56B4E9", "\\\\"),
        OutcomeClass(EXPLOITED, "honest players hunt the stag in vain", "#D55E00", "///"),
        OutcomeClass(DEFECTION, "no honest player hunts the stag", "#D9D9D9", ".."),
        OutcomeClass(EXCLUDED, "no round that counts: replies could not be used", "#FFFFFF", "xx"),
    )
    Parameters = StagHuntParameters
    policies = POLICIES
    read_texts = frozenset({"word"})
    prompts = texts.StagHuntPrompts()
    evidence = StagHuntEvidence()

    def set_up(self) -> None:
        """Seat the players in the order of their neutral names, which says nothing about roles."""
        self._published = self.parameters.rules == PUBLISHED
        # Whether words are hidden from those who act, and shown to those who speak.
        self._hides_to_act = self.parameters.hides == "words_when_acting"
        self._players = {seat.name: seat for seat in sorted(self.seats, key=lambda seat: by_number(seat.name))}
        self._links = Links(list(self._players), self.network)
        self.honest = [name for name, seat in self._players.items() if seat.role == HONEST]
        self._known = {name: self._known_to(name) for name in self._players}
        # By the published rules, what prompts call those whom a player knows, and the hub of a star.
        self._called = {
            me: {label: texts.agent_name(me) if label == YOU else label for label in of.values()}
            for me, of in self._known.items()
            if self._published
        }
        hubs = (name for name in self._players if len(self._links.neighbors(name)) == len(self._players) - 1)
        self._hub = next(hubs, "") if isinstance(self.parameters.topology, Star) else ""
        self._needed = self.parameters.hunters_needed(len(self.seats))
        self.rounds: list[HuntRound] = []
        # What each player saw of each round, and how prompts tell it, by phase.
        self._history: dict[str, dict[str, list[tuple[SeenRound, str]]]] = {}
        for name in self._players:
            to_act: list[tuple[SeenRound, str]] = []
            self._history[name] = {"act": to_act, "signal": [] if self._hides_to_act else to_act}

    def play(self) -> Generator[list[Ask], list[Reply], Outcome]:
        """Play all rounds: words, where there is cheap talk, then actions."""
        for number in range(1, self.parameters.rounds + 1):
            said: dict[str, str | None] = {}
            if self.parameters.cheap_talk:
                replies = yield from self._replies(number, "signal", {})
                said = {name: _field(reply, "word") for name, reply in replies.items()}
            words = {name: None if text is None else self._heard(text) for name, text in said.items()}
            replies = yield from self._replies(number, "act", words)
            self._close(number, said, words, {name: _action(reply) for name, reply in replies.items()})
        return self._outcome()

    def _replies(
        self, number: int, phase: str, words: Mapping[str, str | None]
    ) -> Generator[list[Ask], list[Reply], dict[str, Reply]]:
        """Ask all players, and by the published rules once more those whose reply cannot be used (A.7)."""
        asks = [self._ask(name, number, phase, words) for name in self._players]
        answers = yield asks
        replies = dict(zip(self._players, answers, strict=True))
        failed = [ask for ask in asks if self._published and replies[ask.agent].value is None]
        if failed:
            answers = yield [texts.asked_again(ask, self._sent_to(ask.agent)) for ask in failed]
            replies |= dict(zip([ask.agent for ask in failed], answers, strict=True))
        return replies

    def _heard(self, text: str) -> str | None:
        """Return the word that others hear; by the published rules of several words the first."""
        return one_word((text.split() or [""])[0] if self._published else text)

    @classmethod
    def imported_material(
        cls, parameters: StagHuntParameters, roles: Mapping[str, str], recorded: Mapping[str, Any]
    ) -> Any:
        """Return None: a seed deals nothing that the rules need."""
        return None

    @classmethod
    def check(cls, parameters: StagHuntParameters, groups: Sequence[Group]) -> None:
        """Raise UsageError if there is no such network, or if the hunt needs more players than there are."""
        super().check(parameters, groups)
        n = sum(group.count for group in groups)
        if n < 2:
            raise UsageError(f"a stag hunt needs two players (n = {n}); raise n")
        if not any(group.role == HONEST and group.count for group in groups):
            raise UsageError("a stag hunt needs an honest player; raise n or lower b")
        if parameters.hunters_needed(n) > n:
            raise UsageError(f"needed: {parameters.needed}: more than the players (n = {n}); lower it")

    @classmethod
    def possible_outcomes(cls, parameters: StagHuntParameters, groups: Sequence[Group]) -> frozenset[str]:
        """Return the outcomes that the number of hunters needed allows; Byzantine players may hunt the stag, too."""
        n = sum(group.count for group in groups)
        honest = sum(group.count for group in groups if group.role == HONEST)
        needed = parameters.hunters_needed(n)
        impossible = set() if parameters.rules == PUBLISHED else {EXCLUDED}
        if needed == n or honest == 1:  # a hunt that succeeds has some honest player in it, and not all of them
            impossible.add(PARTIAL)
        if needed == 1:  # nobody hunts in vain
            impossible.add(EXPLOITED)
        return super().possible_outcomes(parameters, groups) - impossible

    @classmethod
    def beyond(cls, parameters: StagHuntParameters, groups: Sequence[Group]) -> Iterable[str]:
        """Return what is beyond the paper (A.5), whose Byzantine players are all scripted betrayers."""
        kinds = [group.policy.kind for group in groups if group.role == BYZANTINE and group.count]
        return sorted({"asks a model" if kind.asks_model else kind.beyond for kind in kinds} - {""})

    def _watched(self, name: str) -> Sequence[str]:
        """Return whose actions a player sees besides its own: its neighbors, then others whom it sees act."""
        neighbors = self._links.neighbors(name)
        if self.parameters.hides == "words+actions":
            return neighbors
        return [*neighbors, *(other for other in self._players if other not in self._links.seen_by(name))]

    def _hears(self, name: str, phase: str) -> frozenset[str]:
        """Return whose words a player sees in a phase, its own among them."""
        return frozenset(self._players) if self._hides_to_act and phase == "signal" else self._links.seen_by(name)

    def _known_to(self, name: str) -> dict[str, str]:
        """Return what a player calls those it sees, by name: numbered without gaps, but by the published rules."""
        watched = self._watched(name)
        if self._published:
            seen = [other for other in self._players if other == name or other in watched]
            return {other: YOU if other == name else texts.agent_name(other) for other in seen}
        return {name: YOU} | {peer: f"player_{i + 1}" for i, peer in enumerate(watched)}

    def _ask(self, name: str, number: int, phase: str, words: Mapping[str, str | None]) -> Ask:
        p, seat = self.parameters, self._players[name]
        known = self._known[name]
        shown = {known[other]: words[other] for other in known if other in self._hears(name, phase)} if words else {}
        kept = len(self.rounds) if p.history_rounds is None else p.history_rounds
        history = self._history[name][phase][max(0, len(self.rounds) - kept) :]
        others = [known[peer] for peer in self._links.neighbors(name)]
        nested = self._published and seat.policy.kind.asks_model  # rules and own code keep the short form
        view = StagHuntView(
            phase=phase,
            role=seat.role,
            round=number,
            words=shown,
            history=tuple(seen for seen, _ in history),
            cheap_talk=p.cheap_talk,
            cooperative_words=p.cooperative_words,
            needed=self._needed,
            stag=p.stag,
            alone=p.alone,
            hare=p.hare,
            published=nested,
        )
        past = texts.history_text(number, [told for _, told in history])
        said = texts.words_text(shown, self._called.get(name, {}))
        if self._published:
            places: dict[str, object] = {"player_id": by_number(name)[-1], "neighbors": ", ".join(others)}
            places |= {"round_num": number, "history_str": past, "comm_str": said}
            places["hub_name"] = texts.agent_name(self._hub) if self._hub else ""
        else:
            places = texts.places(p, len(self._players), others, self._sent_to(name))
            places |= {"history": past, "words": said}
        return self.ask(seat, number, phase, places, hunt_model(phase, p.reasoning_chars, nested), view)

    def wording(self, seat: Seat, phase: Phase, part: str, form: Instruction) -> str:
        """Return the unfilled text of a part of a question, with the nudge and with what the published rules print."""
        p, sent, text = self.parameters, self._sent_to(seat.name), super().wording(seat, phase, part, form)
        if self._published and part == "user":
            players, heard = len(self._players), len(self._links.neighbors(seat.name))
            seen = texts.visibility(seat.name, players, heard, self._hub)
            return texts.published_user(text, phase.name, p, players, heard, seen, sent)
        if self._published and part == "system" and seat.role == BYZANTINE:
            return f"{text}\n{sent[texts.AIM]}"
        return text

    def _sent_to(self, name: str) -> Mapping[str, str]:
        """Return the texts that a player is sent."""
        return self.sent(self._players[name].prompt, self._players[name].role)

    def _remember(self, done: HuntRound) -> None:
        """Add a round to what each player saw."""
        for name, known in self._known.items():
            for phase in ("act", "signal") if self._hides_to_act else ("act",):
                hears = self._hears(name, phase)
                # By the published rules a player is told the points of all whom it sees.
                told = [o for o in known if self._published or o == name] if self.parameters.show_points else []
                points = {known[other]: done["points"][other] for other in told}
                seen = SeenRound(
                    number=done["round"],
                    words={known[o]: done["words"][o] for o in known if o in hears} if done["words"] else {},
                    actions={known[other]: done["actions"][other] for other in known},
                    points=points.get(YOU),
                )
                self._history[name][phase].append((seen, texts.round_text(seen, points, self._called.get(name, {}))))

    def _close(
        self,
        number: int,
        said: Mapping[str, str | None],
        words: Mapping[str, str | None],
        actions: Mapping[str, Action | None],
    ) -> None:
        """Give the points of a round, and add it to what is kept and to the trace."""
        p, honest = self.parameters, self.honest
        hunters = sum(action == STAG for action in actions.values())
        success = hunters >= self._needed
        points = p.points(actions)
        promised = [word is not None and word.casefold() in p.cooperative_words for word in map(words.get, honest)]
        done: HuntRound = {
            "round": number,
            "words": dict(words),
            "not_words": {
                name: one_line(text) for name, text in said.items() if text is not None and words[name] is None
            },
            "actions": dict(actions),
            "points": points,
            "hunters": hunters,
            "success": success,
            "measures": {
                "cooperation": sum(actions[name] == STAG for name in honest) / len(honest),
                "success": float(success),
                "payoff": sum(points[name] for name in honest) / len(honest) / p.stag,
                "promises": sum(promised) / len(honest) if p.cheap_talk else None,
            },
        }
        if self._published and None in [*actions.values(), *said.values()]:
            done |= {"excluded": True, "measures": dict.fromkeys(done["measures"])}
        if links := self._links.trace(number):
            done["neighbors"] = links["neighbors"]
        self.rounds.append(done)
        self._remember(done)

    def _outcome(self) -> Outcome:
        honest, rounds, count = self.honest, self.rounds, counted(self.rounds)
        name = _outcome_name(count[-1], honest) if count else EXCLUDED
        choices = [r["actions"][name] for r in count for name in honest]
        payoff = sum(r["points"][name] for r in count for name in honest) / len(choices) if count else None
        failed = next((r["round"] for r in count if not r["success"]), None)
        byzantine = frozenset(self._players) - {*honest}
        return Outcome(
            name=name,
            rounds=len(rounds),
            metrics={
                "hunters_needed": self._needed,
                "byzantine_players": sorted(byzantine, key=by_number),
                "payoffs": {player: sum(r["points"][player] for r in rounds) for player in self._players},
                "stag_share": choices.count(STAG) / len(choices) if choices else None,
                "honest_payoff": payoff,
                "loss": None if payoff is None else self.parameters.stag - payoff,
                "full_payoff": self.parameters.stag,
                "successes": sum(r["success"] for r in count),
                "last_round_cooperative": name == COOPERATION if count else None,
                "first_failure_round": failed,
                "idle": sum(action is None for r in rounds for action in r["actions"].values()),
                "no_words": sum(word is None for r in rounds for word in r["words"].values()),
                "not_words": sum(len(r["not_words"]) for r in rounds),
                **({"excluded_rounds": len(rounds) - len(count)} if self._published else {}),
                **betrayal_metrics(
                    rounds,
                    honest,
                    byzantine,
                    {player: frozenset(self._watched(player)) for player in honest},
                    self.parameters.archetype_threshold,
                ),
                **self._links.facts(honest),
            },
            trace=tuple(rounds),
        )


def _field(reply: Reply, name: str) -> str | None:
    if reply.value is None:
        return None
    said = reply.value.model_dump()
    action = said.get("action")
    if isinstance(action, dict):  # in the form of the published prompts
        return str(action["choice" if name == "action" else name])
    return str(said[name])


def _action(reply: Reply) -> Action | None:
    """Return the action; None for a player without a usable reply, which hunts nothing."""
    said = _field(reply, "action")
    return None if said is None else STAG if said == STAG else HARE


def _outcome_name(last: HuntRound, honest: Sequence[str]) -> str:
    """Return the outcome of a game whose last round that counts is this one."""
    hunting = sum(last["actions"][name] == STAG for name in honest)
    if not hunting:
        return DEFECTION
    if not last["success"]:
        return EXPLOITED
    return COOPERATION if hunting == len(honest) else PARTIAL
