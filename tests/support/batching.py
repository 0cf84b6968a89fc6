"""The batch API of OpenAI, for the stand-in of a service: files, batches, their list, output and error files."""

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

_PART = re.compile(rb'name="(\w+)"(?:; filename="([^"]*)")?.*?\r\n\r\n(.*?)\r\n--', re.DOTALL)
_PAGE = 2  # batches on a page of the list


@dataclass
class BatchApi:
    """What a service does with batches: each ends at its look number `looks`, as `ends` says."""

    answer: Callable[[dict[str, Any]], Any]  # to a request; None leaves it without one
    looks: int = 2
    ends: list[str] = field(default_factory=list)  # of the first batches; all others are completed
    files: dict[str, bytes] = field(default_factory=dict)
    batches: list[dict[str, Any]] = field(default_factory=list)
    refuses: list[Any] = field(default_factory=list)  # answers to the next requests that begin a batch
    # Is told of each request, before it is handled and after, and may end its sender; "hang up" leaves it unanswered.
    step: Callable[[str, bool], Any] = lambda what, done: None
    asked: list[str] = field(default_factory=list)  # custom ids, of all batches
    lines: list[dict[str, Any]] = field(default_factory=list)  # the same, whole

    def handle(self, method: str, path: str, content: bytes) -> Any:
        """Return status and body of the answer to a request; None hangs up."""
        what = f"{method} {re.sub(r'(file|batch)_[0-9]+', 'ID', path.partition('?')[0])}"
        if self.step(what, False) == "hang up":
            return None
        found = self._handle(method, path, content)
        return None if self.step(what, True) == "hang up" else found

    def _handle(self, method: str, path: str, content: bytes) -> Any:
        path, _, query = path.removeprefix("/v1").partition("?")
        match method, *path.split("/")[1:]:
            case "POST", "files":
                parts = {name: (filename, body) for name, filename, body in _PART.findall(content)}
                if parts[b"purpose"][1] != b"batch" or not parts[b"file"][0].endswith(b".jsonl"):
                    return 400, {"error": {"message": "no file of a batch"}}
                name = f"file_{len(self.files)}"
                self.files[name] = parts[b"file"][1]
                return 200, {"id": name, "object": "file", "purpose": "batch", "bytes": len(self.files[name])}
            case "POST", "batches":
                return self.refuses.pop(0) if self.refuses else self._begin(json.loads(content))
            case "GET", "batches":
                after = re.search(r"after=(\w+)", query)
                newest = self.batches[::-1]
                first = 1 + [batch["id"] for batch in newest].index(after[1]) if after else 0
                rest = newest[first:]
                return 200, {"object": "list", "data": rest[:_PAGE], "has_more": len(rest) > _PAGE}
            case "GET", "batches", id if not self.batches:
                return 404, {"error": {"message": "No batch"}}
            case "GET", "batches", id:
                batch = self.batches[int(id.removeprefix("batch_"))]
                batch["looks"] += 1
                if batch["looks"] >= self.looks and batch["status"] == "in_progress":
                    self._end(batch)
                return 200, batch
            case "POST", "batches", id, "cancel":
                batch = self.batches[int(id.removeprefix("batch_"))]
                self._end(batch, "cancelled")
                return 200, batch
            case "GET", "files", id, "content":
                return (200, self.files[id]) if id in self.files else (404, {"error": {"message": "No such file"}})
        return 404, {"error": {"message": f"Invalid URL ({method} {path})"}}

    def _begin(self, body: dict[str, Any]) -> Any:
        lines = [json.loads(line) for line in self.files[body["input_file_id"]].splitlines()]
        ids = [line["custom_id"] for line in lines]
        if len(set(ids)) < len(ids) or {(line["method"], line["url"]) for line in lines} != {
            ("POST", body["endpoint"])
        }:
            return 400, {"error": {"message": "Duplicate custom_id, or another url"}}
        self.lines += lines
        self.asked += ids
        batch = {
            **body,
            "id": f"batch_{len(self.batches)}",
            "object": "batch",
            "status": "in_progress",
            "created_at": int(time.time()),
            "errors": None,
            "request_counts": {"total": len(lines), "completed": 0, "failed": 0},
            "looks": 0,
        }
        self.batches.append(batch)
        return 200, batch

    def _end(self, batch: dict[str, Any], status: str = "") -> None:
        batch["status"] = status = status or (self.ends.pop(0) if self.ends else "completed")
        if status == "failed":
            batch["errors"] = {"data": [{"code": "token_limit_exceeded", "message": "Enqueued token limit reached"}]}
            return
        output, errors = [], []
        for line in [json.loads(line) for line in self.files[batch["input_file_id"]].splitlines()][::-1]:
            id, found = line["custom_id"], self.answer(line["body"])
            if found is None:
                code = f"batch_{status}"
                errors.append({"custom_id": id, "response": None, "error": {"code": code, "message": "not executed"}})
            else:
                response = {"status_code": found[0], "request_id": "r", "body": found[1]}
                (output if found[0] == 200 else errors).append({"custom_id": id, "response": response, "error": None})
        for key, lines in (("output_file_id", output), ("error_file_id", errors)):
            if lines:
                batch[key] = f"file_{len(self.files)}"
                self.files[batch[key]] = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        batch["request_counts"] |= {"completed": len(output), "failed": len(errors)}
