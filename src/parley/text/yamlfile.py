"""Reading YAML files strictly: every problem becomes one line with file, key, value and remedy."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    Tag,
    ValidationError,
)
from pydantic_core import CoreSchema, ErrorDetails, core_schema

from parley.errors import FileError, UsageError, names_key, without_keys
from parley.files import read_regular
from parley.text import choose, meant, one_line

# User and query of an address: they may hold a password or a key, and errors end up in logs.
_IN_ADDRESS = re.compile(r"(?<![^'\"])[^'\"]+(?=@)|(?<=[^\s'\"][?#])[^\s'\"]+")
_QUOTED = re.compile(r"'([^']*)'")
_INT, _FLOAT = "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"
_SLUG = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")


def is_slug(name: str) -> bool:
    """Whether `name` can stand in a path as it is: letters, digits, '.', '_', '-', and no '..'."""
    return bool(_SLUG.fullmatch(name)) and ".." not in name and len(name) <= 64


def _check_slug(name: str) -> str:
    if not is_slug(name):
        raise ValueError("use up to 64 letters, digits, '.', '_' or '-', beginning and ending with a letter or digit")
    return name


Slug = Annotated[str, AfterValidator(_check_slug)]


# A study is a page of text. What is larger, or grows so by its aliases, would take minutes to read and to refuse.
_MAX_BYTES = 200_000
_MAX_VALUES = 100_000

# What PyYAML raises, also for a tag that its value does not fit, such as `!!bool maybe`.
_NOT_YAML = (yaml.YAMLError, ValueError, RecursionError, LookupError, AttributeError, TypeError, ArithmeticError)


class _Loader(yaml.SafeLoader):
    """Reads numbers as YAML 1.2 (by 1.1, as PyYAML reads, 010 is 8, 1:30 is 90, and 5e-1 a text), and no key twice."""

    yaml_implicit_resolvers = {  # noqa: RUF012 (as its base has it)
        first: [(tag, pattern) for tag, pattern in found if tag not in (_INT, _FLOAT)]
        for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def whole(self, node: yaml.ScalarNode) -> int:
        """Return a whole number, of base 8 or 16 where it says so."""
        text = str(self.construct_scalar(node))
        return int(text, 0 if text.startswith(("0o", "0x")) else 10)

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Return the next mapping; raises MarkedYAMLError if it has a key twice."""
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        keys = set()
        for key in [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]:
            if (key.tag, key.value) in keys:
                said = f"key {shown(key.value)} is repeated; keep one of them"
                raise yaml.MarkedYAMLError(problem=said, problem_mark=key.start_mark)
            keys.add((key.tag, key.value))
        return node


_WHOLE = re.compile(r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$")
_NUMBER = re.compile(
    r"(?:[-+]?(?:(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|\.(?:inf|Inf|INF))|\.(?:nan|NaN|NAN))$"
)


class _Dumper(yaml.SafeDumper):
    """Quotes each text that is a number by either version."""


for _either in (_Loader, _Dumper):
    _either.add_implicit_resolver(_INT, _WHOLE, list("-+0123456789"))
    _either.add_implicit_resolver(_FLOAT, _NUMBER, list("-+.0123456789"))
_Loader.add_constructor(_INT, _Loader.whole)


def yaml_text(content: Any) -> str:
    """Return a study's or a models file's content as YAML, which `load_yaml` reads as the same."""
    return yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=False, default_flow_style=None, width=110)


def _content(text: str) -> Any:
    loader = _Loader(text)
    node = loader.get_single_node()
    if node is None:
        return None
    if _values(node, {}) > _MAX_VALUES:
        raise ValueError(f"more than {_MAX_VALUES:,} values, aliases written out")
    return loader.construct_document(node)


def _values(node: yaml.Node, counted: dict[int, int]) -> int:
    """Return how many values a node has, aliases written out; raises RecursionError for one that contains itself."""
    if id(node) not in counted:
        items = node.value if isinstance(node, yaml.CollectionNode) else ()
        parts = [part for item in items for part in (item if isinstance(item, tuple) else (item,))]
        counted[id(node)] = 1 + sum(_values(part, counted) for part in parts)
    return counted[id(node)]


def load_yaml(path: Path) -> Any:
    """Return the content of a YAML file; raises UsageError if it cannot be read or parsed."""
    try:
        text = read_regular(path, _MAX_BYTES).decode("utf-8")
    except (OSError, ValueError) as error:
        is_absent, said = isinstance(error, FileNotFoundError), getattr(error, "strerror", None) or error
        why = "no such file" if is_absent else f"cannot be read: {one_line(str(said), 200)}"
        raise UsageError(f"{one_line(str(path), 300)}: {why}") from None
    try:
        return _content(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = one_line(str(error.problem), 200)
        raise UsageError(f"{path}{where}: not valid YAML: {problem}; indent by spaces as the keys beside it") from None
    except _NOT_YAML as error:
        too_deep = "nested too deep, or a value contains itself" if isinstance(error, RecursionError) else ""
        problem = too_deep or one_line(str(error), 200) or type(error).__name__
        raise UsageError(f"{path}: not valid YAML: {problem}") from None


def plain(text: str) -> Any:
    """Return the value that a user's text is as YAML; the text itself where it is none."""
    try:
        return _content(text)
    except _NOT_YAML:
        return text


class FileModel(BaseModel):
    """A mapping of which all keys are known, and which nobody changes; a text may stand for a number."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class StrictModel(FileModel):
    """The same, in which every value has exactly its type."""

    model_config = ConfigDict(strict=True)


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


class OrOne:
    """Of a list: one item stands for a list of one."""

    def __get_pydantic_core_schema__(self, several: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of the list, or one of its items."""
        of_list = handler(several)
        written = core_schema.union_schema([of_list, handler.generate_schema(*get_args(several))])
        return core_schema.no_info_before_validator_function(_as_list, of_list, json_schema_input_schema=written)


_Item = TypeVar("_Item")
Listed = Annotated[list[_Item], Field(min_length=1), OrOne()]  # at least one


_Model = TypeVar("_Model", bound=BaseModel)
_MOST_PROBLEMS = 20  # of a file that are told at once


def validated(
    model: type[_Model], content: Any, where: str, elsewhere: Mapping[str, str] = MappingProxyType({})
) -> _Model:
    """Return `content` as `model`; raises FileError with all problems, a line each: where, key, value, remedy.

    `elsewhere` says of keys that are unknown here under which one they stand.
    """
    if not isinstance(content, dict):
        written = "nothing" if content is None else "a list" if isinstance(content, list) else "one value"
        raise FileError(f"{where}: must be a mapping of keys to values, not {written}")
    try:
        return model.model_validate(content)
    except ValidationError as error:
        problems = [*_problems(error, model, elsewhere)]
        more = [f"and {len(problems) - _MOST_PROBLEMS} more"] if len(problems) > _MOST_PROBLEMS else []
        lines = [f"{where}: {problem}" for problem in [*problems[:_MOST_PROBLEMS], *more]]
        raise FileError("\n".join(lines)) from None


def _problems(error: ValidationError, model: type[BaseModel], elsewhere: Mapping[str, str]) -> Iterator[str]:
    """Yield what is wrong: unknown keys first, which may be what is missing, misspelled."""
    problems = error.errors(include_url=False)
    misspelled = set()
    unknown = [each for each in problems if each["type"] == "extra_forbidden"]
    for problem in sorted(unknown, key=lambda each: len(each["loc"])):
        *above, key = problem["loc"]
        known = _keys_at(model, above)
        close = meant(key, known)
        misspelled.add((*above, close))
        if not above and str(key) in elsewhere:
            remedy = f"put it under {elsewhere[str(key)]}:"
        elif close:
            remedy = f"did you mean {close!r}?"
        else:
            remedy = f"known keys are: {', '.join(known)}" if known else "remove it"
        yield f"{_key([*_without_tags(above), key])}: unknown key; {remedy}"
    for problem in problems:
        loc, key = problem["loc"], _key(_without_tags(problem["loc"]))
        if problem["type"] == "too_short" and any(each["loc"][: len(loc)] == loc != each["loc"] for each in problems):
            continue  # a list is short of the items that are wrong, which is no second fault
        if problem["type"] == "missing" and loc not in misspelled:
            yield f"{key}: missing; add it"
        elif problem["type"] not in ("missing", "extra_forbidden"):
            yield f"{key}: {_complaint(problem)}" if key else _complaint(problem)


def _complaint(problem: ErrorDetails) -> str:
    message, value = problem["msg"].removeprefix("Value error, "), shown(problem["input"], problem["loc"])
    if problem["type"] in ("literal_error", "enum"):
        close = meant(value.strip("'"), _QUOTED.findall(problem["ctx"]["expected"]))
        message += f"; did you mean {close!r}?" if close else ""
    if problem["type"] in ("model_type", "model_attributes_type"):  # it would name the class
        message = "must be a mapping of keys to values"
    return f"{value}: {message[0].lower()}{message[1:]}"


# Unions


_TYPES = {"str", "int", "float", "bool"}


def _tag(name: str) -> str:
    """Return the name of a union's member in the place of an error, from which messages leave it out."""
    return f"<{name}>"


def _tagged(members: Mapping[str, Any], meant: Callable[[Any], str]) -> Any:
    """Return the union of members by name, of which a function says which one a value is meant as."""
    tagged = tuple(Annotated[member, Tag(_tag(name))] for name, member in members.items())
    return Annotated[Union[tagged], Discriminator(lambda value: _tag(meant(value)))]  # noqa: UP007


def _name_of(model: type[BaseModel]) -> str:
    """Return the `kind` of a model; without one, its first key."""
    kind = model.model_fields.get("kind")
    return str(kind.default) if kind else next(iter(model.model_fields), "")


def models_of(union: Any) -> dict[str, type[BaseModel]]:
    """Return the models of a union by their `kind`, or their first key."""
    return {_name_of(model): model for model in get_args(union)}


@dataclass(frozen=True)
class ByModel:
    """Of a union of models: the one whose `kind` is written, or, where they have none, the first key.

    `what` they are is said of what is none of them. Of some kinds the name `alone` does.
    """

    what: str
    alone: Any = None  # a Literal

    def __get_pydantic_core_schema__(self, union: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of the union."""
        models = models_of(union)
        written = union if self.alone is None else self.alone | union
        checked = BeforeValidator(partial(self._checked, models), json_schema_input_type=written)
        return handler.generate_schema(Annotated[_tagged(models, partial(self._meant, models)), checked])

    def _checked(self, models: Mapping[str, type[BaseModel]], value: Any) -> Any:
        """Return what is written as a mapping, or a model as it is; raises ValueError for none of them."""
        if isinstance(value, str) and self.alone is not None:
            value = {"kind": value}
        if (name := self._meant(models, value)) not in models:
            raise ValueError(f"unknown {self.what}; {choose(name, models)}")
        return value

    def _meant(self, models: Mapping[str, type[BaseModel]], value: Any) -> str:
        if isinstance(value, BaseModel):
            return _name_of(type(value))
        there = value if isinstance(value, dict) else {}
        known = [key for key in models if key in there]
        return str(there.get("kind", next(iter([*known, *there]), "")))


class ByForm:
    """Of a union: which member is meant, by whether a mapping, a list or anything else is written.

    So an error is about what was meant. What is written in no form of a member is held against the one for all else.
    """

    def __get_pydantic_core_schema__(self, union: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of the union."""
        members = {self._form(member): member for member in get_args(union)}
        return handler.generate_schema(
            _tagged(members, lambda value: form if (form := self._form(type(value))) in members else "else")
        )

    def _form(self, kind: Any) -> str:
        while get_origin(kind) is Annotated:
            kind = get_args(kind)[0]
        kind = get_origin(kind) or kind
        is_mapping = isinstance(kind, type) and issubclass(kind, dict | BaseModel)
        return "mapping" if is_mapping else "list" if kind is list else "else"


def _without_tags(loc: Sequence[int | str]) -> list[int | str]:
    """Return the place of an error in the file: pydantic adds the member of a union that it tried."""
    kept = [part for part in loc if not re.fullmatch("<.*>", str(part))]
    return kept[:-1] if len(kept) > 1 and kept[-1] in _TYPES else kept


def _key(loc: list[int | str]) -> str:
    text = ""
    for part in loc:
        text += f"[{part}]" if isinstance(part, int) else f".{one_line(part, 60)}" if text else one_line(part, 60)
    return text


def check_known(where: str, name: Any, known: Iterable[str], what: str, installed: Iterable[str] = ()) -> None:
    """Raise UsageError if a name is none of the `known`, or of those installed, which are called `what`."""
    names, others = list(known), list(installed)
    if name not in (*names, *others):
        raise UsageError(f"{where}: {shown(name)}: unknown {what}; {choose(name, names, others)}")


def shown(value: Any, names: Iterable[object] = ()) -> str:
    """Return a value of a user's file, below `names`, for a message: one line of at most 60 characters, no keys."""
    try:
        text = one_line(repr(without_keys(value, any(map(names_key, names)))))
    except ValueError:  # an integer of thousands of digits
        return "a huge number"
    text = _IN_ADDRESS.sub("...", text)
    return text if len(text) <= 60 else text[:57] + "..."


def _keys_at(model: type[BaseModel], loc: Sequence[int | str]) -> list[str]:
    """Return the keys that the model knows at `loc`, in which tags say which member of a union is meant."""
    here = [model]
    for part in loc:
        fields = [each.model_fields[str(part)] for each in here if part in each.model_fields]
        named = [each for each in here if part == _tag(_name_of(each))]
        here = named or [found for field in fields for found in _models_in(field.annotation)] or here
    return [*dict.fromkeys(field.alias or key for each in here for key, field in each.model_fields.items())]


def _models_in(written: Any) -> Iterator[type[BaseModel]]:
    """Yield the models in a type, unions and all."""
    if isinstance(written, type) and issubclass(written, BaseModel):
        yield written
    for part in get_args(written):
        yield from _models_in(part)
