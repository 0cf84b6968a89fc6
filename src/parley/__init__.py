"""Parley measures whether groups of LLM agents can agree, and what breaks their agreement.

In Python, `parley.load` is where to begin: see `docs/python.md`. What is offered here is imported when it is used.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from parley.api import Played, Record, Results, Study, load, run
    from parley.errors import ParleyError, UsageError

__version__ = "0.1.0"

__all__ = [
    "ParleyError",
    "Played",
    "Record",
    "Results",
    "Study",
    "UsageError",
    "__version__",
    "load",
    "run",
]


if not TYPE_CHECKING:  # so that a type checker finds misspelled names

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if name.endswith("Error"):
            from parley import errors

            return getattr(errors, name)
        from parley import api

        return getattr(api, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
