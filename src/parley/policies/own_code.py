"""Code of the user's own, games and policies alike: `module:attribute` in a study, or an entry point.

Both name the same: an entry point is a shorter way to write its module:attribute, which is what identities, paths and
records have. Naming one in a study means running its code. Its source is looked up and hashed without running it,
since it can change results. A policy is imported when it plays; a game when a study names it, since only its code says
which parameters it has.
"""

import ast
import hashlib
import importlib
import importlib.machinery
import importlib.metadata
import importlib.util
import os
import re
import site
import sys
import sysconfig
import traceback
import warnings
from asyncio import CancelledError, current_task
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field, ValidationError

from parley.errors import EngineError, ParleyError, UsageError
from parley.files import read_regular
from parley.identity import digest
from parley.policies import TOKEN_BYTES, TOO_LARGE, Ask, Completion, Policy, Request, requests_made
from parley.policies.kinds import ChosenPolicy, PolicyKind, PolicyParameters
from parley.text import choose, one_line, valid_unicode
from parley.text.yamlfile import shown

GAME_ENTRY_POINTS, POLICY_ENTRY_POINTS = "parley.games", "parley.policies"  # groups of entry points

_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
_MAX_BYTES = 10_000_000  # of a source file
_WITH_DOCSTRINGS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
# What a package's code is made of: Python, and the texts and data beside it.
_PARLEY = Path(__file__).parent.parent
_beside: set[Path] = set()  # the folders of the studies that were loaded
_SUFFIXES = frozenset({".py", ".txt", ".md", ".j2", ".jinja", ".jinja2", ".json", ".yaml", ".yml", ".toml", ".csv"})


def look_beside(folder: Path) -> None:
    """Let Python find modules that lie in the folder of a study, too: after all others that are on its path."""
    _beside.add(folder.resolve())
    if (place := str(folder.resolve())) not in sys.path:
        sys.path.append(place)


def names_own_code(name: str) -> bool:
    """Whether a name is a module:attribute, of at most 200 characters."""
    return len(name) <= 200 and _NAME.fullmatch(name) is not None


def entry_points(group: str) -> dict[str, tuple[str, ...]]:
    """Return what is installed by name, normally one module:attribute. It reads all metadata: call it if needed."""
    found: dict[str, set[str]] = {}
    for point in importlib.metadata.entry_points(group=group):
        value = point.value.partition("[")[0]  # extras, which nobody needs to import it
        found.setdefault(point.name, set()).add("".join(value.split()))
    return {name: tuple(sorted(values)) for name, values in sorted(found.items())}


def of_entry_point(name: str, values: tuple[str, ...], group: str) -> str:
    """Return what an installed name stands for, as module:attribute; raises UsageError if that is not one."""
    if len(values) > 1:
        places = one_line(" and ".join(values), 300)
        raise UsageError(f"{name!r}: installed more than once; name the one that you mean: {places}")
    if not names_own_code(values[0]):
        raise UsageError(
            f"{name!r}: installed as {one_line(values[0], 200)!r}; an entry point of {group} is a module:attribute, "
            "so correct the package that installs it"
        )
    return values[0]


@dataclass(frozen=True)
class Source:
    """The source of a module: its files, and the SHA-256 of what they mean."""

    files: tuple[Path, ...]
    sha256: str


def source_of(name: str, whole_package: bool = False) -> Source:
    """Return the source of what `module:attribute` names; with `whole_package` all files of a package.

    Raises UsageError, which begins with the name, if there is no such module on Python's path, it cannot be read, or
    it is installed and no plug-in: a study may be a stranger's, and name any function that there is.
    """
    module, _, _ = name.partition(":")
    file = _file_of(module)
    if file is None:
        raise UsageError(f"{name}: no module {module} on Python's path; install it or set PYTHONPATH")
    by_hook = importlib.machinery.PathFinder.find_spec(module.partition(".")[0]) is None  # as editable packages are
    if (by_hook or _is_installed(file)) and name not in _plugins():
        raise UsageError(
            f"{name}: {module} is installed, and is no plug-in; name code that lies with the study, is in a folder of "
            f"PYTHONPATH, or is an entry point of {POLICY_ENTRY_POINTS} or {GAME_ENTRY_POINTS}"
        )
    try:
        if not whole_package or not (file.parent / "__init__.py").is_file():
            content = read_regular(file, _MAX_BYTES)
            return Source((file,), _meaning(content))
        return _package(file.parent)
    except OSError as error:
        place = error.filename or file
        raise UsageError(f"{name}: {place}: cannot be read: {error.strerror or error}") from None


def _package(folder: Path) -> Source:
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
    return Source(tuple(files[place] for place in sorted(files)), meaning.hexdigest())


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


def _is_installed(file: Path) -> bool:
    """Whether a file is Python's own or an installed package's; of nested folders the closest counts (.venv)."""
    named = (Path(part).resolve() for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part)
    installed = _installed() - _beside
    places = installed.union(named, _beside)
    return next((folder in installed for folder in file.resolve().parents if folder in places), False)


@cache
def _installed() -> frozenset[Path]:
    """Return the folders of what is installed: of Python, of packages, and those that their .pth files name."""
    places = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    sites = {Path(place).resolve() for place in (*places, *site.getsitepackages(), site.getusersitepackages())}
    named = {pth.parent / line for at in sites for pth in at.glob("*.pth") for line in pth.read_text().splitlines()}
    return frozenset({_PARLEY.parent, *sites, *(folder.resolve() for folder in named if folder.is_dir())})


@cache
def _plugins() -> frozenset[str]:
    groups = (GAME_ENTRY_POINTS, POLICY_ENTRY_POINTS)
    return frozenset(value for group in groups for values in entry_points(group).values() for value in values)


def _file_of(module: str) -> Path | None:
    """Return the source of a module; its packages are not imported to find it, as importlib would."""
    first, *others = module.split(".")
    importlib.invalidate_caches()  # a folder's listing is told from a newer one by its time, which may be a coarse one
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


def import_own(name: str) -> Any:
    """Import the module of `module:attribute` and return the attribute; raises UsageError if it has none."""
    module, _, attribute = name.partition(":")
    imported = importlib.import_module(module)
    if not hasattr(imported, attribute):
        known = [key for key, value in vars(imported).items() if callable(value)]
        raise UsageError(f"{name}: {module} has no {attribute}; {choose(attribute, known)}")
    return getattr(imported, attribute)


def describe_error(error: BaseException, name: str) -> str:
    """Return what an error of the user's code says, and the last file and line of theirs that it came through."""
    message = "an error that cannot be printed"
    with suppress(BaseException):
        message = first_problem(error) if isinstance(error, ValidationError) else one_line(str(error), 300)
    try:
        own = {str(file) for file in source_of(name, whole_package=True).files}
    except UsageError:  # gone since it was imported
        own = set()
    remedy = "; raise an error instead of calling exit()" if isinstance(error, SystemExit) else ""
    return f"{one_line(type(error).__name__, 100)}{message and f': {message}'}{own_line(error, own)}{remedy}"


def own_line(error: BaseException, own: Collection[str] = ()) -> str:
    """Return the last file and line of the user's that an error came through, in parentheses; "" for none."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename in own or not _is_foreign(f.filename)]
    return f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""


@contextmanager
def explained(name: str, what: str = "", kind: type[ParleyError] | None = None) -> Iterator[None]:
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
    except (GeneratorExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        if isinstance(error, CancelledError) and _is_cancelled():
            raise
        kind = kind or (EngineError if isinstance(error, SystemExit) else UsageError)
        raise kind(f"{name}: {what}{describe_error(error, name)}") from error
    finally:
        os.chdir(here)


def _is_cancelled() -> bool:
    """Whether somebody else cancels the task that runs."""
    try:
        task = current_task()
    except RuntimeError:  # no loop runs
        return False
    return task is not None and task.cancelling() > 0


def first_problem(error: ValidationError) -> str:
    """Return the first thing that a pydantic model found wrong with what the user's code says: where, what, why."""
    problem = error.errors(include_url=False, include_context=False)[0]
    where = ".".join(map(str, problem["loc"]))
    if problem["type"] == "missing":
        return f"{where}: missing; add it"
    message = str(problem["msg"]).removeprefix("Value error, ")
    reason = f"{shown(problem['input'])}: {one_line(message[:1].lower() + message[1:], 200)}"
    return f"{where}: {reason}" if where else reason


def _is_foreign(file: str) -> bool:
    """Whether a file is Parley's, Python's or an installed package's, or none at all, such as <frozen importlib>."""
    return file.startswith("<") or _is_installed(Path(file))


def forget(name: str, source: Source) -> None:
    """Make Python import a module anew, and what it compiled: it tells sources apart by second and size alone."""
    module, _, _ = name.partition(":")
    package = module
    if len(source.files) > 1 and source.files[0].parent / f"{module.rpartition('.')[2]}.py" in source.files:
        package = module.rpartition(".")[0]
    for loaded in [each for each in sys.modules if each == package or each.startswith(f"{package}.")]:
        del sys.modules[loaded]
    for file in source.files:
        if file.suffix == ".py":
            Path(importlib.util.cache_from_source(str(file))).unlink(missing_ok=True)
    importlib.invalidate_caches()


# Policies of the user's own


class PluginParameters(PolicyParameters):
    """Whatever the user's own code takes: plain names, numbers and texts."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)
    __pydantic_extra__: dict[str, str | int | Annotated[float, Field(allow_inf_nan=False)] | bool]


def plugin_kind(name: str) -> PolicyKind:
    """Return the policy `module:attribute`, of which nothing is run; raises UsageError as `source_of`."""
    code = source_of(name).sha256
    return PolicyKind(name, "A policy of your own.", Parameters=PluginParameters, fingerprint=code)


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
    with explained(name, "cannot be made: "):
        make: Callable[..., Policy] = import_own(name)
        policy_made = _Checked(name, make(**arguments))
    if source_of(name).sha256 != policy.kind.fingerprint:
        raise UsageError(f"{name}: its source changed since the study was read; run the same command again")
    return policy_made


class _Asked:
    """The model of a group, as code of the user's own asks it: what leaves is recorded."""

    def __init__(self, name: str, llm: Policy) -> None:
        self._name = name
        self._llm = llm

    async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
        """Ask the model; raises UsageError where it is not known whose question this answers."""
        made = requests_made.get(None)
        if made is None:
            raise UsageError(
                f"{self._name}: asks its model in a thread, or a task, that began outside of answer(), so it could "
                "not be recorded what for; begin it there, a thread by asyncio.to_thread"
            )
        request = Request(ask, seed)
        made.append(request)
        reply = await self._llm.answer(ask, seed, attempt)
        request.reply = replace(reply, text=valid_unicode(reply.text))  # it may be sent again
        return request.reply


class _Checked:
    """A policy of the user's own, whose replies are checked to be some."""

    def __init__(self, name: str, policy: Policy) -> None:
        self._name = name
        self._policy = policy

    async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
        """Return the reply; raises UsageError if it is none, EngineError if the code ends Python."""
        with explained(self._name):
            reply = await self._policy.answer(ask, seed, attempt)
        texts = (reply.text, reply.finish_reason) if isinstance(reply, Completion) else ()
        if not texts or not all(isinstance(text, str) for text in texts):
            raise UsageError(
                f"{self._name}: answered with {one_line(type(reply).__name__, 100)}; return a "
                "parley.policies.Completion"
            )
        if len(reply.text) > ask.sampling.max_tokens * TOKEN_BYTES:
            return Completion(text="", finish_reason=TOO_LARGE)
        return reply
