"""Every column of every file of a study is described, and every description is of a column that there is."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from parley import paths
from parley.analysis import reference
from parley.analysis.columns import AXES, TABLES, UTTERANCES, columns_of, describe
from parley.analysis.summarize import summarize
from parley.columns import Column, find
from parley.errors import UsageError
from parley.games.base import Game
from parley.games.evidence import Evidence, Indicator
from parley.games.registry import GAMES
from parley.ledger.build import build
from parley.ledger.export import export
from parley.play.provenance import provenance
from parley.play.record import write_record
from parley.play.runner import play
from parley.policies.kinds import ScriptedPolicy
from parley.study import Study, load_study
from support import REPOSITORY

PAGE = next(REPOSITORY.joinpath("docs").rglob("data.md"))
MODELS = {"models": {"tiny": {"source": {"repo": "owner/tiny", "revision": "a" * 40}}}}
DELIBERATION = {"prompt": "improve", "byzantine": "stubborn"}
# Small studies that have all columns among them; `tiny` is a model, answered for by the rule.
STUDIES: list[tuple[str, str, list[dict[str, Any]], dict[str, Any]]] = [  # name, rule, grids, the rest of the file
    (
        "grand",
        "majority",
        [{"model": "tiny", "b": [0, 1], "byzantine": ["random", "silent"]}],
        {"game": "consensus", "parameters": {"max_rounds": 2}},
    ),
    (
        "turned",
        "majority",
        [{"vary": {"max_rounds": [2, 3]}}],
        {"game": "consensus", "parameters": {"protocol": "swarms", "topology": "ring"}},
    ),
    (
        "hunt",
        "grim_trigger",
        [{"model": "grim_trigger", "n": 4, "b": [0, 1], "byzantine": "betray", "prompt": "plain"}],
        {"game": "stag_hunt", "parameters": {"rules": "published", "rounds": 4}},
    ),
    (
        "panel",
        "solver",
        [
            {"model": {"name": "solver", "accuracy": 0.7}, "n": 4, "b": [0, 1], **DELIBERATION},
            {"model": "solver", "n": 4, "b": 1, "vary": {"problems": ["policies"]}, **DELIBERATION},
        ],
        {"game": "deliberation", "parameters": {"turns": 1}},
    ),
]


def played(study: Study, rule: str) -> Study:
    """Play all simulations and write the tables; where a model is asked, the rule answers for it."""
    kind = study.game.policies[rule]
    assert kind.rule is not None
    for simulation in study.simulations():
        game = simulation.game()
        answers = {}
        for name, player in simulation.players(game).items():
            own = player.policy
            found = kind.rule(kind.Parameters()) if own.kind.rule is None else own.kind.rule(own.parameters)
            answers[name] = ScriptedPolicy(found)
        finished = play(simulation.id, game, answers)
        write_record(simulation.record(study.name), simulation, finished, provenance(datetime.now(UTC), {}))
    summarize(study)
    if study.game.evidence.keeps_ledger:
        build(study)
    return study


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Study]]:
    """The studies, played once, and the folder that they are in."""
    folder = tmp_path_factory.mktemp("described")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        Path("models.yaml").write_text(yaml.safe_dump(MODELS), encoding="utf-8")
        for name, _, grids, more in STUDIES:
            full = [{**({"n": 3, "prompt": "may_exist", "model": "majority"}), **grid} for grid in grids]
            Path(f"{name}.yaml").write_text(yaml.safe_dump({"seeds": 2, **more, "grids": full}), encoding="utf-8")
        return folder, [played(load_study(Path(f"{name}.yaml")), rule) for name, rule, _, _ in STUDIES]


@pytest.fixture
def studies(made: tuple[Path, list[Study]], monkeypatch: pytest.MonkeyPatch) -> list[Study]:
    monkeypatch.chdir(made[0])
    return made[1]


def described(columns: list[Column], study: Study, name: str) -> Column | None:
    words = {
        "outcome": [o.name for o in study.game.outcomes],
        "indicator": [i.name for i in study.game.evidence.indicators],
    }
    return find(columns, name, words)


def dotted(found: dict[str, Any], before: str = "") -> Iterator[str]:
    for key, value in found.items():
        if isinstance(value, dict) and value:
            yield from dotted(value, f"{before}{key}.")
        else:
            yield before + key


def test_all_columns_of_tables_are_described_and_all_that_is_described_is_there(studies: list[Study]) -> None:
    found: dict[str, set[str]] = {table.name: set() for table in TABLES}
    expected: dict[str, set[str]] = {table.name: set() for table in TABLES}
    for study in studies:
        for name in [*paths.TABLES, *(["ledger"] if study.game.evidence.keeps_ledger else [])]:
            names = pq.read_schema(paths.table(study.name, name, ".parquet")).names
            assert paths.table(study.name, name, ".csv").read_text().splitlines()[0].split(",") == names
            for column in names:
                column_of = describe(name, column, study.axes, study.game)
                assert column_of is not None, f"{name}: {column}"
                assert column_of.text
                found[name].add(f"{study.game.name}: {column_of.name}")
            declared = columns_of(name, study.axes, study.game)
            expected[name] |= {f"{study.game.name}: {column.name}" for column in declared}
    of_models = {f"{game}: {c}" for game in ("stag_hunt", "deliberation") for c in _names_with("degenerate", "model_")}
    of_unfinished = {f"{study.game.name}: planned" for study in studies}
    for name in found:
        assert expected[name] - found[name] <= of_models | of_unfinished, name


def _names_with(*begin: str) -> set[str]:
    return {column.name for table in TABLES for column in table.columns if column.name.startswith(begin)}


def test_the_tables_have_the_declared_types(studies: list[Study]) -> None:
    for study in studies:
        for name in paths.TABLES:
            for field in pq.read_schema(paths.table(study.name, name, ".parquet")):
                column = describe(name, field.name, study.axes, study.game)
                assert column is not None
                assert column.arrow in (None, field.type), f"{name}: {field.name}"


def test_all_of_records_and_metrics_is_described_and_nothing_else(studies: list[Study]) -> None:
    metadata, metrics = list(reference.METADATA.columns), list(reference.METRICS.columns)
    # These hold what a game, a model or a machine names.
    open_keys = [column.name for column in metadata if not column.type]
    seen: set[str] = set()
    for study in studies:
        for simulation in study.simulations():
            schema = pq.read_schema(simulation.record(study.name))
            assert schema.names == [column.name for column in reference.RECORDS.columns]
            for key in dotted(json.loads(schema.metadata[b"parley"])):
                column = described(metadata, study, key)
                known = column.name if column else next(k for k in open_keys if key.startswith(f"{k}."))
                seen.add(known)
        for condition in study.conditions:
            for key in dotted(json.loads(paths.metric(study.name, condition.path).read_text())):
                column = described(metrics, study, key)
                assert column is not None, key
                seen.add(column.name)
    assert {column.name for column in metadata + metrics} == seen


def test_all_axes_are_described(studies: list[Study]) -> None:
    base = {axis.name for axis in AXES}
    varied = {axis for study in studies for axis in study.axes} - base
    assert varied == {"max_rounds", "problems"}
    for game in GAMES.values():
        for name, field in game.Parameters.model_fields.items():
            assert field.description, f"{game.name}: {name}"


def test_all_columns_of_an_exported_ledger_are_described(studies: list[Study]) -> None:
    [study] = [study for study in studies if study.game.evidence.keeps_ledger]
    header = next(export(paths.ledger(study.name), "csv")).strip().split(",")
    assert [find(UTTERANCES.columns, name, {}) is not None for name in header] == [True] * len(header)
    assert {"content.<key>" if name.startswith("content.") else name for name in header} == {
        column.name for column in UTTERANCES.columns
    }


def test_games_describe_their_indicators_and_quantities_as_metrics() -> None:
    for game in GAMES.values():
        shown = game.evidence
        shared = {"rounds"}  # a column of every game's simulations
        assert {i.name for i in (*shown.indicators, *shown.quantities)} <= {
            c.name for c in shown.columns.metrics
        } | shared


def test_a_metric_that_a_game_names_as_an_indicator_alone_has_its_label() -> None:
    class OwnEvidence(Evidence[Any]):
        indicators = (Indicator("happy", "all are happy"),)

    class Own(Game[Any]):
        evidence = OwnEvidence()
        outcomes = ()

    found = describe("simulations", "happy", [], Own)
    assert found is not None
    assert (found.text, found.type) == ("all are happy", "bool")
    assert describe("simulations", "other", [], Own) is None


def test_the_page_is_what_the_columns_give() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert reference.page(text) == text, f"run: python -m parley.analysis.reference {PAGE}"


def test_a_page_without_a_place_is_refused() -> None:
    with pytest.raises(UsageError, match="no place for the columns"):
        reference.page("# A page\n")
