"""Runs games of the consensus paper's own code on an engine of this machine, and counts its replies per second.

    git clone https://github.com/leorugli/byzantine-consensus-llm-agents
    parley fetch-model smollm2-135m
    MODEL=$(echo ~/.cache/parley/models/smollm2-135m-*/model)
    python examples/authors_code.py byzantine-consensus-llm-agents $MODEL --honest 4 --byzantine 1

Their code (commit b3bbf9e) was written for an older vLLM. Two things changed since, and are put in its place here:
`GuidedDecodingParams` is called `StructuredOutputsParams`, and `SamplingParams` takes it as `structured_outputs`. The
engine gets the arguments that Parley's own has on a CPU (`ENGINE`): vLLM would take bfloat16 else, which many CPUs
lack. No file of theirs is changed or copied. Their games never end before the deadline here, whatever the votes, so
that both sides answer as many questions.
"""

import argparse
import contextlib
import io
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

# As Parley's own servers have it: no look for other hosts, and room for few contexts on a CPU.
for name, value in {"VLLM_HOST_IP": "127.0.0.1", "GLOO_SOCKET_IFNAME": "lo", "VLLM_CPU_KVCACHE_SPACE": "2"}.items():
    os.environ.setdefault(name, value)

import vllm  # noqa: E402
import vllm.sampling_params  # noqa: E402


ENGINE = {
    "dtype": "float32",
    "enforce_eager": True,
    "enable_chunked_prefill": False,
    "max_num_batched_tokens": 8192,
    "structured_outputs_config": {"backend": "xgrammar"},
}


class CountingEngine(vllm.LLM):  # type: ignore[misc]  # vLLM has no types here
    """An engine with the arguments of Parley's, which counts what it is asked."""

    replies = 0

    def __init__(self, **given: Any) -> None:
        super().__init__(**given, **ENGINE)

    def generate(self, prompts: Any, *more: Any, **named: Any) -> Any:
        """Answer as vLLM does, and count."""
        CountingEngine.replies += len(prompts)
        return super().generate(prompts, *more, **named)


def adapt() -> None:
    """Give vLLM the names that their code imports."""
    vllm.LLM = CountingEngine
    params = vllm.SamplingParams

    def sampling(guided_decoding: Any = None, **given: Any) -> Any:
        return params(structured_outputs=guided_decoding, **given)

    vllm.sampling_params.GuidedDecodingParams = vllm.sampling_params.StructuredOutputsParams
    vllm.SamplingParams = sampling


def main() -> None:
    """Play, and print a line of JSON: games, replies, seconds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("code", type=Path, help="a clone of their repository")
    parser.add_argument("model", help="folder with the weights")
    parser.add_argument("--honest", type=int, default=4)
    parser.add_argument("--byzantine", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument(
        "--games",
        type=int,
        default=1,
        help="one after the other, as their code plays them; one more before them warms the engine up",
    )
    given = parser.parse_args()
    model = str(Path(given.model).absolute())
    adapt()
    sys.path.insert(0, str((given.code / "byzantine_consensus_game").absolute()))
    import config
    import main as theirs
    import vllm_agent

    config.VLLM_CONFIG.update(model_name=model, max_model_len=8192, max_num_seqs=64)
    config.METRICS_CONFIG["save_results"] = False
    theirs.ByzantineConsensusGame.should_terminate_by_vote = lambda game, votes: False
    vllm_agent.VLLMAgent("warm-up", model, config.VLLM_CONFIG)  # loads the weights, which is not counted
    for number in range(given.games + 1):
        if number == 1:
            CountingEngine.replies, begun = 0, time.perf_counter()
        with contextlib.redirect_stdout(io.StringIO()):
            settings = {"max_rounds": given.rounds, "consensus_threshold": 66.0, "value_range": (0, 50)}
            game = theirs.BCGSimulation(given.honest, given.byzantine, settings)
            while not game.game.game_over:
                game.run_round()
    seconds = time.perf_counter() - begun
    print(json.dumps({"games": given.games, "replies": CountingEngine.replies, "seconds": round(seconds, 1)}))
    vllm_agent.VLLMAgent.shutdown()


if __name__ == "__main__":
    main()
