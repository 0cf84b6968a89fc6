"""What is no regular file is refused in one line: it could be endless, or never answer."""

import ast
import os
import shlex
import socket
from pathlib import Path

import pytest
import yaml

import parley as parley_package
from parley.files import open_regular
from support.commands import Parley, bounded

pytestmark = pytest.mark.promise("A FIFO, device or socket in the place of a file is one line.")


def bind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as there:
        there.bind(str(path))


KINDS = {
    "a FIFO": os.mkfifo,
    "a folder": Path.mkdir,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a socket": bind,
}
STUDY = "game: consensus\ngrids: [{model: tiny, n: 3, prompt: may_exist}]\n"
# The command, and the name of the special file.
READERS = [
    ("expand special.yaml", "special.yaml"),
    ("expand study.yaml", "models.yaml"),
    ("replay special", "special"),
    ("expand gsm8k.yaml", "special.jsonl"),
    ("ledger verify special.jsonl", "special.jsonl"),
]


@pytest.mark.parametrize("kind", KINDS)
def test_a_special_file_is_refused_in_one_line(folder: Path, parley: Parley, kind: str) -> None:
    (folder / "study.yaml").write_text(STUDY)
    (folder / "models.yaml").unlink()
    grid = {"model": "solver", "n": 3, "prompt": "improve"}
    problems = {"problems": {"kind": "gsm8k", "path": "special.jsonl"}}
    study = {"game": "deliberation", "parameters": problems, "grids": [grid]}
    (folder / "gsm8k.yaml").write_text(yaml.safe_dump(study))
    for line, name in READERS:
        if kind == "a folder" and "gsm8k" in line:
            continue  # as they are published
        KINDS[kind](folder / name)
        with bounded():
            ran = parley(*shlex.split(line))
        (folder / name).rmdir() if kind == "a folder" else (folder / name).unlink()
        assert ran.status in (1, 2), line
        [said] = ran.err.splitlines()
        assert f"{name}: " in said, line
        assert any(part in said for part in ("no regular file", "no file or folder", "a folder")), said
        assert not ran.out


def test_a_link_is_refused_where_links_are(tmp_path: Path) -> None:
    (tmp_path / "there").touch()
    (tmp_path / "link").symlink_to("there")
    open_regular(tmp_path / "link").close()
    with pytest.raises(OSError, match="it is a link"):
        open_regular(tmp_path / "link", follow=False)


# Modules that open or remove by themselves, and what; all others do so through parley.files
BY_THEMSELVES = {
    **dict.fromkeys(("columns.py", "cli/studies.py", "study/frozen.py", "report/html.py"), "files of the package"),
    **dict.fromkeys(("engine/gguf_files.py", "engine/weights.py", "engine/server.py"), "prepared models"),
    **dict.fromkeys(("engine/hardware.py", "engine/kept.py"), "the system's files"),
    "engine/supervisor.py": "a folder made for it alone",
    **dict.fromkeys(("export/__init__.py", "export/folder.py"), "a folder that it makes"),
    "imports/import_games.py": "a study file just written",
    **dict.fromkeys(("play/stale_records.py", "workflow/run.py"), "folders of .pruned, and of marks"),
    "play/parquet.py": "bytes in memory",
    "files.py": "everything else",
}
OPENERS = {"open", "read_text", "read_bytes", "write_text", "write_bytes", "touch", "unlink", "rmdir", "rmtree"}
OPENERS |= {"copyfile", "read_parquet", "read_csv", "read_metadata", "read_schema", "ParquetFile"}
OPENED = {"file", "opened", "self._fd"}  # by parley.files


def _called(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return "open" if isinstance(function, ast.Name) and function.id == "open" else ""


def test_no_other_module_opens_files_by_itself() -> None:
    source, found = Path(parley_package.__file__).parent, set[str]()
    for path in source.rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(call, ast.Call) and _called(call.func) in OPENERS:
                given = ast.unparse(call.args[0]) if call.args else ""
                if given not in OPENED and not given.startswith("open_to_append("):
                    found.add(path.relative_to(source).as_posix())
    assert found == set(BY_THEMSELVES)
