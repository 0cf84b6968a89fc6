"""What a study is and what made its results: as names and values, and as text for a paper."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from parley import __version__
from parley.analysis.made_by import MadeBy
from parley.analysis.questions import LINES, LOG_RANK
from parley.analysis.simulations import engine_label
from parley.engine.models import ModelEntry
from parley.engine.sources import GgufSource, HubPlace
from parley.play.degenerate import ASKED
from parley.play.record import provenance_warnings
from parley.policies import Sampling
from parley.statistics.differences import CLUSTERED
from parley.statistics.stats import CONFIDENCE
from parley.study import Study
from parley.study.condition import axes_text
from parley.study.frozen import frozen_lacks
from parley.study.prompt_sent import word_diff
from parley.text import counted, one_line

_joined = "; ".join
_MOST_LINES = 20  # of two prompts that differ


def methods(study: Study, made_by: MadeBy, tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Return the paragraphs: game, players, engines, statistics; `tables` are those of the study by name."""
    asked = any(condition.models for condition in study.conditions)
    paragraphs = [
        _game(study, tables["conditions"]),
        _players(study),
        _sampling(study, tables["conditions"], tables["simulations"]) if asked else "",
        *_prompts(study),
        _engines(made_by),
        _protocols(tables["regret"]),
        _statistics(study, tables),
    ]
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


def _game(study: Study, conditions: pd.DataFrame) -> str:
    game, parameters = study.game, study.conditions[0].parameters
    paper = f", after “{game.paper.title}”, {game.paper.url.removeprefix('https://')}" if game.paper else ""
    changed = [
        f"{name} {_json_text(value)}"
        for name, value in parameters.model_dump(mode="json", exclude_defaults=True).items()
        if name not in study.axes and not isinstance(getattr(parameters, name), Sampling)
    ]
    texts = [
        f"We played the game {game.name.replace('_', ' ')} (protocol version {game.protocol_version}{paper}) with "
        f"Parley {__version__}. {game.does}",
        _conditions(study, int(conditions["simulations"].sum())),
        f"Parameters that differ from the defaults: {_joined(changed)}." if changed else "",
        f"Seeds: {_seeds(study)}. A seed fixes what is dealt, so conditions are paired by seed; all other random "
        "numbers follow from the simulation's identity.",
    ]
    if study.repeats > 1:
        texts.append(f"Each was played {study.repeats} times with other sampling seeds; the first is reported.")
    if study.parents:
        texts.append(
            f"Each is a fork of one of {counted(len(study.parents), 'recorded game')}: up to a point (`at`) replies "
            "are those recorded, there it was changed (`change`), and what follows was played anew. Effects are means "
            "over recorded games, with all repeats averaged within them; p is by flipping the signs of games."
        )
    return " ".join(filter(None, texts))


def _conditions(study: Study, simulations: int) -> str:
    """Return how many games were played, what their conditions vary, and what all have in common."""
    conditions = study.shown.conditions
    values = {axis: list(dict.fromkeys(str(each.axes[axis]) for each in conditions)) for axis in study.axes}
    varying = "; ".join(f"{axis} {', '.join(found)}" for axis, found in values.items() if len(found) > 1)
    alike = axes_text({axis: found[0] for axis, found in values.items() if len(found) == 1})
    numbers = f"{counted(simulations, 'simulation')} in {counted(len(conditions), 'condition')}"
    parts = [f"{numbers}{varying and f': {varying}'}.", alike and f"In all: {alike}.", study.shortfall]
    return " ".join(filter(None, parts))


def _players(study: Study) -> str:
    conditions = study.shown.conditions
    labels = dict.fromkeys(f"{g.role} agents: {g.player.label}" for c in conditions for g in c.groups)
    used = models_used(study, {})
    models = [f"{name} is {text}" for name, text in used]
    scripted = "" if used else " All agents were scripted; no language model was asked."
    return f"Played by: {_joined(labels)}.{''.join(f' The model {text}.' for text in models)}{scripted}"


def _prompts(study: Study) -> Iterator[str]:
    """Yield of each two prompts that a question compares the words that differ."""
    for one, other in dict.fromkeys(pair for each in study.comparisons for pair in each.prompts):
        lines = [line.plain.strip() for line in word_diff(study, one, other)]
        shown = f"{_joined(lines[:_MOST_LINES])}{'; ...' * (len(lines) > _MOST_LINES)}"
        marks = "[-words of the first alone-], {+of the second alone+}"
        yield f"The prompts {one} and {other} differ in {marks}: {shown}."


def _sampling(study: Study, conditions: pd.DataFrame, simulations: pd.DataFrame) -> str:
    parameters = study.conditions[0].parameters
    played = {phase: sampling for condition in study.conditions for phase, sampling in condition.samplings.items()}
    settings = [
        f"{phase}: temperature {sampling.temperature:g}, at most {sampling.max_tokens} tokens"
        for phase, sampling in played.items()
        if phase not in study.axes
    ]
    calls = int(simulations[ASKED].sum()) if ASKED in simulations else 0
    failed = int(conditions["failed_replies"].sum())
    share = f" ({failed / calls:.1%})" if calls else ""
    times = counted(parameters.retries, "time")
    again = f"; one that could not be used was asked for again, at most {times}" if parameters.retries else ""
    return (
        f"Sampling: {_joined(settings)}. Each request had a seed of its own. Replies were asked for in the format "
        f"{parameters.reply_format}{again}. Of {calls:,} replies of models {failed:,}{share} could not be used."
    )


def _engines(made_by: MadeBy) -> str:
    made = [each for each, _ in made_by.provenances]
    snakemake = dict.fromkeys(version for each in made if (version := each.get("packages", {}).get("snakemake")))
    engines = dict.fromkeys(engine_label(each) for each in made if each.get("engines"))
    served = f"Models were answered by {_joined(engines)}. " if engines else ""
    run = f"Runs were planned by Snakemake {' and '.join(snakemake)}." if snakemake else ""
    return f"{served}{run}"


_PAIRED_T = "Means were compared by the paired t test."
_TESTED = {
    "McNemar": "Rates of two conditions were compared in pairs by seed, by McNemar's test, their differences have "
    "Tango's score interval.",
    "chi-squared": "Without common seeds the N - 1 chi-squared test and the score interval of Miettinen and Nurminen "
    "were used.",
    "t": _PAIRED_T,
    "t by seed": _PAIRED_T,
    LINES: "Trends were tested by the slopes of each seed's least-squares line (t).",
    LOG_RANK: "Times to an ending were compared by the log-rank test, paired by seed; games that end otherwise stay "
    "at risk up to the deadline, and their means count one round after it.",
    CLUSTERED: "Rates over several axes were compared by McNemar's test for clustered pairs.",
}


def _statistics(study: Study, tables: Mapping[str, pd.DataFrame]) -> str:
    questions, contrasts = tables["questions"], tables["contrasts"]
    tests = {*contrasts["test"], *questions["test"]}
    sentences = [
        f"The unit of analysis is the simulation. Intervals are at {CONFIDENCE:.0%}: those of rates and of means of "
        "shares are Wilson's, those of other means Student's t.",
        *dict.fromkeys(sentence for test, sentence in _TESTED.items() if test in tests),
    ]
    if study.content.questions:
        registered = Counter(zip(questions["registered"], questions["confirmatory"], strict=True))
        kinds = [f"{count} {'confirmatory, ' * sure}{text}" for (text, sure), count in registered.items()]
        if lacks := frozen_lacks(study.whole):
            kinds.append(f"the frozen page is {lacks}")
        sentences.append(
            f"The study asks {counted(len(study.content.questions), 'question')} by "
            f"{counted(len(questions), 'comparison')} ({_joined(kinds)}); their p values were corrected by Holm's "
            "method. That a difference is smaller than what matters was decided by two one-sided tests, of rates and "
            "shares by Gaffke's bounded limits. All other comparisons are exploratory."
        )
    if len(contrasts):
        sentences.append("Exploratory p values were corrected within families by Holm's method.")
    return " ".join(sentences)


# What made the results


def facts(study: Study) -> list[tuple[str, str]]:
    """Return what the study is, as names and values."""
    again = f"; each played {study.repeats} times: tables and figures show the first, the table `noise` compares them"
    return [
        ("Study", study.name),
        ("Study file", study.file.name),  # its folder is this machine's matter
        ("Game", f"{study.game.name}, protocol version {study.game.protocol_version}"),
        ("Seeds", _seeds(study) + (again if study.repeats > 1 else "")),
        ("Plan", study.plan),
    ]


def _seeds(study: Study) -> str:
    counts = Counter(_seeds_text(condition.seeds) for condition in study.shown.conditions)
    return "; ".join(f"{text} ({counted(number, 'condition')})" for text, number in counts.items())


def _seeds_text(seeds: Sequence[int]) -> str:
    if isinstance(seeds, range):
        return f"0 to {len(seeds) - 1}"
    shown = ", ".join(map(str, seeds[:20]))
    return shown if len(seeds) <= 20 else f"{shown}, ... ({len(seeds)} in all)"


def parameters(study: Study, by: Sequence[str]) -> list[tuple[str, str]]:
    """Return the game's parameters; one that is an axis says so instead of a value."""
    of_first = study.conditions[0].parameters
    values = {**of_first.model_dump(mode="json"), "reply_format": of_first.reply_format}  # identities leave out json
    return [(name, "an axis" if name in by else _json_text(value)) for name, value in values.items()]


def _json_text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_json_text(item)}" for key, item in value.items())
    return value if isinstance(value, str) else json.dumps(value)


def models_used(study: Study, more: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the entries of the models that the study uses, and `more` that is known of them."""
    used = sorted({name for condition in study.conditions for name in condition.models})
    return [(name, model_text(study.models[name]) + more.get(name, "")) for name in used]


def model_text(entry: ModelEntry) -> str:
    """Return what names a model to others: its source, revision and settings, but no path; where a GGUF file is."""
    identity = entry.identity()
    source = identity.pop("source")
    text = _json_text({**source, **{key: value for key, value in identity.items() if value != {}}})
    places = entry.source.places if isinstance(entry.source, GgufSource) else ()
    hubs = [f"{hub.file} of {hub.repo} at revision {hub.revision}" for hub in places if isinstance(hub, HubPlace)]
    return ", ".join([*hubs[:1], text])


def provenance(made_by: MadeBy) -> list[tuple[str, list[str]]]:
    """Return each kind of provenance with its values and the number of simulations behind each."""
    kinds: dict[str, Counter[str]] = defaultdict(Counter)
    for made, number in made_by.provenances:
        git = made.get("git") or {"commit": "unknown (not run from a repository)"}
        kinds["Parley"][str(made.get("parley", "unknown"))] += number
        kinds["Git commit"][
            f"{git.get('commit', 'unknown')}{' with uncommitted changes' * bool(git.get('dirty'))}"
        ] += number
        kinds["Python"][str(made.get("python", "unknown"))] += number
        kinds["Machine"][str(made.get("machine", "unknown"))] += number
        kinds["Engine"][engine_label(made)] += number
        kinds["Packages"][_json_text(made.get("packages", {}))] += number
    return [(kind, counted_values(counts)) for kind, counts in kinds.items()]


def counted_values(counts: Mapping[str, int]) -> list[str]:
    """Return each value with the number of simulations behind it."""
    return [f"{value} ({count} simulations)" for value, count in sorted(counts.items())]


def engine_warnings(made_by: MadeBy) -> list[str]:
    """Return each warning of the engines that answered, with the number of simulations behind it."""
    counts: Counter[str] = Counter()
    for made, number in made_by.provenances:
        counts.update(dict.fromkeys(provenance_warnings(made), number))
    return counted_values(counts)
