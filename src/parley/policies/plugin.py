"""Policies of the user's own: `module:attribute` in a study, or an entry point of the group `parley.policies`.

Both name the same: an entry point is a shorter way to write its module:attribute, which is what identities, paths and
records have. Naming one in a study means running its code. Loading a study does not run it: the module's source is
looked up and hashed, since it can change results. It is imported when a simulation is played.
"""

import hashlib
import importlib
import importlib.machinery
import importlib.metadata
import importlib.util
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from parley.errors import ParleyError, UsageError
from parley.files import read_regular
from parley.policies import Ask, Completion, Policy
from parley.policies.kinds import ChosenPolicy, PolicyKind, PolicyParameters
from parley.text import one_line

_MOST_BYTES = 10_000_000  # of a source

ENTRY_POINTS = "parley.policies"


class PluginParameters(PolicyParameters):
    """Whatever the user's own code takes: plain names, numbers and texts."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)
    __pydantic_extra__: dict[str, str | int | Annotated[float, Field(allow_inf_nan=False)] | bool]


def entry_points() -> dict[str, tuple[str, ...]]:
    """Return the installed policies by name: what installed distributions mean by it, normally one module:attribute.

    Nothing of theirs is run. It reads the metadata of all that is installed: call it only where it is needed.
    """
    found: dict[str, set[str]] = {}
    for point in importlib.metadata.entry_points(group=ENTRY_POINTS):
        value = point.value.partition("[")[0]  # extras, which nobody needs to import it
        found.setdefault(point.name, set()).add("".join(value.split()))
    return {name: tuple(sorted(values)) for name, values in sorted(found.items())}


def plugin_kind(name: str, where: str) -> PolicyKind:
    """Return the policy `module:attribute`, with the SHA-256 of the module's source; nothing of it is run.

    Raises UsageError, which begins with `where`, if there is no such module on Python's path. Of a package the source
    is its `__init__.py`; what a module imports is not followed.
    """
    module, _, _ = name.partition(":")
    source = _source(module)
    if source is None:
        raise UsageError(f"{where}: {name}: no module {module} on Python's path; install it or set PYTHONPATH")
    try:
        code = hashlib.sha256(read_regular(source, _MOST_BYTES)).hexdigest()
    except OSError as error:
        raise UsageError(f"{where}: {name}: {source}: cannot be read: {error.strerror}") from None
    return PolicyKind(name, "A policy of your own.", Parameters=PluginParameters, fingerprint=code)


@cache
def _source(module: str) -> Path | None:
    """Return the source of a module; its packages are not imported to find it, as importlib would."""
    first, *others = module.split(".")
    try:
        spec = importlib.util.find_spec(first)
        for index in range(len(others)):
            if spec is None or spec.submodule_search_locations is None:
                return None
            full = ".".join([first, *others[: index + 1]])
            spec = importlib.machinery.PathFinder.find_spec(full, spec.submodule_search_locations)
    except (ImportError, ValueError):
        return None
    origin = Path(spec.origin) if spec is not None and spec.origin else None
    return origin if origin is not None and origin.suffix == ".py" and origin.is_file() else None


def load_plugin(policy: ChosenPolicy, llm: Policy | None) -> Policy:
    """Import the user's code and make its policy: `attribute(**parameters)`, with `llm` where its group has a model.

    Raises UsageError if it cannot be imported or made.
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
    except Exception as error:  # whatever the user's code raises
        raise UsageError(f"{name}: cannot be made: {type(error).__name__}: {one_line(str(error), 200)}") from error
    return _Checked(name, made)


class _Checked:
    """A policy of the user's own, whose replies are checked to be some."""

    def __init__(self, name: str, policy: Policy) -> None:
        self._name = name
        self._policy = policy

    async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
        """Return the reply; raises UsageError if it is none."""
        try:
            reply = await self._policy.answer(ask, seed, attempt)
        except ParleyError:
            raise
        except Exception as error:  # whatever the user's code raises
            raise UsageError(f"{self._name}: {type(error).__name__}: {one_line(str(error), 300)}") from error
        told = (reply.text, reply.finish_reason) if isinstance(reply, Completion) else ()
        if not told or not all(isinstance(text, str) for text in told):
            raise UsageError(
                f"{self._name}: answered with {type(reply).__name__}; return a parley.policies.Completion"
            )
        return reply
