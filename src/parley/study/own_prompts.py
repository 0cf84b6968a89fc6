"""The prompts that a study brings: a change of a shipped one, or templates of its own, all of them data.

They are checked when the study is loaded; nothing in them is ever evaluated.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import reduce
from pathlib import Path
from typing import Annotated

from pydantic import Field

from parley.errors import UsageError
from parley.files import read_regular, write_new
from parley.games.base import Game
from parley.games.prompts import OwnPrompt, appended, text_of
from parley.study.condition import Condition
from parley.text.yamlfile import ByForm, FileModel, check_known, shown

README = "README.txt"  # in a folder of templates, what tells people of them
_MAX_BYTES = 100_000
_Text = Annotated[str, Field(min_length=1, max_length=_MAX_BYTES)]


class PromptChange(FileModel):
    """A prompt of the game of which some words are changed."""

    start: str = Field(alias="from", description="The prompt of the game that is changed.")
    append: dict[str, _Text] = Field(
        default_factory=dict,
        description="A line for the end of templates, before what asks for a form of the reply: by `system` or `user` "
        "for all of them, by `ROLE_system` for those of a role, or by the name of one.",
    )
    replace: dict[_Text, str] = Field(
        default_factory=dict, description="Words, and what stands for them wherever they occur. Each has to occur."
    )


# A folder, or what to change.
PromptSource = Annotated[str | PromptChange, ByForm()]


class OwnPrompts:
    """The prompts of one study by name."""

    def __init__(self, file: Path, sources: Mapping[str, str | PromptChange], game: type[Game]) -> None:
        """Read and check the prompts; raises UsageError with the key, or the file and line, that is wrong."""
        self._file, self._game, self._sources = file, game, sources
        self.folders = [file.parent / source for source in sources.values() if isinstance(source, str)]
        self.by_name = {name: self._made(name, source) for name, source in sources.items()}

    def check(self, conditions: Iterable[Condition]) -> None:
        """Raise UsageError for a prompt that lacks a template that is sent in these conditions, or changes none."""
        sent: dict[str, set[str]] = defaultdict(set)  # the templates of each prompt
        for condition in conditions if self.by_name else ():
            for name, roles in condition.roles_by_prompt.items():
                sent[name] |= self._game.prompts.needed(condition.parameters, roles)
        for name, prompt in self.by_name.items():
            where, templates = self._where(name), sent[name]
            if missing := sorted(templates - prompt.templates.keys()):
                raise UsageError(f"{where}: lacks templates that are sent in this study; add {', '.join(missing)}")
            source = self._sources[name]
            if templates and not isinstance(source, str):
                shipped = self._game.prompts.variants[source.start]
                if all(text_of(prompt.templates[each]) == text_of(shipped[each]) for each in templates):
                    raise UsageError(f"{where}: changes nothing that is sent in this study; remove it")

    def _where(self, name: str) -> str:
        return f"{self._file}: prompts.{name}"

    def _made(self, name: str, source: str | PromptChange) -> OwnPrompt:
        if name in self._game.prompts:
            raise UsageError(f"{self._where(name)}: a prompt of the game has this name; choose another one")
        if isinstance(source, str):
            return self._game.prompts.own(
                name, self._of_folder(name, source), f"{self._file.parent / source}/", ".txt"
            )
        return self._game.prompts.own(name, self._changes(name, source), f"{self._where(name)}: ")

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
            said = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else error
            raise UsageError(f"{where}: cannot be read: {said}") from None

    def _changes(self, name: str, change: PromptChange) -> dict[str, str]:
        prompts, where = self._game.prompts, self._where(name)
        check_known(f"{where}.from", change.start, prompts, "prompt of the game")
        texts = {template: text_of(found) for template, found in prompts.variants[change.start].items()}
        for old in change.replace:
            if not any(old in text for text in texts.values()):
                raise UsageError(f"{where}.replace: {shown(old)}: occurs in no template; correct it")
        if change.replace:  # in one pass, the longest first: what was put in is not searched again
            words = re.compile("|".join(re.escape(old) for old in sorted(change.replace, key=len, reverse=True)))
            texts = {
                template: words.sub(lambda match: change.replace[match[0]], text) for template, text in texts.items()
            }
        by_key: dict[str, list[str]] = defaultdict(list)
        for template in texts:
            part = prompts.parts.get(template, template.rpartition("_")[2])
            roles = [role for role in self._game.roles if template.startswith(f"{role}_")]
            for key in {part, *(f"{role}_{part}" for role in roles), template} if part in ("system", "user") else ():
                by_key[key].append(template)
        for key, line in change.append.items():
            check_known(f"{where}.append", key, by_key, "part of this prompt")
            for template in by_key[key]:
                texts[template] = appended(texts[template], line)
        return texts


def write_templates(game: type[Game], prompt: str, folder: Path) -> list[Path]:
    """Write the templates of a prompt of the game, and README.txt that names their places; return the paths.

    Raises UsageError for an unknown prompt, a game without templates, and a file that exists.
    """
    prompts = game.prompts
    check_known("--prompt", prompt, [name for name in prompts if prompts.variants[name]], f"prompt of {game.name}")
    braces = {f"{{{printed}}}": f"{{{name}}}" for printed, name in prompts.plain.items()}
    texts = {}
    for name, template in prompts.variants[prompt].items():
        texts[f"{name}.txt"] = reduce(lambda text, place: text.replace(*place), braces.items(), text_of(template))
    places = {name: " ".join(f"{{{place}}}" for place in prompts.places(name)) for name in prompts.variants[prompt]}
    listed = "\n".join(f"{name}: {found or '(none)'}" for name, found in places.items())
    texts[README] = f"{_README}\nThe places of each template of {prompt}:\n\n{listed}"
    return write_new({folder / name: f"{text}\n" for name, text in texts.items()})


_README = """A file is a template: ROLE_PHASE_PART.txt, or a piece of others. Name this folder in a study:

prompts:
  mine: FOLDER          # relative to the study file

What stands in braces is a place, filled in when an agent is asked. You may leave places out, but for {reply}, and
delete templates that your study does not send. Other words in braces are refused. Nothing is evaluated.
"""
