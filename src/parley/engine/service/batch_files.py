"""What this machine knows of batches: a file for each, there before its service is asked to begin it.

So whoever goes on after a death finds the batch, and asks nothing twice.
"""

import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from parley.errors import JournalError
from parley.files import checked_line, open_regular, parse_line, write_atomically
from parley.text import duration, one_line


@dataclass
class BatchFile:
    """A batch: what it is called, where it is, and what it asks."""

    name: str  # in its metadata at the service
    model: str
    service: str  # a hash that tells who answers
    number: int  # of requests
    # By custom id what each request set aside of a budget, tokens of prompt and reply; None without a budget.
    requests: dict[str, list[int] | None] = field(repr=False)
    input: str = ""  # the service's id of the file with the requests
    sent: float = 0.0  # when the service was asked to begin it, seconds since the epoch
    id: str = ""  # the service's own; "" while nobody here knows it
    status: str = ""  # by the service's last word
    answered: int = 0  # requests, by the same
    is_over: bool = False  # whether its replies were there: then `requests` are those that have one

    def write(self, folder: Path) -> None:
        """Write it, whole; raises RecordError if it cannot."""
        content = checked_line(asdict(self))
        write_atomically(self.path(folder), lambda file: file.write(content))

    def path(self, folder: Path) -> Path:
        """Return where it is written."""
        return folder / f"{self.name}.jsonl"

    def line(self) -> str:
        """Return it in words: `batch_1 of gpt-4o: 40 of 96 requests answered, sent 3 h ago (in_progress)`."""
        status, age = self.status or "not begun", duration(max(time.time() - self.sent, 0.0))
        who = f"{self.id or 'a batch'} of {self.model}"
        return one_line(f"{who}: {self.answered:,} of {self.number:,} requests answered, sent {age} ago ({status})")


def read_batches(folder: Path) -> list[BatchFile]:
    """Return the batches of a folder, the oldest first; raises JournalError for a file that is damaged."""
    found = []
    for path in folder.glob("*.jsonl"):
        try:
            with open_regular(path) as file:
                found.append(BatchFile(**(parse_line(file.read()) or {})))
        except FileNotFoundError:  # it is over, and was removed
            continue
        except (OSError, TypeError):
            raise JournalError(
                f"{path}: cannot be read; look at the batches of the service, and move it away to ask again"
            ) from None
    return sorted(found, key=lambda batch: batch.sent)


def waiting_batches(folder: Path) -> list[BatchFile]:
    """Return the batches whose replies are not there yet; raises JournalError for a file that is damaged."""
    return [batch for batch in read_batches(folder) if not batch.is_over]
