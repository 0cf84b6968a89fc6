"""The raw games of "Byzantine Cheap Talk" (arXiv:2606.07790), as github.com/saleml/byzantine-cheap-talk keeps them.

A game is a file `results.json`; in `rounds_data`, each round has an entry for its words and one for its actions. Of
adversaries the file names the model whose seat they took; rules played them. Prompts and raw replies were not kept:
the replies are the reasoning with the word or the action, as the file has them.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from parley.games.parameters import BYZANTINE, HONEST
from parley.games.stag_hunt.game import StagHuntGame
from parley.games.stag_hunt.parameters import PUBLISHED
from parley.games.stag_hunt.prompts import AGAIN
from parley.imports.games import Format, ImportedAgent, ImportedGame, reply
from parley.play.journal import Entry

_TOPOLOGIES = {"broadcast": "complete", "ring": "ring", "star": "star"}
_TRIALS = 20  # of the paper's runs; games of another number are a run of their own
_REASONING = 10_000  # characters: the most that the stag hunt allows


def _game(path: Path, file: str, content: bytes, found: Mapping[str, Any]) -> ImportedGame:
    meta, rounds = found["metadata"], found["rounds_data"]
    adversaries = meta.get("adversary_agents", [])
    agents = {each["name"]: _agent(each, each["name"] in adversaries, _adversary(meta)) for each in meta["agents"]}
    if missing := {*adversaries} - {*agents}:
        raise ValueError(f"no agent is called {min(missing)}")
    seen = meta.get("visibility_map") or {}
    links = {(a, b) for a, others in seen.items() for b in others if a < b and a in seen[b]}
    explicit = meta["experiment"] in ("communication_topology", "byzantine_star")
    disclosure = "silent" if meta["experiment"].endswith("_silent") else "explicit" if explicit else "none"
    said = [(entry, name) for entry in rounds for name in entry.get("full_decisions", {})]
    points = {(entry["round"], name): paid for entry in rounds for name, paid in entry.get("payoffs", {}).items()}
    trials = re.search(r"_(\d+)_trials", str(path))
    run = f"-{trials[1]}-trials" if trials and int(trials[1]) != _TRIALS else ""
    return ImportedGame(
        file=file,
        sha256=hashlib.sha256(content).hexdigest(),
        rules=StagHuntGame,
        parameters={
            "rules": PUBLISHED,
            "rounds": int(meta["rounds"]),
            "topology": _TOPOLOGIES[meta.get("topology", "broadcast")],
            "disclosure": disclosure,
            "seat": {True: "hub", False: "spoke", None: "any"}[meta.get("adversary_is_hub")],
        },
        agents=agents,
        replies=[each for entry, name in said for each in _replies(entry, name)],
        players="+".join(sorted(_word(each["model_family"]) for each in meta["agents"])) + run,
        byzantine=_adversary(meta),
        links=sorted(links) if seen else None,
        points=points,
        prompt=next(iter(StagHuntGame.prompts)),  # nobody said
    )


def _agent(found: Mapping[str, str], is_adversary: bool, adversary: str) -> ImportedAgent:
    if is_adversary:
        return ImportedAgent(BYZANTINE, adversary)
    return ImportedAgent(HONEST, _word(found["model_family"]))


def _adversary(meta: Mapping[str, Any]) -> str:
    """Return what the adversaries do, in a word: they say "stag" and hunt the hare, always or by chance."""
    return f"betray-{meta['defect_prob']}" if "defect_prob" in meta else "betray"


def _word(family: str) -> str:
    return re.sub(r"[^a-z0-9.-]", "", family.lower().split()[0])


def _replies(entry: Mapping[str, Any], name: str) -> Iterator[Entry]:
    """Yield what one agent said in a phase; what their code could not read, asked twice, as it was kept, for both."""
    decision = entry["full_decisions"][name]
    reasoning, action = str(decision.get("reasoning", ""))[:_REASONING], decision.get("action")
    phase, key, kept = ("act", "action", "choice") if "choices" in entry else ("signal", "word", "word")
    choice = entry["choices" if phase == "act" else "communications"].get(name)
    usable = isinstance(action, dict) and kept in action and choice is not None
    # What they could not read may have a form that Parley can: as a JSON text it has none.
    kept_text = json.dumps(reasoning) if reasoning.lstrip().startswith("{") else reasoning
    text = json.dumps({"reasoning": reasoning, key: choice}) if usable else kept_text
    # Rules, which have no family, are asked once.
    for asked in [phase] if usable or not decision.get("model_family") else [phase, phase + AGAIN]:
        yield reply(entry["round"], asked, name, text)


FORMAT = Format(
    "github.com/saleml/byzantine-cheap-talk",
    "none given in the repository: do not pass the games on",
    "results.json",
    _game,
)
