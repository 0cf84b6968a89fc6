"""A study whose seeds grow: one command plays until every condition is precise enough, then makes the tables."""

from pathlib import Path

import pytest

from parley import paths
from parley.analysis.tables import read_table
from parley.play.replay import replay
from parley.study import load_study
from support.workflows import real_snakemake, write

pytestmark = [pytest.mark.promise("One command plays until every condition is precise enough."), pytest.mark.rare]

SEEDS = {"from": 4, "by": 4, "to": 12, "until": {"outcome": "valid_consensus", "width": 0.4}}


def test_one_command_plays_until_it_is_precise_enough(folder: Path) -> None:
    write(folder, seeds=SEEDS)
    dry = real_snakemake("-n", "--config", "study=small.yaml")
    assert "seeds grow: of 4 conditions 4 to play; 16 simulations decided, at least 16 and at most 48" in dry.stdout
    assert not paths.results("small").exists()
    result = real_snakemake("--config", "study=small.yaml")
    assert result.returncode == 0, result.stderr
    study = load_study(Path("small.yaml"))
    numbers = {condition.axes["b"]: len(condition.seeds) for condition in study.conditions}
    # Without Byzantine agents all agree in the first games: 8 of 8 are 0.32 wide, 4 of 4 are 0.49.
    assert numbers[0] == 8
    table = read_table("small", "conditions")
    widths = table["valid_consensus_high"] - table["valid_consensus_low"]
    assert list(table["simulations"]) == [len(condition.seeds) for condition in study.conditions]
    assert ((widths <= 0.4) | (table["simulations"] == 12)).all()
    for simulation in study.simulations():
        assert replay(simulation.record("small")).identical
    # Whoever has the records alone, as from DVC, has the same study; and there is nothing more to do.
    paths.seeds("small").unlink()
    assert [len(c.seeds) for c in load_study(Path("small.yaml")).conditions] == list(table["simulations"])
    again = real_snakemake("--config", "study=small.yaml")
    assert "Nothing to be done" in again.stderr


def test_a_target_named_by_hand_does_not_grow(folder: Path) -> None:
    study = write(folder, seeds=SEEDS)
    result = real_snakemake("--config", "study=small.yaml", "--", str(next(study.simulations()).record("small")))
    assert result.returncode in (0, 1)
    assert len(load_study(Path("small.yaml")).conditions[0].seeds) == 4
