"""The prompts of the consensus game are the published ones; how they are filled is in docs/playthroughs."""

import hashlib
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from parley.errors import UsageError
from parley.games.consensus.game import ConsensusGame, ConsensusParameters
from parley.games.consensus.prompts import FOLDER, PROMPTS, share_text
from parley.policies import Ask
from parley.study.condition import Simulation
from parley.study.prompt_sent import asked
from support.playing import new_consensus
from support.studies import StudyFactory

# The experimental stimulus: Figures 5 to 14 of the paper, word for word, and the constants of the Swarms page with a
# newline at the end of each. A changed digest is another experiment.
SHA256 = {
    "fig05_byzantine_propose_system": "9f2073c33202d8850267c249e5538c9a543f2b515ee6d13d227e08dcbc227406",
    "fig06_byzantine_propose_user": "0aa36de6699655f5de2d2882e8b8b4236661f0b05eb75df2633ba78400cf3cd8",
    "fig07_byzantine_vote_user": "459ea04d6aaa82f893e541f5cd4b19bfd018aee1ca990bbd98ac3287e18d2b36",
    "fig08_byzantine_vote_system": "c70909f2694bb6625efb3da7ca234ab2505f0edd49c00d62e15d0d732afda074",
    "fig09_honest_propose_user": "bd0f7a6350124ebc2ee9ee1381bbaef4f9a94a02ab34c1477ccda3ae6d03d39e",
    "fig10_honest_vote_user": "9eb70ed219fd16ec5ce40a046b1c8d7890639a56204c8617cd75fd7a0bd90e2e",
    "fig11_honest_may_exist_propose_system": "83652a0cce2ccf51313d0c03d3cf8824e4008e84f8802d2701469afcab711512",
    "fig12_honest_none_exist_propose_system": "24f90b863b2bc6758d3b806e7429fb84f19e5494cc14e5bb487b49606df33ebc",
    "fig13_honest_may_exist_vote_system": "1b3836346e56bdc73fd96d82b498e4fb4b0cc3bf0e2c3544af922342b96494ac",
    "fig14_honest_none_exist_vote_system": "1c4a0c37aafc04a84b8168c11a470ad48f6a7925ae1dfdb3e18d62d747a74ad4",
}
SWARMS_SHA256 = {
    "honest_prompt": "6972e8ea3d020648134328b4644323becc76c6516407111b1b770e997dbd189d",
    "cooperative_prompt": "70fa7232b368e21dcd322a2b7d84937ee54c019a57ec9ba9eb65791c92fad573",
    "byzantine_prompt": "2b9fc66218ad04f1911a95fc3258a655b028b38bfe6f6b31eb0c79b9d28f63fd",
    "round_prompt": "6c0b192f321630448e2f0c514c9f493b4271d0f05ed5022c8c4be5e9ebf05aef",
}
# Of each prompt, role, phase and part the template; the two prompts differ in what honest agents are told first.
FIGURES = {
    ("byzantine", "propose", "system"): ("fig05", "fig05"),
    ("byzantine", "propose", "user"): ("fig06", "fig06"),
    ("byzantine", "vote", "user"): ("fig07", "fig07"),
    ("byzantine", "vote", "system"): ("fig08", "fig08"),
    ("honest", "propose", "user"): ("fig09", "fig09"),
    ("honest", "vote", "user"): ("fig10", "fig10"),
    ("honest", "propose", "system"): ("fig11", "fig12"),
    ("honest", "vote", "system"): ("fig13", "fig14"),
    ("honest", "turn", "system"): ("honest_prompt", "cooperative_prompt"),
    ("byzantine", "turn", "system"): ("byzantine_prompt", "byzantine_prompt"),
    ("honest", "turn", "user"): ("round_prompt", "round_prompt"),
    ("byzantine", "turn", "user"): ("round_prompt", "round_prompt"),
}
KEYS = [(prompt, *key) for key in FIGURES for prompt in ("may_exist", "none_exist")]


def test_the_templates_are_the_published_ones() -> None:
    for folder, expected in ((FOLDER, SHA256), (FOLDER / "swarms", SWARMS_SHA256)):
        found = {path.stem: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.txt")}
        found.pop("vote_on_last_round", None)  # the one sentence of our own
        assert found == expected


def test_each_prompt_comes_from_its_figure() -> None:
    known = {(prompt, *name.split("_", 2)) for prompt, names in PROMPTS.variants.items() for name in names}
    assert {key for key in known if key[-1] != "vote_on_last_round"} == set(KEYS)
    for prompt, role, phase, part in KEYS:
        path = PROMPTS.variants[prompt][f"{role}_{phase}_{part}"]
        assert isinstance(path, Path)
        assert path.name.startswith(FIGURES[role, phase, part][prompt == "none_exist"])
        text = PROMPTS.template(prompt, role, phase, part, early_vote=True)
        assert text + "\n" == path.read_text(encoding="utf-8")
        ours = PROMPTS.template(prompt, role, phase, part).removeprefix(text)
        assert bool(ours) == ((phase, part) == ("turn", "system"))


def test_an_unknown_prompt_is_a_usage_error() -> None:
    for place, word in enumerate(("unknown", "leader", "chat", "assistant")):
        key = ["may_exist", "honest", "vote", "system"]
        key[place] = word
        with pytest.raises(UsageError, match=r"^no prompt for "):
            PROMPTS.template(*key)


def test_digests_are_of_the_templates_that_are_used() -> None:
    def digests(role: str, **parameters: Any) -> dict[str, str]:
        return ConsensusGame.prompts.digests("may_exist", [role], ConsensusParameters(**parameters))

    paper, swarms = digests("honest"), digests("honest", protocol="swarms")
    early = digests("honest", protocol="swarms", leaks=["early_vote"])
    assert set(paper) == {f"honest_{phase}_{part}" for phase in ("propose", "vote") for part in ("system", "user")}
    assert early == {
        "honest_turn_system": SWARMS_SHA256["honest_prompt"],
        "honest_turn_user": SWARMS_SHA256["round_prompt"],
    }
    assert swarms.items() >= early.items()
    assert set(swarms) - set(early) == {"honest_turn_vote_on_last_round"}
    byzantine = digests("byzantine", protocol="swarms", leaks=["early_vote"])
    assert set(byzantine) == {"byzantine_turn_system", "byzantine_turn_user"}


# The stop threshold is told as it is played: how often by whom, in which words, whose ids that changes

TIMES = {("honest", "propose"): 2, ("honest", "vote"): 2, ("byzantine", "propose"): 1, ("byzantine", "vote"): 0}
SAID: list[tuple[Any, str, str]] = [
    (0.5, "50%+", "50%"),
    ("1/2", "50%+", "50%"),
    (0.665, "66.5%+", "66.5%"),
    ("2/3", "2/3+", "two-thirds"),
    ("5/6", "5/6+", "5/6"),
    (1, "100%", "100%"),
    (0.66, "66%+", "66%"),
]


def systems(asks: Iterable[Ask]) -> dict[tuple[str, str], str]:
    return {(ask.role, ask.phase): ask.system for ask in asks}


@pytest.mark.parametrize("prompt", ["may_exist", "none_exist"])
def test_every_prompt_tells_the_threshold_that_is_played(prompt: str) -> None:
    paper = systems(asked(new_consensus("hhb", prompt=prompt), 0, last_round=1))
    for threshold, said, in_turns in SAID:
        game = new_consensus("hhb", prompt=prompt, stop_threshold=threshold)
        found = systems(asked(game, 0, last_round=1))
        for place, times in TIMES.items():
            assert paper[place].count("66%+") == times
            assert found[place] == paper[place].replace("66%+", said)
        task = {"task": "Agree on two-thirds."}  # what looks like the printed threshold stays
        turns = new_consensus("h", prompt=prompt, protocol="swarms", stop_threshold=threshold, **task)
        [ask] = next(turns.play())
        assert f'- The game ends when at least {in_turns} of agents vote "stop", or after 11 rounds.\n' in ask.system
        assert "Task context: Agree on two-thirds.\n" in ask.system
    # The authors' code says 66% and plays 2/3.
    for more, said in (({}, "66%+"), ({"stop_threshold": 0.75}, "75%+")):
        game = new_consensus("hhb", prompt=prompt, rules="published_code", **more)
        found = systems(asked(game, 0, last_round=1))
        assert found["honest", "propose"] == paper["honest", "propose"].replace("66%+", said)


def test_what_prompts_cannot_say_is_refused(study_factory: StudyFactory) -> None:
    said = {
        "1/2": "50%",
        "7/8": "87.5%",
        "1/3": "1/3",
        "19/20": "95%",
        "11/19": "11/19",
        "11/21": None,
        "1/10000": None,
    }
    assert {share: share_text(Fraction(share)) for share in said} == said
    for threshold in (0.123456, 0.6667, "22/31", "1/3000"):
        with pytest.raises(UsageError, match=r"grids\[0\]: stop_threshold: 0\.\d+: .*2/3") as caught:
            study_factory({"vary": {"stop_threshold": [0.5, threshold]}})
        assert "\n" not in str(caught.value)


def test_ids_change_where_agents_read_something_else(study_factory: StudyFactory) -> None:
    """The hashes are those of the version that said 66% whatever was played; scripted agents at 2/3 keep theirs."""
    before = {
        ("tiny", 0.66): "f0daf082c7da5aed",
        ("majority", 0.66): "925a9c9ba4729101",
        ("majority", "2/3"): "5299e860af49eded",
        ("tiny", "2/3"): "57fa963772b08619",
        ("tiny", 0.5): "c49212113b901491",
        ("majority", 0.5): "deb95a6207819224",
    }
    models = {"tiny": {"source": {"repo": "o/t", "revision": "a" * 40}}}
    kept = []
    for (model, threshold), identity in before.items():
        parameters = {"stop_threshold": threshold, "max_rounds": 3}
        [condition] = study_factory({"model": model, "b": 1}, models=models, parameters=parameters).conditions
        kept += [(model, threshold)] * (condition.identity[:16] == identity)
        if (model, threshold) == ("majority", "2/3"):
            told = systems(asked(Simulation(condition, 0).game(), 0, last_round=1))
            assert "66%+ of ALL agents" in told["honest", "propose"]
    assert kept == [("tiny", 0.66), ("majority", 0.66), ("majority", "2/3")]
