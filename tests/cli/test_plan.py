"""`parley plan`: its table, its files, and one line for what is wrong."""

from pathlib import Path

import pandas as pd
import pytest
import yaml

from parley import paths
from parley.play.simulate import simulate_shard
from parley.study.condition import SCRIPTED
from support.commands import Parley, one_line_error
from support.studies import StudyFactory

ASKED = {"name": "prompt", "outcome": "valid_consensus", "compare": "prompt", "over": ["n"], "smallest": 0.2}
GRID = {"n": [4, 6], "prompt": ["may_exist", "none_exist"], "seeds": 25}


def test_questions_are_planned(parley: Parley, study_factory: StudyFactory) -> None:
    study_factory(GRID, questions=[{**ASKED, "expected": [0.591, 0.754]}])
    ran = parley("plan", "small.yaml")
    assert ran.status == 0
    header, row = ran.out.splitlines()[:2]
    assert header.split("  ")[0] == "question"
    assert row.startswith("prompt    prompt may_exist -> none_exist  2 x 25  59.1% -> 75.4%")
    assert "pairs independent: no pilot" in ran.out
    assert "preregistration: none; parley plan small.yaml --freeze writes one" in ran.out
    table = pd.read_csv(paths.power("small", "plan", ".csv"))
    assert table["question"].tolist() == ["prompt"]
    for suffix in (".png", ".svg", ".pdf"):
        assert paths.power("small", "power", suffix).stat().st_size > 1000
    svg = paths.power("small", "power", ".svg").read_text()
    assert "59% -&gt; 75%" in svg
    assert "seeds per condition" in svg


def test_two_outcomes_and_two_sides_are_planned_and_frozen(parley: Parley, study_factory: StudyFactory) -> None:
    sides = {
        "first": {"where": {"n": 4, "prompt": "may_exist"}},
        "second": {"where": {"n": 6, "prompt": "none_exist"}},
    }
    questions = [
        {
            "name": "within",
            "outcomes": ["premature_stop", "valid_consensus"],
            "over": ["n", "prompt"],
            "smallest": 0.2,
        },
        {"name": "between", "outcome": "valid_consensus", "compare": sides, "smallest": 0.2},
    ]
    study_factory(GRID, questions=questions)
    assert parley("plan", "small.yaml", "--freeze").status == 0
    ran = parley("plan", "small.yaml")
    lines = ran.out.splitlines()
    assert lines[1].startswith("within    premature_stop -> valid_consensus")
    assert lines[2].startswith("between   n=4, prompt=may_exist -> n=6, prompt=none_exist  1 x 25")
    assert (
        "within: premature_stop -> valid_consensus: rates about one half, the hardest; no simulation ends" in ran.out
    )
    frozen = Path("small.frozen.md").read_text()
    assert (
        "1. **within**: premature_stop -> valid_consensus, in the same simulations, pooled over n, prompt; " in frozen
    )
    assert "2. **between**: valid_consensus at n=4, prompt=may_exist -> valid_consensus at n=6, prompt=none" in frozen
    assert "the study is as it was frozen" in parley("plan", "small.yaml").out
    questions[1]["compare"]["second"]["where"]["n"] = 4
    study_factory(GRID, questions=questions)
    assert "CHANGED since it was frozen: questions changed: between" in parley("plan", "small.yaml").out


def test_the_same_study_gives_the_same_bytes(parley: Parley, study_factory: StudyFactory) -> None:
    study_factory(GRID, questions=[ASKED])
    made = [paths.power("small", *name) for name in (("plan", ".csv"), ("power", ".svg"), ("power", ".png"))]
    parley("plan", "small.yaml")
    first = [path.read_bytes() for path in made]
    parley("plan", "small.yaml")
    assert [path.read_bytes() for path in made] == first


def test_without_questions_widths_are_told_and_how_to_declare_some(
    parley: Parley, study_factory: StudyFactory
) -> None:
    study_factory(GRID)
    ran = parley("plan", "small.yaml")
    assert ran.status == 0
    assert "this study" in next(line for line in ran.out.splitlines() if line.lstrip().startswith("25 "))
    assert "{name: NAME, outcome: valid_consensus, compare: n, smallest: 0.15}" in ran.out
    assert paths.power("small", "power", ".svg").exists()


def test_records_of_the_study_and_of_another_are_a_pilot(parley: Parley, study_factory: StudyFactory) -> None:
    other = study_factory(GRID, name="other")
    simulate_shard(other, SCRIPTED, 0)
    study_factory(GRID, questions=[ASKED])
    assert "no pilot" in parley("plan", "small.yaml").out
    assert "rate of 50 pairs; correlation of 50 pairs" in parley("plan", "small.yaml", "--from", "other.yaml").out


def test_what_no_record_tells_is_a_question_mark(parley: Parley, study_factory: StudyFactory) -> None:
    study_factory({**GRID, "model": "tiny"}, questions=[ASKED])
    ran = parley("plan", "small.yaml")
    assert "?: no record says what tiny takes" in ran.out
    row = next(line for line in ran.out.splitlines() if line.startswith("the study as it is"))
    assert row.split()[-4:] == ["?"] * 4


GROWING = {"from": 10, "by": 5, "to": 40, "until": {"outcome": "valid_consensus", "width": 0.2}}


def test_growing_seeds_are_told_as_ranges(parley: Parley, study_factory: StudyFactory) -> None:
    study_factory({**GRID, "seeds": GROWING}, questions=[ASKED])
    lines = parley("plan", "small.yaml").out.splitlines()
    assert "2 x 10 to 2 x 40" in lines[1]
    table = pd.read_csv(paths.power("small", "plan", ".csv")).iloc[0]
    assert f"{table['power']:.0%} to {table['power_most']:.0%}" in lines[1]
    assert "10 to 40" in lines[1]
    assert "seeds grow: at least 10, at most 40 of a condition; ranges are from the one to the other" in lines
    row = next(line for line in lines if line.startswith("the study as it is"))
    assert row.split()[5:8] == ["40", "to", "160"]
    row = next(line for line in lines if line.startswith("prompt: as it is"))
    assert row.split()[4:7] == ["40", "to", "160"]


def test_a_study_that_does_not_grow_tells_no_ranges(parley: Parley, study_factory: StudyFactory) -> None:
    study_factory(GRID, questions=[ASKED])
    out = parley("plan", "small.yaml").out
    assert "grow" not in out
    assert "2 x 25  " in out
    assert " to " not in out.splitlines()[1]


def test_another_study_that_tells_nothing_is_named(parley: Parley, study_factory: StudyFactory) -> None:
    for name, grid in (("unplayed", GRID), ("larger", {"n": 8, "seeds": 2})):
        other = study_factory(grid, name=name)
        if name != "unplayed":
            simulate_shard(other, SCRIPTED, 0)
    study_factory(GRID, questions=[ASKED])
    out = parley("plan", "small.yaml", "--from", "unplayed.yaml").out
    assert "--from unplayed: no records, so it tells nothing" in out.splitlines()
    out = parley("plan", "small.yaml", "--from", "larger.yaml").out
    assert "--from larger: no condition of this study is in it, so it tells no rates" in out.splitlines()
    simulate_shard(study_factory(GRID, name="same"), SCRIPTED, 0)
    study_factory(GRID, questions=[ASKED])
    assert "--from same" not in parley("plan", "small.yaml", "--from", "same.yaml").out


def test_a_difference_above_a_half_is_between_rates(parley: Parley, study_factory: StudyFactory) -> None:
    study_factory(GRID, questions=[{**ASKED, "smallest": 0.6}])
    ran = parley("plan", "small.yaml")
    assert "20.0% -> 80.0%" in ran.out
    assert "rates about one half, the hardest" in ran.out
    assert "--base 0.5: prompt: " in one_line_error(parley("plan", "small.yaml", "--base", "0.5"), 2)


def test_freezing_writes_a_file_once(parley: Parley, study_factory: StudyFactory) -> None:
    study_factory(GRID, questions=[ASKED])
    assert parley("plan", "small.yaml", "--freeze").out == "small.frozen.md\n"
    assert "the study is as it was frozen" in parley("plan", "small.yaml").out
    assert "is there already" in one_line_error(parley("plan", "small.yaml", "--freeze"), 2)
    assert parley("plan", "small.yaml", "--freeze", "--force").status == 0
    study_factory({**GRID, "seeds": 26}, questions=[ASKED])
    ran = parley("plan", "small.yaml")
    assert ran.status == 0
    assert "CHANGED since it was frozen: 4 conditions with other seeds" in ran.out.splitlines()[-1]
    assert Path("small.frozen.md").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(("--force",), "only with --freeze"), (("--from", "nothing.yaml"), "no such file")],
)
def test_wrong_use_is_one_line(
    parley: Parley, study_factory: StudyFactory, arguments: tuple[str, ...], said: str
) -> None:
    study_factory(GRID, questions=[ASKED])
    assert said in one_line_error(parley("plan", "small.yaml", *arguments), 2)


def test_what_only_looks_needs_no_weights(parley: Parley, study_factory: StudyFactory) -> None:
    packaged = {"source": {"package": "parley-no-such-package", "gguf": "x.gguf"}}
    study_factory({"n": [4, 6], "b": 0})  # writes the file, which is given a model that is not here
    file = Path("small.yaml")
    file.write_text(file.read_text().replace("majority", "absent"))
    Path("models.yaml").write_text(yaml.safe_dump({"models": {"absent": packaged}}))
    for command in (["plan"], ["status"], ["diff"]):
        assert parley(*command, "small.yaml").status == 0, command
    assert parley("prompts", "--study", "small.yaml", "--phase", "vote").status == 0
    for command in (["expand"], ["play"]):
        assert "parley-no-such-package" in one_line_error(parley(*command, "small.yaml"), 2)
