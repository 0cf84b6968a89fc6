"""The prompts of the published stag hunt, word for word (appendix A), and what stands for what they print.

Files are named after the sections: A, A.1 (communication), A.2 (action), A.3 (who sees whom). Those called `own_` are
Parley's: what the paper does not print. The paper does not print its history either; ours has the same content.

The files print four players. Another number, or none (A.4), is put in the place of each printed one before anything is
filled in.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from parley.games.parameters import BYZANTINE
from parley.games.prompts import fill, text_of
from parley.games.stag_hunt.parameters import PUBLISHED, YOU, StagHuntParameters
from parley.policies import Ask
from parley.text import by_number

_TEMPLATES = Path(__file__).parent / "templates"
FOLDER = _TEMPLATES / PUBLISHED
NUDGE, PAYOFF_NOTE = (_TEMPLATES / f"{name}.txt" for name in ("nudge", "payoff_note"))
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


def template_files(parameters: StagHuntParameters) -> Mapping[str, Path]:
    """Return the templates that are sent with these parameters, by name, without their role."""
    p = parameters
    stems = ["a_system", "a1_communication", "a2_action", "own_again_signal", "own_again_act"]
    stems += ["a3_broadcast", "a3_ring", "a3_star_hub", "a3_star_spoke", "own_nobody"] if p.links_told else []
    found = {f"{PUBLISHED}_{stem}": FOLDER / f"{stem}.txt" for stem in stems}
    found |= {"nudge": NUDGE} if p.nudge else {}
    return found | ({"payoff_note": PAYOFF_NOTE} if p.payoff_note else {})


def system_text(role: str) -> str:
    """Return the system prompt; a language model that plays a Byzantine player is told its aim besides."""
    aim = "\n" + text_of(_TEMPLATES / "byzantine_aim.txt") if role == BYZANTINE else ""
    return _text("a_system") + aim


def user_text(
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
        text = _after(text, "hare hunters get 3." if phase == "signal" else "hare hunters get 3 each.", PAYOFF_NOTE)
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


def _after(text: str, sentence: str, added: Path) -> str:
    return text.replace(sentence, f"{sentence} {text_of(added)}")


def _text(stem: str) -> str:
    return text_of(FOLDER / f"{stem}.txt")
