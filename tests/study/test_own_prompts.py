"""Prompts that a study brings: what is sent, what is refused, what an identity depends on, and what a record keeps."""

import pickle
import re
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from parley.errors import RecordError, UsageError
from parley.games.prompts import OwnPrompt, appended
from parley.games.registry import GAMES, game_class
from parley.play.record import read_summary
from parley.play.replay import replay
from parley.study import Study, load_study
from parley.study.condition import Simulation
from parley.study.own_prompts import write_templates
from parley.study.prompt_sent import asked, word_diff
from parley.study.recorded import rebuilt
from support import REPOSITORY
from support.answering import record_with_model
from support.commands import Parley, one_line_error
from support.records import forge
from support.studies import MODELS, StudyFactory, refused

LINE = "A person reads every message that you write."
WATCHED = {"from": "may_exist", "append": {"system": LINE}}
TWO = {"prompt": ["may_exist", "watched"], "n": 4, "b": [0, 1], "byzantine": "same"}
# Every way in which the shipped games send prompts: game, variant, parameters.
SENT: list[tuple[str, str, dict[str, Any]]] = [
    ("consensus", "may_exist", {}),
    ("consensus", "none_exist", {"protocol": "swarms"}),
    ("consensus", "may_exist", {"reply_format": "text"}),
    ("consensus", "may_exist", {"protocol": "swarms", "reply_format": "two_steps"}),
    ("consensus", "may_exist", {"stop_threshold": 0.75, "disclose_topology": True}),
    ("deliberation", "skeptical", {"problems": {"kind": "arithmetic"}}),
    ("deliberation", "improve", {"problems": {"kind": "policies"}, "reply_format": "two_steps"}),
    ("stag_hunt", "plain", {"disclosure": "explicit", "topology": "ring"}),
    ("stag_hunt", "plain", {"cheap_talk": False}),
    ("stag_hunt", "plain", {"rules": "published"}),
]


def sent(study: Study, prompt: str, seed: int = 0) -> list[tuple[str, str, str]]:
    """Return the role, and the texts without their follow-ups, of all that is asked with this prompt."""
    found = [condition for condition in study.conditions if condition.axes["prompt"] == prompt]
    return [
        (ask.role, ask.system, ask.user)
        for c in found
        for ask in asked(Simulation(c, seed).game(), seed, last_round=2)
        if not ask.earlier  # not the second step, whose prompt is that of the reply format
    ]


def alone(path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> Simulation:
    """Replay a record in a folder that has nothing else; return the simulation that it describes."""
    content = path.read_bytes()
    monkeypatch.chdir(elsewhere)
    path = elsewhere / "seed=0.parquet"
    path.write_bytes(content)
    assert replay(path).identical
    return rebuilt(path, read_summary(path).simulation)


@pytest.mark.promise(
    "A study brings prompts of its own, for every game; what they change is sent to whom it is meant."
)
@pytest.mark.parametrize(("game", "variant", "parameters"), SENT)
def test_a_line_is_sent_in_every_request_of_the_roles_that_are_meant(
    study_factory: StudyFactory, game: str, variant: str, parameters: dict[str, Any]
) -> None:
    prompts = {
        "watched": {"from": variant, "append": {"system": LINE}},
        "told": {"from": variant, "append": {"byzantine_system": LINE, "user": "To all of you."}},
    }
    grid = {"model": "tiny", "n": 4, "b": 1, "byzantine": "same", "prompt": [variant, *prompts]}
    study = study_factory(grid, game=game, parameters=parameters, prompts=prompts)
    one, other = (condition.prompt_digests for condition in study.conditions[1:])
    assert {"honest", "byzantine"} == {name.split("_")[0] for name in one if one[name] != other[name]}
    plain, watched, told = (sent(study, prompt) for prompt in (variant, *prompts))
    assert plain
    for before, after in zip(plain, watched, strict=True):
        assert after[1].count(LINE) == 1
        assert without(after[1], LINE) == without(before[1])
        assert after[2] == before[2]
    for before, after in zip(plain, told, strict=True):
        assert (LINE in after[1]) == (after[0] == "byzantine")
        assert after[2].count("To all of you.") == 1
        assert without(after[2], "To all of you.") == without(before[2])


def without(text: str, line: str = "") -> str:
    """Return a text without a line, and without line breaks."""
    return text.replace(line, "").replace("\n", "")


def test_the_form_of_the_reply_stays_last() -> None:
    assert appended("Play.\n\nRespond with JSON only:\n{}", "Well.") == "Play.\nWell.\n\nRespond with JSON only:\n{}"
    assert appended("Play.\n{reply}", "Well.") == "Play.\nWell.\n{reply}"
    assert appended("Play: {reply}", "Well.") == "Play: {reply}\nWell."


def test_words_are_replaced_in_one_pass_and_what_stands_in_braces_is_text(study_factory: StudyFactory) -> None:
    evil = 'Reply {"a": 1} {} { {{ }} \\1 \\g<0> %s {a b}'
    words = {"HONEST": "Byzantine", "Byzantine": "HONEST", "Byzantine Consensus": "Paxos", "GAME RULES": evil}
    study = study_factory(
        {**TWO, "b": 0, "prompt": "other"}, prompts={"other": {"from": "may_exist", "replace": words}}
    )
    first = sent(study, "other")[0][1]
    assert ", an Byzantine agent in a Paxos Game." in first
    assert "The network MAY contain HONEST agents" in first
    assert f"=== {evil} ===" in first


def test_each_game_is_played_from_a_folder_of_its_templates(study_factory: StudyFactory, folder: Path) -> None:
    for place, (game, variant, parameters) in enumerate(SENT):
        write_templates(game_class(game), variant, folder / f"prompts/{place}")
        grid = {"model": "tiny", "n": 4, "b": 1, "byzantine": "same", "prompt": [variant, "mine"]}
        prompts = {"mine": f"prompts/{place}"}
        study = study_factory(grid, game=game, parameters=parameters, prompts=prompts)
        assert sent(study, "mine") == sent(study, variant), (game, parameters)


# What is refused


def change(**keys: Any) -> dict[str, Any]:
    return {"from": "may_exist", **keys}


BAD: list[tuple[object, str]] = [
    ({"from": "may_exits", "append": {"system": "x"}}, ".from: 'may_exits': unknown prompt of the game; did"),
    (change(append={"sytem": "x"}), ".append: 'sytem': unknown part of this prompt; did you mean 's"),
    (change(append={"byzantine_system": "x"}), ": changes nothing that is sent"),
    (change(replace={"You mutt": "x"}), ".replace: 'You mutt': occurs in no template"),
    (change(replace={"SECRET": "x"}), ": changes nothing that is sent"),
    (
        change(replace={"Respond": "Please respond", "=== OUTPUT": "=== FORM"}),
        "lacks 'Respond with JSON only:', where",
    ),
    (change(append={"honest_propose_system": "{initial_valu}"}), "did you mean 'initial_value'?"),
    (change(append={"system": "{__class__}"}), "'{__class__}': no place of this template"),
    (change(append={"system": ""}), ".append.system: ''"),
    ({}, ".from: missing; add it"),
    ("nowhere", ": 'nowhere': no such folder; write one: parley prompts GAME --write nowhere"),
    ("prompts/../../nowhere", "name a folder below that of the study file"),
    (3, "prompts.w: 3:"),
]


@pytest.mark.parametrize(("source", "words"), BAD)
def test_a_prompt_that_cannot_be_sent_is_refused_by_its_key(
    study_factory: StudyFactory, source: object, words: str
) -> None:
    refused(partial(study_factory, {"prompt": "w"}, prompts={"w": source}), r"small\.yaml: prompts\.w", words)


def test_a_shipped_prompt_keeps_its_name_and_a_misspelled_one_is_found(study_factory: StudyFactory) -> None:
    with pytest.raises(UsageError, match=r"^small.yaml: prompts.none_exist: a prompt of the game has this name"):
        study_factory(prompts={"none_exist": WATCHED})
    with pytest.raises(UsageError, match=r"grids\[0\].prompt: 'wached': unknown prompt; did you mean 'watched'\?"):
        study_factory({"prompt": "wached"}, prompts={"watched": WATCHED})
    with pytest.raises(UsageError, match=r"groups\[1\].prompt: 'wached': unknown prompt; did you mean 'watched'\?"):
        by_group(study_factory, prompt="wached")


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("honest_act_user", "{reply}\n{histroy}", "mine/honest_act_user.txt, line 2: '{histroy}': no place"),
        ("honest_act_user", "Play.", "mine/honest_act_user.txt: lacks '{reply}'"),
        ("honest_act_usr", "x", "mine/honest_act_usr.txt: no template of the game; did you mean 'honest_act_user'?"),
        ("honest_system", None, "prompts.mine: lacks templates that are sent in this study; add honest_system"),
        ("honest_talk", "\xff", "prompts.mine: 'mine': cannot be read"),
    ],
)
def test_a_folder_with_a_wrong_template_is_refused_by_file_and_line(
    study_factory: StudyFactory, folder: Path, name: str, text: str | None, words: str
) -> None:
    write_templates(GAMES["stag_hunt"], "plain", folder / "mine")
    file = folder / f"mine/{name}.txt"
    if text is None:
        file.unlink()
    else:
        file.write_text(text, encoding="latin-1")
    grid = {"prompt": "mine", "model": "always_stag", "vary": {"cheap_talk": [True, False]}}
    with pytest.raises(UsageError, match=re.escape(words)):
        study_factory(grid, game="stag_hunt", prompts={"mine": "mine"})


# Identity


def test_an_identity_follows_the_texts_that_are_sent_and_nothing_else(
    study_factory: StudyFactory, folder: Path
) -> None:
    grid = TWO | {"model": "tiny"}

    def specs(prompts: dict[str, Any]) -> list[str]:
        return [condition.spec for condition in study_factory(grid, prompts=prompts).conditions]

    first = specs({"watched": WATCHED})
    assert specs({"watched": WATCHED, "unused": WATCHED}) == first
    louder = {"watched": {**WATCHED, "append": {"system": LINE + "!"}}}
    assert [a == b for a, b in zip(first, specs(louder), strict=True)] == [True, False] * 2
    # Rules read no words: they are shown anew, and nothing is played again. A model beside them does.
    for models, same in (
        ({}, True),
        ({"byzantine": {"name": "llm_strategies", "strategies": "stall", "model": "tiny"}}, False),
    ):
        one, other = (study_factory(TWO | {"b": 1} | models, prompts=each) for each in ({"watched": WATCHED}, louder))
        assert [a.spec == b.spec for a, b in zip(one.conditions, other.conditions, strict=True)] == [True, same]
        assert one.plan != other.plan
    # The same texts, and no change: those of a folder. What nobody is sent makes no difference.
    study = study_factory(grid, prompts={"watched": WATCHED})
    mine = folder / "prompts/mine"
    write_templates(study.game, "may_exist", mine)
    assert isinstance(study.conditions[1].prompt, OwnPrompt)
    for name, text in study.conditions[1].prompt.templates.items():
        (mine / f"{name}.txt").write_bytes(f"{text}\r\n\n".encode())
    (mine / "honest_turn_user.txt").write_text("Never sent. Return JSON only.")
    assert specs({"watched": "prompts/mine"}) == first
    file = mine / "byzantine_vote_system.txt"
    file.write_text(file.read_text() + "Please.")
    changed = specs({"watched": "prompts/mine"})
    assert [a == b for a, b in zip(first, changed, strict=True)] == [True, True, True, False]
    # A prompt is a name with its templates, also in another process.
    again = pickle.loads(pickle.dumps(study.conditions[1]))
    assert isinstance(again.prompt, OwnPrompt)
    assert (again.prompt, again.identity) == ("watched", study.conditions[1].identity)


# Records


def recorded(study: Study, place: int = -1) -> Path:
    return record_with_model(Simulation(study.conditions[place], 0))


@pytest.mark.parametrize(
    ("templates", "words"),
    [
        ({"honest_vote_system": "{evil}"}, "no place of this template"),
        ({"honest_chat_system": "x"}, "no template of the game"),
        ({"honest_vote_system": 3}, "describes no simulation"),
        ({"honest_vote_system": None}, "describes no simulation"),
        ("{evil}", "describes no simulation"),
    ],
)
def test_templates_of_a_strangers_record_are_checked(study_factory: StudyFactory, templates: Any, words: str) -> None:
    path = recorded(study_factory(TWO | {"model": "tiny"}, prompts={"watched": WATCHED}))

    def change(meta: dict[str, Any]) -> None:
        found = meta["simulation"]
        found["templates"] = found["templates"] | templates if templates and templates != "{evil}" else templates

    with pytest.raises(RecordError, match=words) as error:
        replay(forge(path, meta=change))
    assert "\n" not in str(error.value)


# Groups


def by_group(study_factory: StudyFactory, model: str = "tiny", prompt: Any = "watched", **content: Any) -> Study:
    """Return the study of two honest agents, one more with the prompt `watched`, and a Byzantine one."""
    content = {"prompts": {"watched": WATCHED}, "game": "consensus", "variant": "may_exist", **content}
    kind = "model" if model in MODELS["models"] else "policy"
    groups = [{"role": role, "count": count, kind: model} for role, count in (("honest", 2), ("honest", 1))]
    groups[1]["prompt"] = prompt
    grid = {"groups": [*groups, {"role": "byzantine", "count": 1, kind: model}], "prompt": content.pop("variant")}
    return study_factory(grid | {"model": None, "n": None}, **content)


@pytest.mark.promise(
    "A record of a prompt that a study brought says what was sent, and is replayed without the study."
)
@pytest.mark.promise(
    "Groups of one game may have a prompt each: it is what they are sent, in every game, and their record keeps it."
)
@pytest.mark.parametrize(("game", "variant", "parameters"), SENT)
def test_each_group_is_sent_its_own_prompt_and_the_record_keeps_it(
    study_factory: StudyFactory,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    game: str,
    variant: str,
    parameters: dict[str, Any],
) -> None:
    prompts = {"watched": {"from": variant, "append": {"system": LINE}}}
    study = by_group(study_factory, game=game, parameters=parameters, variant=variant, prompts=prompts)
    [condition] = study.conditions
    assert condition.axes["prompt"] == f"{variant}+watched"
    path = recorded(study)
    [watched] = [seat.name for seat in Simulation(condition, 0).game().seats if seat.group == 1]
    rows = pq.read_table(path, partitioning=None).select(["agent", "player", "system"]).to_pylist()
    assert {row["player"] for row in rows if row["agent"] == watched} == {"tiny-watched"}
    assert {row["player"] for row in rows if row["agent"] != watched} == {"tiny"}
    assert all((LINE in row["system"]) == (row["agent"] == watched) for row in rows)
    simulation = alone(path, tmp_path_factory.mktemp("elsewhere"), monkeypatch)
    assert simulation.record("small") == Simulation(condition, 0).record("small")


def test_a_groups_prompt_is_part_of_the_identity_where_it_is_given(study_factory: StudyFactory) -> None:
    def spec(prompt: Any, **changes: Any) -> str:
        return by_group(study_factory, prompt=prompt, prompts={"watched": WATCHED | changes}).conditions[0].spec

    plain = spec(None)
    assert plain == spec(None, append={"system": "Other."})
    assert len({plain, spec("may_exist"), spec("watched"), spec("watched", append={"system": "Other."})}) == 4
    # What its role is not sent makes no difference.
    assert spec("watched") == spec("watched", append={"honest_system": LINE})
    assert spec("watched") != spec("watched", append={"honest_vote_system": LINE})


def test_prompts_of_groups_are_an_axis_that_questions_compare(study_factory: StudyFactory) -> None:
    questions = [{"name": "half", "outcome": "valid_consensus", "compare": "prompt", "smallest": 0.2}]
    study = by_group(study_factory, "majority", ["may_exist", "watched"], questions=questions, seeds=2)
    assert [each.label for each in study.comparisons] == ["half: prompt may_exist -> may_exist+watched"]
    assert [each.axes["model"] for each in study.conditions] == ["2-majority+1-majority"] * 2
    groups = [{"role": "honest", "count": 2, "policy": "majority"}]
    groups += [{"role": "byzantine", "count": [0, 1], "policy": "random", "prompt": "watched"}]
    grid = {"groups": groups, "model": None, "n": None}
    study = study_factory(grid, prompts={"watched": {"from": "may_exist", "append": {"byzantine_system": LINE}}})
    assert [each.axes["byzantine"] for each in study.conditions] == ["none", "random-watched"]
    assert {each.axes["prompt"] for each in study.conditions} == {"may_exist"}


def test_the_example_of_prompts_by_group_compares_nobody_half_and_all(tmp_path: Path) -> None:
    page = (REPOSITORY / "docs/reference/study.md").read_text(encoding="utf-8")
    example = page.partition("### Prompts by group")[2].split("```")[1].removeprefix("yaml")
    (tmp_path / "told.yaml").write_text(example)
    assert [each.label for each in load_study(tmp_path / "told.yaml").comparisons] == [
        "told: prompt may_exist -> may_exist+watched",
        "told: prompt may_exist -> watched",
    ]


@pytest.mark.promise("The example of personas: each group reads its own line, under other names in other games.")
def test_the_example_of_personas_deals_them_by_the_seed(tmp_path: Path) -> None:
    page = (REPOSITORY / "docs" / "reference" / "deliberation.md").read_text(encoding="utf-8")
    example = yaml.safe_load(page.partition("### Personas")[2].split("```")[1].removeprefix("yaml"))
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(example))
    [condition] = load_study(tmp_path / "study.yaml").conditions
    lines = [prompt["append"]["honest_system"] for prompt in example["prompts"].values()]
    had: dict[str, set[str]] = {line: set() for line in lines}
    for seed in range(10):
        asks = list(asked(Simulation(condition, seed).game(), seed, last_round=0))
        for line in lines:
            [name] = {ask.agent for ask in asks if ask.system and line in ask.system}
            had[line].add(name)
    assert all(len(names) == 3 for names in had.values())


# Commands


def test_what_a_group_is_sent_is_printed_and_compared(study_factory: StudyFactory, parley: Parley) -> None:
    by_group(study_factory, "majority", ["may_exist", "watched"])
    ran = parley("prompts", "small.yaml", "--prompt", "watched")
    assert ran.out.count(LINE) == 1
    assert "(honest, played by majority-watched, scripted" in ran.err
    assert LINE not in parley("prompts", "small.yaml", "--role", "byzantine").out
    sides = ["--where", "prompt=may_exist", "--against", "prompt=may_exist+watched"]
    assert f"{{+{LINE}+}}" in parley("prompts", "small.yaml", *sides).out
    assert "no agent fits (role byzantine, prompt watched)" in one_line_error(
        parley("prompts", "small.yaml", "--prompt", "watched", "--role", "byzantine"), 2
    )


def test_templates_are_written_once_with_the_places_of_each(parley: Parley, folder: Path) -> None:
    assert parley("prompts", "stag_hunt", "--write", "mine").status == 0
    assert "honest_act_user: {history} {reply}\n" in Path("mine/README.txt").read_text()
    for game, where, *more, told in (
        ("stag_hunt", "mine", "exists already, and nothing is overwritten"),
        ("consensus", "new", "--prompt", "may_exits", "did you mean 'may_exist'"),
    ):
        assert told in one_line_error(parley("prompts", game, "--write", where, *more), 2)


def test_two_prompts_are_compared_word_by_word(study_factory: StudyFactory) -> None:
    prompts = {
        "watched": {"from": "may_exist", "append": {"honest_vote_system": LINE}, "replace": {"an HONEST": "a nice"}},
        "byzantine": {"from": "may_exist", "append": {"byzantine_turn_system": LINE, "honest_vote_system": LINE}},
    }
    study = study_factory({"prompt": "watched"}, prompts=prompts)

    def lines(one: str, other: str) -> list[str]:
        return [line.plain for line in word_diff(study, one, other)]

    assert lines("may_exist", "watched") == [
        "honest_propose_system:",
        "    You are {agent_id}, [-an-]{+a+} [-HONEST-]{+nice+} agent in a Byzantine Consensus Game.",
        "honest_vote_system:",
        f"    {{+{LINE}+}}",
    ]
    assert f"    [-{LINE}-]" in lines("watched", "may_exist")
    assert lines("watched", "watched") == ["watched and watched are identical in all that this study sends"]
