"""Makes a sample whose first attempt reasoned and was cut off, and prints what inspect_ai has of it, as JSON."""

import json
import sys
from pathlib import Path

from inspect_ai.log import EvalSample

from parley.export.inspect_samples import sample_of
from parley.play.record import read_attempts, read_trace
from parley.play.record_content import SCHEMA
from parley.study import load_study
from support.inspect_reads import sample_facts

REASONED = {
    **{"text": "the reply", "reasoning": "Let me think.", "finish_reason": "length"},
    **{"prompt_tokens": 100, "cached_tokens": 60, "completion_tokens": 30, "reasoning_tokens": 20},
    **{"failure": "length", "failure_detail": "cut off"},
}

if __name__ == "__main__":
    study = load_study(Path("config") / f"{sys.argv[1]}.yaml")
    simulation = next(study.simulations())
    record = simulation.record(study.name)
    summary, table = read_attempts(record, SCHEMA.names)
    first, *others = table.to_pylist()
    sample = sample_of(study.title, simulation.condition, summary, [first | REASONED, *others], read_trace(record))
    again = EvalSample.model_validate_json(sample.model_dump_json())
    print(json.dumps(sample_facts(again)["models"][0]))
