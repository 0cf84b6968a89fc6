"""The hub's data sets: pinned, and from the cache if they are there; there is no network here."""

from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub.errors import LocalEntryNotFoundError

from parley.games.problems import data_sets

REVISION = "0123456789abcdef0123456789abcdef01234567"
PATTERNS = ["main/test-*.parquet"]


def test_only_the_files_of_the_split_are_fetched_at_the_revision_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, calls = tmp_path / "main" / "test-00000-of-00001.parquet", list[dict[str, Any]]()

    def download(repo: str, **options: Any) -> str:
        calls.append({"repo": repo, **options})
        if options["local_files_only"] and not file.exists():
            raise LocalEntryNotFoundError("not cached")
        file.parent.mkdir(exist_ok=True)
        file.touch()
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    for _ in range(2):  # what is cached needs no network
        data_sets.download.cache_clear()
        assert data_sets.download("openai/gsm8k", REVISION, tuple(PATTERNS)) == tmp_path
    asked = {"repo": "openai/gsm8k", "repo_type": "dataset", "revision": REVISION, "allow_patterns": PATTERNS}
    assert calls == [{**asked, "local_files_only": local} for local in (True, False, True)]
