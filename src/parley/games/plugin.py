"""Games of the user's own: `module:attribute` in a study, or an entry point of the group `parley.games`.

Both name the same: an entry point is a shorter way to write its module:attribute, which is what identities and records
have. What a game allows is told by its code, so loading a study that names one runs it.
"""

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import wraps
from typing import Any

from parley.errors import GameError, ParleyError, UsageError
from parley.games.base import Game
from parley.games.contract import check_declared, told, wrong_states
from parley.games.evidence import Timeline
from parley.games.prompts import content_of
from parley.policies.kinds import PolicyKind
from parley.policies.own_code import Source, forget, source_of
from parley.text.suggest import choose

ENTRY_POINTS = "parley.games"

# What is asked of a game besides playing it, for tables, figures and prompts: an error in one says which it was.
_OF_CLASS = ("check", "draw_material", "threat_model", "possible_outcomes", "seat_names")
_OF_PROMPTS = ("digests", "template", "filled")
_OF_EVIDENCE = ("shows", "derived", "behaved", "series", "trajectory", "timeline", "sweep", "of_agents", "transcript")
_loaded: dict[str, tuple[str, type[Game]]] = {}  # by name: the SHA-256 of the source, and the game


def game_source(name: str) -> Source:
    """Return the source of the game `module:attribute`: the module's file, in a package all of the package's files."""
    return source_of(name, whole_package=True)


def load_game(name: str) -> type[Game]:
    """Return the game `module:attribute`, called so, with the SHA-256 of its source; its module is imported.

    Raises UsageError if there is no such module or attribute, GameError if what is there is no game.
    """
    source = game_source(name)
    content_of.cache_clear()  # its templates are files that may have changed, too
    known, game = _loaded.get(name, ("", None))
    if game is None or known != source.sha256:
        if known:
            forget(name, source)
        game = _as_game(name, _imported(name), source)
        _loaded[name] = (source.sha256, game)
    return game


def _imported(name: str) -> Any:
    module, _, attribute = name.partition(":")
    try:
        imported = importlib.import_module(module)
    except (Exception, SystemExit) as error:  # whatever the user's code raises
        raise GameError(f"{name}: cannot be imported: {told(error, name)}") from error
    if not hasattr(imported, attribute):
        games = [key for key, value in vars(imported).items() if _is_game(value)]
        raise UsageError(f"{name}: {module} has no {attribute}; {choose(attribute, games)}")
    return getattr(imported, attribute)


def _is_game(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Game) and value is not Game


def _as_game(name: str, found: Any, source: Source) -> type[Game]:
    """Return the user's class as the game that a study names; raises GameError if it is none."""
    if not _is_game(found):
        raise GameError(f"{name}: {found!r:.60} is no game; name a class derived from {Game.__module__}.Game")
    if inspect.isabstract(found):
        lacks = sorted(found.__abstractmethods__)
        raise GameError(f"{name}: is no game: it lacks {', '.join(lacks)}; write {'them' if lacks[1:] else 'it'}")
    check_declared(name, found)
    own: dict[str, Any] = {
        "name": name,
        "code_sha256": source.sha256,
        "prompts": _guarded_object(name, "prompts", found.prompts, _OF_PROMPTS),
        "evidence": _guarded_object(name, "evidence", found.evidence, _OF_EVIDENCE),
        "policies": {kind.name: _guarded_kind(name, kind) for kind in found.policies.values()},
        "set_up": _guarded(name, "set_up", found.set_up),
        "__module__": found.__module__,
        "__doc__": found.__doc__,
    }
    for hook in _OF_CLASS:
        own[hook] = classmethod(_guarded(name, hook, getattr(found, hook).__func__))
    own["evidence"].timeline = _drawable(name, own["evidence"].timeline)
    game: type[Game] = type(found)(found.__name__, (found,), own)
    return game


def _guarded(name: str, what: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of the user's that raises GameError, with where it was, for whatever it raises."""

    @wraps(function)
    def guarded(*arguments: Any, **keywords: Any) -> Any:
        try:
            return function(*arguments, **keywords)
        except ParleyError:
            raise
        except (Exception, SystemExit) as error:  # whatever the user's code raises
            raise GameError(f"{name}: {what}: {told(error, name)}") from error

    return guarded


def _guarded_object(name: str, what: str, found: Any, hooks: Sequence[str]) -> Any:
    """Return a copy of the user's object whose `hooks` say which it was when they raise."""
    guarded = copy(found)
    for hook in hooks:
        setattr(guarded, hook, _guarded(name, f"{what}.{hook}", getattr(found, hook)))
    return guarded


def _drawable(name: str, timeline: Callable[..., Timeline]) -> Callable[..., Timeline]:
    """Return a game's `timeline`, which raises GameError for states that cannot be drawn."""

    def checked(*given: Any) -> Timeline:
        made = timeline(*given)
        for problem in wrong_states(made.states):
            raise GameError(f"{name}: evidence.timeline: {problem}")
        return made

    return checked


def _guarded_kind(name: str, kind: PolicyKind) -> PolicyKind:
    """Return a policy of the user's game whose rule says which it was when it raises."""
    make, what = kind.rule, f"policy {kind.name}"
    if make is None:
        return kind
    made = _guarded(name, what, make)
    return replace(kind, rule=lambda given: _guarded(name, what, made(given)))


def changed_source(simulation: Mapping[str, Any]) -> str | None:
    """Return why the game that a record describes cannot be played: its source is another one, or gone; else None.

    Nothing of it is run: a record may come from anyone, and names a module.
    """
    name, then = str(simulation.get("game")), str(simulation.get("game_code_sha256"))
    if ":" not in name:
        return None
    try:
        now = game_source(name).sha256
    except UsageError as error:
        return str(error)
    if now == then:
        return None
    return (
        f"the source of {name} changed since it was recorded (SHA-256 {then[:12]} then, {now[:12]} now); put the "
        "former one on Python's path (PYTHONPATH)"
    )
