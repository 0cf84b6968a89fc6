"""The prompts that a study brings: a change of a shipped one, or templates of its own, all of them data.

They are checked when the study is loaded; nothing in them is ever evaluated.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from parley.errors import UsageError
from parley.files import read_regular
from parley.games.base import Game
from parley.games.parameters import GameParameters
from parley.games.prompts import OwnPrompt, appended, text_of, without_json
from parley.text.suggest import choose
from parley.text.yamlfile import shown, tag

README = "README.txt"  # in a folder of templates, what tells people of them
_MAX_BYTES = 100_000
_Text = Annotated[str, Field(min_length=1, max_length=_MAX_BYTES)]


class PromptChange(BaseModel):
    """A prompt of the game with some of its words changed, or all templates of one."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    start: str | None = Field(default=None, alias="from", description="The prompt of the game that is changed.")
    append: dict[str, _Text] = Field(
        default_factory=dict,
        description="A line for the end of templates, before what asks for a form of the reply: by `system` or `user` "
        "for all of them, by `ROLE_system` for those of a role, or by the name of one.",
    )
    replace: dict[_Text, str] = Field(
        default_factory=dict, description="Words, and what stands for them wherever they occur. Each has to occur."
    )
    templates: dict[str, _Text] | None = Field(
        default=None, description="Instead of all these: the text of each template, by its name."
    )

    @model_validator(mode="after")
    def _says_one(self) -> "PromptChange":
        changes = bool(self.append or self.replace)
        if self.templates is not None and (self.start is not None or changes):
            raise ValueError("templates are all that is sent; remove from, append and replace")
        if self.templates is None and (self.start is None or not changes):
            raise ValueError("give from, and append or replace; or templates")
        return self


# A folder, or what to change.
PromptSource = Annotated[
    Annotated[str, Tag(tag("folder"))] | Annotated[PromptChange, Tag(tag("change"))],
    Discriminator(lambda value: tag("folder") if isinstance(value, str) else tag("change")),
]


class OwnPrompts:
    """The prompts of one study by name; which of their changes are sent is known when its conditions are."""

    def __init__(self, file: Path, sources: Mapping[str, str | PromptChange], game: type[Game]) -> None:
        """Read and check the prompts; raises UsageError with the key, or the file and line, that is wrong."""
        self._file, self._game = file, game
        self._changed: dict[str, dict[str, set[str]]] = {}  # the templates that each change of a prompt is in
        self._sent: dict[str, set[str]] = defaultdict(set)
        self.by_name = {name: self._made(name, source) for name, source in sources.items()}

    def check(self, name: str, parameters: GameParameters, roles: Collection[str]) -> None:
        """Raise UsageError if a prompt lacks a template that is sent with these parameters; remember what is sent."""
        if name in self.by_name:
            needed = self._game.prompts.needed(parameters, roles)
            if missing := sorted(needed.difference(self.by_name[name].templates)):
                raise UsageError(
                    f"{self._where(name)}: lacks {missing[0]}, which is sent in this study; add it "
                    f"({len(missing)} missing: {', '.join(missing)})"
                )
            if parameters.reply_format != "json" and (
                lost := [n for n in sorted(needed) if self._hides_form(name, n)]
            ):
                raise UsageError(
                    f"{self._where(name)}: {lost[0]}: reply_format: {parameters.reply_format} leaves out what asks for "
                    "JSON, and the words with which that began are gone; put them back, or use json"
                )
            self._sent[name] |= needed

    def check_sent(self) -> None:
        """Raise UsageError if a change is in no template that is sent in the conditions of the study."""
        for name, sent in self._sent.items():
            for key, templates in self._changed.get(name, {}).items():
                if not templates & sent:
                    raise UsageError(
                        f"{self._where(name)}.{key}: changes nothing that is sent in this study (only "
                        f"{', '.join(sorted(templates))}); remove it"
                    )

    def _hides_form(self, name: str, template: str) -> bool:
        """Whether the game finds where its own template asks for JSON, and not where this one does."""
        shipped = next(iter(self._game.prompts.variants.values()))[template]
        texts = [text_of(shipped), text_of(self.by_name[name].templates[template])]
        return [without_json(text) == text for text in texts] == [False, True]

    def _where(self, name: str) -> str:
        return f"{self._file}: prompts.{name}"

    def _made(self, name: str, source: str | PromptChange) -> OwnPrompt:
        if isinstance(source, str):
            texts, where = self._of_folder(name, source), f"{self._file.parent / source}/"
        elif source.templates is not None:
            texts, where = dict(source.templates), f"{self._where(name)}.templates."
        else:
            texts, where = self._changes(name, source), f"{self._where(name)}: "
        try:
            return self._game.prompts.own(name, texts)
        except UsageError as error:
            named = name in self._game.prompts
            raise UsageError(f"{self._where(name)}: {error}" if named else f"{where}{error}") from None

    def _of_folder(self, name: str, written: str) -> dict[str, str]:
        where, folder = f"{self._where(name)}: {shown(written)}", self._file.parent / written
        if written.startswith(("/", ".", "~")) or ".." in Path(written).parts:
            raise UsageError(f"{where}: name a folder below that of the study file, so that it travels with it")
        if not folder.is_dir():
            raise UsageError(f"{where}: no such folder; write one: parley prompts GAME --write {folder}")
        try:
            files = {path.stem: path for path in sorted(folder.glob("*.txt")) if path.name != README}
            return {n: read_regular(path, _MAX_BYTES).decode().replace("\r\n", "\n") for n, path in files.items()}
        except (OSError, ValueError) as error:
            raise UsageError(f"{where}: cannot be read: {error}") from None

    def _changes(self, name: str, change: PromptChange) -> dict[str, str]:
        prompts, where = self._game.prompts, self._where(name)
        if change.start is None or change.start not in prompts:
            raise UsageError(
                f"{where}.from: {change.start!r}: unknown prompt of the game; {choose(change.start, prompts)}"
            )
        texts = {template: text_of(found) for template, found in prompts.variants[change.start].items()}
        if not texts:
            raise UsageError(f"{where}: the game {self._game.name} makes its prompts by itself and has no templates")
        changed: dict[str, set[str]] = defaultdict(set)
        if change.replace:  # in one pass, the longest first: what was put in is not searched again
            words = re.compile("|".join(re.escape(old) for old in sorted(change.replace, key=len, reverse=True)))
            for template, text in texts.items():
                for match in words.finditer(text):
                    changed[f"replace.{match[0]}"].add(template)
                texts[template] = words.sub(lambda match: change.replace[match[0]], text)
        for old in change.replace:
            if f"replace.{old}" not in changed:
                raise UsageError(f"{where}.replace: {shown(old)}: occurs in no template of {change.start}; correct it")
        by_key: dict[str, list[str]] = defaultdict(list)
        for template in texts:
            part = prompts.part(template)
            roles = [role for role in self._game.roles if template.startswith(f"{role}_")]
            for key in {part, *(f"{role}_{part}" for role in roles), template} if part else ():
                by_key[key].append(template)
        for key, line in change.append.items():
            if key not in by_key:
                raise UsageError(f"{where}.append.{key}: no part of this prompt; {choose(key, by_key)}")
            for template in by_key[key]:
                texts[template] = appended(texts[template], line)
            changed[f"append.{key}"].update(by_key[key])
        self._changed[name] = changed
        return texts


def write_templates(game: type[Game], prompt: str, folder: Path) -> list[Path]:
    """Write the templates of a prompt of the game, and README.txt that names their places; return the paths.

    Raises UsageError for an unknown prompt, a game without templates, and a folder that has files.
    """
    prompts = game.prompts
    if prompt not in prompts:
        raise UsageError(f"--prompt {prompt!r}: unknown prompt; {choose(prompt, prompts)}")
    if not prompts.variants[prompt]:
        raise UsageError(f"{game.name}: it makes its prompts by itself, and has no templates to write")
    texts = {f"{name}.txt": text_of(template) for name, template in prompts.variants[prompt].items()}
    places = [
        f"{name}: {' '.join(f'{{{place}}}' for place in prompts.places(name)) or '(none)'}"
        for name in prompts.variants[prompt]
    ]
    texts[README] = _README.format(prompt=prompt, game=game.name, places="\n".join(places))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UsageError(f"{folder}: has files, and nothing is overwritten; name a new folder")
        for name, text in texts.items():
            (folder / name).write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{error.filename or folder}: cannot be written: {error.strerror}") from None
    return [folder / name for name in texts]


_README = """Templates of the prompt {prompt} of the game {game}, to begin from. Change them, and name the folder in a study:

prompts:
  mine: FOLDER          # relative to the study file
grids:
  - {{prompt: mine, ...}}

A file is a template: ROLE_PHASE_PART.txt, or a piece of others. What stands in braces is a place, which is filled in
when an agent is asked; each may be left out, but for {{reply}}. Other words in braces are refused. Nothing is
evaluated. You may delete templates that your study does not send: a missing one that it sends is named.

The places of each template:

{places}
"""
