"""The prompts of the consensus game: Figures 5 to 14 of "Can AI Agents Agree?" (A.3), word for word.

The figures print f-string expressions of Python; each is a place that is known by its text. Two listings lost the text
between angle brackets in print (`"value": ,`): `<integer>` is put back there. The prompts of the swarms protocol are
those of the published code, word for word, too; `vote_on_last_round.txt` alone is our own. Both print the share of
stop votes that ends a game: where a study plays another one, that stands in its place.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from parley.games import prompts as shared
from parley.games.consensus.filters import SCORED, SCORING
from parley.games.consensus.parameters import (
    EARLY_VOTE,
    PUBLISHED_CODE,
    THE_PAPERS_GOAL,
    TWO_THIRDS,
    Agent,
    ConsensusParameters,
    Goal,
    Said,
    Value,
)

FOLDER = Path(__file__).parent / "templates"
_DISCLOSED = FOLDER / "network" / "disclosed.txt"
_PUBLISHED_WORDS = FOLDER / "published_code" / "words.yaml"
_GOAL_WORDS = FOLDER / "goal" / "words.yaml"
_SWARMS = FOLDER / "swarms"
_VOTE_ON_LAST_ROUND = "turn_vote_on_last_round"
_THRESHOLD = "threshold"
TURN = "turn"
_PROPOSE, _VOTE, _TURN = (
    shared.Phase(
        phase,
        system=f"{phase}_system",
        user=f"{phase}_user",
        reply=f"consensus_{{role}}_{phase}",
        prints_json=True,
        doubled=phase == TURN,
    )
    for phase in ("propose", "vote", TURN)
)
_TURN_ON_LAST_ROUND = replace(_TURN, pieces=(_VOTE_ON_LAST_ROUND,))
# By protocol: the stop threshold that the templates tell, and how they print it.
_PRINTED: Mapping[str, tuple[Fraction, str]] = {
    "paper": (Fraction(66, 100), "66%+"),
    "swarms": (TWO_THIRDS, "two-thirds"),
}
_PUBLISHED_CHARS = 50  # of a reason in the history of the authors' code
_LARGEST_DENOMINATOR = 20  # of fractions that are told as such

_SHARED: dict[str, shared.Template] = {
    "honest_propose_user": FOLDER / "fig09_honest_propose_user.txt",
    "honest_vote_user": FOLDER / "fig10_honest_vote_user.txt",
    "honest_score_system": FOLDER / "score" / "system.txt",
    "honest_score_user": FOLDER / "score" / "user.txt",
    "byzantine_propose_system": FOLDER / "fig05_byzantine_propose_system.txt",
    "byzantine_propose_user": FOLDER / "fig06_byzantine_propose_user.txt",
    "byzantine_vote_user": FOLDER / "fig07_byzantine_vote_user.txt",
    "byzantine_vote_system": FOLDER / "fig08_byzantine_vote_system.txt",
    "byzantine_turn_system": _SWARMS / "byzantine_prompt.txt",
    **shared.for_roles(
        {"turn_user": _SWARMS / "round_prompt.txt", _VOTE_ON_LAST_ROUND: _SWARMS / "vote_on_last_round.txt"}
    ),
}


# Whether honest agents are told that Byzantine agents may exist, or that none do (section 4.1).
_VARIANTS: dict[str, dict[str, shared.Template]] = {
    "may_exist": {
        **_SHARED,
        "honest_propose_system": FOLDER / "fig11_honest_may_exist_propose_system.txt",
        "honest_vote_system": FOLDER / "fig13_honest_may_exist_vote_system.txt",
        "honest_turn_system": _SWARMS / "honest_prompt.txt",
    },
    "none_exist": {
        **_SHARED,
        "honest_propose_system": FOLDER / "fig12_honest_none_exist_propose_system.txt",
        "honest_vote_system": FOLDER / "fig14_honest_none_exist_vote_system.txt",
        "honest_turn_system": _SWARMS / "cooperative_prompt.txt",
    },
}


@cache
def _words(file: Path) -> Mapping[str, Any]:
    return dict(yaml.safe_load(shared.text_of(file)))


_MY_VALUE = (
    'f"Your current value: {int(self.my_value)}" if self.my_value is not None else "You have not proposed a value yet"'
)
# The paper has it in two spellings.
_SUMMARIES = [
    f'history_summary if history_summary and "{none}" not in history_summary'
    ' else "(This is round 1 - no previous history)"'
    for none in ("(No history", "(No history)")
]
# The paper prints expressions.
_PLAIN = {
    "self.agent_id": "agent_id",
    "int(self.initial_value)": "initial_value",
    _MY_VALUE: "current_value",
    **dict.fromkeys(_SUMMARIES, "history"),
    'previous_strategies if previous_strategies else "(No notes yet)"': "private_notes",
    'previous_strategies if previous_strategies else "(No notes)"': "notes",
}


def places(
    agent: Agent, number: int, p: ConsensusParameters, history: str, this_round: str, notes: str
) -> dict[str, object]:
    """Return what stands in each place, by its plain name and as printed, when an agent is asked in round `number`."""
    value, published = agent.current_value, p.rules == PUBLISHED_CODE
    values = {
        "agent_id": agent.name,
        "current_round": number,
        "max_rounds": p.max_rounds,
        "value_min": p.value_min,
        "value_max": p.value_max,
        "initial_value": number_text(agent.initial_value),  # of Byzantine agents none, and no place for it
        "current_value": "You have not proposed a value yet"
        if value is None
        else f"Your current value: {number_text(value)}",
        "history_summary": history or (published_text("no_history") if published else "(No history yet)"),
        "history": history or "(This is round 1 - no previous history)",
        "current_round_summary": this_round,
        "private_notes": notes or "(No notes yet)",
        "notes": notes or "(No notes)",
    }
    return values | {printed: values[name] for printed, name in _PLAIN.items()}


def number_text(value: Value | None) -> str:
    """Return a value as prompts show it: in full, so that agents can propose the very same, and 20 instead of 20.0."""
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


def proposals_text(agent: str, heard: Mapping[str, Said]) -> str:
    """Return one line per proposal as `agent` sees it; the reason is quoted, so that it cannot forge a line's end."""
    lines = []
    for name, said in heard.items():
        you = " (you)" if name == agent else ""
        told = "(no proposal)"
        if said.value is not None:
            told = f"{number_text(said.value)} | Reasoning: {_quote(said.text)}"
        lines.append(f"  {name}{you}: {told}")
    return "\n".join(lines)


_quote = json.encoder.encode_basestring  # `json.dumps` of a text, without its layers


def published_text(name: str, **values: object) -> str:
    """Return a text of the authors' code, by its name in `words.yaml`, with its places filled."""
    return shared.fill(_words(_PUBLISHED_WORDS)[name], values)


def published_round_text(number: int, heard: Mapping[str, Said]) -> str:
    """Return the line of a round in the history, by letter; a longer reason is cut, dots included, and quoted."""
    lines = []
    for name, said in sorted(heard.items()):
        why = f"{said.text[: _PUBLISHED_CHARS - 3]}..." if len(said.text) > _PUBLISHED_CHARS else said.text
        value = published_text("abstained") if said.value is None else said.value
        reason = published_text("reason", reason=_quote(why)) if why else ""
        lines.append(published_text("proposal", agent=name, value=value) + reason)
    return published_text("round", number=number, proposals="; ".join(lines))


def published_vote_text(agent: str, heard: Mapping[str, Said]) -> str:
    """Return the proposals that a vote is about: `agent`'s own first, then by letter those who have a value."""
    lines = []
    for name, said in sorted(heard.items(), key=lambda item: (item[0] != agent, item[0])):
        own, why = name == agent, _quote(said.text) if said.text else ""
        if said.value is None:
            lines += [published_text("own_vote_line", agent=agent, value=published_text("abstained"))] * own
            continue
        lines.append(published_text("own_vote_line" if own else "vote_line", agent=name, value=said.value))
        if why or own:
            lines.append(published_text("vote_reason", reason=why or published_text("no_reason")))
    return "\n".join(lines)


def turn_proposals_text(heard: Mapping[str, Said]) -> str:
    """Return one line per proposal, as the published code does; a reason is quoted, so that it can forge nothing."""
    lines = [
        f"- {name}: value={said.value}, reasoning={_quote(said.text) if said.text else ''}"
        for name, said in heard.items()
    ]
    return "\n".join(lines) or "- No proposals yet."


def share_text(share: Fraction) -> str | None:
    """Return how a prompt tells a share: `50%`, `66.5%`, `2/3`; None for one that takes more digits than that."""
    if (share * 1000).denominator == 1:
        return f"{float(share * 100):g}%"
    return str(share) if share.denominator <= _LARGEST_DENOMINATOR else None


def threshold_text(parameters: ConsensusParameters, scripted: bool = False) -> str | None:
    """Return what stands for the printed stop threshold; None where the templates are sent as printed.

    So they are where they tell what is played, and with the rules of the authors' code, which says 66% and plays 2/3.
    Scripted agents read nothing: at 2/3 theirs stay as they were, since ids and records of theirs are older than this.
    """
    threshold, (printed, _) = parameters.stop_threshold, _PRINTED[parameters.protocol]
    as_printed = {printed, TWO_THIRDS} if scripted or parameters.rules == PUBLISHED_CODE else {printed}
    share = share_text(threshold)
    if share is None or threshold in as_printed:
        return None
    return share if parameters.protocol == "swarms" or threshold == 1 else f"{share}+"


@cache
def goal_words(goal: Goal) -> tuple[tuple[str, str], ...]:
    """Return what stands for which printed words where something else than the paper's agreement is asked for."""
    words = _words(_GOAL_WORDS)
    played = {**(words["real"] if goal.values == "real" else {}), **(words["hull"] if goal.validity == "hull" else {})}
    if goal.within:
        mark = "=== OUTPUT FORMAT ==="  # system prompts alone have it
        played[mark] = f"{shared.fill(words['within'], {'within': number_text(goal.within)})}\n{mark}"
    return tuple(played.items())


def _reworded(text: str, words: Sequence[tuple[str, str]]) -> str:
    for printed, played in words:
        text = text.replace(printed, played)
    return text


class ConsensusPrompts(shared.Prompts[ConsensusParameters]):
    """The paper's two variants, of which the phases of the protocol that is played are sent."""

    variants = _VARIANTS
    plain = _PLAIN

    def asked(self, parameters: ConsensusParameters) -> Sequence[shared.Phase]:
        """Return the phases of the protocol that is played, and the one that scores."""
        if parameters.protocol == "swarms":
            return [_TURN if EARLY_VOTE in parameters.leaks else _TURN_ON_LAST_ROUND]
        return [_PROPOSE, _VOTE, *[SCORING] * (parameters.filter.kind == SCORED)]

    def besides(self, parameters: ConsensusParameters) -> Mapping[str, shared.Template]:
        """Return what stands for printed words, and what is told of the network."""
        told: dict[str, shared.Template] = {}
        if threshold := threshold_text(parameters):
            told[_THRESHOLD] = threshold
        if parameters.goal != THE_PAPERS_GOAL:
            told["goal"] = _GOAL_WORDS
        if parameters.rules == PUBLISHED_CODE:
            told["published_code"] = _PUBLISHED_WORDS
        if parameters.disclose_topology:
            told["network"] = _DISCLOSED
        return shared.for_roles(told)

    def digests(
        self, prompt: str, roles: Iterable[str], parameters: ConsensusParameters, scripted: Collection[str] = ()
    ) -> dict[str, str]:
        """Return the SHA-256 of the templates, and of what stands for the threshold that they print."""
        digests = super().digests(prompt, roles, parameters)
        unread = scripted if threshold_text(parameters, scripted=True) is None else ()
        return {name: sha for name, sha in digests.items() if name not in [f"{role}_{_THRESHOLD}" for role in unread]}

    def worded(
        self,
        template: str,
        part: str,
        form: shared.Instruction,
        prompt: str,
        role: str,
        scripted: bool,
        parameters: ConsensusParameters,
    ) -> str:
        """Return a printed template in the words of what is played; `scripted` agents do not read it."""
        words = goal_words(parameters.goal)
        text = _reworded(template, words)
        if part == "follow_up":
            return text
        texts = self.sent(prompt, role, parameters)
        if form.reply:
            text = shared.without_json(text) + (f"\n{_reworded(form.reply, words)}" if part == "user" else "")
        if part == "system" and _VOTE_ON_LAST_ROUND in texts:
            text += f"\n\n{texts[_VOTE_ON_LAST_ROUND]}"
        if threshold := threshold_text(parameters, scripted):
            text = text.replace(_PRINTED[parameters.protocol][1], threshold)
        return f"{text}\n{texts['network']}" if part == "system" and "network" in texts else text
