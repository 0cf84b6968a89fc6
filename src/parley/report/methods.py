"""The methods of a study as text for a paper, and BibTeX of what was used."""

import inspect
import re
from collections import Counter
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import pandas as pd

from parley import __version__
from parley.analysis.clustered import CLUSTERED
from parley.analysis.made_by import MadeBy
from parley.analysis.questions import LINES
from parley.analysis.stats import CONFIDENCE
from parley.engine.models import ModelEntry
from parley.engine.sources import GgufSource, HubPlace, HubSource
from parley.policies import Sampling
from parley.report.overview import study_sentence
from parley.study import Study
from parley.text import counted, one_line

# By a value of a game's parameter: whose it is.
_PARTS = {"protocol": {"swarms": "swarms"}, "problems": {"gsm8k": "cobbe2021", "delidata": "karadzhov2023"}}
_joined = "; ".join


class Citations:
    """Cites the entries of `references.bib`, and remembers which."""

    def __init__(self) -> None:
        self.keys: dict[str, None] = {}

    def __call__(self, *keys: str) -> str:
        """Return `(Wilson, 1927; Holm, 1979)`."""
        self.keys.update(dict.fromkeys(keys))
        return f"({'; '.join(_named(references()[key]) for key in keys)})"

    @property
    def bibtex(self) -> str:
        """The entries that were cited, in that order."""
        return "\n\n".join(references()[key] for key in self.keys)


@cache
def references() -> Mapping[str, str]:
    """Return the entries of BibTeX by their keys."""
    text = files("parley.report").joinpath("templates", "references.bib").read_text(encoding="utf-8")
    entries = text.replace("VERSION", __version__).strip().split("\n\n")
    return {entry[entry.index("{") + 1 : entry.index(",")]: entry for entry in entries}


def _named(entry: str) -> str:
    [authors] = re.findall(r"author = \{(.+)\}", entry)
    names = [name.partition(",")[0].strip("{}") for name in authors.split(" and ")]
    authors_text = names[0] if len(names) == 1 else " and ".join(names) if len(names) == 2 else f"{names[0]} et al."
    year = re.search(r"year = \{(.+)\}", entry)
    return f"{authors_text}, {year[1]}" if year else authors_text


def methods(study: Study, made_by: MadeBy, tables: Mapping[str, pd.DataFrame], cite: Citations) -> list[str]:
    """Return the paragraphs: game, players, engines, statistics; `tables` are those of the study by name."""
    asked = bool(study.models) and any(condition.models for condition in study.conditions)
    paragraphs = [study.unfinished.sentence] if study.unfinished else []
    paragraphs += [_game(study, int(tables["conditions"]["simulations"].sum()), cite), _players(study)]
    if asked:
        paragraphs += [_sampling(study, tables["conditions"])]
    paragraphs += [_engines(made_by, cite), _protocols(tables["regret"]), _statistics(study, tables, cite)]
    return [one_line(text) for text in paragraphs if text]


def _protocols(table: pd.DataFrame) -> str:
    """Return in a sentence against what games were held; "" where none was."""
    if table.empty:
        return ""
    names = ", ".join(sorted(map(str, table["protocol"].unique())))
    return (
        f"{counted(len(table), 'game')} were held against the best known protocol in the same seats, with the same "
        f"initial values, network, deadline and adversaries ({names}); differences are paired by game."
    )


def _game(study: Study, simulations: int, cite: Citations) -> str:
    game, parameters = study.game, study.conditions[0].parameters
    own = inspect.getdoc(game) or ""
    about = one_line(own.split("\n\n")[0]).rstrip(".")
    about = re.sub(r" \(section [^)]*\)", "", about)
    papers = [game.paper.key] if game.paper else []
    for axis, known in _PARTS.items():
        values = [getattr(condition.parameters, axis, "") for condition in study.conditions]
        used = {str(getattr(value, "kind", value)) for value in values}
        papers += [key for name, key in known.items() if name in used]
    varied = set(study.axes)
    changed = [
        f"{name} {_text(value)}"
        for name, value in parameters.model_dump(mode="json", exclude_defaults=True).items()
        if name not in varied and not isinstance(getattr(parameters, name), Sampling)
    ]
    repeats = len(study.conditions) // len(study.first_repeat.conditions)
    again = (
        f" Each was played {repeats} times with other sampling seeds, to measure the noise; the first is reported."
        if repeats > 1
        else ""
    )
    if parents := {parent.digest for c in study.conditions if c.fork for parent in c.fork.parents.values()}:
        again += (
            f" Each is a fork of one of {counted(len(parents), 'recorded game')}: up to a point (`at`) replies are "
            "those recorded, there it was changed (`change`), and what follows was played anew. Effects of changes "
            "are means over recorded games, with all repeats averaged within them; p is by flipping the signs of "
            "games, with Holm's correction over points and changes."
        )
    seeds = Counter(len(condition.seeds) for condition in study.first_repeat.conditions)
    each = ", ".join(f"{count} in {counted(number, 'condition')}" for count, number in seeds.items())
    return (
        f"We played the game {game.name.replace('_', ' ')} (protocol version {game.protocol_version})"
        f"{f' {cite(*papers)}' if papers else ''} with Parley {__version__} {cite('parley')}"
        f"{f': {about}' if about else ''}. {study_sentence(study, simulations)} "
        f"{f'Parameters that differ from the defaults: {_joined(changed)}. ' if changed else ''}"
        f"Simulations per condition: {next(iter(seeds)) if len(seeds) == 1 else each}. A seed fixes what is dealt, "
        f"so conditions are paired by seed; all other random numbers follow from the simulation's identity.{again}"
    )


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{key} {_text(item)}" for key, item in value.items())
    return str(value).lower() if isinstance(value, bool | None) else str(value)


def _players(study: Study) -> str:
    conditions = study.first_repeat.conditions
    labels = dict.fromkeys(f"{g.role} agents: {g.player.label}" for c in conditions for g in c.groups)
    used = sorted({name for condition in conditions for name in condition.models})
    models = [f"{name} is {_model(study.models[name])}" for name in used]
    scripted = "" if used else " All agents were scripted; no language model was asked."
    return f"Played by: {'; '.join(list(labels))}.{''.join(f' The model {text}.' for text in models)}{scripted}"


def _model(entry: ModelEntry) -> str:
    identity = entry.identity()
    source = entry.source
    places = source.places if isinstance(source, GgufSource) else ()
    hub = next((place for place in places if isinstance(place, HubPlace)), None)
    if isinstance(source, HubSource):
        what = f"{source.repo} at revision {source.revision}"
    elif hub is not None:
        what = f"{hub.file} of {hub.repo} at revision {hub.revision}, SHA-256 {identity['source']['sha256']}"
    else:
        what = ", ".join(f"{key} {value}" for key, value in identity["source"].items())
        what = what.replace("sha256", "the GGUF file with SHA-256").replace("served", "the service's model")
    if entry.is_service:
        return what
    rounded = f", weights rounded to {entry.quantization}" if entry.quantization else ""
    alone = ", with batch-invariant inference asked for" if entry.deterministic else ""
    return f"{what} ({entry.dtype}{rounded}, context {entry.max_model_len} tokens{alone})"


def _sampling(study: Study, conditions: pd.DataFrame) -> str:
    parameters = study.conditions[0].parameters
    played = {phase: sampling for condition in study.conditions for phase, sampling in condition.samplings.items()}
    settings = [
        f"{phase}: temperature {sampling.temperature:g}, at most {sampling.max_tokens} tokens"
        for phase, sampling in played.items()
        if phase not in study.axes
    ]
    calls = float((conditions["mean_calls"] * conditions["simulations"]).sum())
    failed = int(conditions["failed_replies"].sum())
    share = f" ({failed / calls:.1%})" if calls else ""
    times = counted(parameters.retries, "time")
    again = f"; one that could not be used was asked for again, at most {times}" if parameters.retries else ""
    return (
        f"Sampling: {'; '.join(settings)}. Each request had a seed of its own. Replies were asked for in the format "
        f"{parameters.reply_format}{again}. Of {calls:,.0f} replies {failed:,}{share} could not be used."
    )


def _engines(made_by: MadeBy, cite: Citations) -> str:
    engines: dict[str, None] = {}
    snakemake: dict[str, None] = {}
    vllm = False
    for made, _ in made_by.provenances:
        if version := made.get("packages", {}).get("snakemake"):
            snakemake[version] = None
        for name, engine in made.get("engines", {}).items():
            versions = ", ".join(f"{package} {version}" for package, version in engine.get("versions", {}).items())
            kind = engine.get("engine", "an unknown engine")
            vllm = vllm or "vllm" in kind
            engines[f"{name} by {versions or kind} on {engine.get('device', 'an unknown device')}"] = None
    served = f"Models were served by vLLM {cite('kwon2023')}: {'; '.join(list(engines))}. " if vllm else ""
    if engines and not vllm:
        served = f"Models were served: {'; '.join(list(engines))}. "
    run = f"Runs were planned by Snakemake {' and '.join(snakemake)} {cite('molder2021')}." if snakemake else ""
    return f"{served}{run}"


def _statistics(study: Study, tables: Mapping[str, pd.DataFrame], cite: Citations) -> str:
    tests = {*tables["contrasts"]["test"], *tables["questions"]["test"]}
    sentences = [
        f"The unit of analysis is the simulation. Intervals are at {CONFIDENCE:.0%}: those of rates and of means of "
        f"shares are Wilson's {cite('wilson1927')}, those of other means Student's t."
    ]
    if "McNemar" in tests:
        sentences.append(
            f"Rates of two conditions were compared in pairs by seed, by McNemar's test {cite('mcnemar1947')}, their "
            f"differences have Tango's score interval {cite('tango1998')}."
        )
    if "chi-squared" in tests:
        sentences.append(
            f"Without common seeds the chi-squared test {cite('campbell2007')} and the score interval of Miettinen "
            f"and Nurminen {cite('miettinen1985')} were used."
        )
    if tests & {"t", "t by seed"}:
        sentences.append("Means were compared by the paired t test.")
    if LINES in tests:
        sentences.append("Trends were tested by the slopes of each seed's least-squares line (t).")
    if study.questions:
        registered = Counter(zip(tables["questions"]["registered"], tables["questions"]["confirmatory"], strict=True))
        kinds = [f"{count} {'confirmatory, ' * sure}{text}" for (text, sure), count in registered.items()]
        sentences.append(
            f"The study asks {counted(len(study.questions), 'question')} by "
            f"{counted(len(tables['questions']), 'comparison')} ({'; '.join(kinds)}); their p values were corrected "
            f"by Holm's method {cite('holm1979')}. That a difference is smaller than what matters was decided by two "
            f"one-sided tests {cite('schuirmann1987')}, of rates and shares by bounded limits {cite('gaffke2005')}. "
            "All other comparisons are exploratory."
        )
    if len(tables["contrasts"]):
        sentences.append(
            "Exploratory p values were corrected within families "
            f"{cite('holm1979')} and for the false discovery rate over all {cite('benjamini1995')}."
        )
    if len(tables["endings"]):
        sentences.append(
            f"Times to stop: medians by Kaplan and Meier {cite('kaplan1958')}, cumulative incidences by Aalen and "
            f"Johansen {cite('aalen1978')}, log-rank tests {cite('mantel1966')}."
        )
    if CLUSTERED in {*tests, *tables["margins"]["test"]}:
        sentences.append(
            f"Rates over several axes were compared by McNemar's test for clustered pairs {cite('durkalski2003')}."
        )
    if len(tables["effects"]):
        sentences.append(
            f"Effects of axes are of one binomial model with correlation within seeds (GEE) {cite('liang1986')}."
        )
    if len(tables["quality"]):
        sentences.append(f"Slopes of agreed on initial values have HC3 standard errors {cite('mackinnon1985')}.")
    return " ".join(sentences)
