"""The stag hunt with cheap talk.

After "Byzantine Cheap Talk: Adversarial Resilience and Topology Effects in LLM Coordination Games", appendix A.

N players hunt together over several rounds. Each broadcasts one word, then all choose at once between the stag, which
takes all of them, and the hare, which takes nobody else. Words and actions are seen along a network.
"""

from collections.abc import Generator, Mapping, Sequence

from parley.errors import UsageError
from parley.games.base import BYZANTINE, HONEST, Game, Group, Outcome, OutcomeClass
from parley.games.network.links import Links
from parley.games.stag_hunt import prompts as texts
from parley.games.stag_hunt.betrayal import betrayal_metrics, recovery_metrics
from parley.games.stag_hunt.evidence import StagHuntEvidence
from parley.games.stag_hunt.parameters import LONGEST_WORD, StagHuntParameters, act_model, signal_model
from parley.games.stag_hunt.policies import POLICIES
from parley.games.stag_hunt.state import HARE, STAG, YOU, Action, Round, Seen, StagHuntView, one_word
from parley.policies import Ask, Reply
from parley.policies.kinds import with_instructions
from parley.text import by_number, one_line

COOPERATION = "cooperation"
PARTIAL = "partial_cooperation"
EXPLOITED = "exploited"
DEFECTION = "defection"


class StagHuntGame(Game[StagHuntParameters]):
    """N players, B of them Byzantine, hunt a stag together, or hares alone."""

    name = "stag_hunt"
    protocol_version = 3
    importable = True
    outcomes = (
        OutcomeClass(COOPERATION, "all honest players hunt the stag, and get it", "#0072B2", ""),
        OutcomeClass(PARTIAL, "some honest players get the stag", "#56B4E9", "\\\\"),
        OutcomeClass(EXPLOITED, "honest players hunt the stag in vain", "#D55E00", "///"),
        OutcomeClass(DEFECTION, "no honest player hunts the stag", "#D9D9D9", ".."),
    )
    Parameters = StagHuntParameters
    policies = POLICIES
    read_texts = frozenset({"word"})
    prompts = texts.StagHuntPrompts()
    evidence = StagHuntEvidence()

    def set_up(self) -> None:
        """Seat the players in the order of their neutral names, which says nothing about roles."""
        self._players = {seat.name: seat for seat in sorted(self.seats, key=lambda seat: by_number(seat.name))}
        self._links = Links(list(self._players), self.network)
        self.honest = [name for name, seat in self._players.items() if seat.role == HONEST]
        self._known = {name: self._known_to(name) for name in self._players}
        self._needed = self.parameters.hunters_needed(len(self.seats))
        self.rounds: list[Round] = []
        # What each player saw of each round, and how prompts tell it.
        self._history: dict[str, list[tuple[Seen, str]]] = {name: [] for name in self._players}

    def play(self) -> Generator[list[Ask], list[Reply], Outcome]:
        """Play all rounds: words, where there is cheap talk, then actions."""
        for number in range(1, self.parameters.rounds + 1):
            said: dict[str, str | None] = {}
            if self.parameters.cheap_talk:
                replies = yield [self._ask(name, number, "signal", {}) for name in self._players]
                said = {name: _field(reply, "word") for name, reply in zip(self._players, replies, strict=True)}
            words = {name: None if text is None else one_word(text, LONGEST_WORD) for name, text in said.items()}
            replies = yield [self._ask(name, number, "act", words) for name in self._players]
            actions = {name: _action(reply) for name, reply in zip(self._players, replies, strict=True)}
            self._close(number, said, words, actions)
        return self._outcome()

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
        needed, impossible = parameters.hunters_needed(n), set()
        if needed == n or honest == 1:  # a hunt that succeeds has some honest player in it, and not all of them
            impossible.add(PARTIAL)
        if needed == 1:  # nobody hunts in vain
            impossible.add(EXPLOITED)
        return super().possible_outcomes(parameters, groups) - impossible

    @classmethod
    def threat_model(cls, parameters: StagHuntParameters, groups: Sequence[Group]) -> str:
        """Return "paper" if all Byzantine players are scripted betrayers, as in the paper (A.5); else what is not."""
        kinds = [group.policy.kind for group in groups if group.role == BYZANTINE and group.count]
        reasons = {"asks a model" if kind.asks_model else kind.beyond for kind in kinds} - {""}
        if reasons:
            return f"beyond: {'; '.join(sorted(reasons))}"
        if any(kind.is_plugin for kind in kinds):
            return "unknown: own policy"
        return "paper" if kinds else "none"

    # What a player is asked, and what it sees

    def _known_to(self, name: str) -> dict[str, str]:
        """Return what a player calls itself and those it sees, by name; the numbers have no gaps for the hidden."""
        return {name: YOU} | {peer: f"player_{i + 1}" for i, peer in enumerate(self._links.neighbors(name))}

    def _ask(self, name: str, number: int, phase: str, words: Mapping[str, str | None]) -> Ask:
        p, seat = self.parameters, self._players[name]
        known = self._known[name]
        shown = {known[other]: words[other] for other in known} if words else {}
        kept = len(self.rounds) if p.history_rounds is None else p.history_rounds
        history = self._history[name][max(0, len(self.rounds) - kept) :]
        others = [label for label in known.values() if label != YOU]
        reply_format = p.format_for(seat)
        told_reply = texts.told_reply(phase, reply_format)
        values = texts.PromptValues(len(self._players), others, [told for _, told in history], number, shown)
        return Ask(
            agent=name,
            role=seat.role,
            round=number,
            phase=phase,
            system=with_instructions(texts.render_system(seat.role, p, values), seat.policy),
            user=texts.render_user(phase, p, values, told_reply.reply),
            reply_model=(signal_model if phase == "signal" else act_model)(p.reasoning_chars),
            sampling=p.signal if phase == "signal" else p.act,
            reply_format=reply_format,
            follow_up=told_reply.follow_up,
            view=StagHuntView(
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
            ),
        )

    def _remember(self, done: Round) -> None:
        """Add a round to what each player saw."""
        for name, known in self._known.items():
            seen = Seen(
                number=done["round"],
                words={known[other]: done["words"][other] for other in known} if done["words"] else {},
                actions={known[other]: done["actions"][other] for other in known},
                points=done["points"][name] if self.parameters.show_points else None,
            )
            self._history[name].append((seen, texts.round_text(seen)))

    # What a round comes to

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
        worth: Mapping[Action | None, int] = {STAG: p.stag if success else p.alone, HARE: p.hare, None: 0}
        points = {name: worth[action] for name, action in actions.items()}
        promised = [word is not None and word.casefold() in p.cooperative_words for word in map(words.get, honest)]
        done: Round = {
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
        if links := self._links.trace(number):
            done["neighbors"] = links["neighbors"]
        self.rounds.append(done)
        self._remember(done)

    # How it ended

    def _outcome(self) -> Outcome:
        last, honest, rounds = self.rounds[-1], self.honest, self.rounds
        hunting = sum(last["actions"][name] == STAG for name in honest)
        name = _outcome_name(last["success"], hunting, len(honest))
        choices = [r["actions"][name] for r in rounds for name in honest]
        payoff = sum(r["points"][name] for r in rounds for name in honest) / len(choices)
        failed = next((r["round"] for r in rounds if not r["success"]), None)
        byzantine = frozenset(self._players) - {*honest}
        return Outcome(
            name=name,
            detail=None,
            diagnosis=None,
            rounds=len(rounds),
            finished_early=False,
            metrics={
                "hunters_needed": self._needed,
                "byzantine_players": sorted(byzantine, key=by_number),
                "payoffs": {player: sum(r["points"][player] for r in rounds) for player in self._players},
                "stag_share": choices.count(STAG) / len(choices),
                "honest_payoff": payoff,
                "loss": self.parameters.stag - payoff,
                "full_payoff": self.parameters.stag,
                "successes": sum(r["success"] for r in rounds),
                "last_round_cooperative": name == COOPERATION,
                "first_failure_round": failed,
                "idle": sum(action is None for r in rounds for action in r["actions"].values()),
                "no_words": sum(word is None for r in rounds for word in r["words"].values()),
                "not_words": sum(len(r["not_words"]) for r in rounds),
                **recovery_metrics(rounds, byzantine),
                **betrayal_metrics(
                    rounds,
                    honest,
                    byzantine,
                    {player: self._links.seen_by(player) for player in honest},
                    self.parameters.archetype_threshold,
                ),
                **self._links.facts(honest),
            },
            trace=tuple(rounds),
        )


def _field(reply: Reply, name: str) -> str | None:
    return None if reply.value is None else str(reply.value.model_dump()[name])


def _action(reply: Reply) -> Action | None:
    """Return the action; None for a player without a usable reply, which hunts nothing."""
    said = _field(reply, "action")
    return None if said is None else STAG if said == STAG else HARE


def _outcome_name(success: bool, hunting: int, honest: int) -> str:
    """Return the outcome of a last round in which `hunting` of `honest` players hunted the stag."""
    if not hunting:
        return DEFECTION
    if not success:
        return EXPLOITED
    return COOPERATION if hunting == honest else PARTIAL
