"""The command line: one thin command per stage of the workflow (`stages.py`), and those of users."""

import logging
import os
import signal
import sys
import threading
import time
from io import StringIO, TextIOWrapper
from types import FrameType

import click

from parley import __version__
from parley.cli import cards, forks, ledger, prompts, stages, studies, user_commands
from parley.cli.common import print_log
from parley.errors import FileError, GameError, ParleyError, without_keys
from parley.text import one_line
from parley.workflow.stopping import ALL_SECONDS, GOES_ON, SIGNALS, end_now

# What journals or caches keep; the other commands are just given again.
_GOES_ON = ("simulate", "simulate-shard")


def main() -> None:
    """Run the command line; errors are one line on stderr and an exit status of 1 or 2."""
    command = next((word for word in sys.argv[1:] if word in commands.commands), "")
    words = f"interrupted; {GOES_ON}" if command in _GOES_ON else "interrupted"
    stop_command(words)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.encoding.lower() != "utf-8":  # it may lack letters of a reply
            stream.reconfigure(errors="backslashreplace")
    try:
        commands(standalone_mode=False)
    except click.ClickException as error:
        error.show(shown := StringIO())
        click.echo(without_keys(shown.getvalue()), err=True, nl=False)
        sys.exit(error.exit_code)
    except click.Abort:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # asked again it ends no sooner, but with a traceback
        logging.getLogger("asyncio").disabled = True  # which would print those of tasks that were broken off
        click.echo(f"parley: {words}", err=True)
        sys.exit(130)
    except ParleyError as error:
        if isinstance(error, GameError) and os.environ.get("PARLEY_DEBUG"):  # its author wants to see where
            raise
        lines = str(error).splitlines() if isinstance(error, FileError) else [str(error)]
        click.echo("\n".join(map(one_line, [f"parley: {lines[0]}", *lines[1:]])), err=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.exit(1)
    except Exception as error:
        if os.environ.get("PARLEY_DEBUG"):
            raise
        from parley.policies.own_code import own_line  # slow to import

        kind = "" if isinstance(error, OSError) else f"{type(error).__name__}: "
        said = f"{kind}{one_line(without_keys(str(error)), 300)}{own_line(error)}"
        if isinstance(error, OSError) and error.filename is not None:
            said = f"{one_line(without_keys(str(error.filename)), 300)}: {error.strerror}"
        click.echo(f"parley: {said} (PARLEY_DEBUG=1 shows where)", err=True)
        sys.exit(1)


def stop_command(words: str) -> None:
    """Make SIGTERM do what Ctrl-C does, and have either end this process in time, with these `words` if it hangs."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=_end_late, args=(reader, words), daemon=True, name="parley-stop").start()
    signal.signal(signal.SIGTERM, _as_ctrl_c)
    os.register_at_fork(after_in_child=_forget)


def _forget() -> None:
    """What a process forks, such as those that draw figures, ends as any other, and tells nobody."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _as_ctrl_c(number: int, frame: FrameType | None) -> None:
    if signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, None):  # a command in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.raise_signal(signal.SIGINT)


def _end_late(reader: int, words: str) -> None:
    """Wait for a signal, and then for the process to end by itself."""
    while os.read(reader, 1)[0] not in SIGNALS:
        pass
    time.sleep(ALL_SECONDS)
    end_now(words)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 140})
@click.version_option(__version__, prog_name="parley")
@click.pass_context
def commands(context: click.Context) -> None:
    """Parley measures whether groups of LLM agents can agree, and what breaks their agreement.

    STUDY is the name of a file under config/ (demo, paper) or the path of a YAML file.

    \b
    A whole study:       parley run demo
    One game, watched:   parley play demo --n 12 --b 3
    """
    print_log(context)


for module in (stages, cards, ledger, user_commands, forks, studies, prompts):
    for command in module.COMMANDS:
        commands.add_command(command)
