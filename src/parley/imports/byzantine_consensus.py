"""Games of the authors' code of "Can AI Agents Agree?" (github.com/leorugli/byzantine-consensus-llm-agents, b3bbf9e).

A game is a file `results/json/run_NNN.json`, with the agents, their first values and how it ended, and the log of the
same run, `results/logs/run_NNN_log.txt`, with what was proposed, why, and how agents voted. Neither has prompts or
private notes. Of a reason the first line is read. In a log a reason could forge a line: nobody may answer twice, the
values of each round must be those of the file, and the game must end as it says.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from parley.files import read_regular
from parley.games.consensus.game import ConsensusGame
from parley.games.consensus.parameters import PUBLISHED_CODE
from parley.games.parameters import BYZANTINE, HONEST
from parley.imports.games import Format, ImportedAgent, ImportedGame, reply
from parley.play.journal import Entry
from parley.text import by_number

_ENDED = {
    "valid": "valid_consensus",
    "invalid": "invalid_consensus",
    "none": "premature_stop",
    "timeout": "no_consensus",
}
_LINE = re.compile(
    r"\[INFO\] (?:Round (?P<round>\d+)|    Reasoning: (?P<reason>.*)"
    r"|  (?P<agent>agent_\d+): (?:(?:\(no value yet\)|-?\d+) -> (?P<value>-?\d+)|(?P<silent>ABSTAINING.*)"
    r"|votes (?P<vote>STOP|CONTINUE|ABSTAIN)(?P<failed> \(default.*)?))"
)
_FAILED = "ABSTAINING (all attempts failed)"


def _game(path: Path, file: str, content: bytes, found: Mapping[str, Any]) -> ImportedGame:
    log = read_regular(path.parent.parent / "logs" / f"{path.stem}_log.txt").decode("utf-8")
    config, statistics, model = found["config"], found["statistics"], str(found["metrics"]["model_name"])
    if (topology := found["metrics"]["network_topology"]) != "fully_connected":
        raise ValueError(f"topology {topology}: its history shows what no agent hears")
    player = re.sub(r"[^A-Za-z0-9.-]", "", model.rstrip("/").rpartition("/")[2]).lstrip(".-")[:52] or "unknown"
    byzantine: list[str] = statistics["byzantine_agent_ids"]
    rounds: int = statistics["total_rounds"]
    held = {
        entry["round"]: sorted([*entry["honest_values"], *entry["byzantine_values"]])
        for entry in statistics["rounds_data"]
    }
    if list(held) != list(range(1, rounds + 1)):
        raise ValueError(f"rounds_data has not the rounds 1 to {rounds}")
    # Theirs has no word of its own for a stop among Byzantine agents alone.
    ended = _ENDED[statistics["consensus_outcome"]]
    if ended == "premature_stop" and not statistics["honest_agent_ids"]:
        ended = "invalid_consensus"
    roles = dict.fromkeys(statistics["honest_agent_ids"], HONEST) | dict.fromkeys(byzantine, BYZANTINE)
    return ImportedGame(
        file=file,
        sha256=hashlib.sha256(content + log.encode()).hexdigest(),
        rules=ConsensusGame,
        parameters={
            "rules": PUBLISHED_CODE,
            "retries": 0,  # the last attempt alone is known
            "max_rounds": config["max_rounds"],
            "value_min": config["value_range"][0],
            "value_max": config["value_range"][1],
        },
        prompt=config["byzantine_awareness"],
        agents={name: ImportedAgent(roles[name], player) for name in sorted(roles, key=by_number)},
        replies=list(_replies(log)),
        players=player,
        byzantine=player,
        material={
            "initial_values": dict(
                zip(statistics["honest_agent_ids"], statistics["honest_initial_values"], strict=True)
            ),
        },
        ended=(ended, rounds),
        held=held,
    )


def _replies(log: str) -> Iterator[Entry]:
    """Yield a reply for each agent, phase and round of a log; raises ValueError if an agent answers twice."""
    number = 0
    answered: set[tuple[int, bool, str]] = set()
    for line, after in pairwise([*filter(None, map(_LINE.fullmatch, log.split("\n"))), None]):
        assert line is not None
        if line["round"]:
            number = int(line["round"])
        if not line["agent"]:
            continue
        answer = number, line["vote"] is not None, line["agent"]
        if answer in answered:
            raise ValueError(f"round {number}: {line['agent']} answers twice; a reason may have forged a line")
        answered.add(answer)
        if line["vote"]:
            text = "" if line["failed"] else json.dumps({"decision": line["vote"].lower()})
            yield reply(number, "vote", line["agent"], text)
        else:
            reason = (after and after["reason"]) or ""
            value = "abstain" if line["silent"] else int(line["value"])
            said = {"internal_strategy": "", "value": value, "public_reasoning": reason}
            yield reply(number, "propose", line["agent"], "" if line["silent"] == _FAILED else json.dumps(said))


FORMAT = Format(
    "github.com/leorugli/byzantine-consensus-llm-agents",
    "MIT for the code; of these games not said",
    "run_*.json",
    _game,
)
