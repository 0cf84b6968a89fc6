"""Stand-ins for engines."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from support.answering import standing_in


@pytest.fixture
def engines(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Stand-ins for the servers of both models, by name: the endpoint file and the server."""
    with ExitStack() as stack:
        made = {}
        for model in ("tiny", "other"):
            (tmp_path / model).mkdir()
            made[model] = stack.enter_context(standing_in(tmp_path / model, model=model))
        yield made
