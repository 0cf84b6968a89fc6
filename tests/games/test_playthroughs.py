"""A game goes as its file in docs/playthroughs/ shows, ask by ask; `make playthroughs` makes the files anew."""

from collections.abc import Mapping
from difflib import unified_diff
from typing import Any

import pytest

from support.playthrough import FOLDER, Shown, file_of, index, specs

pytestmark = pytest.mark.promise("A game goes as its playthrough shows, ask by ask (docs/playthroughs).")

AGAIN = "`make playthroughs` writes the files anew; read their diff before you commit it"


@pytest.mark.parametrize("spec", [pytest.param(spec, id=spec["name"]) for spec in specs()])
def test_a_game_goes_as_its_playthrough_shows(spec: Mapping[str, Any]) -> None:
    file = file_of(spec)
    assert file.is_file(), AGAIN
    now, kept = Shown().game(spec).splitlines(), file.read_text(encoding="utf-8").splitlines()
    diff = list(unified_diff(kept, now, "as it was", "as it is", lineterm="", n=2))
    assert not diff, "\n".join([*diff[:60], AGAIN])


@pytest.mark.slow
def test_the_list_of_playthroughs_names_all_and_no_other() -> None:
    assert (FOLDER / "index.md").read_text(encoding="utf-8") == index(), AGAIN
    assert set(FOLDER.rglob("*.txt")) == {file_of(spec) for spec in specs()}, AGAIN
