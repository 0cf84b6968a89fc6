"""Runs the benchmarks and writes their table into benchmarks/README.md.

python -m benchmarks.run [scripted] [scale] [client] [prefix] [coverage]
"""

import platform
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks import client, coverage, prefix, scale, scripted
from benchmarks.measure import Row
from parley.engine import hardware

README = Path(__file__).parent / "README.md"
SETS = {"scripted": scripted.rows, "scale": scale.rows, "client": client.rows, "prefix": prefix.rows}


def main() -> None:
    chosen = sys.argv[1:] or list(SETS)
    known = (*SETS, "coverage")
    if unknown := set(chosen) - set(known):
        sys.exit(f"unknown benchmark {sorted(unknown)[0]!r}; choose from: {', '.join(known)}")
    for name in chosen:
        if name == "coverage":
            rewrite(name, "\n".join(coverage.table()), coverage.PAGE)
        else:
            rewrite(name, "\n".join(table(SETS[name]())))


def rewrite(name: str, section: str, page: Path = README) -> None:
    """Put a table between its marks in a page."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(begin)
    page.write_text(f"{before}{begin}\n\n{section}\n\n{end}{rest.partition(end)[2]}", encoding="utf-8")


def table(rows: Iterator[Row]) -> Iterator[str]:
    """Yield a Markdown table, and print each row as it is measured."""
    yield f"{hardware.cpu()}; {platform.system()}, Python {platform.python_version()}"
    yield from ("", "| what | measured | aim |", "|---|---|---|")
    for row in rows:
        line = f"| {row.what} | {row.measured} | {row.aim} |"
        print(line, flush=True)
        yield line


if __name__ == "__main__":
    main()
