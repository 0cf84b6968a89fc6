"""The hub's data sets: pinned, from the cache if they are there, and one line where they cannot be had.

The hub's client is replaced: there is no network here. What it brings is made by the tests, in the hub's layout.
"""

from pathlib import Path
from typing import Any

import huggingface_hub
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from huggingface_hub.errors import LocalEntryNotFoundError

from parley.games.problems import data_sets

REVISION = "0123456789abcdef0123456789abcdef01234567"
PATTERNS = ["main/test-*.parquet"]


class FakeHub:
    """Stands for `snapshot_download`: a folder that is cached, or comes from the network, or neither."""

    def __init__(self, folder: Path, cached: bool = False, online: bool = True) -> None:
        self.folder, self.cached, self.online = folder, cached, online
        self.calls: list[dict[str, Any]] = []

    def __call__(self, repo: str, **options: Any) -> str:
        self.calls.append({"repo": repo, **options})
        if options["local_files_only"]:
            if not self.cached:
                raise LocalEntryNotFoundError("not cached")
        elif not self.online:
            raise ConnectionError("no route\nto host")
        else:
            (self.folder / "main").mkdir(exist_ok=True)
            rows = [{"question": "How many?", "answer": "#### 2"}]
            pq.write_table(pa.Table.from_pylist(rows), self.folder / "main" / "test-00000-of-00001.parquet")
        return str(self.folder)


def use(monkeypatch: pytest.MonkeyPatch, fake: FakeHub) -> FakeHub:
    data_sets.download.cache_clear()
    monkeypatch.setattr(huggingface_hub, "snapshot_download", fake)
    return fake


def test_only_the_files_of_the_split_are_fetched_at_the_revision_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = use(monkeypatch, FakeHub(tmp_path))
    assert data_sets.download("openai/gsm8k", REVISION, tuple(PATTERNS)) == tmp_path
    asked = {"repo": "openai/gsm8k", "repo_type": "dataset", "revision": REVISION, "allow_patterns": PATTERNS}
    assert fake.calls[-1] == {**asked, "local_files_only": False}
    fake = use(monkeypatch, FakeHub(tmp_path, cached=True, online=False))  # what is cached needs no network
    assert data_sets.download("openai/gsm8k", REVISION, tuple(PATTERNS)) == tmp_path
    assert [call["local_files_only"] for call in fake.calls] == [True]
