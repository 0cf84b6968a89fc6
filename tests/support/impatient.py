"""Snakemake, which asks SLURM for its jobs every second: its plugin waits 10 s longer after each question.

Takes the arguments of `snakemake`; whatever Snakemake starts is Snakemake itself.
"""

import asyncio
import sys

from snakemake.cli import main
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor


async def _sleep(executor: RemoteExecutor) -> None:
    await asyncio.sleep(1)


RemoteExecutor.sleep = _sleep

if __name__ == "__main__":
    sys.exit(main())
