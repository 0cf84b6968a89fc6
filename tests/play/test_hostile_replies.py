"""Hostile replies against every phase of every game: nothing escapes, nothing is taken that was not asked for."""

import csv
import json
import unicodedata
from collections import Counter
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from parley import paths
from parley.analysis.summarize import summarize
from parley.figures.make import figures
from parley.games.base import Game
from parley.games.deliberation.prompts import CUT
from parley.games.playing import FIRST_STEP
from parley.games.registry import GAMES
from parley.ledger.build import build
from parley.play.live import Transcript
from parley.play.record import read_summary, read_trace, write_record
from parley.play.replay import replay
from parley.play.runner import Play, play
from parley.policies import FAILURE_CLASSES, Ask, Completion
from parley.policies.reply_text import parse_reply, read_reply
from parley.report.page import report
from parley.text import one_line, valid_unicode
from support.commands import heard
from support.replies import Hostility, new_games, play_parameters, reply_kinds
from support.studies import StudyFactory

pytestmark = pytest.mark.promise(
    "Hostile replies are failures of a class; nothing that people read holds what they wrote."
)

REPLIES = 3_000
WORDS_ALONE = {"stag_hunt"}  # games whose agents are shown nothing of others but checked words

# A second opinion on what a reply may be: the JSON schema that engines are sent.


def without_patterns(schema: Any) -> Any:
    """Leave out what grammars let a model write, where the parser reads more (test_reply_text.py)."""
    if isinstance(schema, dict):
        return {key: without_patterns(part) for key, part in schema.items() if key != "pattern"}
    return [*map(without_patterns, schema)] if isinstance(schema, list) else schema


def exactly(value: Any) -> str:
    """Return JSON in which 5 is not 5.0, and 1 is not true."""
    return json.dumps(value, sort_keys=True)


def strict_json(text: str) -> Any:
    """Parse JSON as the standard has it, every key once."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len({key for key, _ in pairs}) == len(pairs)
        return dict(pairs)

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    return json.loads(text, object_pairs_hook=once, parse_constant=refuse)


@pytest.mark.parametrize("game", GAMES.values(), ids=GAMES)
@pytest.mark.slow
def test_hostile_replies_are_failures_of_a_class_or_just_what_was_asked_for(game: type[Game]) -> None:
    kinds = reply_kinds(game)
    assert {role for role, _ in kinds} == set(game.roles)
    schemas = {model: without_patterns(model.model_json_schema()) for model, _ in kinds.values()}
    models = {model: Draft202012Validator(schema) for model, schema in schemas.items()}
    found: Counter[str | None] = Counter()
    for number, (model, proper) in enumerate(kinds.values()):
        hostility = Hostility(model, proper, number)
        for i in range(-(-REPLIES // len(kinds))):
            text = hostility.huge() if i % 500 == 0 else hostility.polite() if i % 10 == 0 else hostility.reply()
            for asked, validator in models.items():
                reply = parse_reply(text, "stop", asked)
                found[reply.failure] += 1
                if reply.value is None:
                    assert reply.failure in FAILURE_CLASSES
                    assert reply.detail is not None
                    assert reply.detail == one_line(reply.detail, 200)
                    continue
                assert (reply.failure, reply.detail) == (None, None)
                value = strict_json(text)
                assert validator.is_valid(value)
                assert exactly(reply.value.model_dump(mode="json")) == exactly(value)
            assert parse_reply(text, "length", model).failure == "length"
    assert min(found[None], found["invalid_json"], found["out_of_range"]) > REPLIES / 100


# Whole games


class HostilePolicy:
    """Answers with hostile replies, every other one of the asked shape, the same to the same seed."""

    def __init__(self, game: type[Game]) -> None:
        self._kinds = reply_kinds(game)
        self._read_texts = game.read_texts

    async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
        model, proper = self._kinds[ask.role, ask.phase.removesuffix(FIRST_STEP)]
        if ask.earlier:  # the second of two steps, which asks for fewer fields
            model = ask.reply_model
            proper = [{key: value for key, value in said.items() if key in model.model_fields} for said in proper]
        hostility = Hostility(model, proper, seed)
        text = hostility.polite() if (seed + attempt) % 2 else hostility.reply()
        reason = ("stop", "stop", "stop", "stop", "length", "content_filter", "\x1b[31m\ud800")[seed % 7]
        return Completion(text, reason)


SNOWMAN = "\u2603"


class TwinPolicy(HostilePolicy):
    """Says the same as HostilePolicy, with a snowman for each text that decides nothing and is not empty."""

    async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
        said = await super().answer(ask, seed, attempt)
        reply = read_reply(ask, valid_unicode(said.text), said.finish_reason)
        if reply.value is None:
            return said
        if ask.reply_format == "free":
            return Completion(SNOWMAN, said.finish_reason)
        fields = reply.value.model_dump(mode="json")
        for key, value in fields.items():
            if isinstance(value, str) and one_line(value) and key not in self._read_texts:
                changed = {**fields, key: SNOWMAN}
                if parse_reply(json.dumps(changed), "stop", ask.reply_model).value is not None:
                    fields = changed
        return Completion(json.dumps(fields), said.finish_reason)


_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}


def hidden(text: str, allowed: str = "\n") -> set[str]:
    """Return the characters of a text that print nothing or move the cursor, but those that are allowed."""
    return {c for c in set(text) - set(allowed) if unicodedata.category(c) in _HIDDEN}


def played_by(policy: HostilePolicy, game: Game, number: int) -> Play:
    return play(f"{number:064x}", game, {seat.name: policy for seat in game.seats})


def decided(played: Play) -> dict[str, Any]:
    """Return the outcome of a game, without the words that its ledger keeps."""
    outcome = played.outcome.as_json()
    return {**outcome, "trace": [{**entry, "said": None} for entry in outcome["trace"]]}


@pytest.mark.parametrize("kind", GAMES.values(), ids=GAMES)
@pytest.mark.slow
def test_whole_games_of_hostile_replies_end_and_no_agent_forges_a_line_for_another(kind: type[Game]) -> None:
    hostile, twin = HostilePolicy(kind), TwinPolicy(kind)
    texts = 0
    for number in range(4):
        for game, same in zip(new_games(kind), new_games(kind), strict=True):
            played, plain = played_by(hostile, game, number), played_by(twin, same, number)
            assert played.outcome.name in {outcome.name for outcome in kind.outcomes}
            assert decided(played) == decided(plain)
            assert not hidden(json.dumps(played.outcome.as_json(), ensure_ascii=False), "")
            for x, y in zip(played.exchanges, plain.exchanges, strict=True):
                assert x.entry.key == y.entry.key
                for prompt, model in ((x.ask.system, y.ask.system), (x.ask.user, y.ask.user)):
                    assert not hidden(prompt)
                    lines, expected = prompt.split("\n"), model.split("\n")
                    assert len(lines) == len(expected)
                    for line, twin_line in zip(lines, expected, strict=True):
                        # What surrounds a peer's words is just what it would be around any others.
                        before, _, after = twin_line.partition(SNOWMAN)
                        after = after.rpartition(SNOWMAN)[2] if SNOWMAN in after else after
                        assert line.startswith(before)
                        assert line.removesuffix(CUT).endswith(after)  # theirs are longer, and may be cut
                        texts += SNOWMAN in twin_line
    assert (texts > 30) is (kind.name not in WORDS_ALONE)  # hostile texts did reach other agents


@pytest.mark.parametrize("name", GAMES)
@pytest.mark.slow
def test_nothing_that_people_read_holds_what_a_hostile_agent_wrote(
    study_factory: StudyFactory, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    game = GAMES[name]
    grid = {"model": "tiny", "n": 4, "b": [0, 2], "prompt": next(iter(game.prompts))}
    study = study_factory(grid, game=name, seeds=2, parameters=play_parameters(game))
    policy, said = HostilePolicy(game), []
    for simulation in study.simulations():
        seats = simulation.game().seats
        policies = {seat.name: policy for seat in seats}
        with heard() as lines:
            played = play(simulation.id, simulation.game(), policies)
        said += lines
        Transcript(said.append, True, game.read_texts).phase_over(played.exchanges)
        record = simulation.record(study.name)
        write_record(record, simulation, played, {})
        assert replay(record).difference is None
        shown = [json.dumps(part, ensure_ascii=False) for part in (read_summary(record).outcome, read_trace(record))]
        shown += [detail for x in played.exchanges if (detail := x.reply.detail)]
        shown += [x.entry.finish_reason for x in played.exchanges]
        assert not set().union(*map(hidden, shown))
    assert not set().union(*(hidden(line, "") for line in said))
    assert any("red" in line for line in said)  # the texts themselves were shown
    summarize(study)
    if game.evidence.keeps_ledger:
        build(study)
    drawn = () if name in WORDS_ALONE else study.figures
    if drawn:
        figures(study)
    else:
        monkeypatch.setattr("parley.report.page._figures", lambda study: ())
    page = report(study).read_text()
    assert not hidden(page)
    written = [paths.table(study.name, table, ".csv") for table in ("simulations", "conditions")]
    written += [paths.figure(study.name, spec.name, ".svg") for spec in drawn]
    for path in written:
        content = path.read_text(encoding="utf-8")
        assert not hidden(content, "\n\t" if path.suffix == ".svg" else "\r\n")
        assert "im_start" not in content
    for row in csv.reader(paths.table(study.name, "simulations", ".csv").read_text().splitlines()):
        assert not [cell for cell in row if cell.startswith(("=", "+", "@"))]  # which a spreadsheet would compute
