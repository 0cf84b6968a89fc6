"""Games of our own making in the formats that can be imported: words "stag", actions as letters, a round a text."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from support.hunting import ACTIONS

FAMILIES = ("Mixtral", "Qwen", "Llama", "DeepSeek")
Change = Callable[[dict[str, Any]], object]


def payoffs(actions: Sequence[str]) -> list[int]:
    """Return what the published game pays for the actions of a round, as letters."""
    return [3 if action == "h" else 0 if "h" in actions else 10 for action in actions]


def cheap_talk(rounds: Sequence[str], adversary: int | None = None, **meta: Any) -> dict[str, Any]:
    """Return the content of a results.json; `adversary` is the number of an agent, from 1."""
    names = [f"Agent_{place + 1}" for place in range(len(rounds[0]))]
    agents = [{"name": n, "model": f"org/{f}-1", "model_family": f} for n, f in zip(names, FAMILIES, strict=False)]
    data: list[dict[str, Any]] = []
    for number, letters in enumerate(rounds, 1):
        words = dict.fromkeys(names, "stag")
        choices = {name: ACTIONS[letter] for name, letter in zip(names, letters, strict=True)}

        def decided(actions: Mapping[str, Any]) -> dict[str, Any]:
            return {
                agent["name"]: {
                    "reasoning": "so",
                    "action": actions[agent["name"]],
                    "model_family": agent["model_family"],
                }
                for agent in agents
            }

        said = {name: {"type": "communicate", "word": word} for name, word in words.items()}
        did = {name: {"choice": choice} for name, choice in choices.items()}
        data.append(
            {"round": number, "stage": "communication", "communications": words, "full_decisions": decided(said)}
        )
        data.append(
            {
                "round": number,
                "communications": words,
                "choices": choices,
                "payoffs": dict(zip(names, payoffs(letters), strict=True)),
                "full_decisions": decided(did),
            }
        )
    chosen = {} if adversary is None else {"adversary_agents": [f"Agent_{adversary}"]}
    about = {"experiment": "byzantine_cheap_talk", "rounds": len(rounds), "agents": agents, **chosen, **meta}
    return {"rounds_data": data, "metadata": about}


def write_cheap_talk(folder: Path, trial: int, content: Mapping[str, Any], change: Change | None = None) -> Path:
    """Write a game as the published code lays it out; `change` damages it."""
    file = folder / f"trial_{trial:02d}" / "results.json"
    file.parent.mkdir(parents=True)
    copy = json.loads(json.dumps(content)) | {"trial": trial}
    if change is not None:
        change(copy)
    file.write_text(json.dumps(copy), encoding="utf-8")
    return file


def reply_lines(rounds: Sequence[str], key: str = "one", prompts: bool = True, **of_game: Any) -> list[dict[str, Any]]:
    """Return the lines of a game in the plain format; the last agent is Byzantine where `byzantine` is given."""
    lines: list[dict[str, Any]] = []
    for number, letters in enumerate(rounds, 1):
        for phase in ("signal", "act"):
            for place, letter in enumerate(letters):
                said = {"word": "stag"} if phase == "signal" else {"action": ACTIONS[letter]}
                line: dict[str, Any] = {
                    **{"id": key, "round": number, "phase": phase, "agent": f"agent_{place + 1}"},
                    "text": json.dumps({"reasoning": "so", **said}),
                    **({"system": "You hunt.", "user": f"Round {number}: {phase}?"} if prompts else {}),
                    **({"points": payoffs(letters)[place]} if phase == "act" else {}),
                }
                if number == 1 and phase == "signal":
                    line |= {"player": f"model-{place + 1}", "model": f"org/model-{place + 1}"}
                    if "byzantine" in of_game and place == len(letters) - 1:
                        line["role"] = "byzantine"
                lines.append(line)
    lines[0] |= {"parameters": {"rounds": len(rounds)}, **of_game}
    return lines


def write_lines(file: Path, *games: Sequence[Mapping[str, Any]]) -> Path:
    """Write games into a file of the plain format."""
    file.write_text("".join(f"{json.dumps(line)}\n" for game in games for line in game), encoding="utf-8")
    return file
