"""The prompts of the stag hunt: Parley's own words, after the fragments in the paper's appendix A.

Each piece of the rules is a file, so that the identity of a simulation has those that were sent.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from parley.games.parameters import BYZANTINE, HONEST
from parley.games.prompts import (
    Prompts,
    QuestionStyle,
    Template,
    fill,
    instruction_files,
    text_of,
)
from parley.games.stag_hunt.parameters import ALL, HARE, PUBLISHED, STAG, YOU, Action, SeenRound, StagHuntParameters
from parley.policies import Ask
from parley.text import by_number

FOLDER = Path(__file__).parent / "templates"
PHASES = ("signal", "act")
PLAIN = "plain"
REPLIES = {phase: f"stag_hunt_{phase}" for phase in PHASES}  # kinds of replies (parley.games.prompts)
_ROLES = (HONEST, BYZANTINE)

ACTION_TEXTS: Mapping[Action | None, str] = {STAG: STAG, HARE: HARE, None: "(no action)"}


@dataclass(frozen=True)
class PromptValues:
    """What the prompts of one ask are filled with: `players` in all, those that this one sees, and what it saw.

    `history` has the rounds that are shown, each as `round_text` tells it. `words` are those of this round, by the
    names that this player knows.
    """

    players: int
    seen: Sequence[str]
    history: Sequence[str]
    round: int
    words: Mapping[str, str | None]


def _names(parameters: StagHuntParameters) -> list[str]:
    """Return the templates that are sent with these parameters, without their role."""
    p = parameters
    return [
        "system",
        "players_told" if p.count_told else "players_untold",
        "payoffs_all" if p.needed == ALL else "payoffs_some",
        *(["talk", "signal_user", "act_after_words_user"] if p.cheap_talk else ["act_user"]),
        *_of_links(p),
        *(["seen_some", "seen_nobody"] if p.links_told else []),
        *(["nudge"] if p.nudge else []),
    ]


def _of_links(p: StagHuntParameters) -> list[str]:
    """Return the pieces that tell who sees whom, and the note on payoffs, in their order.

    All of them together are one file: identities are older than the pieces.
    """
    hidden = "hidden_players" if p.hides == "words+actions" else "hidden_words"
    pieces = ["links"] if p.links_told else []
    pieces += [hidden] if p.links_told and p.count_told else []  # how many are hidden tells how many there are
    pieces += ["payoff_note"] if p.payoff_note else []
    return ["visibility"] if pieces == ["links", "hidden_players", "payoff_note"] else pieces


def _filled(name: str, values: Mapping[str, str]) -> str:
    return fill(text_of(FOLDER / f"{name}.txt"), values)


def render_system(role: str, parameters: StagHuntParameters, values: PromptValues) -> str:
    """Return the system prompt: the rules, and what is told of who sees whom."""
    p, told = parameters, set(_names(parameters))
    numbers = {
        "n": str(values.players),
        "counted": f"{values.players} " if p.count_told else "",
        "needed": p.needed,
        "stag": str(p.stag),
        "alone": str(p.alone),
        "hare": str(p.hare),
        "seen_things": ("words and actions" if p.cheap_talk else "actions") if p.hides == "words+actions" else "words",
        "seen": ", ".join(values.seen),
        "unseen": str(values.players - 1 - len(values.seen)),
    }
    numbers["seen_by_you"] = _filled("seen_some" if values.seen else "seen_nobody", numbers)
    before = {"payoff_note": "- " if p.links_told else "\n"}  # an item of the section, or a paragraph of its own
    pieces = {
        "players": _filled("players_told" if p.count_told else "players_untold", numbers),
        "payoffs": _filled("payoffs_all" if p.needed == ALL else "payoffs_some", numbers),
        "talk": "\n" + _filled("talk", numbers) if "talk" in told else "",
        "visibility": "".join(f"\n{before.get(piece, '')}{_filled(piece, numbers)}" for piece in _of_links(p)),
        "aim": "\n" + _filled("byzantine_aim", numbers) if role == BYZANTINE else "",
    }
    return _filled("system", pieces)


def render_user(phase: str, parameters: StagHuntParameters, values: PromptValues, reply: str) -> str:
    """Return the user prompt of a phase: what was seen, the task, and what is said of the `reply`."""
    words = "\n".join(f"  {name}: {word_text(word)}" for name, word in values.words.items())
    name = "signal_user" if phase == "signal" else "act_after_words_user" if parameters.cheap_talk else "act_user"
    if phase == "act" and parameters.nudge:
        reply = f"{_filled('nudge', {})}\n{reply}"
    return _filled(name, {"history": history_text(values), "words": words, "reply": reply})


def history_text(values: PromptValues) -> str:
    """Return the rounds that are shown, the first one first: what is shown stays as it was as rounds are added."""
    if values.round == 1:
        return "(this is the first round)"
    if not values.history:
        return "(earlier rounds are not shown)"
    return "\n".join(values.history)


def round_text(seen: SeenRound, points: Mapping[str, int], called: Mapping[str, str]) -> str:
    """Return what a prompt's history tells of one round, by what prompts call those whom the view knows."""
    lines = [f"Round {seen.number}:"]
    for name, action in seen.actions.items():
        word = f"{word_text(seen.words[name])}, then " if name in seen.words else ""
        paid = f" ({points[name]} points)" if name in points else ""
        lines.append(f"  {called.get(name, name)}: {word}{ACTION_TEXTS[action]}{paid}")
    return "\n".join(lines)


def word_text(word: str | None) -> str:
    """Return how prompts show a word: quoted, so that it cannot forge anything."""
    return "(no word)" if word is None else json.dumps(word, ensure_ascii=False)


_VARIANTS = {PLAIN: {f"{role}_{path.stem}": path for role in _ROLES for path in sorted(FOLDER.glob("*.txt"))}}


class StagHuntPrompts(Prompts[StagHuntParameters]):
    """One variant, whose pieces depend on the parameters."""

    variants = _VARIANTS
    phases = PHASES
    questions = (
        QuestionStyle("stag_hunt", PLAIN, "word", told="The word that you broadcast is your answer to this question."),
    )

    def files(self, prompt: str, parameters: StagHuntParameters) -> Mapping[str, Template]:
        """Return the pieces that are sent with these parameters."""
        if parameters.rules == PUBLISHED:
            of_paper = published_files(parameters)
            aim = f"{BYZANTINE}_byzantine_aim"
            return {f"{role}_{name}": path for role in _ROLES for name, path in of_paper.items()} | {
                aim: self.variants[prompt][aim]
            }
        names = [f"{role}_{name}" for role in _ROLES for name in _names(parameters)]
        replies = {
            f"{role}_reply_{phase}_{part}": path
            for role in _ROLES
            for phase in PHASES
            if phase == "act" or parameters.cheap_talk
            for part, path in instruction_files(REPLIES[phase], parameters.reply_format).items()
        }
        return {name: self.variants[prompt][name] for name in [*names, f"{BYZANTINE}_byzantine_aim"]} | replies

    def template(self, prompt: str, role: str, phase: str, part: str) -> str:
        """Return the unfilled text of one prompt: of actions the one after words."""
        text = super().template(prompt, role, phase, part)
        return text_of(FOLDER / "act_after_words_user.txt") if (phase, part) == ("act", "user") else text


# The prompts of the published stag hunt, word for word (appendix A), and what stands for what they print
#
# Files are named after the sections: A, A.1 (communication), A.2 (action), A.3 (who sees whom). Those called `own_`
# are Parley's: what the paper does not print, as its history; ours has the same content.
#
# They print four players. Another number, or none (A.4), is put in the place of each printed one before anything is
# filled in.


NUDGE, PAYOFF_NOTE = (FOLDER / f"{name}.txt" for name in ("nudge", "payoff_note"))
AGAIN = "_again"  # what the phase of a repeated question is called besides

# What stands for each printed number of players: where it is told, and where it is not (notes of A.1, A.2; A.4).
_COUNTS: Mapping[str, tuple[str, str]] = {
    "N=4 players": ("N={n} players", "a group of players"),
    "all 4 players": ("all {n} players", "all players"),
    "There are 4 players in total.": ("There are {n} players in total.", "This is a multiplayer game."),
    "ALL 4 players": ("ALL {n} players", "ALL players"),
    "All 4 players'": ("All {n} players'", "All players'"),
    "The 4 words": ("The {n} words", "The words"),
}
_WORDS_OF_THE_ROUND = (
    "### CURRENT ROUND INFORMATION\nThe 4 words broadcast by all players in the communication phase are:"
)
_REASONING = '"reasoning": "..."'


def agent_name(number: int) -> str:
    """Return what players call the one of this number."""
    return f"Agent_{number}"


def published_files(parameters: StagHuntParameters) -> Mapping[str, Path]:
    """Return the templates that are sent with these parameters, by name, without their role."""
    p = parameters
    stems = ["a_system", "a1_communication", "a2_action", "own_again_signal", "own_again_act"]
    stems += ["a3_broadcast", "a3_ring", "a3_star_hub", "a3_star_spoke", "own_nobody"] if p.links_told else []
    found = {f"{PUBLISHED}_{stem}": FOLDER / PUBLISHED / f"{stem}.txt" for stem in stems}
    found |= {"nudge": NUDGE} if p.nudge else {}
    return found | ({"payoff_note": PAYOFF_NOTE} if p.payoff_note else {})


def published_system(role: str) -> str:
    """Return the system prompt; a language model that plays a Byzantine player is told its aim besides."""
    aim = "\n" + text_of(FOLDER / "byzantine_aim.txt") if role == BYZANTINE else ""
    return _text("a_system") + aim


def published_user(
    phase: str,
    p: StagHuntParameters,
    me: int,
    players: int,
    heard: Sequence[str],
    hub: str,
    values: Mapping[str, object],
) -> str:
    """Return the user prompt of a phase for player `me` of so many `players`.

    `heard` are those whose words it sees, by name, itself left out; `hub` is whom a star is around, "" for other
    networks. `values` stand for the places `round_num`, `history_str` and, for actions, `comm_str`.
    """
    text = _text("a1_communication" if phase == "signal" else "a2_action")
    if p.payoff_note:
        sentence = "hare hunters get 3." if phase == "signal" else "hare hunters get 3 each."
        text = text.replace(sentence, f"{sentence} {text_of(PAYOFF_NOTE)}")
    if phase == "act":
        if p.links_told:
            seen = f"### COMMUNICATION VISIBILITY\n{_visibility(me, players, heard, hub)}\n\n### MESSAGES YOU CAN SEE"
            text = text.replace(_WORDS_OF_THE_ROUND, seen)
        elif len(heard) + 1 < players:
            text = text.replace("The 4 words", "The words")  # as many as are shown, and not as there are players
        if p.nudge:
            text = text.replace(_REASONING, f'{_REASONING[:-1]} {text_of(NUDGE)}"')
    for printed, (counted, uncounted) in _COUNTS.items():
        text = text.replace(printed, counted.format(n=players) if p.count_told else uncounted)
    return fill(text, {"player_id": me, "neighbors": ", ".join(heard), "hub_name": hub, **values})


def asked_again(ask: Ask) -> Ask:
    """Return the repeated question for a reply that could not be used, with a reminder of its form (A.7)."""
    return replace(ask, phase=ask.phase + AGAIN, user=f"{ask.user}\n\n{_text(f'own_again_{ask.phase}')}")


def shown_as(labels: Mapping[str, str], me: str) -> Mapping[str, str]:
    """Return how prompts call those whom the view calls by `labels`: the player `me` itself by its own name."""
    return {label: agent_name(by_number(me)[-1]) if label == YOU else label for label in labels.values()}


def _visibility(me: int, players: int, heard: Sequence[str], hub: str) -> str:
    """Return what is told of who sees whom; a star's own words for a star, else those of the ring (A.3)."""
    if hub == agent_name(me):
        return _text("a3_star_hub")
    if len(heard) + 1 == players:
        return _text("a3_broadcast")
    if not heard:
        return _text("own_nobody")
    return _text("a3_star_spoke" if hub else "a3_ring")


def _text(stem: str) -> str:
    return text_of(FOLDER / PUBLISHED / f"{stem}.txt")
