"""Install a pinned list into the environment of the Python that runs this.

    python envs/install.py envs/cpu.txt --editable .

uv does it, much faster than pip; `--installer pip` is the second way. uv is a wheel like any other: it comes from
the same index, into the same environment. What a person has set for pip holds for uv too: index, links, proxy,
certificates, in pip's files or in PIP_ variables. Standard library only, since nothing is installed yet.
"""

import argparse
import ast
import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

# PyPI has all but the CPU build of torch. Asked second: a machine with its own mirror may not reach this index.
TORCH_INDEX = "https://download.pytorch.org/whl/cpu"
SIGN_OF_LIFE_SECONDS = 30.0
_UV = Path(sys.executable).with_name("uv")
_SETTING = re.compile(r"^(?P<place>:env:|[\w-]+)\.(?P<key>[\w-]+)=(?P<value>.*)$")


def pip_settings(listing: str) -> dict[str, str]:
    """Read what `pip config list` prints; of one key, variables win over `install`, and `install` over `global`."""
    order = ("global", "install", ":env:")
    found = [match for line in listing.splitlines() if (match := _SETTING.match(line)) and match["place"] in order]
    found.sort(key=lambda match: order.index(match["place"]))
    return {match["key"]: str(ast.literal_eval(match["value"])) for match in found}


def uv_variables(settings: dict[str, str]) -> dict[str, str]:
    """Say in uv's variables what was set for pip."""
    variables = {
        # As pip: the best version of all indexes, not that of the first index which has the name.
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_NO_PROGRESS": "1",
    }
    spaced = {"index-url": "UV_DEFAULT_INDEX", "extra-index-url": "UV_INDEX", "trusted-host": "UV_INSECURE_HOST"}
    single = {"cert": "SSL_CERT_FILE", "client-cert": "SSL_CLIENT_CERT"}
    for key, name in (spaced | single).items():
        if key in settings:
            variables[name] = " ".join(settings[key].split())
    if "find-links" in settings:
        variables["UV_FIND_LINKS"] = ",".join(settings["find-links"].split())
    if "proxy" in settings:
        variables |= dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), settings["proxy"])
    if timeout := settings.get("timeout", settings.get("default-timeout")):
        variables["UV_HTTP_TIMEOUT"] = timeout
    return variables


def has_uv(pin: str) -> bool:
    """Whether the environment has the uv that `pin` asks for ("uv" for any)."""
    if not _UV.exists():
        return False
    said = subprocess.run([str(_UV), "--version"], capture_output=True, text=True).stdout.split()
    return pin in ("uv", f"uv=={said[1]}" if len(said) > 1 else "")


def install(requirements: Path, editable: Path | None, installer: str) -> None:
    """Install the list, and `editable` after it; a line for each step. Raises SystemExit with what went wrong."""
    pins = [line for line in requirements.read_text(encoding="utf-8").splitlines() if line and line[0] != "#"]
    torch = next((pin for pin in pins if pin.startswith("torch==") and pin.endswith("+cpu")), None)
    run = _Steps()
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-deps"]
    command = pip
    if installer == "uv":
        # A list that names no uv (that of a model) takes what the environment has.
        pin = next((pin for pin in pins if pin.startswith("uv==")), "uv")
        if not has_uv(pin):
            run.step(pin, [*pip, pin])
        command = [str(_UV), "pip", "install", "--python", sys.executable, "--no-deps"]
        listing = subprocess.run([*pip[:3], "config", "list"], capture_output=True, text=True, check=True).stdout
        settings = pip_settings(listing)
        if settings.get("no-index", "").lower() in ("1", "true", "yes", "on"):
            command.append("--no-index")
        os.environ.update({key: value for key, value in uv_variables(settings).items() if key not in os.environ})
    if torch is not None:
        retries = ["--retries", "0"] if installer == "pip" else []
        beside = ["--extra-index-url" if installer == "pip" else "--index", TORCH_INDEX]
        run.step(f"{torch} (for CPUs)", [*command, *retries, torch], [*command, *retries, *beside, torch])
    run.step(f"{len(pins)} packages of {requirements}", [*command, "--requirement", str(requirements)])
    if editable is not None:
        run.step("Parley itself", [*command, "--no-build-isolation", "--editable", str(editable)])


class _Steps:
    """Runs commands, a line each; a sign of life every 30 seconds, or at once on a terminal."""

    def step(self, title: str, *commands: Sequence[str]) -> None:
        """Run the first of the `commands` that succeeds; end the program if none does."""
        begun = time.monotonic()
        output: list[str] = []
        for command in commands:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
            output = []
            told = begun if sys.stdout.isatty() else time.monotonic()
            for line in _lines(process):
                if line:
                    output.append(line)
                if time.monotonic() - told >= (1 if sys.stdout.isatty() else SIGN_OF_LIFE_SECONDS):
                    told = time.monotonic()
                    self._tell(f"{title}: {told - begun:.0f} s{_news(output)}", lasting=False)
            if process.wait() == 0:
                self._tell(f"{title}: done in {time.monotonic() - begun:.0f} s", lasting=True)
                return
        self._tell(f"{title}: failed", lasting=True)
        other = ", or with pip: make setup INSTALLER=pip" if commands[0][0] == str(_UV) else ""
        sys.exit("\n".join(output[-15:]) + f"\nThe same command tries again{other}")

    @staticmethod
    def _tell(text: str, lasting: bool) -> None:
        terminal = sys.stdout.isatty()
        width = os.get_terminal_size().columns - 1 if terminal else 200
        end = "\n" if lasting or not terminal else ""
        print(("\r\x1b[K" if terminal else "") + text[:width], end=end, flush=True)


def _lines(process: "subprocess.Popen[bytes]") -> Iterator[str]:
    """Yield the lines of a process as they come, and an empty one after each second without any."""
    assert process.stdout is not None
    fd, rest = process.stdout.fileno(), b""
    while True:
        if not select.select([fd], [], [], 1.0)[0]:
            yield ""
            continue
        if not (read := os.read(fd, 65536)):
            break
        *lines, rest = (rest + read).split(b"\n")
        yield from (line.decode(errors="replace").strip() for line in lines)
    yield rest.decode(errors="replace").strip()


def _news(output: Sequence[str]) -> str:
    """Say how far the downloads are, by uv's own words; nothing where it has said none."""
    begun = [line.split()[1] for line in output if line.startswith("Downloading ")]
    done = {line.split()[1] for line in output if line.startswith("Downloaded ")}
    waiting = [name for name in begun if name not in done]
    if not begun or any(line.startswith("Prepared ") for line in output):
        return ""
    return f", {len(done)} of {len(begun)} large files{': ' + ', '.join(waiting[:3]) if waiting else ''}"


def main() -> None:
    """Read the arguments and install."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("requirements", type=Path, help="the pinned list")
    parser.add_argument("--editable", type=Path, metavar="FOLDER", help="install the package in FOLDER after it")
    parser.add_argument("--installer", choices=("uv", "pip"), default="uv")
    given = parser.parse_args()
    if not given.requirements.is_file():
        parser.error(f"{given.requirements}: no such file")
    install(given.requirements, given.editable, given.installer)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("\nstopped; the same command goes on")
