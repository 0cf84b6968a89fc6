"""README.md of an exported folder: what the data are, for people, under the header of a data card, for data hubs."""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import yaml

from parley import __version__, paths
from parley.play.record_store import UsableRecords
from parley.text import counted, one_line

_SPDX = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]*")


NO_LICENSE = "No license was given for these results: ask their author before you pass them on."


def data_card(records: UsableRecords, license_note: str, tables: Mapping[str, str]) -> str:
    """Return the text of README.md; `tables` are those with rows, and what one row is.

    It names no user, host or path. `license_note` is an SPDX identifier, a URL, or words.
    """
    study, made = records.study, [summary.provenance for summary in records.summaries]
    title = one_line(study.title) or study.name
    sources = {(one["source"], one["license"]) for each in made if (one := each.get("imported")) is not None}
    origins = [f"{one_line(source)} (license: {one_line(terms)})" for source, terms in sorted(sources)]
    terms = one_line(license_note, 300) or one_line("; ".join(sorted({terms for _, terms in sources}))) or NO_LICENSE
    results, game = paths.RESULTS / study.name, re.split("[:.]", study.game.name)[0].replace("_", " ")
    files = {table: f"{results}/tables/{table}.parquet" for table in tables}
    files["replies"] = f"{results}/simulations/**/*.parquet"
    header = {
        "pretty_name": title,
        **_license(terms),
        "tags": ["LLM agents", "multi-agent systems", "parley", game],
        "configs": [{"config_name": table, "data_files": pattern} for table, pattern in files.items()],
    }
    front = yaml.safe_dump(header, sort_keys=False, allow_unicode=True, width=120)
    frozen = paths.frozen(study.file)
    text = _TEXT.format(
        title=title,
        facts="\n".join(f"- {fact}" for fact in _facts(records, terms, origins)),
        name=study.name,
        results=results,
        own=f", `config/{frozen.name}` (its preregistration)" if frozen.exists() else "",
        tables="\n".join(f"- `{table}`: one row per {row}" for table, row in tables.items()),
        version=__version__,
    )
    return f"---\n{front}---\n\n{text}"


def _license(text: str) -> dict[str, Any]:
    """Return a license as data cards have it."""
    if _SPDX.fullmatch(text):
        return {"license": text.lower()}
    link = {"license_link": text} if text.startswith(("https://", "http://")) else {}
    return {"license": "other", "license_name": "see-the-readme", **link}


def _facts(records: UsableRecords, terms: str, origins: list[str]) -> Iterator[str]:
    """Yield what the results are, when they were made, with what and on which terms."""
    study, made = records.study, [summary.provenance for summary in records.summaries]
    started = min(datetime.fromisoformat(each["started"]) for each in made)
    ended = max(datetime.fromisoformat(each["ended"]) for each in made)
    players = {str(group["player"]) for each in records.summaries for group in each.simulation["groups"]}
    yield f"Game: {study.game.name.replace('_', ' ')}" + (f" ({paper.url})" if (paper := study.game.paper) else "")
    conditions = counted(len({condition.name for condition in study.conditions}), "condition")
    yield f"{counted(len(records.simulations), 'simulation')} in {conditions} (axes: {', '.join(study.axes)})"
    if records.left_out:
        yield f"{counted(len(records.left_out), 'damaged record')}, which the tables leave out"
    yield f"License: {terms}"
    yield from (f"Imported, not played by Parley: {origin}" for origin in origins)
    yield f"Played: {started:%Y-%m-%d} to {ended:%Y-%m-%d}"
    yield f"Players: {', '.join(sorted(players))}"
    for name, entry in {name: e for c in study.conditions for name, e in c.entries.items()}.items():
        license_text = f" (license: {one_line(entry.license)})" if entry.license else ""
        yield f"{name}{license_text}{f': {one_line(entry.note)}' if entry.note else ''}"


_TEXT = """# {title}

{facts}

## Files

- `{results}/report/report.html`: the report; start here
- `{results}/tables/`: tables, each as Parquet and CSV
- `{results}/simulations/`: a Parquet file for each game, with every message and reply, word for word
- `config/{name}.yaml`: the study{own}; beside it its prompts, code and models, where it has its own

Tables with rows:

{tables}

## Use it

```python
import pandas as pd

simulations = pd.read_parquet("{results}/tables/simulations.parquet")
```

With Parley {version}, in this folder (where the study has code of its own, both run it):

```bash
parley report {name}
find {results}/simulations -name 'seed=*.parquet' -exec parley replay {{}} +
```

Parley's `docs/data.md` says how such data are made ("Prompts and replies"), and what they do not show ("Limits").
"""
