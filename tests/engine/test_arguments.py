"""Command lines of servers, as vLLM's own parser reads them: those of every shipped model, for both builds."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from parley.engine import server
from parley.engine.arguments import MACHINE_ARGUMENTS, ONLY_ON
from parley.engine.models import ModelEntry, load_models
from support import REPOSITORY

pytestmark = [
    pytest.mark.promise(
        "vLLM's own parser reads every command line that Parley would start, for every shipped model, on "
        "CPUs and GPUs."
    ),
    pytest.mark.rare,
    pytest.mark.skipif(find_spec("vllm") is None, reason="needs vLLM"),
]

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
    with contextlib.redirect_stderr(io.StringIO()) as said:
        try:
            read = parser.parse_args(json.loads(line))
            validate_parsed_serve_args(read)
            AsyncEngineArgs.from_cli_args(read)
        except (SystemExit, Exception) as error:
            read = {"error": said.getvalue()[-300:] or repr(error)}
    print(json.dumps(read if isinstance(read, dict) else vars(read), default=str))
"""


def command(cpu: bool, model: ModelEntry) -> list[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "is_cpu_build", lambda: cpu)
        return server.server_command("tiny", model, Path("m"), "/tmp/s.sock")[3:]


SHIPPED = [model for model in load_models(REPOSITORY / "config" / "models.yaml").values() if not model.is_service]
STARTED = [(cpu, model) for cpu in (True, False) for model in SHIPPED]
WIDE = {"gpus": 8, "server_args": {"data_parallel_size": 2, "no-disable-log-stats": True}}
PARTS = {"engine_args": {"override-generation-config.x": False, "no-enforce-eager": False}}
KEYS = ("seed", "enforce_eager", "port-x", "hostess", "tokenizer")


@pytest.fixture(scope="module")
def read() -> list[Any]:
    """What vLLM's parser makes of all that is asked here: its options first, then the command lines in turn."""
    spread = SHIPPED[0].model_copy(update=WIDE | PARTS)
    odd = [(False, SHIPPED[0].model_copy(update={"engine_args": {k: v}})) for k in KEYS for v in ("x", -5, True)]
    lines = [command(*started) for started in [*STARTED, (False, spread), (True, spread), *odd]]
    asked, parser = "\n".join(map(json.dumps, lines)), [sys.executable, "-c", PARSER]
    done = subprocess.run(parser, input=asked, capture_output=True, text=True, check=True)
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return found


def test_vllm_reads_the_command_line_of_every_shipped_model_on_a_cpu_and_on_a_gpu(read: list[Any]) -> None:
    assert len(STARTED) == 30
    for (cpu, model), found in zip(STARTED, read[1:], strict=False):
        assert "error" not in found, found
        assert (found["dtype"], found["max_model_len"]) == (model.dtype, model.max_model_len)
        assert (found["enforce_eager"], found["enable_chunked_prefill"]) == (cpu, False if cpu else None)
        assert found["enable_prompt_tokens_details"] is found["disable_uvicorn_access_log"] is True


def test_whatever_an_entry_may_say_the_server_listens_on_its_socket_alone(read: list[Any]) -> None:
    found = [each for each in read[1:] if "error" not in each]
    keys = ("uds", "model", "served_model_name", "host", "config", "master_addr", "grpc_port", "trust_remote_code")
    expected = ["/tmp/s.sock", "m", ["tiny"], None, None, "127.0.0.1", None, False]
    assert [each for each in found if [each[key] for key in keys] != expected] == []


def test_a_server_spreads_over_its_gpus_and_over_none_on_a_cpu(read: list[Any]) -> None:
    for found, sizes in zip(read[1 + len(STARTED) :], ([4, 2], [1, 1]), strict=False):
        assert [found[f"{kind}_parallel_size"] for kind in ("tensor", "data")] == sizes
        # A part may be false, and a double no is a yes.
        assert found["override_generation_config"] == {"x": False}
        assert found["enforce_eager"] is True


def test_vllm_knows_each_argument_and_which_it_takes_only_on(read: list[Any]) -> None:
    positive = [name for name in read[0] if not name.startswith("no-") and name != "help"]
    may = set(MACHINE_ARGUMENTS)
    assert may <= set(positive)
    assert {name for name in may if read[0][name] in (0, "?") and f"no-{name}" not in read[0]} == {ONLY_ON}
    assert [name for name in may if read[0][name] == "+"] == []  # an entry can give one value
