"""The prompts of the consensus game are the published ones; how they are filled is in docs/playthroughs."""

import hashlib
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import pytest

from parley.errors import UsageError
from parley.games.consensus.prompts import FOLDER, share_text
from parley.policies import Ask
from parley.study.prompt_sent import asked
from support.playing import new_consensus
from support.studies import StudyFactory

pytestmark = pytest.mark.promise("The ten prompts of the paper are word for word the published ones.")

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


def test_the_templates_are_the_published_ones() -> None:
    for folder, expected in ((FOLDER, SHA256), (FOLDER / "swarms", SWARMS_SHA256)):
        found = {path.stem: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.txt")}
        found.pop("vote_on_last_round", None)  # the one sentence of our own
        assert found == expected


# The stop threshold is told as it is played: how often by whom, in which words

TIMES = {("honest", "propose"): 2, ("honest", "vote"): 2, ("byzantine", "propose"): 1, ("byzantine", "vote"): 0}
SAID: list[tuple[Any, str, str]] = [
    (0.5, "50%+", "50%"),
    (0.665, "66.5%+", "66.5%"),
    ("2/3", "2/3+", "two-thirds"),
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
        "1/3": "1/3",
        "11/19": "11/19",
        "11/21": None,
    }
    assert {share: share_text(Fraction(share)) for share in said} == said
    for threshold in (0.123456, 0.6667, "22/31", "1/3000"):
        with pytest.raises(UsageError, match=r"grids\[0\]: stop_threshold: 0\.\d+: .*2/3") as caught:
            study_factory({"vary": {"stop_threshold": [0.5, threshold]}})
        assert "\n" not in str(caught.value)
