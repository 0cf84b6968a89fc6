"""Text that comes from outside: cleaned before it is shown, read as strict YAML, answered with a suggestion."""

from parley.text.cleaning import (
    by_number,
    counted,
    duration,
    last_part,
    one_line,
    table,
    valid_unicode,
    without_folders,
)

__all__ = ["by_number", "counted", "duration", "last_part", "one_line", "table", "valid_unicode", "without_folders"]
