"""The key `paper` of a study, checked before anything is played."""

from functools import partial
from typing import Any

from support.studies import StudyFactory, refused

VALID = "valid_consensus"
GRID = {"n": [3, 4], "prompt": ["may_exist", "none_exist"]}


def test_what_is_wrong_is_named_by_its_key(study_factory: StudyFactory) -> None:
    rate = {"what": VALID, "rate": 0.5}
    bad: list[tuple[dict[str, Any], str]] = [
        ({"paper": [rate | {"what": "valid_consensu"}]}, r"paper\[0\].what: 'valid_consensu'.*'valid_consensus'"),
        ({"paper": [rate | {"rate": 41.6}]}, r"paper\[0\].rate: .*41.6"),
        ({"paper": [rate | {"where": {"n": 9}}]}, r"paper\[0\].where: '9': unknown n"),
        ({"paper": [{"what": VALID, "count": 13}]}, r"paper\[0\].*of how many games"),
        ({"paper": [{"what": VALID, "count": 5, "of": 4}]}, r"paper\[0\].*count: .*no fewer"),
        ({"paper": [rate | {"margin": 5}]}, r"paper\[0\].margin: 5: .*0.05"),
        ({"paper": [rate | {"margin": float("nan")}]}, r"paper\[0\].margin"),
        ({"paper": [rate | {"mean": 0.5}]}, r"paper\[0\].*give one of"),
        ({"paper": [{"what": "rounds", "rate": 0.5}]}, r"paper\[0\].rate: rounds is no rate; give mean"),
        ({"paper": [rate | {"what": "agreement", "round": 1}]}, r"paper\[0\].where: 4 conditions"),
        ({"paper": [{"rate": 0.5}]}, r"paper\[0\].what: missing"),
    ]
    for content, told in bad:
        refused(partial(study_factory, GRID, **content), f".*{told}")
