"""What is shown of the deliberation game: measures, indicators, quantities and figures (after the paper's VIII)."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from parley.games.deliberation.decisions import last_panel
from parley.games.deliberation.parameters import (
    TALK,
    DeliberationParameters,
    DeliberationTurn,
    Value,
    as_value,
    value_text,
)
from parley.games.evidence import (
    OUTCOMES_BY_BYZANTINE,
    Evidence,
    FigureSpec,
    GameColumns,
    Indicator,
    Mark,
    Measure,
    Quantity,
    Session,
    State,
    TableSpec,
    Timeline,
    TimelineCell,
    Utterance,
)
from parley.games.parameters import Group
from parley.text import by_number


def _messages(entry: Mapping[str, Any]) -> Iterator[tuple[int, str, str | None]]:
    """Yield what was said before the answers of a turn: the round, who said it, and what, None for nothing."""
    talk = entry.get(TALK, ())
    for number, messages in enumerate(talk, entry["round"] - len(talk)):
        for agent, message in messages.items():
            yield number, agent, message


def _rows(outcome: Mapping[str, Any], trace: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    right = outcome["metrics"]["right_answer"]
    for entry in trace:
        for number, agent, message in _messages(entry):
            nothing = dict.fromkeys(("answer", "said", "correct"))
            where = {"round": number, "agent": agent, "session": entry["session"], "turn": entry["turn"]}
            yield {**where, "silent": message is None, "message": message, **nothing}
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


RIGHT, WRONG, LEADING, APART, UNREADABLE, SILENT = "right", "wrong", "leading", "apart", "unreadable", "silent"
_NOTHING = (
    State(UNREADABLE, "answer that could not be read", "#CC79A7"),
    State(SILENT, "no usable reply", "#FFFFFF"),
)
DEFINITIVE = (State(RIGHT, "right answer", "#56B4E9"), State(WRONG, "wrong answer", "#E69F00"), *_NOTHING)
POLICIES = (
    State(LEADING, "the most frequent answer", "#56B4E9"),
    State(APART, "another answer", "#E69F00"),
    *_NOTHING,
)


def _state(right: str | None, entry: DeliberationTurn, name: str) -> str:
    answer = as_value(entry["answers"][name])
    if answer is None:
        return SILENT if entry["said"][name] is None else UNREADABLE
    if right is not None:
        return RIGHT if answer == right else WRONG
    counts = Counter(as_value(value) for value in entry["answers"].values() if value is not None)
    return LEADING if counts[answer] > 1 and counts[answer] == max(counts.values()) else APART


def _text(answer: Value | None, said: Mapping[str, Any] | None) -> str:
    if answer is None:
        return str(said["answer"]) if said else "–"
    return value_text(answer)


def _result(entry: DeliberationTurn) -> str:
    share = entry["measures"]["participation"]
    shown = "–" if share is None else f"{share:.0%}"
    if (verdict := entry.get("verdict")) is not None:
        shown = f"{shown}: {'agreed' if verdict['agreed'] else 'hung'}"
    return shown


MEASURES = (
    Measure("accuracy", "right answers", carried=True),
    Measure("participation", "largest agreement", carried=True),
    Measure("right_to_wrong", "right answers given up"),
    Measure("wrong_to_right", "wrong answers corrected"),
    Measure("conformity", "gone over to the leading answer"),
    Measure("confidence", "confidence in the policies accepted", carried=True),
)

INDICATORS = (
    Indicator("single_correct", "one agent's first answer is right"),
    Indicator("single_correct_strict", "the same, its number read as strict", contrasted=False),
    Indicator("single_correct_flexible", "the same, its number read as flexible", contrasted=False),
    Indicator("first_majority_correct_honest", "majority vote of honest first answers is right"),
    Indicator("last_majority_correct_honest", "majority vote of honest last answers is right"),
    # With adversaries among the voters; without any they say the same as those of honest agents.
    Indicator("first_majority_correct", "majority vote of all first answers is right", contrasted=False),
    Indicator("last_majority_correct", "majority vote of all last answers is right", contrasted=False),
    Indicator("consensus_correct", "unanimous and right"),
)

QUANTITIES = (
    Quantity("turn_of_consensus", "turn of the consensus"),
    Quantity("final_participation", "share of honest agents in the largest agreement", share=True),
    Quantity("final_confidence", "confidence C", share=True),  # a mean of levels in [0, 1]
    Quantity("deliberations", "deliberations on the problem", contrasted=False),
    Quantity("utterances", "answers given", contrasted=False),
    Quantity("unreadable", "answers that could not be read"),
)

OF_TRACES = (
    Quantity("first_accuracy", "right first answers (share of all agents)", share=True),
    Quantity("last_accuracy", "right last answers (share of all agents)", share=True),
    Quantity("first_confidence", "confidence C in the first answers", share=True),
)

FIGURES = (
    FigureSpec(
        name="accuracy_by_turn",
        kind="curves",
        title="Right answers by turn",
        caption="Mean share of honest agents with the right answer by turn (turn 0: first answers; Figure 2 of the "
        "paper, whose text does not say on which problems).",
        of=("accuracy",),
    ),
    FigureSpec(
        name="deliberation_gain",
        kind="indicators",
        title="What deliberation adds",
        caption="Share of problems answered right by one honest agent alone, by the majority of honest agents' first "
        "and last answers, by that of all agents' first answers (adversaries vote, too), and unanimously (the "
        "question of Figure 3a of the paper).",
        x="n",
        of=(
            "single_correct",
            "first_majority_correct_honest",
            "first_majority_correct",
            "last_majority_correct_honest",
            "consensus_correct",
        ),
    ),
    FigureSpec(
        name="participation",
        kind="curves",
        title="Participation in the agreement",
        caption="Mean share of honest agents that give the most frequent answer, by turn (the question of Figure 3c "
        "of the paper, whose axes its text does not name): unanimity needs all of them, a majority more than half.",
        of=("participation",),
    ),
    FigureSpec(
        name="block_size",
        kind="quantities",
        title="Size of the blocks",
        caption="Mean size of the blocks that hold a whole deliberation (Figure 3b of the paper), by agents, turns or "
        "what else varies. Hung deliberations have empty blocks, which are left out.",
        x="n",
        lines="turns",
        of=("block_bytes",),
        blocks=True,
    ),
    FigureSpec(
        name="times",
        kind="quantities",
        title="Time to the verdict",
        caption="Mean time until agents agreed or hung, by agents, turns or what else varies: the whole, and the "
        "slowest reply of each turn, added up, of the initial round and of reflection (TRC, IR and RR of Table II of "
        "the paper). "
        "Scripted agents take none. Times are the machine's: no part of the results.",
        x="n",
        of=("seconds", "seconds_initial", "seconds_reflect"),
    ),
    FigureSpec(
        name="effective_votes",
        kind="votes",
        title="Votes that answers are worth",
        caption="How many independent votes would vary from problem to problem as much as those of the honest agents: "
        "as many as agents where errors are independent, 1 where all answer alike.",
        x="n",
    ),
    FigureSpec(
        name="conformity",
        kind="faced",
        title="Giving way to others",
        caption="Share of answers that honest agents gave up for the one held most against theirs, by how many of "
        "those they heard held it, and of right answers that were so given up for a wrong one.",
        x="others who hold it",
    ),
    OUTCOMES_BY_BYZANTINE,
)


# What they show needs problems that have a right answer.
_OF_RIGHT_ANSWERS = ("accuracy_by_turn", "deliberation_gain", "effective_votes", "conformity")


TABLES = (
    TableSpec("measures", "parley.games.deliberation.talking:TalkingMeasures", OF_TRACES),
    TableSpec("decisions", "parley.games.deliberation.talking:Decisions"),
    TableSpec("martingale", "parley.games.deliberation.talking:Martingale"),
    TableSpec(
        "equal_cost",
        "parley.games.deliberation.talking:EqualCost",
        (Quantity("right_at_equal_cost", "plurality at the end is right, at the cost of talking", share=True),),
    ),
    TableSpec(
        "votes",
        "parley.games.deliberation.votes:Votes",
        (
            Quantity("effective_votes", "independent votes that answers at the end are worth", signed=True),
            Quantity("lost_by_dependence", "right majorities lost as errors go together", signed=True),
        ),
    ),
)


class DeliberationEvidence(Evidence[DeliberationParameters]):
    """What the deliberation game shows, and what it gives the ledger."""

    columns = GameColumns.read(Path(__file__).with_name("columns.yaml"), _rows)

    figures = FIGURES
    measures = MEASURES
    indicators = INDICATORS
    quantities = QUANTITIES
    tables = TABLES
    paired_by = ("problem",)
    round_name = "turn"
    keeps_ledger = True

    def sessions(self, outcome: Mapping[str, Any], trace: Sequence[DeliberationTurn]) -> Sequence[Session]:
        """Return what was said in each panel's deliberation, with its verdict."""
        sessions = []
        for _, turns in groupby(trace, lambda entry: entry["session"]):
            entries = list(turns)
            first, last = entries[0], entries[-1]
            said = list[tuple[int, str, Mapping[str, Any] | None]]()
            for entry in entries:
                said += [
                    (number, agent, None if text is None else {"argument": text})
                    for number, agent, text in _messages(entry)
                ]
                said += [(entry["round"], agent, of) for agent, of in entry["said"].items()]
            utterances = tuple(Utterance(number, agent, of) for number, agent, of in said if of is not None)
            verdict = last["verdict"]
            agents, rules = tuple(first["answers"]), first["rules"]
            sessions.append(Session(first["subject"], agents, rules, utterances, verdict["agreed"], verdict))
        return sessions

    def shows(self, figure: FigureSpec, parameters: DeliberationParameters, groups: Sequence[Group]) -> bool:
        """Return whether there are right answers, and heard ones, which some figures need."""
        hidden = (*(["conformity"] if parameters.talk else []), *(() if parameters.definitive else _OF_RIGHT_ANSWERS))
        return figure.name not in hidden

    def series(
        self, outcome: Mapping[str, Any], trace: Sequence[DeliberationTurn]
    ) -> Mapping[str, Sequence[tuple[int, float]]]:
        """Return the points of each measure by turn, of the last deliberation on the problem."""
        return super().series(outcome, [{**entry, "round": entry["turn"]} for entry in last_panel(trace)])

    def last_round(self, outcome: Mapping[str, Any], trace: Sequence[DeliberationTurn]) -> int:
        """Return the last turn of the last deliberation on the problem."""
        return trace[-1]["turn"]

    def timeline(self, outcome: Mapping[str, Any], trace: Sequence[DeliberationTurn]) -> Timeline:
        """Return the deliberations on a problem, one after the other, as a table of answers."""
        right = outcome["metrics"]["right_answer"]
        names = sorted({name for entry in trace for name in entry["answers"]}, key=by_number)
        cells = {}
        marks = []
        before: Mapping[str, str] = {}
        for entry in trace:
            number = entry["round"]
            states = {name: _state(right, entry, name) for name in entry["answers"]}
            for name, state in states.items():
                cells[name, number] = TimelineCell(state, _text(entry["answers"][name], entry["said"][name]))
                if entry["turn"] and before.get(name) == RIGHT != state:
                    marks.append(Mark(name, number, "gives up the right answer"))
                if entry["turn"] and state == RIGHT != before.get(name, RIGHT):
                    marks.append(Mark(name, number, "comes to the right answer"))
            before = states
        return Timeline(
            agents={name: name for name in names},
            framed=frozenset(),
            framed_label="",
            cells=cells,
            states=POLICIES if right is None else DEFINITIVE,
            marks=marks,
            results={entry["round"]: _result(entry) for entry in trace},
            results_label="honest agents in the largest agreement",
        )

    def of_agents(
        self, metrics: Mapping[str, Any], trace: Sequence[DeliberationTurn]
    ) -> Mapping[str, Mapping[str, float]]:
        """Return for each agent of the last panel whether its last answer is right, as 1 and 0, if one can be."""
        right, answers = metrics["right_answer"], trace[-1]["answers"]
        return {} if right is None else {name: {"accuracy": float(each == right)} for name, each in answers.items()}
