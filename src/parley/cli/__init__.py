"""The commands, one thin function each."""

from parley.cli.program import main

__all__ = ["main"]
