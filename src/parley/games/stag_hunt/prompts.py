"""The prompts of the stag hunt: Parley's own words, after the fragments in the paper's appendix A.

Each piece of the rules is a file, so that the identity of a simulation has those that were sent.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from parley.games.parameters import BYZANTINE, ROLES
from parley.games.prompts import Phase, Prompts, fill, for_roles
from parley.games.stag_hunt.parameters import ALL, HARE, PUBLISHED, STAG, Action, SeenRound, StagHuntParameters
from parley.policies import Ask
from parley.text import by_number

FOLDER = Path(__file__).parent / "templates"
PLAIN = "plain"

AIM = f"{BYZANTINE}_aim"
ACTION_TEXTS: Mapping[Action | None, str] = {STAG: STAG, HARE: HARE, None: "(no action)"}


def places(p: StagHuntParameters, players: int, others: Sequence[str], texts: Mapping[str, str]) -> dict[str, object]:
    """Return what stands for the rules, in pieces, and for who sees whom; a player sees these `others` of all.

    `texts` are those that the player is sent.
    """
    numbers: dict[str, object] = {
        "n": players,
        "counted": f"{players} " if p.count_told else "",
        **{"needed": p.needed, "stag": p.stag, "alone": p.alone, "hare": p.hare},
        "seen_things": "words and actions" if p.cheap_talk else "actions",
        "seen": ", ".join(others),
        "unseen": players - 1 - len(others),
    }
    if p.links_told:
        numbers["seen_by_you"] = fill(texts["seen_some" if others else "seen_nobody"], numbers)

    def filled(*names: str, before: str = "") -> str:
        """Return the one of these pieces that is sent, with its places filled; "" where none is."""
        return next((before + fill(texts[name], numbers) for name in names if name in texts), "")

    return {
        "players": filled("players_told", "players_untold"),
        "payoffs": filled("payoffs_all", "payoffs_some"),
        "talk": filled("talk", before="\n"),
        "visibility": filled("visibility", before="\n"),
        "aim": filled(AIM, before="\n"),
    }


def history_text(number: int, rounds: Sequence[str]) -> str:
    """Return what round `number` is shown of those before, the first one first, so that what is shown stays."""
    return "\n".join(rounds) or ("(this is the first round)" if number == 1 else "(earlier rounds are not shown)")


def round_text(seen: SeenRound, points: Mapping[str, int], called: Mapping[str, str]) -> str:
    """Return what a prompt's history tells of one round, by what prompts call those whom the view knows."""
    lines = [f"Round {seen.number}:"]
    for name, action in seen.actions.items():
        word = f"{word_text(seen.words[name])}, then " if name in seen.words else ""
        paid = f" ({points[name]} points)" if name in points else ""
        lines.append(f"  {called.get(name, name)}: {word}{ACTION_TEXTS[action]}{paid}")
    return "\n".join(lines)


def words_text(words: Mapping[str, str | None], called: Mapping[str, str]) -> str:
    """Return a line for each word, by what prompts call those whom the view knows."""
    return "\n".join(f"  {called.get(name, name)}: {word_text(word)}" for name, word in words.items())


def word_text(word: str | None) -> str:
    """Return how prompts show a word: quoted, so that it cannot forge anything."""
    return "(no word)" if word is None else json.dumps(word, ensure_ascii=False)


_PIECES = {path.stem: path for path in sorted(FOLDER.glob("*.txt"))} | {
    f"{PUBLISHED}_{path.stem}": path for path in sorted((FOLDER / PUBLISHED).glob("*.txt"))
}
_SECTIONS = {"signal": "a1_communication", "act": "a2_action"}  # of the appendix
_VARIANTS = {PLAIN: for_roles(_PIECES)}


class StagHuntPrompts(Prompts[StagHuntParameters]):
    """One variant, whose pieces depend on the parameters."""

    variants = _VARIANTS
    parts: Mapping[str, str] = {f"{role}_{PUBLISHED}_{stem}": "user" for role in ROLES for stem in _SECTIONS.values()}

    def asked(self, parameters: StagHuntParameters) -> Sequence[Phase]:
        """Return the phases: words, where there is cheap talk, and actions."""
        p, pieces = parameters, [f"{BYZANTINE}_{AIM}"]
        users = {"signal": "signal_user", "act": "act_after_words_user"} if p.cheap_talk else {"act": "act_user"}
        if p.rules == PUBLISHED:  # whose prompts ask for the form of a reply themselves
            users = {phase: f"{PUBLISHED}_{_SECTIONS[phase]}" for phase in users}
            stems = [f"own_again_{phase}" for phase in users]
            stems += ["a3_broadcast", "a3_ring", "a3_star_hub", "a3_star_spoke", "own_nobody"] if p.links_told else []
            pieces += [f"{PUBLISHED}_{stem}" for stem in stems]
            pieces += [name for name in ("nudge", "payoff_note") if getattr(p, name)]
        else:
            pieces += ["players_told" if p.count_told else "players_untold"]
            pieces += ["payoffs_all" if p.needed == ALL else "payoffs_some", *(["talk"] if p.cheap_talk else [])]
            pieces += ["visibility", "seen_some", "seen_nobody"] if p.links_told else []
        system, reply = (f"{PUBLISHED}_a_system", "") if p.rules == PUBLISHED else ("system", "stag_hunt_{}")
        return [
            Phase(phase, system=system, user=user, pieces=tuple(pieces), reply=reply.format(phase))
            for phase, user in users.items()
        ]


# The prompts of the published stag hunt, word for word (appendix A), and what stands for what they print
#
# Files are named after the sections: A, A.1 (communication), A.2 (action), A.3 (who sees whom); those called `own_`
# are Parley's. They print four players, who all have to hunt, and the payoffs: other numbers and rules are put in the
# place of these before anything is filled in.


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
# What stands for each printed payoff, which are 10, 0 and 3.
_PAYOFFS: Mapping[str, str] = {
    "gets 10 points": "gets {stag} points",
    "stag hunters get 0": "stag hunters get {alone}",
    "hare hunters get 3": "hare hunters get {hare}",
}
# What stands for the words that say that all have to hunt, where some are enough.
_SOME_NEEDED: Mapping[str, str] = {
    "If all 4 players hunt": "If at least {needed} of all 4 players hunt",
    "If ALL 4 players choose": "If AT LEAST {needed} of ALL 4 players choose",
    "everyone gets 10 points": "each of them gets 10 points",
    "If anyone hunts a hare": "If fewer do",
    "If ANY player chooses 'Hunt Hare'": "If FEWER do",
    "get 0 and hare": "get 0. In any case hare",
    "get 0, hare": "get 0. In any case hare",
}
_WORDS_OF_THE_ROUND = (
    "### CURRENT ROUND INFORMATION\nThe 4 words broadcast by all players in the communication phase are:"
)
_REASONING = '"reasoning": "..."'


def agent_name(name: str) -> str:
    """Return what players call the one of this name."""
    return f"Agent_{by_number(name)[-1]}"


def published_user(
    text: str,
    phase: str,
    p: StagHuntParameters,
    players: int,
    heard: int,
    visibility: str,
    texts: Mapping[str, str],
) -> str:
    """Return the unfilled user prompt of a phase for a player who hears so many of the others.

    `texts` are those that the player is sent, of which `visibility` tells who sees whom.
    """
    if p.payoff_note:
        sentence = "hare hunters get 3." if phase == "signal" else "hare hunters get 3 each."
        text = text.replace(sentence, f"{sentence} {texts['payoff_note']}")
    if not p.cheap_talk:
        text = text.replace(f"{_WORDS_OF_THE_ROUND}\n{{comm_str}}\n\n", "")
        text = text.replace("Based on the words you have seen, provide", "Provide")
    elif phase == "act":
        if p.links_told:
            seen = f"### COMMUNICATION VISIBILITY\n{texts[visibility]}\n\n### MESSAGES YOU CAN SEE"
            text = text.replace(_WORDS_OF_THE_ROUND, seen)
        elif heard + 1 < players:
            text = text.replace("The 4 words", "The words")  # as many as are shown, and not as there are players
        if p.nudge:
            text = text.replace(_REASONING, f'{_REASONING[:-1]} {texts["nudge"]}"')
    rules = _PAYOFFS if p.needed == ALL else {**_SOME_NEEDED, **_PAYOFFS}
    for printed, instead in rules.items():
        text = text.replace(printed, instead.format(needed=p.needed, stag=p.stag, alone=p.alone, hare=p.hare))
    for printed, (counted, uncounted) in _COUNTS.items():
        text = text.replace(printed, counted.format(n=players) if p.count_told else uncounted)
    return text


def asked_again(ask: Ask, texts: Mapping[str, str]) -> Ask:
    """Return the repeated question for a reply that could not be used, with a reminder of its form (A.7)."""
    return replace(ask, phase=ask.phase + AGAIN, user=f"{ask.user}\n\n{texts[f'{PUBLISHED}_own_again_{ask.phase}']}")


def visibility(me: str, players: int, heard: int, hub: str) -> str:
    """Return which piece tells who sees whom: a star's own words for a star, else those of the ring (A.3)."""
    if hub == me:
        return f"{PUBLISHED}_a3_star_hub"
    if heard + 1 == players:
        return f"{PUBLISHED}_a3_broadcast"
    if not heard:
        return f"{PUBLISHED}_own_nobody"
    return f"{PUBLISHED}_a3_star_spoke" if hub else f"{PUBLISHED}_a3_ring"
