"""Reads logs with inspect_ai's own readers, and prints what these find, as JSON. Run where inspect_ai is."""

import json
import sys
from pathlib import Path
from typing import Any

from parley import cli, paths
from parley.play.record import read_attempts, read_trace
from parley.play.record_content import SCHEMA
from parley.study import load_study

# inspect_ai: studies are exported, and read by its own readers

REASONED = {
    **{"text": "the reply", "reasoning": "Let me think.", "finish_reason": "length"},
    **{"prompt_tokens": 100, "cached_tokens": 60, "completion_tokens": 30, "reasoning_tokens": 20},
    **{"failure": "length", "failure_detail": "cut off"},
}


def inspect_reads(*studies: str) -> dict[str, Any]:
    """Return what is read of each study, and, as `reasoned`, of an attempt that reasoned and was cut off."""
    return {study: _facts(study) for study in studies} | {"reasoned": _reasoned(paths.study_file(studies[0]))}


def _facts(study: str) -> dict[str, Any]:
    from inspect_ai.analysis import EventInfo, ModelEventColumns, evals_df, events_df, messages_df, samples_df
    from inspect_ai.log import list_eval_logs, read_eval_log

    sys.argv = ["parley", "export", study, "--format", "inspect"]
    cli.main()
    where = str(paths.export(Path(study).stem, "inspect"))
    listed = list_eval_logs(where)  # as its viewer does
    logs = sorted((read_eval_log(each, resolve_attachments=True) for each in listed), key=lambda log: log.eval.task)
    columns = EventInfo + ModelEventColumns
    frames = {
        **{"evals": evals_df(where), "samples": samples_df(where), "messages": messages_df(where)},
        "events": events_df(where, columns=columns, filter=lambda event: event.event == "model"),
    }
    return {
        "logs": [_log(log) for log in logs],
        "frames": {name: {"rows": len(frame)} for name, frame in frames.items()},
        "text": "".join(log.model_dump_json() for log in logs),
    }


def _log(log: Any) -> dict[str, Any]:
    return {
        **{"task": log.eval.task, "status": log.status, "metadata": log.eval.metadata},
        "scores": {
            score.name: {name: metric.value for name, metric in score.metrics.items()} for score in log.results.scores
        },
        "samples": [_sample(sample) for sample in log.samples],
    }


def _sample(sample: Any) -> dict[str, Any]:
    return {
        **{"id": sample.id, "epoch": sample.epoch, "uuid": sample.uuid, "metadata": sample.metadata},
        "scores": {name: score.value for name, score in sample.scores.items()},
        "messages": [message.text for message in sample.messages if message.role == "assistant"],
        "models": [_model(event) for event in sample.events if event.event == "model"],
        "spans": [[e.type, e.name, e.id, e.parent_id] for e in sample.events if e.event == "span_begin"],
    }


def _model(event: Any) -> dict[str, Any]:
    content = event.output.message.content
    parts = content if isinstance(content, list) else []
    return {
        **{"span": event.span_id, "text": event.output.completion, "seed": event.config.seed, "error": event.error},
        **{"seconds": event.working_time, "stop": event.output.stop_reason, "agent": event.metadata["agent"]},
        "input": [message.text for message in event.input],
        "reasoning": [part.reasoning for part in parts if part.type == "reasoning"],
        "usage": event.output.usage and event.output.usage.model_dump(exclude_none=True),
    }


def _reasoned(study_file: Path) -> dict[str, Any]:
    from inspect_ai.log import EvalSample

    from parley.export.inspect_logs import sample_of

    study = load_study(study_file)
    simulation = next(study.simulations())
    record = simulation.record(study.name)
    summary, table = read_attempts(record, SCHEMA.names)
    first, *others = table.to_pylist()
    sample = sample_of(study.title, simulation.condition, summary, [first | REASONED, *others], read_trace(record))
    found: dict[str, Any] = _sample(EvalSample.model_validate_json(sample.model_dump_json()))["models"][0]
    return found


if __name__ == "__main__":
    wanted = json.loads(sys.argv[1])
    print(json.dumps({name: globals()[name](*arguments) for name, arguments in wanted.items()}))
