"""`parley problems`: what it prints of a kind, of files and of a study."""

import json
from pathlib import Path

import pytest

from support.commands import Parley, one_line_error

pytestmark = pytest.mark.promise("`parley problems` tries a file before a study uses it.")


@pytest.mark.usefixtures("folder")
def test_a_file_is_tried_without_a_study(parley: Parley) -> None:
    Path("test.jsonl").write_text(f"{json.dumps({'question': 'How many?', 'answer': '#### 7'})}\n" * 30)
    ran = parley("problems", "{kind: gsm8k, path: test.jsonl, first: 1}")
    assert ran.status == 0
    assert "first-1: 1 problems" in ran.out


@pytest.mark.usefixtures("folder")
def test_errors_are_one_line_and_exit_2(parley: Parley) -> None:
    Path("mine.yaml").write_text("{game: consensus, grids: [{model: majority, prompt: may_exist, n: 3}]}")
    for arguments, names in (
        (["gsm8k"], ["gsm8k: ", "add path"]),
        (["nothing"], ["'nothing': no study and no kind of problems; ", "gsm8k"]),
        (["{kind: nothing}"], ["{kind: nothing}: problems: ", "arithmetic, wason, gsm8k, delidata"]),
        (["mine.yaml"], ["mine.yaml: ", "give a kind of problems"]),
    ):
        ran = parley("problems", *arguments)
        error = one_line_error(ran, 2)
        assert error.startswith(f"parley: {names[0]}")
        assert names[-1] in error
        assert ran.out == ""
