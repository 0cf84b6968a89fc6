"""README.md of an exported folder: what the data are, for people, under the header of a data card, for data hubs."""

import re
from collections.abc import Mapping
from typing import Any

import yaml

from parley import __version__, paths
from parley.export.about import About
from parley.play.record_store import UsableRecords
from parley.text import counted

_SPDX = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]*")


def data_card(records: UsableRecords, known: About, tables: Mapping[str, str]) -> str:
    """Return the text of README.md; `tables` are those with rows, and what one row is."""
    name, game = records.study.name, records.study.game.name
    results = paths.RESULTS / name
    files = {table: f"{results}/tables/{table}.parquet" for table in tables}
    files["replies"] = f"{results}/simulations/**/*.parquet"
    header = {
        "pretty_name": known.title,
        **_license(known.license),
        "tags": ["LLM agents", "multi-agent systems", "parley", re.split("[:.]", game)[0].replace("_", " ")],
        "configs": [{"config_name": table, "data_files": pattern} for table, pattern in files.items()],
    }
    versions = ", ".join(f"{software} {version}" for software, version in known.software.items() if version)
    elsewhere = "; ".join(f"{each['source']} (license: {each['license']})" for each in known.sources)
    models = [
        f"- {model}{f' (license: {terms})' * bool(terms)}{f': {note}' * bool(note)}"
        for model, (terms, note) in known.models.items()
    ]
    lines = [
        f"# {known.title}",
        known.description,
        "\n".join(
            [
                *([f"- Author: {known.author}"] if known.author else []),
                f"- License: {known.license}",
                f"- Played: {known.started:%Y-%m-%d} to {known.ended:%Y-%m-%d}",
                f"- Versions: {versions}",
                f"- Players: {', '.join(known.players)}",
                *([f"- Paper of the game: {known.paper.title}, {known.paper.url}"] if known.paper else []),
                *models,
            ]
        ),
        _FILES.format(name=name, results=results, own=_own_files(records)),
        "\n".join(f"- `{table}`: one row per {row}" for table, row in tables.items()),
        _USE.format(name=name, results=results, version=__version__),
        "## How the data were made",
        f"Imported, not played by Parley: {elsewhere}. Outcomes were computed again from the replies."
        * bool(elsewhere)
        or "Parley sent each agent the messages of a prompt template, recorded every reply, and computed outcomes by "
        "the rules of the game.",
        _MADE,
        *([f"The tables leave out {counted(known.left_out, 'damaged record')}."] if known.left_out else []),
        _LIMITS.format(unknown=", as far as Parley knows" if elsewhere else ""),
    ]
    front = yaml.safe_dump(header, sort_keys=False, allow_unicode=True, width=120)
    return f"---\n{front}---\n\n" + "\n\n".join(lines) + "\n"


def _license(text: str) -> dict[str, Any]:
    """Return a license as data cards have it."""
    if _SPDX.fullmatch(text):
        return {"license": text.lower()}
    link = {"license_link": text} if text.startswith(("https://", "http://")) else {}
    return {"license": "other", "license_name": "see-the-readme", **link}


def _own_files(records: UsableRecords) -> str:
    frozen = paths.frozen(records.study.file)
    return f", `config/{frozen.name}` (its preregistration)" if frozen.exists() else ""


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
