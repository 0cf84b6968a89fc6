"""What a folder holds, for who names a folder where a record was asked for."""

import os
from collections import Counter
from pathlib import Path

from parley import paths
from parley.errors import UsageError

_MOST_FILES = 200_000


def refuse_folder(path: Path) -> None:
    """Raise UsageError for a folder, which says what is in it and names a record of it."""
    if path.is_dir():
        raise UsageError(f"{path}: {_described(path)}")


def _described(folder: Path) -> str:
    records: Counter[str] = Counter()
    journals = seen = 0
    first: Path | None = None
    for place, folders, files in os.walk(folder):
        folders.sort()
        here = Path(place)
        for name in sorted(files):
            seen += 1
            if paths.is_record(here / name):
                records[paths.study_of(here / name)] += 1
                first = first or here / name
            journals += paths.is_journal(here / name)
        if seen > _MOST_FILES:
            break
    more = f" (of the first {seen:,} files)" if seen > _MOST_FILES else ""
    of = ", ".join(f"{_count(count, 'record')} of {study}" for study, count in records.most_common(5))
    of += f", ... ({len(records)} studies)" if len(records) > 5 else ""
    if first is None:
        return f"a folder with {_count(journals, 'journal')} and no record{more}; name a file, seed=N.parquet"
    return f"a folder with {of}; {_count(journals, 'journal')}{more}; name one record, such as {first}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' if number != 1 else ''}"
