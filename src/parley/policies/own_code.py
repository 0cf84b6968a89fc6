"""Code of the user's own, games and policies alike: `module:attribute` in a study, or an entry point.

An entry point is a shorter way to write its module:attribute, which is what identities, paths and records have. Its
source is looked up and hashed without running it. A policy is imported when it plays, a game when a study names it.

The folder of a study is never on Python's path, where a file that is called as a library would be run in its place. A
module that lies there is loaded from its file under a name of its own, and imports what lies beside it relative to it.
"""

import ast
import hashlib
import importlib
import os
import re
import sys
import traceback
import warnings
from asyncio import CancelledError, current_task
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

from pydantic import ConfigDict, Field, ValidationError

from parley import trust
from parley.errors import EngineError, ParleyError, UsageError
from parley.files import read_regular
from parley.identity import digest
from parley.policies import TOKEN_BYTES, TOO_LARGE, Ask, Completion, Policy, Request, requests_made
from parley.policies.kinds import ChosenPolicy, PolicyKind, PolicyParameters
from parley.text import choose, one_line, valid_unicode
from parley.text.yamlfile import shown

_MAX_BYTES = 10_000_000  # of a source file
_WITH_DOCSTRINGS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
# What a package's code is made of: Python, and the texts and data beside it.
_SUFFIXES = frozenset({".py", ".txt", ".md", ".j2", ".jinja", ".jinja2", ".json", ".yaml", ".yml", ".toml", ".csv"})
_OWN = "parley_own_"  # what the names of modules beside a study begin with
_folders: dict[Path, None] = {}  # of the studies that were read; the last is the latest
_packages: set[str] = set()  # that code of the user's own was imported in
_imported: dict[tuple[Path, ...], str] = {}  # SHA-256 of the source of each module that was imported, by its files


@dataclass(frozen=True)
class Source:
    """The source of `module:attribute`: its files, and the SHA-256 of what they mean.

    `folder` is that of the study that it lies beside; None for what is installed.
    """

    name: str
    folder: Path | None
    files: tuple[Path, ...]
    sha256: str


def look_beside(folder: Path) -> None:
    """Let what records name be found in the folder of a study."""
    _folders.pop(folder.resolve(), None)
    _folders[folder.resolve()] = None


def source_of(name: str, folder: Path, whole_package: bool = False) -> Source:
    """Return the source of what a study in `folder` calls `module:attribute`; with `whole_package` all of a package.

    Raises UsageError, which begins with the name, if there is no such module, or it cannot be read.
    """
    file, is_beside = trust.own_file(name, folder)
    if is_beside:
        look_beside(folder)
    try:
        if whole_package and (file.parent / "__init__.py").is_file():
            files, sha256 = _package(file.parent)
        else:
            files, sha256 = (file,), _meaning(read_regular(file, _MAX_BYTES))
    except OSError as error:
        place = error.filename or file
        raise UsageError(f"{name}: {place}: cannot be read: {error.strerror or error}") from None
    return Source(name, folder.resolve() if is_beside else None, files, sha256)


def source_with(name: str, sha256: str, folder: Path | None = None, whole_package: bool = False) -> Source | None:
    """Return the source of this SHA-256 in the folder of a study; None if it is another one there.

    A record knows no folder: what it names is looked for beside the studies that were read, and in the working
    directory. Raises UsageError where there is no source.
    """
    found, missing = [], None
    for place in [folder] if folder else [*reversed(_folders), Path.cwd()]:
        try:
            found.append(source_of(name, place, whole_package))
        except UsageError as error:
            missing = error
    if missing is not None and not found:
        raise missing
    return next((source for source in found if source.sha256 == sha256), None)


def _package(folder: Path) -> tuple[tuple[Path, ...], str]:
    """Return all of a package's code and texts; hidden files and what Python makes of the sources are left out."""
    relative = {path.relative_to(folder): path for path in folder.rglob("*") if path.suffix in _SUFFIXES}
    files = {
        place.as_posix(): path
        for place, path in relative.items()
        if path.is_file() and not any(part.startswith(".") for part in place.parts)
    }
    meaning = hashlib.sha256()
    for place in sorted(files):
        content = read_regular(files[place], _MAX_BYTES)
        means = _meaning(content) if place.endswith(".py") else hashlib.sha256(content).hexdigest()
        meaning.update(f"{means}  {place}\n".encode())  # as sha256sum writes it
    return tuple(files[place] for place in sorted(files)), meaning.hexdigest()


@lru_cache(maxsize=200)
def _meaning(content: bytes) -> str:
    """Return the SHA-256 of a Python file's syntax tree, without comments and docstrings; else of the bytes.

    Docstrings count in a file that names `__doc__` or `getdoc`, and of classes with fields: pydantic reads these.
    """
    try:
        with warnings.catch_warnings(action="ignore"):  # its import tells of them
            return digest(_plain(ast.parse(content), re.search(rb"__doc__|getdoc", content) is not None))
    except (SyntaxError, ValueError, RecursionError):
        return hashlib.sha256(content).hexdigest()


def _plain(node: Any, keeps_docstrings: bool) -> Any:
    """Return a syntax tree as JSON values, the same in each version of Python: fields that are empty are left out."""
    if isinstance(node, list):
        return [_plain(each, keeps_docstrings) for each in node]
    if not isinstance(node, ast.AST):
        return f"{type(node).__name__} {node!r}"
    fields = {name: value for name, value in ast.iter_fields(node) if value not in (None, [])}
    keeps = keeps_docstrings or (
        isinstance(node, ast.ClassDef) and any(isinstance(each, ast.AnnAssign) for each in node.body)
    )
    if isinstance(node, _WITH_DOCSTRINGS) and ast.get_docstring(node) is not None and not keeps:
        fields["body"] = node.body[1:]
    return [type(node).__name__, {name: _plain(value, keeps_docstrings) for name, value in fields.items()}]


def import_own(source: Source) -> Any:
    """Import what a source is of, anew if it is another than before; raises UsageError if its module lacks it."""
    module, _, attribute = source.name.partition(":")
    if source.folder is not None:
        package = ModuleType(f"{_OWN}{hashlib.sha256(os.fsencode(source.folder)).hexdigest()[:8]}")
        package.__path__ = [str(source.folder)]
        sys.modules.setdefault(package.__name__, package)
        module = f"{package.__name__}.{module}"
    if _imported.setdefault(source.files, source.sha256) != source.sha256:
        _imported[source.files] = source.sha256
        files = {str(file) for file in source.files}
        for each in [name for name, found in sys.modules.items() if getattr(found, "__file__", None) in files]:
            del sys.modules[each]
    _packages.add(module.partition(".")[0])
    imported = sys.modules.get(module) or _import_from_source(module)
    if not hasattr(imported, attribute):
        known = [key for key, value in vars(imported).items() if callable(value)]
        raise UsageError(f"{source.name}: its module has no {attribute}; {choose(attribute, known)}")
    return getattr(imported, attribute)


def _import_from_source(module: str) -> ModuleType:
    """Import a module and leave no bytecode, which tells its source from another by second and size alone."""
    importlib.invalidate_caches()  # a folder's listing is told from a newer one by its time, which may be coarse
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        return importlib.import_module(module)
    finally:
        sys.dont_write_bytecode = before


# What goes wrong in it


def describe_error(error: BaseException) -> str:
    """Return what an error of the user's code says, and the last file and line of theirs that it came through."""
    message = "an error that cannot be printed"
    with suppress(BaseException):
        message = first_problem(error) if isinstance(error, ValidationError) else one_line(str(error), 300)
    return f"{one_line(type(error).__name__, 100)}{message and f': {message}'}{own_line(error)}"


def own_line(error: BaseException) -> str:
    """Return the last file and line of the user's that an error came through, in parentheses; "" for none."""
    own = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        if str(frame.f_globals.get("__name__")).partition(".")[0] in _packages:
            own = f" ({Path(frame.f_code.co_filename).name}, line {line})"
    return own


@contextmanager
def explained(name: str, what: str, kind: type[ParleyError] | None = None) -> Iterator[None]:
    """Raise whatever code of the user's own raises as one line that says where: as an error of `kind`.

    By default a UsageError, or an EngineError if the code ends Python. Cancellation and Ctrl-C are not the code's.
    """
    try:
        yield
    except (ParleyError, KeyboardInterrupt):
        raise
    except BaseException as error:
        if isinstance(error, CancelledError) and (task := current_task()) is not None and task.cancelling():
            raise
        kind = kind or (EngineError if isinstance(error, SystemExit) else UsageError)
        raise kind(f"{name}: {what}{describe_error(error)}") from error


def first_problem(error: ValidationError) -> str:
    """Return the first thing that a pydantic model found wrong with what the user's code says: where, what, why."""
    problem = error.errors(include_url=False, include_context=False)[0]
    where = ".".join(map(str, problem["loc"]))
    if problem["type"] == "missing":
        return f"{where}: missing; add it"
    message = str(problem["msg"]).removeprefix("Value error, ")
    reason = f"{shown(problem['input'], problem['loc'])}: {one_line(message[:1].lower() + message[1:], 200)}"
    return f"{where}: {reason}" if where else reason


# Policies of the user's own


class PluginParameters(PolicyParameters):
    """Whatever the user's own code takes: plain names, numbers and texts."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)
    __pydantic_extra__: dict[str, str | int | Annotated[float, Field(allow_inf_nan=False)] | bool]


def plugin_kind(name: str, folder: Path) -> PolicyKind:
    """Return the policy `module:attribute` of a study in `folder`, of which nothing is run; raises as `source_of`."""
    code = source_of(name, folder).sha256
    return PolicyKind(name, Parameters=PluginParameters, fingerprint=code, folder=folder.resolve())


def load_plugin(policy: ChosenPolicy, llm: Policy | None) -> Policy:
    """Make the user's policy: `attribute(**parameters)`, with `llm` where its group has a model.

    Raises UsageError if it cannot be imported or made, or is not what the study read; EngineError if it ends Python.
    """
    name = policy.kind.name
    arguments: dict[str, Any] = dict(policy.parameters.model_extra or {})
    if "llm" in arguments:
        raise UsageError(f"{name}: llm: Parley passes the group's model under this name; rename the parameter")
    if llm is not None:
        arguments["llm"] = _Asked(name, llm)
    source = source_with(name, policy.kind.fingerprint, policy.kind.folder)
    if source is None:
        raise UsageError(f"{name}: its source changed since the study was read; run the same command again")
    with explained(name, "cannot be made: "):
        make: Callable[..., Policy] = import_own(source)
        return _Checked(name, make(**arguments))


@dataclass(frozen=True)
class _Asked:
    """The model of a group, as code of the user's own asks it: what leaves is recorded."""

    name: str
    llm: Policy

    async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
        """Ask the model; raises UsageError where it is not known whose question this answers."""
        made = requests_made.get(None)
        if made is None:
            raise UsageError(f"{self.name}: asks its model in a thread; begin that in answer(), by asyncio.to_thread")
        request = Request(ask, seed)
        made.append(request)
        reply = await self.llm.answer(ask, seed, attempt)
        request.reply = replace(reply, text=valid_unicode(reply.text))  # it may be sent again
        return request.reply


@dataclass(frozen=True)
class _Checked:
    """A policy of the user's own, whose replies are checked to be some."""

    name: str
    policy: Policy

    async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
        """Return the reply; raises UsageError if it is none, EngineError if the code ends Python."""
        with explained(self.name, f"round {ask.round}, {ask.phase}, {ask.agent}: "):
            reply = await self.policy.answer(ask, seed, attempt)
        texts = (reply.text, reply.finish_reason) if isinstance(reply, Completion) else ()
        if not texts or not all(isinstance(text, str) for text in texts):
            kind = one_line(type(reply).__name__, 100)
            raise UsageError(f"{self.name}: answered with {kind}; return a parley.policies.Completion")
        if len(reply.text) > ask.sampling.max_tokens * TOKEN_BYTES:
            return Completion(text="", finish_reason=TOO_LARGE)
        return reply
