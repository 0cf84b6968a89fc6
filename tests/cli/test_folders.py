from pathlib import Path

import pytest

from parley import paths
from parley.cli.options import refuse_folder
from parley.errors import UsageError
from support.commands import Parley, one_line_error


@pytest.fixture
def results(folder: Path) -> list[Path]:
    """Two records of one study and one of another, a second name, two journals, and what is neither."""
    place = "model=m/n=3/b=0/prompt=p"
    made = [paths.simulation(study, place, "0a1b2c3d", seed) for study, seed in (("a", 0), ("a", 1), ("b", 0))]
    others = [paths.kept_record(made[0]), *map(paths.journal, made[:2]), paths.table("a", "conditions", ".parquet")]
    for path in [*made, *others, paths.ledger("b")]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    return made


@pytest.mark.parametrize("command", ["show", "replay"])
def test_a_folder_is_refused_and_a_record_in_it_is_named(parley: Parley, results: list[Path], command: str) -> None:
    for place in ("results", "results/a", "results/a/simulations"):
        line = one_line_error(parley(command, place), 2)
        assert line.strip() == f"parley: {place}: a folder; name a record, such as {results[0]}"


def test_a_folder_without_records_says_so(results: list[Path]) -> None:
    with pytest.raises(UsageError, match=r"results/a/journals: a folder that holds no record; name a file"):
        refuse_folder(paths.journals("a"))
    refuse_folder(results[0])
