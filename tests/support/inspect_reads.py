"""Exports studies for inspect_ai, and prints what inspect_ai reads of them, as JSON. Run where inspect_ai is."""

import json
import sys
from pathlib import Path
from typing import Any

from inspect_ai.analysis import EventInfo, ModelEventColumns, evals_df, events_df, messages_df, samples_df
from inspect_ai.log import EvalLog, EvalSample, read_eval_log

from parley import paths
from parley.cli import program
from parley.export.inspect_samples import sample_of
from parley.play.record import read_attempts, read_trace
from parley.play.record_content import SCHEMA
from parley.study import load_study

REASONED = {
    **{"text": "the reply", "reasoning": "Let me think.", "finish_reason": "length"},
    **{"prompt_tokens": 100, "cached_tokens": 60, "completion_tokens": 30, "reasoning_tokens": 20},
    **{"failure": "length", "failure_detail": "cut off"},
}


def exported(study: str) -> Path:
    sys.argv = ["parley", "export", study, "--to", "inspect"]
    program.main()
    return paths.export(Path(study).stem, "inspect")


def sample_facts(sample: Any) -> dict[str, Any]:
    models = [event for event in sample.events if event.event == "model"]
    return {
        "id": sample.id,
        "epoch": sample.epoch,
        "uuid": sample.uuid,
        "input": sample.input,
        "target": sample.target,
        "scores": {name: score.value for name, score in sample.scores.items()},
        "metadata": sample.metadata,
        "messages": [message.text for message in sample.messages if message.role == "assistant"],
        "models": [
            {
                "span": event.span_id,
                "input": [message.text for message in event.input],
                "text": event.output.completion,
                "reasoning": [part.reasoning for part in event.output.message.content if part.type == "reasoning"]
                if isinstance(event.output.message.content, list)
                else [],
                "usage": event.output.usage and event.output.usage.model_dump(exclude_none=True),
                "seed": event.config.seed,
                "seconds": event.working_time,
                "stop": event.output.stop_reason,
                "error": event.error,
                "agent": event.metadata["agent"],
            }
            for event in models
        ],
        "spans": [[e.type, e.name, e.id, e.parent_id] for e in sample.events if e.event == "span_begin"],
        "ends": [e.id for e in sample.events if e.event == "span_end"],
        "kept": [e.data for e in sample.events if e.event == "info"],
    }


def log_facts(log: EvalLog) -> dict[str, Any]:
    return {
        "task": log.eval.task,
        "status": log.status,
        "model": log.eval.model,
        "metadata": log.eval.metadata,
        "scores": {
            score.name: {name: metric.value for name, metric in score.metrics.items()} for score in log.results.scores
        },
        "usage": {name: usage.total_tokens for name, usage in log.stats.model_usage.items()},
        "samples": [sample_facts(sample) for sample in log.samples],
    }


def frame_facts(folder: Path) -> dict[str, Any]:
    where = str(folder)
    frames = {
        "evals": evals_df(where),
        "samples": samples_df(where),
        "messages": messages_df(where),
        "events": events_df(where, columns=EventInfo + ModelEventColumns, filter=lambda e: e.event == "model"),
    }
    return {name: {"rows": len(frame), "columns": list(frame.columns)} for name, frame in frames.items()}


def facts(study: str) -> dict[str, Any]:
    folder = exported(study)
    logs = [read_eval_log(str(path), resolve_attachments=True) for path in sorted(folder.iterdir())]
    text = "".join(log.model_dump_json() for log in logs)
    return {"logs": [log_facts(log) for log in logs], "frames": frame_facts(folder), "text": text}


def reasoned(study_file: Path) -> dict[str, Any]:
    """Return what is read of an attempt that reasoned and was cut off."""
    study = load_study(study_file)
    simulation = next(study.simulations())
    record = simulation.record(study.name)
    summary, table = read_attempts(record, SCHEMA.names)
    first, *others = table.to_pylist()
    sample = sample_of(study.title, simulation.condition, summary, [first | REASONED, *others], read_trace(record))
    again = EvalSample.model_validate_json(sample.model_dump_json())
    found: dict[str, Any] = sample_facts(again)["models"][0]
    return found


if __name__ == "__main__":
    studies = sys.argv[1:]
    found = {study: facts(study) for study in studies}
    print(json.dumps(found | {"reasoned": reasoned(paths.study_file(studies[0]))}))
