"""The report's section on several axes."""

import numpy as np

from parley.analysis.effects import effect_table
from parley.analysis.margins import margin_table
from parley.games.consensus.game import ConsensusGame
from parley.report.margins import effect_rows, margin_rows
from parley.study.margins import Effects, PaperRate
from support.alike import AXES, VALID, Drawn

PAPER = (PaperRate(what=VALID, where={"b": 0, "model": "a"}, rate=0.674, source="section 4.1"),)


def rows_of(seeds: int = 20, rate: float = 0.7, paper: tuple[PaperRate, ...] = PAPER) -> tuple[dict, dict]:  # type: ignore[type-arg]
    drawn = Drawn(np.random.default_rng(1), seeds, 0.3)
    for model, each in {"a": 0.4, "b": rate}.items():
        for prompt in "pq":
            drawn.play(each, model=model, prompt=prompt)
    margins = margin_table(drawn.rows, AXES, ConsensusGame, paper=paper)
    effects = effect_table(drawn.rows, AXES, ConsensusGame, Effects(interactions=(("prompt", "model"),)))
    return margin_rows(margins, effects, ConsensusGame), effect_rows(effects, ConsensusGame)


def test_margins_are_those_of_the_modeled_outcome_with_the_papers_rates() -> None:
    margins, _ = rows_of()
    assert margins["paper"]
    assert {row["what"] for row in margins["rows"]} == {"valid consensus"}
    assert margins["all"] > len(margins["rows"])
    whole, named, first, second = margins["rows"][:4]
    assert (whole["value"], whole["of"], whole["paper"], whole["source"]) == ("all conditions", "4 conditions", "", "")
    assert (named["value"], named["paper"], named["source"]) == ("b=0, model=a", "67.4%", "section 4.1")
    assert (first["value"], first["difference"], first["p"]) == ("model: a", "", "")
    assert (second["value"], second["simulations"]) == ("model: b", "40 simulations, 20 seeds")
    assert second["difference"].endswith(" points")
    assert second["pairs"].endswith(" only b")
    assert second["pairs"].startswith(f"a {first['rate'].split()[0]}, b {second['rate'].split()[0]}; ")
    assert second["test"] == "clustered McNemar"


def test_without_a_paper_there_is_no_column_for_it() -> None:
    assert not rows_of(paper=())[0]["paper"]


def test_few_seeds_have_no_interval_and_no_p() -> None:
    margins, effects = rows_of(seeds=3)
    [row] = [row for row in margins["rows"] if row["value"] == "model: b"]
    assert "[" not in row["rate"] + row["difference"]
    assert row["p"] == row["p_holm"] == "-"
    assert {row["p"] for row in effects["rows"]} == {"-"}


def test_effects_are_in_points_and_say_what_is_separated() -> None:
    _, effects = rows_of()
    assert effects["what"] == "valid consensus"
    assert effects["rows"][0]["compared"] == "model: a → b"
    assert "[" in effects["rows"][0]["effect"]
    assert effects["rows"][4]["at"] == "model=a → b (change)"
    _, never = rows_of(rate=1e-12)
    assert never["rows"][0]["separated"] == "2 always or never"
    assert never["rows"][0]["p"] == "-"
