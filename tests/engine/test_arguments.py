"""Command lines of servers, as vLLM's own parser reads them: those of every shipped model, for both builds."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from parley.engine import server
from parley.engine.arguments import MACHINE_ARGUMENTS, ONLY_ON, SEVERAL, check_arguments, written
from parley.engine.models import ModelEntry, load_models
from support import REPOSITORY

pytestmark = [pytest.mark.slow, pytest.mark.skipif(find_spec("vllm") is None, reason="needs vLLM")]

# Its import takes 15 s, and changes logging and signals: in a process of its own, once.
PARSER = """
import contextlib, io, json, sys
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = make_arg_parser(FlexibleArgumentParser(prog="vllm"))
options = {name[2:]: action.nargs for action in parser._actions for name in action.option_strings if name[:2] == "--"}
print(json.dumps(options))
for line in sys.stdin:
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            read = parser.parse_args(json.loads(line))
        validate_parsed_serve_args(read)
        AsyncEngineArgs.from_cli_args(read)
        print(json.dumps(vars(read), default=str))
    except (SystemExit, Exception) as error:
        print(json.dumps({"error": said.getvalue()[-300:] or repr(error)}))
"""
VALUES: tuple[Any, ...] = (True, False, 0, 4, 0.5, "4", "4k", "4K", "1.5k", "-1", "0 1")
VALUES += ("warning", "WARNING", "INFO", "sha256", "native", "lazy")


def entry(**keys: object) -> ModelEntry:
    return ModelEntry.model_validate({"source": {"repo": "owner/tiny", "revision": "a" * 40}, **keys})


def taken() -> list[tuple[str, Any]]:
    """Return each machine argument with each of the values that an entry may give it."""
    found = []
    for name in MACHINE_ARGUMENTS:
        for value in VALUES:
            try:
                found.append((name, entry(gpus=0, server_args={name: value}).server_args[name]))
            except ValidationError:
                continue
    return found


def command(cpu: bool, **keys: Any) -> list[str]:
    return server_command(cpu, "tiny", entry(**keys))


def server_command(cpu: bool, name: str, model: ModelEntry) -> list[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "is_cpu_build", lambda: cpu)
        return server.server_command(name, model, Path("m"), "/tmp/s.sock")[3:]


SHIPPED = {n: m for n, m in load_models(REPOSITORY / "config" / "models.yaml").items() if not m.is_service}
STARTED = [(cpu, name) for cpu in (True, False) for name in SHIPPED]
TAKEN = taken()
SPREAD = {"gpus": 8, "server_args": {"data_parallel_size": 2, "pipeline-parallel-size": 2}}
PART = {"compilation-config.inductor_compile_config.x": False, "no-enforce-eager": False}


@pytest.fixture(scope="module")
def read() -> list[Any]:
    """What vLLM's parser makes of all that is asked here: its options first, then the command lines in turn."""
    lines = [server_command(cpu, name, SHIPPED[name]) for cpu, name in STARTED]
    lines += [["--model", "m", *written(name, value)] for name, value in TAKEN]
    lines += [command(False, **SPREAD), command(True, **SPREAD), command(False, engine_args=PART)]
    asked, parser = "\n".join(map(json.dumps, lines)), [sys.executable, "-c", PARSER]
    done = subprocess.run(parser, input=asked, capture_output=True, text=True, check=True)
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(found) == 1 + len(lines)
    return found


def test_vllm_reads_the_command_line_of_every_shipped_model_on_a_cpu_and_on_a_gpu(read: list[Any]) -> None:
    assert len(STARTED) == 12
    for (cpu, name), found in zip(STARTED, read[1:], strict=False):
        model = SHIPPED[name]
        assert "error" not in found, (name, cpu, found)
        assert (found["uds"], found["model"], found["host"]) == ("/tmp/s.sock", "m", None)
        assert (found["dtype"], found["max_model_len"]) == (model.dtype, model.max_model_len)
        assert (found["enforce_eager"], found["enable_chunked_prefill"]) == (cpu, False if cpu else None), name
        assert found["enable_prompt_tokens_details"] is found["disable_uvicorn_access_log"] is True


def test_vllm_reads_every_value_that_a_machine_argument_may_have(read: list[Any]) -> None:
    answers = read[1 + len(STARTED) :]
    for (name, value), found in zip(TAKEN, answers, strict=False):
        assert "error" not in found, (name, value, found)
        if isinstance(value, bool):  # false is false, and not what vLLM takes by itself
            assert found[name.replace("-", "_")] is value, name
    assert {name for name, _ in TAKEN} == set(MACHINE_ARGUMENTS)


def test_a_server_spreads_over_its_gpus_and_over_none_on_a_cpu(read: list[Any]) -> None:
    sizes = [[found[f"{kind}_parallel_size"] for kind in ("tensor", "data", "pipeline")] for found in read[-3:-1]]
    assert sizes == [[2, 2, 2], [1, 1, 1]]
    for gpus in 1, 3:
        with pytest.raises(ValidationError, match=f"gpus: {gpus} .*data-parallel-size: 2 cannot share"):
            entry(gpus=gpus, server_args={"data-parallel-size": 2})


def test_a_part_of_an_argument_may_be_false_and_a_double_no_is_a_yes(read: list[Any]) -> None:
    assert read[-1]["enforce_eager"] is True
    assert "'x': False" in read[-1]["compilation_config"]


def test_what_vllm_takes_only_on_or_as_a_list_is_known(read: list[Any]) -> None:
    options = read[0]

    def allowed(name: str) -> bool:
        try:
            check_arguments({name: True if name in ONLY_ON else 1})
        except ValueError as error:
            return "must be" in str(error)
        return True

    may = [name for name in options if not name.startswith("no-") and allowed(name)]
    assert {name for name in may if options[name] in (0, "?") and f"no-{name}" not in options} - {"help"} == ONLY_ON
    assert {name for name in may if options[name] == "+"} == SEVERAL
    assert set(MACHINE_ARGUMENTS) <= set(options)
