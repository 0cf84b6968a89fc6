"""Code of the user's own, games and policies alike: `module:attribute` in a study, or an entry point.

An entry point is a shorter way to write its module:attribute, which is what identities, paths and records have. Its
source is looked up and hashed without running it. A policy is imported when it plays, a game when a study names it.

The folder of a study is never on Python's path, where a file that is called as a library would be run in its place. A
module that lies there is loaded from its file under a name of its own, and it alone finds what lies beside it.
"""

import ast
import asyncio
import builtins
import hashlib
import importlib.util
import os
import re
import signal
import sys
import threading
import traceback
import warnings
from asyncio import CancelledError, current_task
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import FrameType, ModuleType
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
_HANG_SECONDS = 600.0  # code of the user's own that does not answer for so long hangs
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
    missing, is_there = None, False
    for place in [folder] if folder else [*reversed(_folders), Path.cwd()]:
        try:
            source = source_of(name, place, whole_package)
        except UsageError as error:
            missing = error
            continue
        if source.sha256 == sha256:
            return source
        is_there = True
    if missing is not None and not is_there:
        raise missing
    return None


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
    """Return the SHA-256 of a Python file's syntax tree, without comments and docstrings; of the bytes if it has none.

    Docstrings count in a file that names `__doc__` or `getdoc`, and of classes with fields: pydantic reads these.
    """
    try:
        with warnings.catch_warnings(action="ignore"):  # its import tells of them
            tree = ast.parse(content)
        return digest(_plain(tree, keeps_docstrings=re.search(rb"__doc__|getdoc", content) is not None))
    except (SyntaxError, ValueError, RecursionError):
        return hashlib.sha256(content).hexdigest()


def _plain(node: Any, keeps_docstrings: bool) -> Any:
    """Return a syntax tree as JSON values, the same in each version of Python: fields that are empty are left out."""
    if isinstance(node, list):
        return [_plain(each, keeps_docstrings) for each in node]
    if not isinstance(node, ast.AST):
        return f"{type(node).__name__} {node!r}"
    fields = {name: value for name, value in ast.iter_fields(node) if value not in (None, [])}
    if isinstance(node, _WITH_DOCSTRINGS) and ast.get_docstring(node, clean=False) is not None:
        of_fields = isinstance(node, ast.ClassDef) and any(isinstance(each, ast.AnnAssign) for each in node.body)
        fields["body"] = node.body if keeps_docstrings or of_fields else node.body[1:]
    return [type(node).__name__, {name: _plain(value, keeps_docstrings) for name, value in fields.items()}]


# How it is imported


class _Finder:
    """Finds modules whose names say that they lie beside a study."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return how a module is loaded; None for all other modules."""
        spec = PathFinder.find_spec(name, path, target) if name.startswith(_OWN) else None
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


class _Loader(SourceFileLoader):
    """Loads a module that lies beside a study, which finds first what lies there, too."""

    def path_stats(self, path: str) -> Any:
        """Raise OSError, for no bytecode: that tells sources apart by second and size alone."""
        raise OSError

    def exec_module(self, module: ModuleType) -> None:
        """Run the module."""
        own_import = partial(_import, module.__name__.partition(".")[0])
        vars(module)["__builtins__"] = {**vars(builtins), "__import__": own_import}
        super().exec_module(module)


def _import(
    package: str, name: str, variables: Any = None, local: Any = None, wanted: Sequence[str] = (), level: int = 0
) -> Any:
    first = name.partition(".")[0]
    found = None if level else PathFinder.find_spec(first, sys.modules[package].__path__)
    # A folder without __init__.py comes after what is installed, as Python has it.
    if found is None or (found.loader is None and importlib.util.find_spec(first) is not None):
        return builtins.__import__(name, variables, local, wanted, level)
    imported = builtins.__import__(f"{package}.{name}", variables, local, wanted)
    return imported if wanted else sys.modules[f"{package}.{first}"]


def import_own(source: Source) -> Any:
    """Import what a source is of, anew if it is another than before; raises UsageError if its module lacks it."""
    named, _, attribute = source.name.partition(":")
    module = named
    if source.folder is not None:
        if _Finder not in sys.meta_path:
            sys.meta_path.insert(0, _Finder)
        package = ModuleType(f"{_OWN}{hashlib.sha256(os.fsencode(source.folder)).hexdigest()[:8]}")
        package.__path__ = [str(source.folder)]
        sys.modules.setdefault(package.__name__, package)
        module = f"{package.__name__}.{named}"
    if _imported.setdefault(source.files, source.sha256) != source.sha256:
        _imported[source.files] = source.sha256
        files = {str(file) for file in source.files}
        for each in [name for name, found in sys.modules.items() if getattr(found, "__file__", None) in files]:
            del sys.modules[each]
    _packages.add(module.partition(".")[0])
    if module not in sys.modules:
        importlib.invalidate_caches()  # a folder's listing is told from a newer one by its time, which may be coarse
    imported = importlib.import_module(module)
    if not hasattr(imported, attribute):
        known = [key for key, value in vars(imported).items() if callable(value)]
        raise UsageError(f"{source.name}: {named} has no {attribute}; {choose(attribute, known)}")
    return getattr(imported, attribute)


# What goes wrong in it


def _is_own(frame: FrameType) -> bool:
    """Whether a frame is one of the user's code."""
    return str(frame.f_globals.get("__name__")).partition(".")[0] in _packages


def _is_called_by_own(frame: FrameType | None) -> bool:
    while frame is not None and not _is_own(frame):
        frame = frame.f_back
    return frame is not None


def describe_error(error: BaseException) -> str:
    """Return what an error of the user's code says, and the last file and line of theirs that it came through."""
    message = "an error that cannot be printed"
    with suppress(BaseException):
        message = first_problem(error) if isinstance(error, ValidationError) else one_line(str(error), 300)
    remedy = "; raise an error instead of calling exit()" if isinstance(error, SystemExit) else ""
    return f"{one_line(type(error).__name__, 100)}{message and f': {message}'}{own_line(error)}{remedy}"


def own_line(error: BaseException) -> str:
    """Return the last file and line of the user's that an error came through, in parentheses; "" for none."""
    lines = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__) if _is_own(frame)]
    return f" ({Path(lines[-1][0].f_code.co_filename).name}, line {lines[-1][1]})" if lines else ""


class Hang(BaseException):
    """Code of the user's own keeps this process busy; it derives from what no such code catches by the way."""


@asynccontextmanager
async def ended_if_it_hangs() -> AsyncIterator[None]:
    """Within it, code of the user's own that stops this thread ends with a Hang, in the line where it is."""
    if threading.current_thread() is not threading.main_thread():  # no other is sent signals
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        if _is_called_by_own(frame):
            raise Hang(_hang())

    async def wind() -> None:
        while True:
            signal.setitimer(signal.ITIMER_REAL, _HANG_SECONDS, _HANG_SECONDS)
            await asyncio.sleep(min(1.0, _HANG_SECONDS / 4))

    before, winding = signal.signal(signal.SIGALRM, ring), asyncio.create_task(wind())
    try:
        yield
    finally:
        winding.cancel()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _hang() -> str:
    return f"no answer for {_HANG_SECONDS:g} s; give what it waits for a time-out"


@contextmanager
def explained(name: str, what: str, kind: type[ParleyError] | None = None) -> Iterator[None]:
    """Raise whatever code of the user's own raises as one line that says where: as an error of `kind`.

    By default a UsageError, or an EngineError if the code ends Python. Cancellation and Ctrl-C are not the code's.
    """
    here = Path.cwd()
    try:
        yield
        if Path.cwd() != here:
            raise OSError("it changed the working directory; leave that as it is")
    except ParleyError:
        raise
    except BaseException as error:
        if (isinstance(error, CancelledError) and _is_cancelled()) or _is_ctrl_c(error):
            raise
        kind = kind or (EngineError if isinstance(error, SystemExit) else UsageError)
        raise kind(f"{name}: {what}{describe_error(error)}") from error
    finally:
        os.chdir(here)


def _is_cancelled() -> bool:
    """Whether somebody else cancels the task that runs."""
    task = current_task()
    return task is not None and task.cancelling() > 0


def _is_ctrl_c(error: BaseException) -> bool:
    """Whether somebody else interrupts: where asyncio hears signals, that ends in no line of the user's code."""
    *_, (last, _) = traceback.walk_tb(error.__traceback__)
    is_heard = signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    return isinstance(error, KeyboardInterrupt) and not (is_heard and _is_own(last))


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
        return _Checked(name, make(**arguments), None if llm else _HANG_SECONDS)


@dataclass(frozen=True)
class _Asked:
    """The model of a group, as code of the user's own asks it: what leaves is recorded."""

    name: str
    llm: Policy

    async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
        """Ask the model; raises UsageError where it is not known whose question this answers."""
        made = requests_made.get(None)
        if made is None:
            raise UsageError(
                f"{self.name}: asks its model in a thread, or a task, that began outside of answer(), so it could "
                "not be recorded what for; begin it there, a thread by asyncio.to_thread"
            )
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
    seconds: float | None  # that it may take to answer; None where that depends on a model

    async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
        """Return the reply; raises UsageError if it is none, EngineError if the code ends Python."""
        with explained(self.name, f"round {ask.round}, {ask.phase}, {ask.agent}: "):
            try:
                async with asyncio.timeout(self.seconds) as limit:
                    reply = await self.policy.answer(ask, seed, attempt)
            except TimeoutError:
                if limit.expired():
                    raise Hang(_hang()) from None
                raise
        texts = (reply.text, reply.finish_reason) if isinstance(reply, Completion) else ()
        if not texts or not all(isinstance(text, str) for text in texts):
            raise UsageError(
                f"{self.name}: answered with {one_line(type(reply).__name__, 100)}; return a "
                "parley.policies.Completion"
            )
        if len(reply.text) > ask.sampling.max_tokens * TOKEN_BYTES:
            return Completion(text="", finish_reason=TOO_LARGE)
        return reply
