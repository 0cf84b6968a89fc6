"""`envs/install.py`: what is set for pip holds for uv, and a failed step says what to do."""

import base64
import functools
import hashlib
import http.server
import importlib.util
import os
import shutil
import subprocess
import sys
import threading
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import REPOSITORY

pytestmark = [pytest.mark.promise("What is set for pip holds for the installation by uv."), pytest.mark.rare]

SCRIPT = REPOSITORY / "envs" / "install.py"
_spec = importlib.util.spec_from_file_location("install", SCRIPT)
assert _spec is not None
assert _spec.loader is not None
install = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(install)


def test_variables_win_over_the_install_section_and_that_over_global():
    listing = "\n".join(
        [
            ":env:.find-links='/from/env'",
            "global.find-links='/from/global'",
            "install.index-url='https://install.example/simple'",
            "global.index-url='https://global.example/simple'",
            "list.format='json'",
            "not a setting",
        ]
    )
    assert install.pip_settings(listing) == {
        "find-links": "/from/env",
        "index-url": "https://install.example/simple",
    }


def test_what_is_set_for_pip_is_said_in_the_variables_of_uv():
    settings = {
        "index-url": "https://mirror.example/simple",
        "extra-index-url": "https://a.example/simple\nhttps://b.example/simple",
        "find-links": "/one /two",
        "proxy": "http://proxy.example:3128",
        "cert": "/certificates.pem",
        "trusted-host": "mirror.example",
        "timeout": "180",
    }
    told = install.uv_variables(settings)
    assert told["UV_DEFAULT_INDEX"] == "https://mirror.example/simple"
    assert told["UV_INDEX"] == "https://a.example/simple https://b.example/simple"
    assert told["UV_FIND_LINKS"] == "/one,/two"
    assert told["HTTPS_PROXY"] == told["HTTP_PROXY"] == "http://proxy.example:3128"
    assert told["SSL_CERT_FILE"] == "/certificates.pem"
    assert told["UV_INSECURE_HOST"] == "mirror.example"
    assert told["UV_HTTP_TIMEOUT"] == "180"


class _Index(http.server.SimpleHTTPRequestHandler):
    asked: list[str]

    def __init__(self, *args, asked: list[str], **kwargs):
        self.asked = asked
        super().__init__(*args, **kwargs)

    def do_GET(self):
        self.asked.append(self.path)  # to a proxy, the whole URL
        self.path = self.path.removeprefix("http://packages.invalid")
        super().do_GET()

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def wheels(tmp_path_factory) -> Path:
    """A simple index with one package of one module."""
    folder = tmp_path_factory.mktemp("index")
    wheel = folder / "simple" / "tiny-parcel" / "tiny_parcel-1.0-py3-none-any.whl"
    wheel.parent.mkdir(parents=True)
    info = "tiny_parcel-1.0.dist-info"
    digest = base64.urlsafe_b64encode(hashlib.sha256(b"WEIGHTS = 1\n").digest()).rstrip(b"=").decode()
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("tiny_parcel.py", "WEIGHTS = 1\n")
        file.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-parcel\nVersion: 1.0\n")
        file.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr(
            f"{info}/RECORD",
            f"tiny_parcel.py,sha256={digest},12\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n",
        )
    (wheel.parent / "index.html").write_text(f'<a href="{wheel.name}">{wheel.name}</a>', encoding="utf-8")
    return folder


@pytest.fixture
def index(wheels) -> Iterator[tuple[str, list[str]]]:
    """The index as a server; its address and what it was asked for."""
    asked: list[str] = []
    handler = functools.partial(_Index, asked=asked, directory=str(wheels))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """An environment that has uv already."""
    folder = tmp_path_factory.mktemp("made") / "environment"
    venv.create(folder, with_pip=True)
    (folder / "bin" / "uv").symlink_to(Path(sys.executable).with_name("uv"))
    return folder


@pytest.fixture
def environment(made) -> Iterator[Path]:
    """The same, without the package."""
    yield made
    for path in made.glob("lib/python*/site-packages/tiny_parcel*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def run(environment: Path, pin: str, *options: str, **settings: str) -> subprocess.CompletedProcess[str]:
    wanted = environment.parent / "pins.txt"
    wanted.write_text(f"# one package\n{pin}\n", encoding="utf-8")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PIP_", "UV_", "HTTP", "ALL_"))}
    # No cache: what was installed once would be had again without asking anyone.
    fixed = {"PIP_CONFIG_FILE": os.devnull, "UV_NO_CACHE": "1", "PIP_NO_CACHE_DIR": "1", "UV_HTTP_RETRIES": "0"}
    return subprocess.run(
        [environment / "bin" / "python", SCRIPT, wanted, *options],
        env=kept | fixed | settings,
        capture_output=True,
        text=True,
        timeout=120,
    )


def installed(environment: Path) -> bool:
    return any(environment.glob("lib/python*/site-packages/tiny_parcel.py"))


@pytest.mark.parametrize("installer", ["uv", "pip"])
def test_the_index_set_for_pip_is_asked(environment, index, installer):
    address, asked = index
    done = run(environment, "tiny-parcel==1.0", "--installer", installer, PIP_INDEX_URL=f"{address}/simple")
    assert done.returncode == 0, done.stderr
    assert installed(environment)
    assert "/simple/tiny-parcel/tiny_parcel-1.0-py3-none-any.whl" in asked
    assert len(done.stdout.splitlines()) == 1  # a line a step


def test_the_proxy_set_for_pip_is_used(environment, index):
    address, asked = index
    done = run(environment, "tiny-parcel==1.0", PIP_INDEX_URL="http://packages.invalid/simple", PIP_PROXY=address)
    assert done.returncode == 0, done.stderr
    assert installed(environment)
    assert "http://packages.invalid/simple/tiny-parcel/" in asked


def test_a_folder_of_wheels_set_for_pip_is_enough(environment, wheels):
    links = str(wheels / "simple" / "tiny-parcel")
    done = run(
        environment, "tiny-parcel==1.0", PIP_FIND_LINKS=links, PIP_NO_INDEX="true", PIP_INDEX_URL="http://[::1]:9"
    )
    assert done.returncode == 0, done.stderr
    assert installed(environment)


def test_a_missing_version_fails_and_names_the_second_way(environment, index):
    address, _ = index
    done = run(environment, "tiny-parcel==2.0", PIP_INDEX_URL=f"{address}/simple")
    assert done.returncode == 1
    assert "tiny-parcel==2.0" in done.stderr
    assert "make setup INSTALLER=pip" in done.stderr
    assert not installed(environment)


def test_without_pytorch_for_this_python_another_python_is_named(environment, index):
    done = run(environment, "torch==99.0+cpu", PIP_INDEX_URL=f"{index[0]}/simple", UV_OFFLINE="1")
    assert done.returncode == 1
    assert "make setup PYTHON=python3." in done.stderr


# Lists with hashes: weights in packages, installed one by one


def wheel_hash(wheels: Path) -> str:
    wheel = next((wheels / "simple" / "tiny-parcel").glob("*.whl"))
    return hashlib.sha256(wheel.read_bytes()).hexdigest()


@pytest.mark.parametrize("installer", ["uv", "pip"])
def test_a_wheel_with_the_hash_of_the_list_is_installed_once(environment, index, wheels, installer):
    address, asked = index
    pin = f"tiny-parcel==1.0 --hash=sha256:{wheel_hash(wheels)}  # 500 bytes"
    settings = {"PIP_INDEX_URL": f"{address}/simple"}
    done = run(environment, pin, "--installer", installer, **settings)
    assert done.returncode == 0, done.stdout + done.stderr
    assert installed(environment)
    assert "0 of 0 MB (0%), then tiny-parcel 1.0: done" in done.stdout
    asked.clear()
    again = run(environment, pin, "--installer", installer, **settings)
    assert again.returncode == 0, again.stderr
    assert "1 of them installed already" in again.stdout
    assert asked == []


def test_another_hash_is_one_line_and_installs_nothing(environment, index):
    pin = f"tiny-parcel==1.0 --hash=sha256:{'0' * 64}"
    for installer in ("uv", "pip"):
        done = run(environment, pin, "--installer", installer, PIP_INDEX_URL=f"{index[0]}/simple")
        assert done.returncode == 1
        assert len(done.stderr.splitlines()) == 1
        assert done.stderr.startswith("tiny-parcel==1.0: what the index gives has another SHA-256 than")
        assert not installed(environment)


def test_a_damaged_package_is_installed_again(environment, index, wheels):
    pin = f"tiny-parcel==1.0 --hash=sha256:{wheel_hash(wheels)}"
    settings = {"PIP_INDEX_URL": f"{index[0]}/simple"}
    assert run(environment, pin, **settings).returncode == 0
    [module] = environment.glob("lib/python*/site-packages/tiny_parcel.py")
    content = module.read_bytes()
    module.write_bytes(content[:-1])
    done = run(environment, pin, **settings)
    assert done.returncode == 0, done.stdout + done.stderr
    assert module.read_bytes() == content


def test_a_list_with_hashes_has_one_for_each_package(tmp_path):
    wanted = tmp_path / "some.txt"
    wanted.write_text(f"a==1.0 --hash=sha256:{'0' * 64}\nb==1.0\n", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"some\.txt: b==1\.0: must be NAME==VERSION --hash=sha256:HASH"):
        install.install(wanted, None, "pip")
