"""Snakemake finds this package by its name, as the logger `parley`; the display is `parley.workflow.run_log`.

Every start of Snakemake imports it, also those of the jobs of a cluster: so it imports nothing heavy by itself.
"""

from logging import LogRecord

from snakemake_interface_logger_plugins.base import LogHandlerBase


class LogHandler(LogHandlerBase):
    """Hands Snakemake's messages to Parley's display."""

    writes_to_stream = True  # in place of Snakemake's own output on the terminal
    writes_to_file = False
    has_filter = True  # it decides by itself what is shown
    has_formatter = True  # messages are shown in its own words, or by Snakemake's own handler
    needs_rulegraph = False

    def __post_init__(self) -> None:
        from parley.workflow.run_log import RunLog

        self._log = RunLog(self.common_settings)

    def emit(self, record: LogRecord) -> None:
        """Show a message, or what became of the run since."""
        try:
            self._log.tell(record)
        except Exception:  # noqa: BLE001 (what logging does with any error of a handler)
            self.handleError(record)

    def close(self) -> None:
        """Draw for the last time."""
        self._log.close()
        super().close()
