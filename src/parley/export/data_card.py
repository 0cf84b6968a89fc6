"""README.md of an exported folder: what the data are, for people, under the header of a data card, for data hubs."""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import yaml

from parley import __version__, paths
from parley.analysis.registration import registered_lines
from parley.analysis.simulations import simulation_table
from parley.analysis.summarize import played_games
from parley.play.record_store import UsableRecords
from parley.text import counted, one_line

_SPDX = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]*")


NO_LICENSE = "No license was given for these results: ask their author before you pass them on."


def data_card(records: UsableRecords, license_note: str, author: str, tables: Mapping[str, str]) -> str:
    """Return the text of README.md; `tables` are those with rows, and what one row is.

    It names no user, host or path. `license_note` is an SPDX identifier, a URL, or words.
    """
    study, made = records.study, [summary.provenance for summary in records.summaries]
    title = one_line(study.title) or study.name
    sources = {(one["source"], one["license"]) for each in made if (one := each.get("imported")) is not None}
    origins = [f"{one_line(source)} (license: {one_line(terms)})" for source, terms in sorted(sources)]
    terms = one_line(license_note, 300) or one_line("; ".join(sorted({terms for _, terms in sources}))) or NO_LICENSE
    results, game = paths.RESULTS / study.name, re.split("[:.]", study.game.name)[0].replace("_", " ")
    frozen = paths.frozen(study.file)
    own = f", `config/{frozen.name}` (its preregistration)" if frozen.exists() else ""
    files = {table: f"{results}/tables/{table}.parquet" for table in tables}
    files["replies"] = f"{results}/simulations/**/*.parquet"
    header = {
        "pretty_name": title,
        **_license(terms),
        "tags": ["LLM agents", "multi-agent systems", "parley", game],
        "configs": [{"config_name": table, "data_files": pattern} for table, pattern in files.items()],
    }
    lines = [
        f"# {title}",
        f"{title.rstrip('.')}. {_description(records)}"
        + "".join(f" Imported, not played by Parley: {origin}." for origin in origins),
        "\n".join(f"- {fact}" for fact in _facts(records, terms, one_line(author, 200))),
        _FILES.format(name=study.name, results=results, own=own),
        "\n".join(f"- `{table}`: one row per {row}" for table, row in tables.items()),
        _USE.format(name=study.name, results=results, version=__version__),
        "## How the data were made",
        f"Imported, not played by Parley: {'; '.join(origins)}. Outcomes were computed again from the replies."
        if origins
        else "Parley sent each agent the messages of a prompt template, recorded every reply, and computed outcomes "
        "by the rules of the game.",
        _MADE,
        *([f"The tables leave out {counted(len(records.left_out), 'damaged record')}."] if records.left_out else []),
        _LIMITS.format(unknown=", as far as Parley knows" if origins else ""),
    ]
    front = yaml.safe_dump(header, sort_keys=False, allow_unicode=True, width=120)
    return f"---\n{front}---\n\n" + "\n\n".join(lines) + "\n"


def _description(records: UsableRecords) -> str:
    study, first = records.study, records.first_repeat
    asked = "; ".join(registered_lines(simulation_table(played_games(first)), first.study))
    return (
        f"{counted(len(records.simulations), 'simulation')} of groups of agents in "
        f"{counted(len({condition.name for condition in study.conditions}), 'condition')} (axes: "
        f"{', '.join(study.axes)}). Game: {study.game.name.replace('_', ' ')}."
        f"{f' What its questions are: {asked}.' if asked else ''}"
    )


def _facts(records: UsableRecords, terms: str, author: str) -> Iterator[str]:
    """Yield who made the results, when, with what and on which terms."""
    made, paper = [summary.provenance for summary in records.summaries], records.study.game.paper
    started = min(datetime.fromisoformat(each["started"]) for each in made)
    ended = max(datetime.fromisoformat(each["ended"]) for each in made)
    versions = ", ".join(f"{name} {version}" for name, version in _versions(made).items() if version)
    players = {str(group["player"]) for each in records.summaries for group in each.simulation["groups"]}
    if author:
        yield f"Author: {author}"
    yield f"License: {terms}"
    yield f"Played: {started:%Y-%m-%d} to {ended:%Y-%m-%d}"
    yield f"Versions: {versions}"
    yield f"Players: {', '.join(sorted(players))}"
    if paper:
        yield f"Paper of the game: {paper.title}, {paper.url}"
    for name, entry in {name: e for c in records.study.conditions for name, e in c.entries.items()}.items():
        license_text = f" (license: {one_line(entry.license)})" if entry.license else ""
        yield f"{name}{license_text}{f': {one_line(entry.note)}' if entry.note else ''}"


def _versions(made: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the versions of what played, by name; several are joined by ", "."""
    found: dict[str, set[str]] = {"parley": set(), "python": set()}
    for each in made:
        engines = [engine.get("versions", {}) for engine in each.get("engines", {}).values()]
        own = {"parley": each.get("parley", __version__), "python": each.get("python", "")}
        for versions in (own, each.get("packages", {}), *engines):
            for name, version in versions.items():
                found.setdefault(name, set()).add(str(version))
    return {name: ", ".join(sorted(versions - {""})) for name, versions in found.items()}


def _license(text: str) -> dict[str, Any]:
    """Return a license as data cards have it."""
    if _SPDX.fullmatch(text):
        return {"license": text.lower()}
    link = {"license_link": text} if text.startswith(("https://", "http://")) else {}
    return {"license": "other", "license_name": "see-the-readme", **link}


_FILES = """## Files

- `{results}/report/report.html`: the report; start here
- `{results}/tables/`: tables, each as Parquet and CSV; `columns.csv` says what each column means
- `{results}/simulations/`: a Parquet file for each game, with every message and reply
- `config/{name}.yaml`: the study{own}; beside it its prompts, code and models, where it has its own

Tables with rows:"""

_USE = """## Use it

```python
import pandas as pd

simulations = pd.read_parquet("{results}/tables/simulations.parquet")
```

With Parley {version}, in this folder (where the study has code of its own, both run it):

```bash
parley report {name}
find {results}/simulations -name 'seed=*.parquet' -exec parley replay {{}} +
```"""

_MADE = """Replies are read by fixed rules; one that cannot be read is a recorded failure, never a guess. No person
labeled anything. What is undefined or was not counted is missing, never zero. Replies stand in the records word for
word; texts in tables are cleaned and stand on one line."""

_LIMITS = """## Limits

- Results hold for these models, prompts, versions and sampling settings. Other wordings and reply formats change what
  models answer, and replies carry the biases of the models that wrote them.
- The unit of statistics is the simulation. Conditions share seeds, and replies of one game are not independent.
- Conditions are those that the author chose; they are no sample of models, groups or situations.
- Agents are programs: nothing here is evidence about people.
- The data show how adversarial agents can stop or mislead a group. That helps to defend such systems, and could help
  to attack them. They are not for training models to deceive.
- Nobody took part in the games{unknown}. Nothing says who ran them or on which machine. Replies were not screened: a
  model may repeat personal data of its training, and prompts hold what the author put into them."""
