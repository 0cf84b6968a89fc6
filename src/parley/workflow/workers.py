"""A thread for each job of a shard: Snakemake starts one too few, and one game waits for another to end."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from snakemake.executors.local import Executor
from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry


class RoomyExecutor(Executor):  # type: ignore[misc]
    """Snakemake's executor of jobs on this machine (9.27), with a thread for what waits for a group, too.

    A group of K simulations and their server takes K + 2 threads. Snakemake has five more than cores, or K + 1 if that
    is more: then the last simulation begins when the first ends, and plays alone in the end.
    """

    workers: int
    pool: ThreadPoolExecutor

    def run_job(self, job: Any) -> None:
        """Run a job, or a group of jobs that run at once."""
        if job.is_group() and self.workers <= len(job):
            self.workers = len(job) + 1
            self.pool = ThreadPoolExecutor(self.workers)
        super().run_job(job)


def give_groups_room() -> None:
    """Have Snakemake use it in this process, on one machine as on a cluster's node; call it before anything runs."""
    ExecutorPluginRegistry().get_plugin("local").executor = RoomyExecutor
