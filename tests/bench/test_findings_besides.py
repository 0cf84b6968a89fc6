"""What the page of findings shows besides its questions: the tables by hand."""

from types import SimpleNamespace

import pandas as pd

from benchmarks.findings_besides import _changes, markdown_table

SPOKEN = [  # seed, agent, first answer, last answer; 5 is right
    (0, "agent_1", "5", "5"),
    (0, "agent_2", "4", "5"),  # turned right
    (0, "agent_3", "3", "2"),  # another wrong one
    (1, "agent_1", "5", "1"),  # turned wrong, and nobody else was right
    (1, "agent_2", "1", "1"),
    (1, "agent_3", None, "5"),  # could not be read at first
]


def results() -> SimpleNamespace:
    """Two deliberations of three honest agents, with an adversary that is always right, in no order."""
    rows = [
        {"n": 4, "b": 1, "id": seed, "agent": agent, "turn": turn, "answer": answer, "is_byzantine": False}
        for seed, agent, *answers in SPOKEN
        for turn, answer in enumerate(answers)
    ]
    rows += [{**row, "agent": "agent_4", "answer": "5", "is_byzantine": True} for row in rows]
    turns = pd.DataFrame(rows[::-1]).assign(turns=1)
    turns["correct"] = (turns["answer"] == "5").where(turns["answer"].notna())
    return SimpleNamespace(table={"turns": turns}.__getitem__)


def test_what_became_of_first_answers() -> None:
    changes = _changes(SimpleNamespace(axes=["n", "b"]), results())  # type: ignore[arg-type]
    found = changes.data.set_index(["first_right", "heard_right"])[["agents", "kept", "turned_right", "turned_wrong"]]
    assert found.loc[(True, False)].tolist() == [2, 0.5, 0, 0.5]
    assert found.loc[(False, True)].tolist() == [4, 0.25, 0.5, 0]
    assert len(found) == 2


def test_a_table_in_markdown() -> None:
    assert markdown_table(["a", "b"], [(1, "x")]) == "| a | b |\n| --- | --- |\n| 1 | x |"
