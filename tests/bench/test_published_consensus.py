"""The page of the consensus paper's counts: made from the counts, each of which adds up."""

import shutil
from pathlib import Path

import pandas as pd
import pytest

from benchmarks import published_consensus
from support import REPOSITORY


@pytest.mark.promise("The page of the consensus paper's counts is made from them.")
def test_the_page_is_that_of_the_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = REPOSITORY / published_consensus.PAGE
    counts = pd.read_csv(page.with_suffix("") / "counts.csv")
    assert (counts[published_consensus.KINDS].sum(axis=1) == counts["games"]).all()
    shutil.copytree(page.with_suffix(""), tmp_path / "docs" / page.stem)
    shutil.copy(page, tmp_path / "docs")
    monkeypatch.chdir(tmp_path)
    published_consensus.main()
    assert Path(published_consensus.PAGE).read_text() == page.read_text()
