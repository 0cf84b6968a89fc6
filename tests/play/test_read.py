"""`parley show --replies`: a record's game, from start to end."""

import unicodedata
from pathlib import Path

import pytest

from parley.games.registry import GAMES
from parley.play.read import read_lines
from parley.play.record import write_record
from parley.play.runner import play
from support.answering import record_with_model
from support.commands import Parley, one_line_error
from support.forging import forge
from support.studies import StudyFactory
from support.watching import RudePolicy, Terminal, watched


@pytest.mark.parametrize("name", GAMES)
def test_every_reply_of_a_record_is_there_in_full(
    study_factory: StudyFactory, tmp_path: Path, terminal: Terminal, name: str
) -> None:
    simulation = watched(study_factory, name)
    game = simulation.game()
    played = play(simulation.id, game, {seat.name: RudePolicy(type(game)) for seat in game.seats})
    record = tmp_path / "seed=1.parquet"
    write_record(record, simulation, played, {})
    lines = list(read_lines(record, terminal))
    assert sum(line.startswith("  agent_") for line in lines) == len(played.exchanges)
    failed = sum(x.reply.failure is not None for x in played.exchanges)
    assert failed == sum("unusable reply" in line for line in lines) > 0
    assert sum("[red]no[/red]" in line for line in lines) == sum("[red]" in x.entry.text for x in played.exchanges)
    assert not [c for line in lines for c in line if unicodedata.category(c) in ("Cc", "Cf")]
    assert any(line.startswith("Outcome: ") for line in terminal.getvalue().replace("\x1b[1m", "").splitlines())


def test_a_game_that_cannot_be_played_again_is_read_as_it_was_written(
    study_factory: StudyFactory, parley: Parley
) -> None:
    record = record_with_model(next(iter(study_factory({"model": "tiny"}).simulations())))
    ran = parley("show", record, "--replies")
    assert ran.status == 0
    assert ran.out.startswith("Round 1, propose\n")
    assert ran.out.splitlines()[-1].startswith("Outcome: ")
    forge(record, meta=lambda meta: meta["simulation"].update(protocol_version=0))
    ran = parley("show", record, "--replies")
    assert ran.out.startswith("# As they were written; ")
    assert '"value": ' in ran.out
    one_line_error(parley("show", record, "--replies", "--study", "new.yaml"), 2)
