"""The card: axes of scripted players whose values theory knows, what a card cannot know, and two cards compared."""

import json
import math
import shutil
import subprocess
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pandas as pd
import pytest
import scipy.stats

from parley import paths
from parley.card import measures, play
from parley.card.content import FOLDER, Axis, Card, Result, card_text, definition, read_card
from parley.card.measures import Measured, make_card
from parley.card.page import _others, comparison_lines, html, markdown
from parley.engine.models import load_models
from parley.errors import UsageError
from parley.play.replay import replay
from parley.play.simulate import simulate_shard
from parley.statistics.power import Rates, power_of_pooled
from parley.study import load_study
from parley.text.yamlfile import load_yaml
from support import REPOSITORY
from support.commands import Parley, one_line_error

# All that decides what is played and what a number means. Where this changes, raise `card` in axes.yaml, and make the
# shipped cards anew.
FROZEN = {1: "2d2d16c4fa0e84d7"}
SHIPPED = sorted((FOLDER / "shipped").glob("*.json"))
Carded = Callable[..., Card]


@pytest.fixture
def carded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Carded:
    """Return the card of a reference that plays alone, of so many seeds."""

    def make(name: str, seeds: int) -> Card:
        alone = {name: definition().references[name]}
        asked = definition().model_copy(update={"references": alone, "quick": seeds})
        for module in (measures, play):
            monkeypatch.setattr(module, "definition", lambda: asked)
        files = play.write_studies(tmp_path / name, name, None, paths.OWN_MODELS, quick=True)
        for file in files:
            with paths.rooted(paths.home(file)):
                study = load_study(file, needs_weights=False)
                for engine, number in sorted(set(study.shards().values())):
                    simulate_shard(study, engine, number)
        return make_card(files, name, quick=True)

    return make


def _values(card: Card) -> dict[str, float | None]:
    return {each.axis: each.value for each in card.axes}


@pytest.mark.slow
@pytest.mark.promise("Axes of a card have the values that theory knows: of majority, copies and grim trigger.")
def test_axes_of_scripted_players_have_the_values_that_theory_knows(carded: Carded) -> None:
    majority = carded("majority", 6)
    assert _values(majority) | {"hold": None} == {
        **{"agree": 1, "scale": 0, "hold": None, "calm": 0, "form": 1, "repeat": 1},
    }
    copies = carded("copies", 48)
    assert (_values(copies)["votes"], _values(copies)["together"]) == (1, 0)
    grim = carded("grim_trigger", 6)
    assert (_values(grim)["recover"], _values(grim)["promises"], _values(grim)["see"]) == (0, 1, 0)
    failed = [why for card in (majority, copies, grim) for each in card.axes for why in each.failed]
    assert not [why for why in failed if "no games" not in why]  # this test plays no other reference
    agree = majority.axes[0]
    assert (agree.games, len(agree.by_seed), agree.chance) == (12, 6, None)
    assert agree.low is not None
    assert agree.low < 1


@pytest.mark.promise("Two cards are compared by seed, corrected over all axes: of a card and itself nothing differs.")
def test_two_cards_are_compared_by_seed() -> None:
    majority, chance = (read_card(FOLDER / "shipped" / f"{name}.json") for name in ("majority", "random"))
    assert not any("differs" in line for line in comparison_lines(majority, majority))
    lines = {line.split()[0]: line for line in comparison_lines(majority, chance)}
    assert "-100 [" in lines["agree"]  # the second less the first
    assert "differs" in lines["agree"]
    assert "open" in lines["scale"]
    assert "pooled" in lines["no"]
    agree = majority.axes[0]
    five = agree.model_copy(update={"by_seed": {seed: float(seed > 4) for seed in agree.by_seed}})
    by_chance = majority.model_copy(update={"axes": [five, *majority.axes[1:]], "quick": True})
    lines = {line.split()[0]: line for line in comparison_lines(majority, by_chance)}
    assert "open" in lines["agree"]  # McNemar's p is 0.025, by five of as many, and there are six axes
    assert "quick" in lines["one"]
    scale, *_ = (each for each in majority.axes if each.axis == "scale")
    ends = [scale.model_copy(update={"by_seed": dict.fromkeys(scale.by_seed, end)}) for end in (-1.0, 1.0)]
    header, line = comparison_lines(*(majority.model_copy(update={"axes": [end]}) for end in ends))[:2]
    assert "majority (first)  majority (second)" in header
    assert "+200 [" in line  # from -100 to +100


def _card(**updates: object) -> Card:
    return read_card(SHIPPED[0]).model_copy(update=updates)


@pytest.mark.promise("Cards of different versions are not compared.")
def test_cards_of_different_versions_are_not_compared(tmp_path: Path) -> None:
    cards = [_card(name="mine"), _card(card=2, name="new")]
    with pytest.raises(UsageError, match="different versions"):
        comparison_lines(*cards)
    for card in (*cards, _card(name="random", missing=7)):
        (tmp_path / card.name).mkdir()
        (tmp_path / card.name / "card.json").write_text(card_text(card))
    marks = {each.name: each.missing for each in _others(_card(), tmp_path / "here")}
    assert {"mine"} == marks.keys() - {each.stem for each in SHIPPED}
    assert marks["random"] == 7  # one's own, before the shipped one


@pytest.mark.promise("An axis of a card whose replies were mostly unusable has no number, but the reason.")
@pytest.mark.parametrize(
    ("usable", "degenerate", "said"),
    [(0.48, 0.0, "52% of its replies could not be used"), (1.0, 0.41, "degenerate"), (0.51, 0.39, "")],
)
def test_an_axis_of_unusable_replies_has_a_reason(usable: float, degenerate: float, said: str) -> None:
    agree = definition().axes[0]
    rows = pd.DataFrame({"usable": [usable], "degenerate_share": [degenerate]})
    reason = measures._reason(agree, rows, {0: 1.0})
    assert said in reason
    assert bool(reason) == bool(said)


@pytest.mark.promise("A card of which a control failed has a mark, and no card has a total.")
def test_a_failed_control_is_marked() -> None:
    card = _card()
    failed = card.axes[0].model_copy(update={"failed": ["majority reached 0.5, and theory says 1"]})
    marked = card.model_copy(update={"axes": [failed, *card.axes[1:]], "name": "<b>"})
    for sheet in (html(marked, []), markdown(marked)):
        assert "control failed" in sheet
        assert "majority reached 0.5" in sheet
    assert "control failed" not in html(card, []) + markdown(card)
    assert "<b>" not in html(marked, [])
    assert not {"total", "score"} & {*Card.model_fields, *Result.model_fields}


@pytest.mark.promise(
    "A card's page and Markdown show each question, and say where games are too few to find what matters."
)
def test_a_sheet_says_what_it_asks_and_can_find() -> None:
    [[axis, result], *_] = _card().listed()
    for power, said in ((0.49, "Too few games"), (0.5, "chance of 50%"), (None, "not known")):
        card = _card(axes=[result.model_copy(update={"power": power, "noise": 0.12, "note": "<b> *of* [x](y)|"})])
        page, text = html(card, []), markdown(card)
        assert all(axis.question in sheet and said in sheet and "12 points" in sheet for sheet in (page, text))
        assert "<b>" not in page
        assert "\\<b\\> \\*of\\* \\[x\\](y)\\|" in text


def test_a_card_with_impossible_numbers_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "card.json"
    for given, value in (
        *(("by_seed", {0: 1.5}), ("by_seed", {0: math.nan}), ("high", math.inf), ("low", 1.0)),
        *(("axis", "none-of-these"), ("axis", _card().axes[1].axis)),
    ):
        content = _card().model_dump(mode="json")
        content["axes"][0][given] = value
        file.write_text(json.dumps(content))
        with pytest.raises(UsageError, match=f"^{file}: [^\n]*$"):
            read_card(file)


def _axis(name: str) -> Axis:
    return next(axis for axis in definition().axes if axis.name == name)


def test_a_difference_is_a_side_less_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    games = Measured([], "model")
    rows = {"n": [4, 4, 4, 12, 12, 12], "b": 0, "prompt": "none_exist", "seed": [1, 2, 3] * 2}
    played = pd.DataFrame({**rows, "valid_consensus": [1.0, 1.0, 1.0, 1.0, 0.0, 0.0]})
    monkeypatch.setattr(games, "of", lambda axis, player: played)
    by_seed, sides = games.value(_axis("scale"), "model")
    assert by_seed == {1: 0, 2: -1, 3: -1}
    assert measures.interval(_axis("scale"), by_seed, sides)[0] == pytest.approx(-2 / 3)


def test_limits_are_those_of_pairs_of_rates_and_of_what_varies() -> None:
    alike = dict(enumerate([1.0, 1.0, 1.0, 0.0]))
    sides = measures.samples(_axis("scale"), alike, alike, 1.0)
    value, low, high = measures.interval(_axis("scale"), dict.fromkeys(range(4), 0.0), sides)
    assert (value, low, 0 < high < 1) == (0, -high, True)
    found = measures.interval(_axis("agree"), dict.fromkeys(range(24), 1.0), None)
    assert found == pytest.approx((1, 24 / (24 + 1.959964**2), 1))  # Wilson's of 24 of 24
    by_seed = {seed: 0.45 + 0.1 * (seed % 2) for seed in range(24)}
    value, low, high = measures.interval(_axis("promises"), by_seed, None)
    assert (value, high - value) == pytest.approx((0.5, value - low))
    assert 0.02 < value - low < 0.03  # Wilson's would be [33, 70]


def test_power_is_that_of_two_independent_cards_at_holms_first_step() -> None:
    """By the noncentral t of a difference, which varies twice as much as a card; two games of a seed as two strata."""
    level, alike = 0.05 / 13, dict.fromkeys(range(24), 1.0)
    varied = measures._power(_axis("promises"), {seed: 0.5 + 0.21 * (-1) ** seed for seed in alike})
    for power, shift in (
        (varied, 0.2 * math.sqrt(23 / 2) / 0.21),
        (measures._power(_axis("scale"), alike), 0.6 * math.sqrt(24)),
    ):
        assert power == pytest.approx(scipy.stats.nct.sf(scipy.stats.t.isf(level / 2, 23), 23, shift), abs=0.1)
    pooled = power_of_pooled(24, 2, Rates(0.3, 0.7), level)
    assert measures._power(_axis("agree"), alike) == pytest.approx(pooled, abs=0.05)
    assert [measures._power(_axis(name), alike) for name in ("votes", "form")] == [None, None]


def test_a_reply_counts_as_used_or_not() -> None:
    games = pd.DataFrame({"calls": [9], "model_replies": 10, "failed_replies": 1, "degenerate": 5})
    rows = measures.with_shares_of_replies(games)
    assert rows[["usable", "degenerate_share"]].to_numpy().tolist() == [[0.9, 0.5]]


@pytest.mark.promise("What a card plays and asks is frozen under its version.")
def test_what_a_card_asks_is_frozen() -> None:
    files = [FOLDER / "axes.yaml", *sorted((FOLDER / "studies").glob("*.yaml"))]
    content = json.dumps([load_yaml(file) for file in files], sort_keys=True)
    assert FROZEN[definition().card] == sha256(content.encode()).hexdigest()[:16]


def test_shipped_cards_are_of_this_version() -> None:
    assert {file.stem for file in SHIPPED} >= {"majority", "flood_min", "random", "grim_trigger", "copies"}
    for file in SHIPPED:
        card = read_card(file)
        assert (card.card, card.name, card.failed) == (definition().card, file.stem, [])
        assert card_text(card) == file.read_text(encoding="utf-8")


@pytest.mark.rare
@pytest.mark.promise("What models of shipped cards said replays, and `parley card` makes the same card of it.")
@pytest.mark.parametrize("name", ["qwen2.5-coder-1.5b", "smollm2-135m"])
def test_a_shipped_card_is_made_again_from_what_its_model_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(paths.MODELS, str(tmp_path / "none"))  # no weights are needed
    made = tmp_path / paths.CARDS / name
    shutil.copytree(REPOSITORY / "findings" / paths.CARDS / name, made)
    assert [replay(record).difference for record in sorted(made.rglob("*.parquet"))] == [None] * 30
    subprocess.run(["parley", "card", name, "--quick"], cwd=tmp_path, check=True, capture_output=True)
    assert (made / "card.json").read_bytes() == (FOLDER / "shipped" / f"{name}.json").read_bytes()


def test_a_model_plays_some_four_hundred_games(tmp_path: Path) -> None:
    entry = load_models(paths.OWN_MODELS)["smollm2-135m"]
    games = []
    for quick in (True, False):  # the same folder: what was quick goes on
        files = play.write_studies(tmp_path, "smollm2-135m", entry, paths.OWN_MODELS, quick)
        with paths.rooted(paths.home(files[0])):
            studies = [load_study(file, needs_weights=False) for file in files]
        games.append([each.id for study in studies for each in study.simulations() if each.condition.models])
        estimate = play.estimate_line(studies, "smollm2-135m")
        assert f"{len(games[-1])} games" in estimate
    assert {*games[0]} < {*games[1]}
    assert (len(games[0]), 350 < len(games[1]) < 450) == (30, True)


def test_all_that_an_entry_says_is_kept(tmp_path: Path) -> None:
    """Also what is no part of a model's identity."""
    entry = load_models(paths.OWN_MODELS)["smollm2-135m"].model_copy(update={"gpus": 4, "note": "mine"})
    entry.model_fields_set.update({"gpus", "note"})
    play.write_studies(tmp_path, "small", entry, paths.OWN_MODELS, quick=True)
    written = load_models(tmp_path / "config" / "models.yaml")["small"]
    assert (written.gpus, written.note, written.identity()) == (4, "mine", entry.identity())
    (tmp_path / "my.yaml").write_text("models: {own: {source: {folder: weights}, max_model_len: 8192}}")
    local = load_models(tmp_path / "my.yaml")["own"]
    [file, *_] = play.write_studies(tmp_path / "own", "own", local, tmp_path / "my.yaml", quick=True)
    models = paths.models_file(file)
    assert str(tmp_path / "weights") in models.read_text()
    play.hide_places(tmp_path / "own")
    assert not [each for each in (tmp_path / "own").rglob("*.yaml") if str(tmp_path) in each.read_text()]
    assert load_models(models)["own"].identity() == local.identity()
    with pytest.raises(UsageError, match="rename the entry"):
        play.write_studies(tmp_path, "knows", entry, paths.OWN_MODELS, quick=True)


def test_a_full_card_is_not_replaced_by_a_quick_one(parley: Parley, folder: Path) -> None:
    (folder / "cards/majority").mkdir(parents=True)
    shutil.copy(next(each for each in SHIPPED if each.stem == "majority"), folder / "cards/majority/card.json")
    assert "leave out --quick" in one_line_error(parley("card", "majority", "--quick"), 2)


def test_a_dry_run_makes_no_card_and_ends_well(parley: Parley, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(play, "play", lambda files, options: None)
    assert parley("card", "majority", "--quick", "-n").status == 0
    assert not (folder / "cards/majority/card.json").exists()


def test_what_is_missing_is_not_the_same_again() -> None:
    rows = pd.DataFrame({"model": "m", "seed": [1, 1, 2, 3, 3], "outcome": list("aabab"), "rounds": 1})
    assert measures.same_end(rows, 2).dropna().tolist() == [1, 1, 0, 0]


def test_a_control_that_misses_what_theory_says_has_failed() -> None:
    class Games:
        name, reached, few = "model", dict[int, float](), False

        def value(self, axis: Axis, player: str) -> tuple[dict[int, float], None]:
            return {self.name: {1: 1.0}, "random": {1: 0.25}}.get(player, self.reached), None

        def of(self, axis: Axis, player: str) -> pd.DataFrame:
            played = {"usable": [1.0], "degenerate_share": 0.0, "n": 4, "b": 0, "prompt": "none_exist"}
            return pd.DataFrame(played if player == self.name or self.reached or self.few else {})

    games = Games()
    cases = [({}, False, "no games"), ({}, True, ""), ({1: 0.99}, False, "reached 0.99"), ({1: 0.996}, False, "")]
    for games.reached, games.few, said in cases:
        result = measures._result(_axis("agree"), games)  # type: ignore[arg-type]
        assert [said in why for why in result.failed] == [True] * (2 if said else 0)
        assert (result.chance, result.best) == (0.25, games.reached.get(1))
        assert result.noise == pytest.approx(math.sqrt(2) * (1 - (result.low or 0)) / 2)


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="majority"):
        play.write_studies(tmp_path, "majorty", None, paths.OWN_MODELS, quick=False)
