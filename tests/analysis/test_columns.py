"""Every column of every file of a study is described, and every description is of a column that there is."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import yaml

from parley import paths
from parley.analysis.summarize import summarize
from parley.analysis.tables import columns_of, declared, describe, names_of, typed
from parley.columns import Column, described, find, table_names
from parley.games.registry import GAMES
from parley.identity import digest
from parley.ledger.build import build
from parley.play.record import provenance, write_record
from parley.play.record_content import COLUMNS
from parley.play.record_store import conditions_table
from parley.play.runner import play
from parley.policies.kinds import ScriptedPolicy
from parley.study import Study, load_study
from parley.study.study import TABLES_VERSION
from support import REPOSITORY
from support.playing import scripted
from support.studies import MODELS, study_of

pytestmark = pytest.mark.promise(
    "Every column of every table, record and metrics file is described, and nothing else is."
)

DELIBERATION = {"prompt": "improve", "byzantine": "stubborn", "n": 4}
RIGHT = {"name": "solver", "accuracy": 0.7}
BYZANTINE = {"b": [0, 1], "byzantine": ["random", "silent"]}
HUNT = {"model": "grim_trigger", "n": 4, "b": [0, 1], "byzantine": "betray", "prompt": "plain"}
SHIPPED = sorted(path for path in REPOSITORY.glob("config/*.yaml") if path.stem != "models")
# Small studies that have all columns among them: the rule that answers for `tiny`, a model; game, parameters, grids.
STUDIES: list[tuple[str, str, dict[str, Any], list[dict[str, Any]]]] = [
    ("majority", "consensus", {"max_rounds": 2}, [{"model": "tiny", **BYZANTINE}]),
    ("majority", "consensus", {"protocol": "swarms", "topology": "ring"}, [{"vary": {"max_rounds": [2, 3]}}]),
    ("grim_trigger", "stag_hunt", {"rules": "published", "rounds": 4}, [HUNT]),
    (
        *("solver", "deliberation", {"turns": 1}),
        [
            {**DELIBERATION, "model": RIGHT, "b": [0, 1]},
            {**DELIBERATION, "model": "solver", "b": 1, "vary": {"problems": ["policies"]}},
        ],
    ),
]


def played(name: str, rule: str, game: str, parameters: dict[str, Any], grids: list[dict[str, Any]]) -> Study:
    """Play all simulations and write the tables; where a model is asked, the rule answers for it."""
    study = study_of(*grids, name=name, game=game, parameters=parameters, seeds=2)
    kind = study.game.policies[rule]
    assert kind.rule is not None
    stand_in = ScriptedPolicy(partial(kind.rule, given=kind.Parameters()))
    for simulation in study.simulations():
        game = simulation.game()
        players = simulation.players.items()
        answers = {name: stand_in if each.policy.kind.rule is None else scripted(each) for name, each in players}
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
        return folder, [played(f"study{place}", *each) for place, each in enumerate(STUDIES)]


@pytest.fixture
def studies(made: tuple[Path, list[Study]], monkeypatch: pytest.MonkeyPatch) -> list[Study]:
    monkeypatch.chdir(made[0])
    return made[1]


def dotted(found: dict[str, Any], before: str = "") -> Iterator[str]:
    for key, value in found.items():
        if isinstance(value, dict) and value:
            yield from dotted(value, f"{before}{key}.")
        else:
            yield before + key


@pytest.mark.slow
def test_all_columns_of_tables_are_described_with_their_types_and_all_that_is_described_is_there(
    studies: list[Study],
) -> None:
    found: dict[str, set[str]] = {name: set() for name in described()["tables"]}
    expected: dict[str, set[str]] = {name: set() for name in described()["tables"]}
    for study in studies:
        game = study.game.name
        for name in [*table_names(), *(["ledger"] if study.game.evidence.keeps_ledger else [])]:
            schema = pq.read_schema(paths.table(study.name, name, ".parquet"))
            assert paths.table(study.name, name, ".csv").read_text().splitlines()[0].split(",") == schema.names
            for field, column in zip(schema, describe(name, schema.names, study), strict=True):
                assert column is not None, f"{name}: {field.name}"
                assert column.text
                assert name == "ledger" or column.arrow in (None, field.type), f"{name}: {field.name}"
                found[name].add(f"{game}: {column.name}")
            expected[name] |= {f"{game}: {column.name}" for column in columns_of(name, study.axes, study.game)}
    every = {column.name for name in described()["tables"] for column in declared(name).columns}
    of_models = {name for name in every if name.startswith(("degenerate", "model_"))}
    missing = {f"{game}: {name}" for game in ("stag_hunt", "deliberation") for name in of_models}
    of_protocols = {name for name in every if "<measure>" in name}  # of games that know protocols
    missing |= {f"{game}: {name}" for game in ("stag_hunt", "deliberation") for name in of_protocols}
    for name in found:
        assert expected[name] - found[name] <= missing, name


@pytest.mark.slow
def test_the_tables_of_all_studies_are_one_data_set_in_any_order(studies: list[Study], tmp_path: Path) -> None:
    """Also where one has no rows: its columns have the types that they have in the others."""
    files = {name: [paths.table(study.name, name, ".parquet") for study in studies] for name in table_names()}
    files["conditions of records"] = [paths.conditions(study.name) for study in studies]
    for study in (load_study(path, needs_weights=False) for path in SHIPPED):
        empty = {name: pd.DataFrame(columns=names_of(name, study.axes, study.game)) for name in table_names()}
        tables = {name: typed(frame, study, name) for name, frame in empty.items()}
        for name, table in {**tables, "conditions of records": conditions_table(study)}.items():
            files[name].append(tmp_path / f"{name}-{study.name}.parquet")
            pq.write_table(table, files[name][-1])
    for name, written in files.items():
        for order in (written, written[::-1]):
            assert ds.dataset(order).to_table().num_columns, name


def test_all_of_records_and_metrics_is_described_and_nothing_else(studies: list[Study]) -> None:
    metadata, metrics = (list(declared(name).columns) for name in ("metadata of records", "metrics"))
    of_simulations = [column.name for column in declared("simulations").columns]
    # These hold what a game, a model or a machine names.
    open_keys = [column.name for column in metadata if not column.type]
    seen: set[str] = set()
    for study in studies:
        shown = study.game.evidence.indicators
        words = {"outcome": [o.name for o in study.game.outcomes], "indicator": [i.name for i in shown]}
        words["column"] = of_simulations

        def described(columns: list[Column], key: str, words: dict[str, list[str]] = words) -> str | None:
            column = find(columns, key, words)
            return column.name if column else next((k for k in open_keys if key.startswith(f"{k}.")), None)

        for simulation in study.simulations():
            schema = pq.read_schema(simulation.record(study.name))
            assert schema.names == [column.name for column in COLUMNS]
            found = {key: described(metadata, key) for key in dotted(json.loads(schema.metadata[b"parley"]))}
            for condition in study.conditions:
                told = json.loads(paths.metric(study.name, condition.name).read_text())
                found |= {key: described(metrics, key) for key in dotted(told)}
            assert None not in found.values(), found
            seen |= {name for name in found.values() if name}
    assert {column.name for column in metadata + metrics} == seen


def test_other_columns_are_another_version_of_the_tables() -> None:
    """Who changes a column raises TABLES_VERSION, or reports fail on the tables of before, and pins the names here."""
    names = {name: [column.name for column in declared(name).columns] for name in described()["tables"]}
    of_games = {name: [column.name for column in game.evidence.metrics] for name, game in GAMES.items()}
    assert (TABLES_VERSION, digest([names, of_games])[:12]) == (28, "ee4a8c3c99bc")
