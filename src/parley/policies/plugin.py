"""Policies of the user's own: `module:attribute` in a study, or an entry point of the group `parley.policies`.

Both name the same: an entry point is a shorter way to write its module:attribute, which is what identities, paths and
records have. Naming one in a study means running its code. Loading a study does not run it: the module's source is
looked up and hashed, since it can change results. It is imported when a simulation is played.
"""

import importlib
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from parley.errors import EngineError, ParleyError, UsageError
from parley.policies import Ask, Completion, Policy
from parley.policies.kinds import ChosenPolicy, PolicyKind, PolicyParameters
from parley.policies.own_code import raised_at, source_of
from parley.text import one_line

ENTRY_POINTS = "parley.policies"


class PluginParameters(PolicyParameters):
    """Whatever the user's own code takes: plain names, numbers and texts."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)
    __pydantic_extra__: dict[str, str | int | Annotated[float, Field(allow_inf_nan=False)] | bool]


def plugin_kind(name: str, where: str) -> PolicyKind:
    """Return the policy `module:attribute`, with the SHA-256 of the module's source; nothing of it is run.

    Raises UsageError, which begins with `where`, if there is no such module on Python's path.
    """
    try:
        code = source_of(name).sha256
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
    return PolicyKind(name, "A policy of your own.", Parameters=PluginParameters, fingerprint=code)


def load_plugin(policy: ChosenPolicy, llm: Policy | None) -> Policy:
    """Import the user's code and make its policy: `attribute(**parameters)`, with `llm` where its group has a model.

    Raises UsageError if it cannot be imported or made, EngineError if it ends Python.
    """
    name = policy.kind.name
    module, _, attribute = name.partition(":")
    arguments: dict[str, Any] = dict(policy.parameters.model_extra or {})
    if "llm" in arguments:
        raise UsageError(f"{name}: llm: what its group's model answers with; give the parameter another name")
    if llm is not None:
        arguments["llm"] = llm
    try:
        make: Callable[..., Policy] = getattr(importlib.import_module(module), attribute)
        made = make(**arguments)
    except (Exception, SystemExit) as error:  # whatever the user's code raises
        raise _failed(error, name, "cannot be made: ") from error
    return _Checked(name, made)


def _failed(error: Exception | SystemExit, name: str, what: str = "") -> ParleyError:
    """Return the error of the user's code as one line that says where it was raised."""
    said, where = one_line(str(error), 300), raised_at(error, name)
    if isinstance(error, SystemExit):
        return EngineError(f"{name}: {what}SystemExit({said}){where}; raise an error instead of calling exit()")
    return UsageError(f"{name}: {what}{type(error).__name__}{said and f': {said}'}{where}")


class _Checked:
    """A policy of the user's own, whose replies are checked to be some."""

    def __init__(self, name: str, policy: Policy) -> None:
        self._name = name
        self._policy = policy

    async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
        """Return the reply; raises UsageError if it is none, EngineError if the code ends Python."""
        try:
            reply = await self._policy.answer(ask, seed, attempt)
        except ParleyError:
            raise
        except (Exception, SystemExit) as error:  # whatever the user's code raises
            raise _failed(error, self._name) from error
        told = (reply.text, reply.finish_reason) if isinstance(reply, Completion) else ()
        if not told or not all(isinstance(text, str) for text in told):
            raise UsageError(
                f"{self._name}: answered with {type(reply).__name__}; return a parley.policies.Completion"
            )
        return reply
