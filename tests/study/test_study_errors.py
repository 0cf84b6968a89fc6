"""Bad studies and model entries: one line that names the file, the key and the remedy, whatever is in the file."""

from pathlib import Path
from typing import Any

import pytest

from parley.errors import UsageError
from parley.study import load_study
from support.commands import Parley, one_line_error
from support.studies import MODELS, StudyFactory

HONEST = {"role": "honest", "count": 3, "policy": "majority"}
Row = tuple[dict[str, Any], *tuple[str, ...]]


def refusal(make: StudyFactory, *grids: dict[str, Any], **content: Any) -> str:
    """Return the lines that refuse a study, each of which names a file."""
    with pytest.raises(UsageError) as caught:
        make(*grids, **content)
    assert caught.value.exit_code == 2
    assert all(line.startswith(("small.yaml: ", "models.yaml: ")) for line in str(caught.value).splitlines())
    return str(caught.value)


BAD_KEYS: list[Row] = [
    ({"gmae": "consensus"}, "small.yaml: gmae: unknown key; did you mean 'game'?"),
    ({"reply_format": "text"}, "reply_format: unknown key; put it under parameters:"),
    ({"prompts": {"mine": {"form": "neutral"}}}, "prompts.mine.form: unknown key; did you mean 'from'?"),
    ({"game": "consensys"}, "game:", "'consensys'", "did you mean 'consensus'?"),
    ({"seeds": "0-9"}, "seeds: '0-9'", "valid integer"),
    ({"seeds": [3, -1]}, "seeds[1]: -1"),
    ({"budget": {"cost": float("inf")}}, "budget.cost: inf"),
    ({"parameters": {"max_round": 3}}, "parameters: max_round:", "'max_rounds'"),
    ({"parameters": {"topology": {"kind": "erdos_reny"}}}, "topology", "did you mean 'erdos_renyi'?"),
    ({"parameters": {"stop_threshold": "most"}}, "stop_threshold: 'most'", "2/3"),
    ({"parameters": {"value_min": 9, "value_max": 3}}, "value_min 9", "value_max 3"),
]
BAD_GRIDS: list[Row] = [
    ({"modle": "majority"}, "modle:", "'model'"),
    ({"model": None}, "model: missing"),
    ({"n": None}, "n: ", "honest"),
    ({"b": 4}, "b: 4", "(n = 3)"),
    ({"n": "3"}, "n[0]: '3'"),
    ({"model": "tinny"}, "model: 'tinny'", "did you mean 'tiny'?", "other, tiny, llm, majority"),
    ({"model": "tiny", "byzantine": {"name": "llm_strategies", "strategies": "stal"}}, "did you mean 'stall'?"),
    ({"prompt": "must_exist"}, "prompt: 'must_exist'", "'may_exist'"),
    ({"n": [3, 3]}, "model=majority/n=3/b=0/prompt=may_exist", "duplicate"),
    ({"vary": {"stop_threshold": [0.5, "1/2"]}}, "duplicate"),
    ({"vary": {"max_round": [3]}}, "vary: 'max_round'", "'max_rounds'"),
    ({"vary": {"max_rounds": [0, 5]}}, "grids[0].vary: max_rounds: 0"),
    ({"model": "llm"}, "model: llm", "model"),
    ({"model": {"name": "majority", "model": "tiny"}}, "model: majority", "remove 'tiny'"),
    ({"model": "no_such_module:Policy"}, "model: no_such_module:Policy", "no module no_such_module"),
]
BAD_GROUPS: list[Row] = [
    ({"n": 3}, "n: ", "remove it"),
    ({"groups": [{**HONEST, "count": 0}]}, "groups: ", "raise a count"),
    ({"groups": [HONEST, {**HONEST, "role": "king"}]}, "groups[1].role: 'king'", "honest, byzantine"),
    ({"groups": [{"role": "honest", "count": 3}]}, "groups[0]: llm", "with model"),
    ({"groups": [{**HONEST, "model": "tiny"}]}, "groups[0]: majority", "remove 'tiny'"),
]


def test_a_refusal_names_the_key_and_the_remedy(study_factory: StudyFactory) -> None:
    grouped: dict[str, Any] = {"model": None, "n": None, "groups": [HONEST]}
    assert study_factory(grouped).conditions
    said = [(refusal(study_factory, **content), names) for content, *names in BAD_KEYS]
    for before, rows in (({}, BAD_GRIDS), (grouped, BAD_GROUPS)):
        said += [(refusal(study_factory, before | grid), ["small.yaml: grids[0]", *names]) for grid, *names in rows]
    assert not [(line, names) for line, names in said if not all(name in line for name in names)]


def test_grids_are_checked_together(study_factory: StudyFactory) -> None:
    with pytest.raises(UsageError, match=r"^small\.yaml: grids\[1\].vary: 'max_round'"):
        study_factory({"n": 3}, {"n": 4, "vary": {"max_round": [3]}})
    with pytest.raises(UsageError, match=r"^small\.yaml: grids\[1\]: model=majority/n=4/.*\(also in grids\[0\]\)"):
        study_factory({"n": [3, 4]}, {"n": [4, 5]})


def test_the_file_is_there_and_its_name_is_that_of_a_folder(study_factory: StudyFactory) -> None:
    with pytest.raises(UsageError, match=r"^config/no\.yaml: no such file; parley new NAME writes a study$"):
        load_study(Path("config/no.yaml"))
    for name in ("a b.yaml", "a..b.yaml", "ä.yaml", "-a.yaml", "a=b.yaml"):
        with pytest.raises(UsageError, match=rf"^{name}: the file's name becomes a folder"):
            study_factory(name=name.removesuffix(".yaml"))
    with pytest.raises(UsageError, match=r"^config/ab\.yaml: no such file; did you mean 'a=b'\? choose one of: -a, "):
        load_study(Path("config/ab.yaml"))


def test_a_study_without_a_models_file_has_the_models_of_parley(study_factory: StudyFactory) -> None:
    Path("models.yaml").unlink()
    assert len(study_factory().conditions) == 1
    with pytest.raises(UsageError, match=r"'tiny': unknown model or policy; choose one of: smollm2-135m"):
        study_factory({"model": "tiny"})
    assert study_factory({"model": "smollm2-135m"}).conditions[0].models == ("smollm2-135m",)


# Entries of models

REPO = {"repo": "a/b", "revision": "a" * 40}
BAD_MODELS: list[Row] = [
    ({"m": {"source": REPO, "dtyp": "float16"}}, "models.m.dtyp", "'dtype'"),
    ({"m": {"source": REPO, "server_args": {"seed": "--host"}}}, "models.m.server_args.seed: '--host'"),
    ({"m": {"source": REPO, "chat_template_kwargs": {"x": float("nan")}}}, "models.m.chat_template_kwargs", "JSON"),
    ({"majority": {"source": REPO}}, "models.majority", "rename"),
    (
        {"m": {"source": {"package": "parley-no-such-package", "gguf": "x.gguf"}}},
        "models.m.source",
        "package parley-no-such-package not installed",
    ),
]


def test_a_bad_entry_of_a_model_is_refused_with_its_key(study_factory: StudyFactory) -> None:
    said = [(refusal(study_factory, {"model": min(models)}, models=models), names) for models, *names in BAD_MODELS]
    wrong = [line for line, names in said if not all(name in line for name in ("models.yaml: ", *names))]
    assert not wrong


def test_a_folder_is_found_beside_the_models_file_and_looked_for_only_if_used(study_factory: StudyFactory) -> None:
    Path("local/model").mkdir(parents=True)
    Path("local/model/config.json").write_text("{}")
    models = {"m": {"source": {"folder": "local/model"}}, "unused": {"source": {"folder": "no/model"}}}
    assert study_factory({"model": "m"}, models=models).conditions[0].models == ("m",)


def test_a_budget_is_what_services_may_use_and_a_cost_needs_the_price_of_each(study_factory: StudyFactory) -> None:
    source = {"url": "http://127.0.0.1:1/v1", "served": "tiny"}
    priced = {"source": source, "price": {"prompt": 2, "completion": 8}}
    models = {"theirs": priced, "other": {"source": source}, "tiny": MODELS["models"]["tiny"]}
    for grids in ([{"model": "theirs"}, {"model": "majority"}], [{"model": "theirs"}, {"model": "tiny"}]):
        assert study_factory(*grids, models=models, budget={"cost": 5}).content.budget
    with pytest.raises(UsageError, match=r"^small\.yaml: budget\.cost: 5: other .*models\.other in models\.yaml"):
        study_factory({"model": ["theirs", "other"]}, models=models, budget={"cost": 5})
    assert study_factory({"model": "other"}, models=models, budget={"tokens": 5}).content.budget
    groups = [{"role": "honest", "count": 1, "model": model} for model in ("theirs", "tiny")]
    beside = {"groups": groups, "prompt": "may_exist", "model": None, "n": None}
    with pytest.raises(UsageError, match=r"^small\.yaml: budget: .* asks a service and a server of Parley's own"):
        study_factory(beside, {"model": "theirs"}, models=models, budget={"tokens": 5})


def test_services_are_played_by_one_cluster_job(study_factory: StudyFactory) -> None:
    models = {
        name: {"source": {"url": "http://127.0.0.1:1/v1", "served": name}, "cluster": {"partition": name}}
        for name in ("one", "two")
    }
    assert study_factory({"model": "one"}, models=models).shards()
    with pytest.raises(UsageError, match=r"^small\.yaml: models that share .* cluster\.partition"):
        study_factory({"model": ["one", "two"]}, models=models)


@pytest.mark.parametrize("content", ["root:x:0:hunter2:/bin/bash\n", "KEY=hunter2\nB: hunter2\n", "B: hunter2\n"])
def test_what_is_no_study_is_not_quoted(folder: Path, content: str) -> None:
    (folder / "private").write_text(content)
    (folder / "linked.yaml").symlink_to(folder / "private")
    with pytest.raises(UsageError) as caught:
        load_study(Path("linked.yaml"))
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("name", ["a" * 300, f"{'a' * 300}.yaml", f"{'a' * 300}/small.yaml"])
def test_a_name_that_is_too_long_is_told_with_the_file(parley: Parley, folder: Path, name: str) -> None:
    error = one_line_error(parley("expand", name), 2)
    assert "Errno" not in error
