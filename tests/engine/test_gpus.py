"""GPUs that servers take: free ones, of their own. No GPU is needed to tell them apart, and no process for each."""

import os
from contextlib import ExitStack

import pytest

from parley.engine import hardware as gpus
from parley.errors import EngineError
from support.commands import heard

pytestmark = pytest.mark.promise("Servers on one machine take GPUs of their own.")


def test_servers_take_gpus_of_their_own_until_they_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def taken(count: int, visible: str = "0,GPU-b,2,3") -> str:
        monkeypatch.setenv(gpus.VISIBLE, visible)
        with heard() as said:
            gpus.take_gpus(count, seconds=0)
        return "; ".join([*said, os.environ[gpus.VISIBLE]])

    monkeypatch.setenv("SLURM_JOB_ID", f"test-{os.getpid()}")
    monkeypatch.setattr(gpus.random, "sample", lambda names, count: names[-count:])
    with ExitStack() as ended:
        monkeypatch.setattr(gpus, "_taken", ended)
        assert taken(1) == "0"
        first = ended.pop_all()
        assert [taken(count) for count in (2, 1)] == ["GPU-b,2", "3"]
        first.close()
        # Who wants two and cannot have them shares, says so, and has taken none.
        assert taken(2) == "warning: other servers have too many of the GPUs 0,GPU-b,2,3; this one shares 2,3; 2,3"
        assert taken(1) == "0"
        monkeypatch.setenv("SLURM_JOB_ID", f"other-{os.getpid()}")  # its GPUs of the same numbers are others
        assert taken(1) == "0"
        with pytest.raises(EngineError, match="needs 3 GPUs, and its job or machine has 2; ask for more"):
            taken(3, "0,1")
        assert taken(3, "") == ""  # none is known of
