"""Install a pinned list into the environment of the Python that runs this.

    python envs/install.py envs/cpu.txt --editable .

uv does it, much faster than pip; `--installer pip` is the second way. uv is a wheel like any other: it comes from
the same index, into the same environment. What a person has set for pip holds for uv too: index, links, proxy,
certificates, in pip's files or in PIP_ variables. Standard library only, since nothing is installed yet.

The packages of a list with hashes (envs/models/) are installed one by one, each as a wheel with that hash; those that
are installed already are left alone, so an interrupted installation goes on.
"""

import argparse
import ast
import importlib.metadata
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

# PyPI has all but the CPU build of torch. Asked second: a machine with its own mirror may not reach this index.
TORCH_INDEX = "https://download.pytorch.org/whl/cpu"
SIGN_OF_LIFE_SECONDS = 30.0
PYTHONS = ("3.11", "3.12", "3.13")  # with which the lists install
_UV = Path(sys.executable).with_name("uv")
_HASHED = re.compile(
    r"^(?P<name>[\w.-]+)==(?P<version>\S+) --hash=(?P<hash>sha256:[0-9a-f]{64})(?:  # (?P<size>\d+) bytes)?$"
)
_OTHER_HASH = ("hash mismatch", "do not match the hashes")  # as uv and pip say it
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


@dataclass(frozen=True)
class Hashed:
    """A package of a list with hashes; `size` is that of its wheel, in bytes."""

    name: str
    version: str
    hash: str
    size: int


def hashed_pins(pins: Sequence[str], requirements: Path) -> list[Hashed]:
    """Return the packages of a list with hashes, none if it has none; raises SystemExit where only some have one."""
    found = [_HASHED.match(pin) for pin in pins]
    if not any("--hash" in pin for pin in pins):
        return []
    for pin, match in zip(pins, found, strict=True):
        if match is None:
            sys.exit(f"{requirements}: {pin[:80]}: must be NAME==VERSION --hash=sha256:HASH; mend the list")
    return [Hashed(m["name"], m["version"], m["hash"], int(m["size"] or 0)) for m in found if m]


def is_whole(package: Hashed) -> bool:
    """Whether a package is installed in its version, with all its files in their sizes.

    What an interrupted installation left without a list of files is removed: no installer can replace it.
    """
    try:
        found = importlib.metadata.distribution(package.name)
    except importlib.metadata.PackageNotFoundError:
        return False
    if found.read_text("RECORD") is None:
        metadata = getattr(found, "_path", None)
        if isinstance(metadata, Path) and metadata.suffix == ".dist-info":
            shutil.rmtree(metadata)
        return False
    listed = [(Path(str(file.locate())), file.size) for file in found.files or []]
    return found.version == package.version and all(
        path.is_file() and size in (None, path.stat().st_size) for path, size in listed
    )


def install(
    requirements: Path,
    editable: Path | None,
    installer: str,
    python: str = sys.executable,
    without: Collection[str] = (),
) -> None:
    """Install the list, and `editable` after it, into the environment of `python`; a line for each step.

    The packages `without` are left out. Raises SystemExit with what went wrong.
    """
    lines = requirements.read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and line[0] != "#" and line.partition("==")[0] not in without]
    hashed = hashed_pins(pins, requirements)
    torch = next((pin for pin in pins if pin.startswith("torch==") and pin.endswith("+cpu")), None)
    run = _Steps()
    own = [sys.executable, "-Pm", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-deps"]
    command = pip = [python, *own[1:]]
    if installer == "uv":
        # A list that names no uv (that of a model) takes what the environment has.
        pin = next((pin for pin in pins if pin.startswith("uv==")), "uv")
        if not has_uv(pin):
            run.step(pin, [*own, pin])
        command = [str(_UV), "pip", "install", "--python", python, "--no-deps"]
        listing = subprocess.run([*pip[:3], "config", "list"], capture_output=True, text=True, check=True).stdout
        settings = pip_settings(listing)
        if settings.get("no-index", "").lower() in ("1", "true", "yes", "on"):
            command.append("--no-index")
        os.environ.update({key: value for key, value in uv_variables(settings).items() if key not in os.environ})
    if hashed:
        _install_hashed(hashed, command, run, requirements)
        return
    if torch is not None:
        retries = ["--retries", "0"] if installer == "pip" else []
        beside = ["--extra-index-url" if installer == "pip" else "--index", TORCH_INDEX]
        here = f"{sys.version_info.major}.{sys.version_info.minor}"
        failure = run.attempt(f"{torch} (for CPUs)", [*command, *retries, torch], [*command, *retries, *beside, torch])
        if failure is not None:
            others = " or ".join(version for version in PYTHONS if version != here)
            hint = f"If there is no {torch} for Python {here}, take {others}: make setup PYTHON=python{PYTHONS[0]}"
            run.give_up([*failure, hint], command)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:  # without what is left out
        file.write("\n".join(pins) + "\n")
        file.flush()
        run.step(f"{len(pins)} packages of {requirements}", [*command, "--requirement", file.name])
    if editable is not None:
        run.step("Parley itself", [*command, "--no-build-isolation", "--editable", str(editable)])


def _install_hashed(packages: Sequence[Hashed], command: Sequence[str], run: "_Steps", requirements: Path) -> None:
    """Install what is missing, one by one: what is installed is not downloaded again."""
    missing = [package for package in packages if not is_whole(package)]
    total, left = (sum(package.size for package in some) for some in (packages, missing))
    there = f", {len(packages) - len(missing)} of them installed already" if len(missing) < len(packages) else ""
    print(f"{requirements}: {len(packages)} packages, {total / 1e6:,.0f} MB{there}", flush=True)
    # A package that is not whole has its version, and would be left alone.
    again = "--reinstall" if command[0] == str(_UV) else "--force-reinstall"
    options = [again, "--require-hashes", "--only-binary", ":all:", "--requirement"]
    for package in missing:
        so_far = f"{(total - left) / 1e6:,.0f} of {total / 1e6:,.0f} MB ({100 - left * 100 // max(total, 1)}%)"
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:  # neither takes a hash as an argument
            file.write(f"{package.name}=={package.version} --hash={package.hash}\n")
            file.flush()
            failure = run.attempt(f"{so_far}, then {package.name} {package.version}", [*command, *options, file.name])
        if failure is not None and any(words in line.lower() for line in failure for words in _OTHER_HASH):
            sys.exit(
                f"{package.name}=={package.version}: what the index gives has another SHA-256 than {requirements} "
                "says, and was not installed; look at who publishes it, or take the model from another place"
            )
        if failure is not None:
            run.give_up(failure, command, f"make model NAME={requirements.stem}")
        left -= package.size


class _Steps:
    """Runs commands, a line each; a sign of life every 30 seconds, or at once on a terminal."""

    def step(self, title: str, *commands: Sequence[str]) -> None:
        """Run the first of the `commands` that succeeds; end the program if none does."""
        failure = self.attempt(title, *commands)
        if failure is not None:
            self.give_up(failure, commands[0])

    def attempt(self, title: str, *commands: Sequence[str]) -> list[str] | None:
        """Run the first of the `commands` that succeeds; return what the last one said if none does."""
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
                return None
        self._tell(f"{title}: failed", lasting=True)
        return output

    @staticmethod
    def give_up(output: Sequence[str], command: Sequence[str], target: str = "make setup") -> None:
        """End the program with the last lines of what failed."""
        other = f", or with pip: {target} INSTALLER=pip" if command[0] == str(_UV) else ""
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
    parser.add_argument("--python", default=sys.executable, help="Python of the environment; default: this one")
    parser.add_argument("--without", nargs="*", default=(), metavar="NAME", help="packages of the list to leave out")
    given = parser.parse_args()
    if not given.requirements.is_file():
        parser.error(f"{given.requirements}: no such file")
    install(given.requirements, given.editable, given.installer, given.python, given.without)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("\nstopped; the same command goes on")
