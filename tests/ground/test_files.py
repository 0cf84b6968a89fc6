import os
from pathlib import Path

import pytest

from parley.errors import RecordError
from parley.files import write_atomically


def test_a_file_and_its_folders_appear_with_their_content(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "x.bin"
    write_atomically(path, lambda file: file.write(b"new"))
    assert path.read_bytes() == b"new"
    assert os.listdir(path.parent) == ["x.bin"]


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(b"a longer old content")
    write_atomically(path, lambda file: file.write(b"new"))
    assert path.read_bytes() == b"new"


def test_a_reader_sees_the_old_file_while_the_new_one_is_written(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(b"old")
    seen = []
    write_atomically(path, lambda file: (file.write(b"new"), file.flush(), seen.append(path.read_bytes())))
    assert seen == [b"old"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_a_failed_write_leaves_the_old_file_and_no_temporary_one(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(b"old")

    def fail(file: object) -> None:
        raise error

    with pytest.raises(error):
        write_atomically(path, fail)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["x.bin"]


def test_a_full_disk_is_one_line_that_names_the_file(tmp_path: Path) -> None:
    def full(file: object) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "x.bin"
    with pytest.raises(RecordError) as caught:
        write_atomically(path, full)
    assert str(caught.value) == f"{path}: cannot be written: No space left on device; free space and run again"
    assert os.listdir(tmp_path) == []


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(RecordError, match="cannot be written"):
        write_atomically(tmp_path / "file" / "x.bin", lambda file: file.write(b""))
