"""A `swarms.Agent` (the PyPI package) as a policy. examples/README.md says how to install and play it.

The agent is asked Parley's own question: the ask's system prompt is its system prompt, the ask's user prompt is its
task. Temperature, max_tokens, seed and the JSON schema of the reply go with the request. What comes back is the
reply as it came: nothing is repaired, so one that cannot be used is a recorded failure.

PARLEY_SWARMS_URL and PARLEY_SWARMS_KEY say where the model is and with which key. They are no parameters of the
policy, since parameters are recorded.
"""

import asyncio
import atexit
import os
import shutil
import tempfile
from functools import cache
from importlib.metadata import version
from types import ModuleType

from parley.engine.grammar import constraint
from parley.errors import EngineError, UsageError
from parley.games.base import Ask
from parley.policies import Completion
from parley.text import one_line

# What Parley hashes is this file, so the package that it calls is named here: another version is another policy.
SWARMS, LITELLM = "16.0.3", "1.76.1"
URL, KEY = "PARLEY_SWARMS_URL", "PARLEY_SWARMS_KEY"


class SwarmsAgent:
    """Answers by a fresh `swarms.Agent` for each ask: what an agent remembers is in Parley's prompts already.

    `served` is the model's name on the server; it becomes part of a folder's name, so it has no slash.
    """

    def __init__(self, served: str) -> None:
        self._served = served
        self._url, self._key = _variable(URL), _variable(KEY)
        self._swarms = _import_swarms()
        self._failure = self._swarms.schemas.agent_errors.AgentLLMError

    async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
        """Return the agent's reply; raises EngineError if it gets none from the server."""
        return await asyncio.to_thread(self._run, ask, seed)

    def _run(self, ask: Ask, seed: int) -> Completion:
        agent = self._swarms.Agent(
            agent_name=ask.agent,
            system_prompt=ask.system,
            model_name=f"openai/{self._served}",  # litellm's way to say: OpenAI's API, at this URL
            llm_base_url=self._url,
            llm_api_key=self._key,
            temperature=ask.sampling.temperature,
            max_tokens=ask.sampling.max_tokens,
            llm_args={
                "seed": seed,
                **constraint(ask, of_service=True),
                "ssl_verify": True,  # not its default
            },
            max_loops=1,
            retry_attempts=0,  # it would ask again by itself, unrecorded
            thinking_tokens=None,
            context_compression=False,  # it would shorten what the game says
            dynamic_context_window=False,
            output_type="final",  # the reply alone; "str" is the whole conversation
            print_on=False,
        )
        try:
            text = agent.run(ask.user)
        except self._failure as error:
            cause = error.__cause__ or error
            if type(cause).__name__ == "ContextWindowExceededError":
                return Completion("", "length")  # an unusable reply, which ends no simulation
            told = one_line(one_line(str(cause)).replace(self._key, "[key]").replace(self._url, "[URL]"), 300)
            raise EngineError(f"swarms.Agent got no reply: {told}") from None
        used = agent.usage
        return Completion(
            text="" if text is None else str(text),
            finish_reason=agent.llm.last_finish_reason or "stop",
            prompt_tokens=used["input_tokens"],
            completion_tokens=used["output_tokens"],
            cached_tokens=used["cached_tokens"],
        )


def _variable(name: str) -> str:
    if not (value := os.environ.get(name)):
        raise UsageError(f"{name} is not set; {URL} is the server's address, ending in /v1, {KEY} its key")
    return value


@cache
def _import_swarms() -> ModuleType:
    """Import the package, quiet and without what it would send to others."""
    os.environ["SWARMS_TELEMETRY_ON"] = "false"  # on by default, it sends prompts and replies to its makers
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # litellm would fetch a list of prices
    workspace = tempfile.mkdtemp(prefix="parley-swarms-")  # it starts a log there, else in the working directory
    atexit.register(shutil.rmtree, workspace, ignore_errors=True)
    os.environ["WORKSPACE_DIR"] = workspace
    import litellm
    import swarms
    from loguru import logger

    logger.disable("swarms")  # it warns of every model that it has no price of
    litellm.suppress_debug_info = True  # it prints advice for each error; the error itself is told once
    for package, expected in (("swarms", SWARMS), ("litellm", LITELLM)):
        if (found := version(package)) != expected:
            raise UsageError(f"{package} {found} is installed, {expected} expected; change it in {__file__}")
    return swarms
