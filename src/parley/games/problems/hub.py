"""Data sets of the Hugging Face hub, at a pinned revision: files alone, none of a repository's code."""

import logging
from contextlib import suppress
from pathlib import Path

from parley.errors import UsageError
from parley.text import one_line


def download(repo: str, revision: str, patterns: list[str]) -> Path:
    """Return the folder with the files of a data set that fit `patterns`, from the hub's cache if it has them.

    Raises UsageError, in one line, if they can be had neither there nor from the network.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    def folder(cached: bool) -> Path:
        found = snapshot_download(
            repo, repo_type="dataset", revision=revision, allow_patterns=patterns, local_files_only=cached
        )
        return Path(found)

    with suppress(LocalEntryNotFoundError, OSError, ValueError):  # then the hub has the files, or says what is wrong
        cached = folder(cached=True)
        if any(file.is_file() for pattern in patterns for file in cached.glob(pattern)):
            return cached
    logger = logging.getLogger("huggingface_hub")
    level = logger.level
    logger.setLevel(logging.ERROR)  # it tells each retry in lines of its own
    try:
        return folder(cached=False)
    except Exception as error:
        reason = one_line(str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__, 200)
        raise UsageError(
            f"cannot fetch the data set {repo} at {revision[:8]}: {reason}; check the network, or fetch it on a "
            "machine that has one and give its folder as path"
        ) from error
    finally:
        logger.setLevel(level)
