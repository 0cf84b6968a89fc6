"""What the columns of the deliberation game mean: its metrics, and what each agent answered in each turn."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from parley.columns import JSON, Column
from parley.games.evidence import GameColumns

_METRICS = (
    Column("problem", "string", "id of the problem"),
    Column("kind", "string", "kind of the problem"),
    Column("right_answer", "string", "right answer; missing for problems that have none"),
    Column("consensus", "string", "what was agreed on; policies as JSON; missing if agents hung"),
    Column("reading", "string", "how numbers were read in the game: exact, strict or flexible"),
    Column("single_correct", "bool", "whether the first answer of one honest agent is right"),
    Column("single_correct_strict", "bool", "the same with its number read as `strict`; missing for other problems"),
    Column("single_correct_flexible", "bool", "the same with its number read as `flexible`; missing for others"),
    Column(
        "first_majority_correct", "bool", "whether the majority of all first answers is right, also of adversaries"
    ),
    Column("first_majority_correct_honest", "bool", "whether the majority of honest agents' first answers is right"),
    Column("last_majority_correct", "bool", "whether the majority of all last answers is right, also of adversaries"),
    Column("last_majority_correct_honest", "bool", "whether the majority of honest agents' last answers is right"),
    Column("consensus_correct", "bool", "whether agents were unanimous and right"),
    Column("agreed", "bool", "whether agents agreed"),
    Column("turns", "int64", "most turns of reflection that there could be", "turns"),
    Column("turn_of_consensus", "int64", "turn from which on honest agents held what was agreed on"),
    Column("final_participation", "double", "share of honest agents in the largest agreement, at the end"),
    Column("final_confidence", "double", "confidence C in what was agreed on; 1 for problems with a right answer"),
    Column("final_levels", "string", "share of honest agents for each policy, at the end", JSON),
    Column("deliberations", "int64", "deliberations on the problem"),
    Column("utterances", "int64", "answers given"),
    Column("silent", "int64", "answers missing: no usable reply"),
    Column("unreadable", "int64", "answers given that could not be read"),
    Column("unknown_policies", "int64", "policies in answers that nobody may choose"),
)

_TURNS = (
    Column("session", "int64", "deliberation: number of the deliberation on the problem, from 0"),
    Column("turn", "int64", "deliberation: number of the turn in it; 0 has the first answers"),
    Column("answer", "string", "deliberation: the answer as it was read, policies as JSON; missing if it was not"),
    Column("said", "string", "deliberation: the answer as it was written"),
    Column("correct", "bool", "deliberation: whether the answer is right; missing for problems without a right one"),
)


def _rows(outcome: Mapping[str, Any], trace: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    right = outcome["metrics"]["right_answer"]
    for entry in trace:
        for agent, answer in entry["answers"].items():
            said = entry["said"][agent] or {}
            yield {
                "round": entry["round"],
                "agent": agent,
                "silent": not said,
                "message": said.get("argument"),
                "session": entry["session"],
                "turn": entry["turn"],
                "answer": answer,
                "said": said.get("answer"),
                "correct": None if right is None else answer == right,
            }


COLUMNS = GameColumns(_METRICS, _TURNS, _rows)
