"""The utterances of a ledger as a flat file, one a line: JSON lines or CSV."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from parley.analysis.columns import declared
from parley.analysis.tables import harmless
from parley.identity import canonical_json
from parley.ledger.show import blocks
from parley.text import valid_unicode

Format = Literal["jsonl", "csv"]
_CONTENT = "content."  # before the keys of what was said, which may be called like any column
_NAMES = [column.name for column in declared("utterances").columns]
_BEFORE, _AFTER = _NAMES[: _NAMES.index(f"{_CONTENT}<key>")], _NAMES[_NAMES.index(f"{_CONTENT}<key>") + 1 :]


def export(path: Path, form: Format) -> Iterator[str]:
    """Yield the lines of a flat file of a chain's utterances; raises RecordError for a line that is no block.

    In CSV each key of the content is a column, `content.<key>`; what is no text stands there as JSON, and what a
    spreadsheet could take for a formula has an apostrophe before it.
    """
    if form == "jsonl":
        for row in _rows(path):
            yield canonical_json(row) + "\n"
        return
    keys = list(dict.fromkeys(key for row in _rows(path) for key in row["content"]))
    yield _csv_line([*_BEFORE, *(_CONTENT + key for key in keys), *_AFTER])
    for row in _rows(path):
        content = [_cell(row["content"][key]) if key in row["content"] else "" for key in keys]
        yield _csv_line([*(row[name] for name in _BEFORE), *content, *(row[name] for name in _AFTER)])


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    for block, _ in blocks(path):
        keys = {signer.name: signer.key for signer in block.agents}
        for index, said in enumerate(block.utterances):
            yield {
                "block": block.height,
                "simulation": block.simulation,
                "session": block.session,
                "utterance": index,
                "round": said.round,
                "agent": said.agent,
                "content": said.content,
                "key": keys.get(said.agent, ""),
                "signature": said.signature,
            }


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else canonical_json(value)


def _csv_line(cells: list[Any]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow([harmless(valid_unicode(str(cell))) for cell in cells])
    return line.getvalue()
