"""Words against deeds: agents whose promises are known, and every value by other code from the records."""

import json
from collections import defaultdict
from pathlib import Path
from statistics import mean
from types import SimpleNamespace
from typing import Any

import pytest

from parley.analysis.tables import read_table
from parley.games.evidence import DEEDS
from parley.games.promises import kind_of, read_plan
from parley.games.stag_hunt.parameters import HARE, STAG, StagHuntParameters
from parley.games.stag_hunt.reactions import HuntDeeds
from parley.play.record import read_record
from parley.statistics.stats import wilson_of_mean
from parley.study import Study
from support.own_policies import Talker
from support.studies import OWN_POLICIES, StudyFactory, bring, summarized

KINDS = ("promises_kept", "broken_win_win", "broken_selfish", "broken_altruistic", "broken_sabotaging")
PLEDGES = """
from parley.games import LLM, Evidence, Game, GameParameters, Outcome, OutcomeClass, Phase, Prompts, ReplyModel
from parley.games import Sampling, scripted_kind
from parley.games.evidence import DEEDS, TableSpec
from parley.games.promises import Deeds
SAMPLING = Sampling(temperature=0.7, max_tokens=200)
class PledgeParameters(GameParameters):
    say: Sampling = SAMPLING
    act: Sampling = SAMPLING
class Said(ReplyModel):
    reason: str
    what: str
def plays(name, word, action):
    def rule(view, rng, given):
        return {"reason": f"So I will {action}.", "what": word if view == "say" else action}
    rule.__name__, rule.__doc__ = name, "Say one thing, and do it or another."
    return scripted_kind(rule)
class PledgeDeeds(Deeds):
    phases, private, phrases = ("say",), "reason", {"give": ("give",), "keep": ("keep",)}
    def points(self, parameters, actions):  # a gift costs 2, and gives each of the others 2
        gifts = list(actions.values()).count("give")
        return {name: 2 * gifts - 4 * (action == "give") for name, action in actions.items()}
class PledgePrompts(Prompts):
    phases = (Phase("say"), Phase("act"))
    variants = {"plain": {f"{who}_{part}": "Go." for who in ("honest", "byzantine") for part in ("system", "user")}}
class PledgeEvidence(Evidence):
    tables = (TableSpec("measures", f"{__name__}:PledgeDeeds", DEEDS),)
class Pledge(Game):
    Parameters, prompts, evidence = PledgeParameters, PledgePrompts(), PledgeEvidence()
    outcomes = (OutcomeClass("over", "over", "#0072B2", ""),)
    rules = (("cheat", "give", "keep"), ("surprise", "keep", "give"), ("loyal", "keep", "keep"))
    policies = {name: plays(name, *rule) for name, *rule in rules} | {LLM.name: LLM}
    def play(self):
        trace = {"round": 1}
        for phase, key in (("say", "words"), ("act", "actions")):
            replies = yield [self.ask(seat, 1, phase, {}, Said, phase) for seat in self.seats]
            trace[key] = {seat.name: reply.value.what for seat, reply in zip(self.seats, replies)}
        return Outcome(name="over", rounds=1, metrics={}, trace=(trace,))
"""


def played(study: Study) -> dict[str, dict[str, dict[Any, Any]]]:
    """Return the rows of `quantities` by model and quantity."""
    found: dict[str, dict[str, dict[Any, Any]]] = defaultdict(dict)
    for row in read_table(summarized(study).name, "quantities").to_dict("records"):
        found[row["model"]][row["quantity"]] = row
    return found


@pytest.mark.promise("Agents that keep their word, break it as planned or otherwise, or say nothing are told apart.")
def test_known_promises(study_factory: StudyFactory) -> None:
    bring(OWN_POLICIES)
    own = [f"own_policies:{name}" for name in ("Liar", "Turncoat", "Mute")]
    question = {"name": "kept", "outcome": "promises_kept", "compare": "model", "values": ["Liar", "always_stag"]}
    study = study_factory(
        {"model": ["always_stag", "always_hare", *own], "n": 3, "prompt": "plain"},
        game="stag_hunt",
        parameters={"rounds": 2, "retries": 0},
        seeds=6,
        questions=[{**question, "smallest": 0.2}],
    )
    means = {model: {name: row["mean"] for name, row in rows.items()} for model, rows in played(study).items()}
    for keeper in ("always_stag", "always_hare"):
        assert (means[keeper]["promises_made"], means[keeper]["promises_kept"]) == (1, 1)
    # Where nobody hunts the stag a hare pays the liar, and so all together.
    for liar, planned in (("Liar", 1), ("Turncoat", 0)):
        assert (means[liar]["promises_kept"], means[liar]["broken_win_win"]) == (0, 1)
        assert (means[liar]["plans_read"], means[liar]["broken_as_planned"]) == (1, planned)
    assert (means["Mute"]["said_nothing"], means["Mute"]["promises_made"]) == (1, 0)
    [answer] = read_table(study.name, "questions").to_dict("records")
    assert (answer["answer"], answer["difference"]) == ("differs", 1)


@pytest.mark.promise("Games of one's own say which breach of a promise is selfish and which altruistic.")
def test_promises_of_an_own_game(study_factory: StudyFactory) -> None:
    Path("pledges.py").write_text(PLEDGES, encoding="utf-8")
    grid = {"model": ["cheat", "surprise", "loyal"], "n": 3, "prompt": "plain"}
    found = played(study_factory(grid, game="pledges:Pledge", seeds=3))
    for model, what in (("cheat", "broken_selfish"), ("surprise", "broken_altruistic"), ("loyal", "promises_kept")):
        assert found[model][what]["mean"] == 1
    assert found["cheat"]["broken_as_planned"]["mean"] == 1


def test_only_promises_of_honest_agents_with_an_action_are_judged() -> None:
    condition = SimpleNamespace(parameters=StagHuntParameters(), axes={})
    game: Any = SimpleNamespace(simulation=SimpleNamespace(condition=condition, seed=0, id="one"), honest=["a", "b"])
    said = {"words": dict.fromkeys("abc", "stag"), "not_words": {}}
    [row] = HuntDeeds(None, []).rows(game, [{"round": 1, **said, "actions": {"a": None, "b": STAG, "c": HARE}}])
    assert (row["promises_made"], row["promises_kept"]) == (1, 1)


def test_who_gains() -> None:
    kinds = {"win_win": [(1, 1), (0, 1)], "selfish": [(1, 0), (1, -1)], "altruistic": [(-1, 1), (-1, 0)]}
    for kind, gains in {**kinds, "sabotaging": [(-1, -1), (0, -1)]}.items():
        assert {kind_of(*gain) for gain in gains} == {f"broken_{kind}"}
    assert not kind_of(0, 0)


@pytest.mark.promise("A plan is read from a private text only where it is said clearly, without conditions.")
def test_what_counts_as_a_plan() -> None:
    phrases = {kind: (f"hunt {kind}", f"hunting {kind}") for kind in ("stag", "hare")}
    for text, plan in {
        "I'll say 'stag' to look loyal, while actually planning to hunt hare.": "hare",
        "Trust is low. I intend to hunt the hare again": "hare",
        "I'll keep hunting stag.": "stag",
        "Unless they lie, I will hunt the stag.": None,
        "I will hunt the stag or the hare.": None,
        "I will not hunt the stag.": None,
        "My word tells them that I will hunt the stag.": None,
        "I will hunt the stag. No, I will hunt the hare.": None,
        "By hunting the stag we all win. They plan to hunt hare.": None,
    }.items():
        assert read_plan(text, phrases) == plan, text


@pytest.mark.promise("Every value of words against deeds is what other code makes of the replies of 100 games.")
def test_other_code_finds_the_same(study_factory: StudyFactory) -> None:
    bring(OWN_POLICIES)
    parameters = {"rounds": 4, "needed": 2, "stag": 5, "hare": 3, "alone": 1, "retries": 0}
    study = study_factory(
        {"model": "own_policies:Talker", "n": 3, "prompt": "plain"}, game="stag_hunt", parameters=parameters, seeds=100
    )
    summary = played(study)["Talker"]
    rows = {row["id"]: row for row in read_table(study.name, "measures").to_dict("records")}
    by_game: dict[str, list[float]] = defaultdict(list)
    for simulation in study.simulations():
        replies: dict[tuple[int, str], dict[str, Any]] = defaultdict(dict)
        for entry in read_record(simulation.record(study.name))[1]:
            replies[entry.round, entry.phase][entry.agent] = json.loads(entry.text)
        counts: dict[str, list[bool]] = {each.name: [] for each in DEEDS}
        for number in range(1, 5):
            hunts = {agent: reply["action"] for agent, reply in replies[number, "act"].items()}
            for agent, reply in replies[number, "signal"].items():
                meant = {"stag": "Hunt Stag", "hare": "Hunt Hare"}.get(reply["word"])
                counts["promises_made"].append(meant is not None)
                counts["said_nothing"].append(" " in reply["word"])
                if meant is None:
                    continue
                kind = "promises_kept"
                if hunts[agent] != meant:
                    paid = [[_paid(of, each) for each in of] for of in (hunts, {**hunts, agent: meant})]
                    place = list(hunts).index(agent)
                    own, together = paid[0][place] > paid[1][place], sum(paid[0]) > sum(paid[1])
                    kind = {(True, True): "broken_win_win", (False, False): "broken_sabotaging"}[own, together]
                    plan = dict(Talker.PLANS)[reply["reasoning"]]
                    counts["plans_read"].append(plan is not None)
                    counts["broken_as_planned"] += [plan == hunts[agent]] if plan else []
                for each in KINDS:
                    counts[each].append(each == kind)
        for name, values in counts.items():
            assert rows[simulation.id][name] == pytest.approx(mean(values) if values else float("nan"), nan_ok=True), (
                name
            )
            by_game[name] += [mean(values)] if values else []
    for name, means in by_game.items():
        low, high = map(float, wilson_of_mean(mean(means), len(means)))
        row = summary[name]
        assert (row["simulations"], row["mean"]) == (len(means), pytest.approx(mean(means)))
        assert (row["low"], row["high"]) == (pytest.approx(low), pytest.approx(high))


def _paid(hunts: dict[str, str], agent: str) -> int:
    if hunts[agent] == "Hunt Hare":
        return 3
    return 5 if list(hunts.values()).count("Hunt Stag") > 1 else 1
