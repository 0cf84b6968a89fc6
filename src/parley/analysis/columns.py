"""Every column of every table, declared once: the tables are written by it, and docs/data.md is generated from it.

What games have of their own they declare themselves (`parley.games.<game>.columns`), and so do records
(`parley.play.record`).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from parley.analysis.stats import CONFIDENCE
from parley.columns import Column, find
from parley.games.base import BYZANTINE, Game
from parley.games.registry import GAMES
from parley.play.degenerate import ASKED, DEGENERATE_CLASSES, MEANINGS
from parley.policies import FAILURE_CLASSES
from parley.study.condition import BYZANTINE_AXIS

_AXIS, _METRIC, _GAME_TURN = "<axis>", "<metric>", "<turn>"  # the place of columns that a study or a game has
_INTERVAL = f"{CONFIDENCE:.0%} interval"


@dataclass(frozen=True)
class Table:
    """A table, or something like it: what one row is, and its columns."""

    name: str
    row: str
    columns: tuple[Column, ...]


_AXES = Column(_AXIS, "", "value of each axis of the study, see [axes](#axes)")
AXES = (
    Column("model", "string", "what plays the honest agents: a model, a policy, or a population"),
    Column("n", "int64", "number of agents, Byzantine ones included", "agents"),
    Column("b", "int64", "number of Byzantine agents", "agents"),
    Column("prompt", "string", "name of the prompts"),
    Column(BYZANTINE_AXIS, "string", "what plays the Byzantine agents, in studies that vary it; `none` without any"),
    Column("<parameter>", "", "value of each parameter of the game that the study varies (`vary`)"),
)
_SIMULATIONS = Column("simulations", "int64", "number of simulations (n)")
_SEED = Column("seed", "int64", "seed of the simulation")
_ID = Column("id", "string", "the simulation: SHA-256 of all that can change it")
_SPEC = Column("spec", "string", "hash over what can change the condition's results and is no axis")
_FAILURES = {
    "invalid_json": "replies that are not of the shape that was asked for",
    "out_of_range": "replies of the right shape with a value outside its bounds",
    "length": "replies cut off at `max_tokens`, or never begun as the prompt filled the context",
    "refused": "replies refused by the engine or the model",
}
_REPLIES = (
    Column("failed_replies", "int64", "replies that could not be used", "replies"),
    *(Column(name, "int64", _FAILURES[name], "replies") for name in FAILURE_CLASSES),
)
_DEGENERATE = (
    Column(ASKED, "int64", "replies of models; this and the next only where models are asked", "replies"),
    Column("degenerate", "int64", "those that say nothing, by the classes that follow", "replies"),
    *(Column(f"degenerate_{name}", "int64", MEANINGS[name], "replies") for name in DEGENERATE_CLASSES),
)
_DEGENERATE_RATE = Column("degenerate_rate", "double", "`degenerate` / `model_replies`")


def _limits(of: str) -> tuple[Column, ...]:
    return (
        Column("low", "double", f"lower limit of the {_INTERVAL} of {of}"),
        Column("high", "double", f"upper limit of the {_INTERVAL} of {of}"),
    )


def _means(*columns: Column, counts: tuple[Column, ...] = (_SIMULATIONS,)) -> tuple[Column, ...]:
    return (
        _AXES,
        *columns,
        *counts,
        Column("mean", "double", "mean over these simulations, in [0, 1]"),
        *_limits("the mean (Wilson)"),
    )


def _median_of(end: str, which: str) -> tuple[Column, ...]:
    return (
        Column(f"median_{end}", "double", f"median rounds of the {which}, as in `conditions`", "rounds"),
        Column(f"median_{end}_low", "double", f"lower limit of its {_INTERVAL}; missing if open", "rounds"),
        Column(f"median_{end}_high", "double", f"upper limit of its {_INTERVAL}; missing if open", "rounds"),
    )


TABLES = (
    Table(
        "simulations",
        "simulation",
        (
            _AXES,
            Column(
                "threat_model", "string", "whether the paper allows the adversaries: `none`, `paper`, `beyond: ...`"
            ),
            _SEED,
            Column("outcome", "string", "how it ended, in the game's own classes"),
            Column("detail", "string", "the kind of this outcome, where it has kinds"),
            Column("diagnosis", "string", "what stood against agreement, where there was none"),
            Column("rounds", "int64", "rounds that were played", "rounds"),
            Column("finished_early", "bool", "whether it ended before its deadline"),
            Column(_METRIC, "", "metrics of the game, see below"),
            Column("calls", "int64", "replies asked for, retries included", "replies"),
            *_REPLIES,
            Column("prompt_tokens", "int64", "tokens of all questions", "tokens"),
            Column("completion_tokens", "int64", "tokens of all replies", "tokens"),
            Column("cached_tokens", "int64", "those of the questions that the engine had computed before", "tokens"),
            Column("request_seconds", "double", "times of all replies, added up", "s"),
            *_DEGENERATE,
            Column("seconds", "double", "wall time", "s"),
            Column("seconds_<phase>", "double", "time of a phase: its slowest agent, added up over rounds", "s"),
            Column("engine", "string", "what answered: package, version, device, hash of arguments and weights"),
            _SPEC,
            _ID,
            Column("digest", "string", "content digest: SHA-256 of what was asked, said and decided"),
        ),
    ),
    Table(
        "conditions",
        "condition",
        (
            _AXES,
            Column("threat_model", "string", "as in `simulations`"),
            _SIMULATIONS,
            Column(
                "<outcome>_count", "int64", "simulations with this outcome; missing if the condition cannot have it"
            ),
            Column("<outcome>_rate", "double", "their share"),
            Column("<outcome>_low", "double", f"lower limit of its {_INTERVAL} (Wilson)"),
            Column("<outcome>_high", "double", f"upper limit of its {_INTERVAL} (Wilson)"),
            Column("median_rounds", "double", "Kaplan-Meier median of the rounds until a game ended early", "rounds"),
            Column("median_rounds_low", "double", f"lower limit of its {_INTERVAL}; missing if open", "rounds"),
            Column("median_rounds_high", "double", f"upper limit of its {_INTERVAL}; missing if open", "rounds"),
            Column("mean_calls", "double", "mean of `calls`", "replies"),
            Column("mean_prompt_tokens", "double", "mean of `prompt_tokens`", "tokens"),
            Column("mean_completion_tokens", "double", "mean of `completion_tokens`", "tokens"),
            *_REPLIES,
            Column("failed_reply_rate", "double", "`failed_replies` as a share of all calls"),
            *_DEGENERATE,
            _DEGENERATE_RATE,
            Column("engines", "int64", "how many engines answered; more than one is a warning"),
            Column("left_out", "int64", "simulations whose records are damaged and left out"),
        ),
    ),
    Table(
        "outcomes",
        "condition and outcome",
        (
            Column("condition", "string", "the axes with their values, as text"),
            _AXES,
            Column("outcome", "string", "name of the outcome; only those that the condition can have"),
            _SIMULATIONS,
            Column("count", "int64", "simulations with this outcome"),
            Column("rate", "double", "their share"),
            *_limits("the rate (Wilson)"),
            Column("anytime_low", "double", "lower limit that holds for any rule of stopping (beta-binomial mixture)"),
            Column("anytime_high", "double", "upper limit of the same"),
            *_DEGENERATE,
            _DEGENERATE_RATE,
        ),
    ),
    Table(
        "turns",
        "agent and round, in the order of the records",
        (
            _AXES,
            _SEED,
            _ID,
            Column("round", "int64", "number of the round, from 1 (deliberation: from 0)"),
            Column("agent", "string", "name of the agent"),
            Column("role", "string", f"its role: `honest` or `{BYZANTINE}`"),
            Column("is_byzantine", "bool", "whether its role is Byzantine"),
            Column("player", "string", "what plays it: a model or a policy"),
            Column("silent", "bool", "whether it proposed, did or answered nothing: no usable reply, or it abstained"),
            Column("message", "string", "stag hunt: its word; deliberation: its argument. Cleaned, on one line"),
            Column(
                _GAME_TURN, "", "what the game adds; all studies have all of them, empty where it is another game's"
            ),
        ),
    ),
    Table(
        "rounds",
        "condition, measure and round",
        _means(
            Column("measure", "string", "name of the game's measure"),
            Column("round", "int64", "number of the round (deliberation: turn)"),
            counts=(
                Column(
                    "simulations", "int64", "simulations in the mean (n): finished ones, too, if the measure stays"
                ),
                Column("playing", "int64", "those of them that still play in this round"),
            ),
        ),
    ),
    Table(
        "thresholds",
        "condition, share and threshold",
        _means(
            Column("share", "string", "name of the quantity that is a share of agents"),
            Column("threshold", "double", "threshold that tells the kinds of agents apart"),
        ),
    ),
    Table(
        "players",
        "condition, quantity and player, in populations that mix players",
        _means(
            Column("quantity", "string", "name of the quantity that is a share of agents"),
            Column("player", "string", "model or policy that plays these agents"),
        ),
    ),
    Table(
        "rates",
        "condition and indicator",
        (
            _AXES,
            Column("indicator", "string", "name of the metric that is true or false"),
            Column("simulations", "int64", "simulations that have an answer (n)"),
            Column("count", "int64", "those in which it is true"),
            Column("rate", "double", "their share; missing without any answer"),
            *_limits("the rate (Wilson)"),
        ),
    ),
    Table(
        "quantities",
        "condition and quantity",
        (
            _AXES,
            Column("quantity", "string", "name of the metric that is a number"),
            Column("unit", "string", "its unit; empty for shares and plain counts"),
            Column("simulations", "int64", "simulations that have the number (n)"),
            Column("mean", "double", "mean, in `unit`"),
            Column("sd", "double", "standard deviation (n - 1), in `unit`"),
            *_limits("the mean"),
            Column("interval", "string", "how the limits were computed: `Wilson` or `t`"),
            Column("median", "double", "median, in `unit`"),
        ),
    ),
    Table(
        "contrasts",
        "pair of conditions and what is compared",
        (
            Column("kind", "string", "`outcome`, `indicator`, `quantity`, or `comparison` within a condition"),
            Column("axis", "string", "axis in which the two differ; empty for a comparison"),
            Column("from", "string", "its first value; for a comparison the first indicator"),
            Column("to", "string", "its second value; for a comparison the second indicator"),
            Column("what", "string", "name of what is compared"),
            Column(_AXIS, "string", "value of each other axis, `x -> y` where both have their own; empty for `axis`"),
            Column("pairs", "int64", "simulations compared with the one of the same seed; 0: unpaired"),
            Column("simulations_from", "int64", "simulations of the first that have a value, of any seed"),
            Column("simulations_to", "int64", "simulations of the second that have a value, of any seed"),
            Column("only_first", "int64", "pairs in which only the first has it; missing for quantities"),
            Column("only_second", "int64", "pairs in which only the second has it; missing for quantities"),
            Column("both", "int64", "pairs in which both have it; missing for quantities"),
            Column("value_from", "double", "rate or mean of the first, in the pairs; of all where there are none"),
            Column("value_to", "double", "rate or mean of the second, in the pairs; of all where there are none"),
            Column("all_from", "double", "rate or mean of all simulations of the first, as in the other tables"),
            Column("all_to", "double", "rate or mean of all simulations of the second"),
            Column("difference", "double", "`value_to` - `value_from`"),
            *_limits("the difference"),
            Column("test", "string", "`McNemar`, `chi-squared` or `t`; empty for quantities without shared seeds"),
            Column("p", "double", "two-sided p of the test"),
            Column("p_holm", "double", "p, corrected by Holm over the same `kind`, `axis` and `what`"),
            Column("p_bh", "double", "p, corrected by Benjamini and Hochberg over all rows of the table"),
            Column(
                "noise",
                "double",
                "a difference of so many pairs is within this of 0 in 95% of cases if only sampling differs, by the "
                "table `noise`; missing without `repeats`",
            ),
        ),
    ),
    Table(
        "questions",
        "question that the study declares, and pair of values that it compares",
        (
            Column("question", "string", "its name"),
            Column("kind", "string", "`outcome`, `indicator` or `quantity`"),
            Column("what", "string", "name of what is compared"),
            Column("axis", "string", "axis whose values are compared"),
            Column("from", "string", "first value"),
            Column("to", "string", "second value"),
            Column("over", "string", "axes over which pairs are pooled, joined by commas"),
            Column("strata", "int64", "pairs of conditions that are pooled"),
            Column("pairs", "int64", "pairs of simulations: of one stratum, with one seed"),
            Column("only_first", "int64", "pairs in which only the first has it; missing for quantities"),
            Column("only_second", "int64", "pairs in which only the second has it; missing for quantities"),
            Column("both", "int64", "pairs in which both have it; missing for quantities"),
            Column("value_from", "double", "rate or mean of the first, over the pairs"),
            Column("value_to", "double", "rate or mean of the second, over the pairs"),
            Column("difference", "double", "`value_to` - `value_from`"),
            *_limits("the difference"),
            Column("test", "string", "`McNemar` or `t`"),
            Column("p", "double", "two-sided p of the test"),
            Column("p_holm", "double", "p, corrected by Holm over all rows: the questions are one family"),
            Column(
                "p_by_seed",
                "double",
                "p of the t test of differences added up by seed, which does not take strata to be independent",
            ),
            Column("smallest", "double", "smallest difference that matters, as declared"),
            Column(
                "answer",
                "string",
                "`differs` (p_holm below 0.05), `no difference of <smallest> or more` (the interval is within), "
                "both, or `open`",
            ),
        ),
    ),
    Table(
        "endings",
        "condition, way to end, and round in which a game ended or met its deadline",
        (
            _AXES,
            Column("ending", "string", "outcome with which games ended early; `any`: whichever"),
            Column("round", "int64", "rounds that were played by then", "rounds"),
            _SIMULATIONS,
            Column(
                "at_risk", "int64", "simulations that had neither ended nor met their deadline before", "simulations"
            ),
            Column("count", "int64", "simulations that ended so in this round"),
            Column("incidence", "double", "cumulative incidence: share that ended so by this round (Aalen-Johansen)"),
            *_limits("the cumulative incidence"),
        ),
    ),
    Table(
        "times",
        "pair of conditions that `contrasts` compares, and way to end",
        (
            Column("axis", "string", "axis in which the two differ"),
            Column("from", "string", "its first value"),
            Column("to", "string", "its second value"),
            Column("ending", "string", "`any`: time to the end of all games; else of those alone that ended so"),
            Column(_AXIS, "string", "value of each other axis, as in `contrasts`"),
            Column("pairs", "int64", "seeds that both have"),
            Column("simulations_from", "int64", "simulations of the first"),
            Column("simulations_to", "int64", "simulations of the second"),
            Column("ended_from", "int64", "those that ended before their deadline"),
            Column("ended_to", "int64", "those that ended before their deadline"),
            *_median_of("from", "first"),
            *_median_of("to", "second"),
            Column("difference", "double", "`median_to` - `median_from`", "rounds"),
            Column("low", "double", f"lower limit of the {_INTERVAL} of the difference; missing if open", "rounds"),
            Column("high", "double", f"upper limit of the {_INTERVAL} of the difference; missing if open", "rounds"),
            Column("ratio", "double", "`median_to` / `median_from`"),
            Column("ratio_low", "double", f"lower limit of the {_INTERVAL} of the ratio; missing if open"),
            Column("ratio_high", "double", f"upper limit of the {_INTERVAL} of the ratio; missing if open"),
            Column(
                "test",
                "string",
                "`paired log-rank`, or `log-rank` without shared seeds; empty unless `ending` is `any`",
            ),
            Column("p", "double", "two-sided p of the test"),
            Column("p_holm", "double", "p, corrected by Holm over the same `axis` and `ending`"),
        ),
    ),
    Table(
        "quality",
        "condition, in games whose agents begin with numbers and agree on one",
        (
            _AXES,
            Column("simulations", "int64", "simulations that ended in agreement on a value (n)"),
            Column("slope", "double", "least-squares slope of agreed values on means of initial values"),
            Column("slope_low", "double", f"lower limit of its {_INTERVAL} (t, HC3)"),
            Column("slope_high", "double", f"upper limit of its {_INTERVAL} (t, HC3)"),
            Column("intercept", "double", "intercept of that line"),
            Column("residual", "double", "standard deviation (n - 2) of agreed values about that line"),
            Column("bias", "double", "mean of agreed values less means of initial values"),
            Column("bias_low", "double", f"lower limit of its {_INTERVAL} (t)"),
            Column("bias_high", "double", f"upper limit of its {_INTERVAL} (t)"),
        ),
    ),
    Table(
        "noise",
        "condition and what is compared, in studies with `repeats`",
        (
            _AXES,
            Column("kind", "string", "`outcome`, `indicator` or `quantity`"),
            Column("what", "string", "name of what is compared"),
            Column("pairs", "int64", "seeds that were played again"),
            Column("difference", "double", "mean of the second time minus that of the first"),
            Column("spread", "double", "standard deviation of the difference in one pair, from all repeats"),
            Column("band", "double", "it is within this of 0 in 95% of cases if only sampling differs"),
        ),
    ),
    Table(
        "margins",
        "outcome or indicator and value of an axis, over all conditions that can be compared",
        (
            Column("kind", "string", "`outcome` or `indicator`"),
            Column("what", "string", "name of the outcome or indicator"),
            Column("axis", "string", "the axis; empty for a rate over all conditions, or those that `value` names"),
            Column("value", "string", "value of the axis; without an axis the values that the conditions have"),
            Column("conditions", "int64", "conditions that the rate is over, each with equal weight"),
            Column("left_out", "int64", "conditions with this value that have no counterpart for each other value"),
            _SIMULATIONS,
            Column("seeds", "int64", "seeds of these simulations"),
            Column("rate", "double", "mean of the rates of these conditions"),
            *_limits("the rate, which knows that conditions share seeds"),
            Column("from", "string", "first value of the axis that this one is compared with; empty for the first"),
            Column("difference", "double", "`rate` minus that of `from`"),
            Column("difference_low", "double", f"lower limit of its {_INTERVAL}"),
            Column("difference_high", "double", f"upper limit of its {_INTERVAL}"),
            Column("pairs", "int64", "simulations compared with the one of the same seed and other axes"),
            Column("only_from", "int64", "pairs in which only that of `from` has it"),
            Column("only_value", "int64", "pairs in which only that of `value` has it"),
            Column("test", "string", "`clustered McNemar`; without shared seeds `Cochran-Mantel-Haenszel`"),
            Column("p", "double", "two-sided p of the test; missing with fewer than 5 seeds in pairs"),
            Column("p_holm", "double", "p, corrected by Holm over the same `what` and `axis`"),
            Column("paper", "double", "rate that a paper gives, where the study names it (`paper`)"),
            Column("source", "string", "where the paper says so"),
        ),
    ),
    Table(
        "effects",
        "effect in the model over all axes",
        (
            Column("kind", "string", "`outcome` or `indicator`"),
            Column("what", "string", "name of the outcome or indicator that is modeled"),
            Column("axis", "string", "the axis"),
            Column("from", "string", "its first value"),
            Column("to", "string", "the value that is compared with it"),
            Column("at", "string", "value of an interacting axis, `axis=x`; `axis=x -> y`: how the effect changes"),
            Column("conditions", "int64", "combinations of the other axes that the effect is a mean over"),
            Column("effect", "double", "what the value changes in the rate"),
            *_limits("the effect"),
            Column("p", "double", "two-sided p (Wald's test)"),
            Column("separated", "int64", "conditions among these in which it is always so, or never: no interval"),
            Column("correlation", "double", "working correlation of two simulations of a seed"),
            Column("note", "string", "what the fit warned of"),
        ),
    ),
    Table(
        "manifest",
        "record that the tables are made from",
        (
            Column("path", "string", "path of the record"),
            _ID,
            Column("digest", "string", "content digest, as in `simulations`"),
        ),
    ),
    Table(
        "ledger",
        "block of the ledger; only games that keep one, by `parley ledger build`",
        (
            _AXES,
            _SEED,
            Column("height", "int64", "number of the block, from 0"),
            Column("session", "int64", "number of the deliberation in its simulation, from 0"),
            Column("agreed", "bool", "whether agents agreed; else the block is empty"),
            Column("agents", "int64", "agents that took part", "agents"),
            Column("utterances", "int64", "what was said", "messages"),
            Column("rounds", "int64", "rounds in which something was said", "rounds"),
            Column("block_bytes", "int64", "size of the block", "bytes"),
            Column("announce_messages", "int64", "messages with a hash", "messages"),
            Column("announce_bytes", "int64", "their size", "bytes"),
            Column("request_messages", "int64", "messages that ask for what a hash stands for", "messages"),
            Column("request_bytes", "int64", "their size", "bytes"),
            Column("data_messages", "int64", "messages with what was said", "messages"),
            Column("data_bytes", "int64", "their size", "bytes"),
            Column("flood_bytes", "int64", "size of all messages if nobody sent hashes first", "bytes"),
            Column("hops", "int64", "most links that something said went over", "links"),
            Column("unreached", "int64", "agents that something never reached, added up"),
            Column("nonce", "int64", "number that makes the block's hash small enough"),
            Column("hash", "string", "SHA-256 of the block"),
            _SPEC,
            _ID,
        ),
    ),
)

UTTERANCES = Table(
    "utterances",
    "utterance, as `parley ledger export` writes them",
    (
        Column("block", "int64", "number of the block"),
        Column("simulation", "string", "`id` of the simulation"),
        Column("session", "int64", "number of the deliberation in its simulation"),
        Column("utterance", "int64", "number of the utterance in its block"),
        Column("round", "int64", "round in which it was said"),
        Column("agent", "string", "who said it"),
        Column("content.<key>", "", "what was said, by key (JSON lines: one object `content`)"),
        Column("key", "string", "public key of the agent"),
        Column("signature", "string", "signature of the utterance"),
    ),
)


def declared(name: str) -> Table:
    """Return the table called `name`; raises KeyError for an unknown one."""
    return {each.name: each for each in TABLES}[name]


def columns_of(name: str, axes: Iterable[str], game: type[Game]) -> list[Column]:
    """Return the columns of a table in a study of `game` with these axes, in their order.

    Names that stand for several columns, such as `<outcome>_rate`, stay as they are. An axis takes the place of any
    other column of its name.
    """
    found: dict[str, Column] = {}
    for column in _filled(declared(name), list(axes), game):
        found.setdefault(column.name, column)
    return list(found.values())


def _filled(of: Table, axes: list[str], game: type[Game]) -> Iterator[Column]:
    for column in of.columns:
        if column.name == _AXIS:
            texts = {axis.name: axis.text for axis in AXES}
            yield from (replace(column, name=axis, text=texts.get(axis, AXES[-1].text)) for axis in axes)
        elif column.name == _METRIC:
            yield from game.evidence.columns.metrics
            yield from (Column(i.name, "bool", i.label) for i in game.evidence.indicators)
            yield from (Column(q.name, "double", q.label, q.unit) for q in game.evidence.quantities)
        elif column.name == _GAME_TURN:
            games = [*GAMES.values(), *([] if game in GAMES.values() else [game])]
            yield from dict.fromkeys(each for of_game in games for each in of_game.evidence.columns.turns)
        else:
            yield column


def names_of(name: str, axes: Iterable[str], game: type[Game]) -> list[str]:
    """Return the names of the columns of a table that every study of `game` with these axes has, in their order."""
    return [column.name for column in columns_of(name, axes, game) if "<" not in column.name]


def describe(name: str, column: str, axes: Iterable[str], game: type[Game]) -> Column | None:
    """Return what is declared of a column of the table `name`; None for a column that nobody declared."""
    return find(columns_of(name, axes, game), column, {"outcome": [outcome.name for outcome in game.outcomes]})
