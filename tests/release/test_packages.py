"""Files of wheel and sdist; the demo of an installed wheel."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterator
from email.message import Message
from email.parser import BytesParser
from pathlib import Path
from typing import Any

import pytest

from integration import __version__
from tests.deploy.build_context import list_sources
from tests.support.harness import ROOT, wait_for

pytestmark = pytest.mark.exhaustive

ASSETS = "integration/assets/"
DOCUMENTS = ("config.example.toml", "CHANGELOG.md", "LICENSE", "NOTICE")
START_SECONDS = 120.0


def list_repository(*folders: str) -> set[str]:
    """Files of the repository below `folders`, without ignored ones."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *folders]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    return {path for path in listed if path and (ROOT / path).exists()}


def build(folder: Path, *options: str) -> Path:
    command = [sys.executable, "-m", "build", "--no-isolation", *options, "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folder with a wheel and an sdist.

    They are built beside the leftovers of an earlier build.
    """
    leftover = ROOT / "build" / "lib" / "integration" / "leftover.py"
    leftover.parent.mkdir(parents=True, exist_ok=True)
    leftover.touch()
    try:
        yield build(tmp_path_factory.mktemp("dist"), "--sdist", "--wheel")
    finally:
        leftover.unlink()
        leftover.parent.rmdir()
        leftover.parent.parent.rmdir()


@pytest.fixture(scope="module")
def wheel(packages: Path) -> Path:
    (found,) = packages.glob("*.whl")
    return found


def read_wheel(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def read_metadata(wheel: Path) -> Message:
    files = read_wheel(wheel)
    return BytesParser().parsebytes(files[f"switchroom-{__version__}.dist-info/METADATA"])


def test_the_wheel_has_the_package_and_the_files_beside_it_and_nothing_else(wheel: Path) -> None:
    beside = {ASSETS + path for path in list_repository("templates", "static")}
    beside |= {ASSETS + name for name in (*DOCUMENTS, "COMMIT")}
    site = ROOT / "build" / "help"
    beside |= {f"{ASSETS}help/{path.relative_to(site)}" for path in site.rglob("*") if path.is_file()}
    names = {name for name in read_wheel(wheel) if ".dist-info/" not in name}
    assert names == list_repository("integration") | beside
    pages = {
        f"{ASSETS}help/{Path(path).stem}.html" for path in list_repository("docs") if path.endswith(".md")
    }
    assert pages | {f"{ASSETS}help/searchindex.js"} <= names


def test_the_sdist_has_the_repository(packages: Path) -> None:
    (sdist,) = packages.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    assert names == list_repository() | {"COMMIT", "PKG-INFO"}


@pytest.mark.parametrize("source", ["sdist", "context of the image"])
def test_a_wheel_from_elsewhere_is_like_one_from_the_repository(
    source: str, packages: Path, wheel: Path, tmp_path: Path
) -> None:
    if source == "sdist":
        (sdist,) = packages.glob("*.tar.gz")
        with tarfile.open(sdist) as archive:
            archive.extractall(tmp_path, filter="data")
    else:
        for path in list_sources(ROOT):
            (tmp_path / "source" / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, tmp_path / "source" / path)
        # As the Dockerfile does.
        (tmp_path / "source/COMMIT").write_bytes(read_wheel(wheel)[f"{ASSETS}COMMIT"])
    command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(tmp_path), "."]
    subprocess.run(command, cwd=next(tmp_path.iterdir()), capture_output=True, check=True)
    (built,) = tmp_path.glob("*.whl")
    assert read_wheel(built) == read_wheel(wheel)


def test_the_wheel_names_licence_extras_and_commit(wheel: Path) -> None:
    metadata = read_metadata(wheel)
    assert metadata["Version"] == __version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata.get_all("License-File") == ["LICENSE", "NOTICE"]
    extras = {"alerts", "parquet", "test", "lint", "browser", "bench", "examples", "audit", "docs", "release"}
    assert set(metadata.get_all("Provides-Extra") or ()) == extras
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert read_wheel(wheel)[f"{ASSETS}COMMIT"].decode() == head.stdout[:12] + "\n"


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Command `switchroom` of the wheel, in an environment outside of the checkout.

    The dependencies are those of this environment: a `.pth` file names its folder, whose own `.pth` files
    (the checkout) do not apply. Installing them would take half a minute.
    """
    folder = tmp_path_factory.mktemp("installed") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "install",
        "--quiet",
        "--no-deps",
        str(wheel),
    ]
    subprocess.run(pip, check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin" / "switchroom"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Environment of a new user: an empty home.

    No variable names the checkout.
    """
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SWITCHROOM"))
    }
    return kept | {"HOME": str(tmp_path)}


def test_the_installed_command_runs_from_any_folder(
    installed: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    done = subprocess.run(
        [installed, "--version"], cwd="/", env=environment, capture_output=True, text=True, check=True
    )
    assert re.fullmatch(rf"switchroom {re.escape(__version__)} \(commit [0-9a-f]{{12}}\)\n", done.stdout)
    code = "import integration; print(integration.__file__)"
    python = installed.with_name("python")
    done = subprocess.run(
        [python, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert Path(done.stdout).is_relative_to(installed.parents[1])


@pytest.fixture
def demo(installed: Path, environment: dict[str, str], tmp_path: Path) -> Iterator[list[str]]:
    """Printed URL, e-mail address and password of the installed demo."""
    printed, errors = tmp_path / "printed", tmp_path / "errors"
    arguments = [installed, "demo", "--port", "0", "--cdrs", "500", "--speed", "5"]
    with printed.open("w") as out, errors.open("w") as err:
        process = subprocess.Popen(arguments, cwd=tmp_path, env=environment, stdout=out, stderr=err)
    try:

        def read_login() -> list[str] | None:
            assert process.poll() is None, errors.read_text()
            lines = printed.read_text().splitlines()
            return [line.split(": ", 1)[1] for line in lines[:3]] if len(lines) == 4 else None

        yield wait_for(read_login, "the login of the demo", START_SECONDS)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        finally:
            process.kill()


def test_only_a_wheel_whose_site_is_not_built_requires_sphinx(packages: Path, tmp_path: Path) -> None:
    sdist = next(packages.glob("*.tar.gz"))
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    code = (
        "from docs_site.backend import *\n"
        "for kind in ('wheel', 'editable', 'sdist'): print(globals()[f'get_requires_for_build_{kind}']())"
    )

    def read_requirements(folder: Path) -> str:
        command = [sys.executable, "-c", code]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout

    unbuilt = read_requirements(next(tmp_path.iterdir()))
    assert re.fullmatch(r"\['sphinx.*', 'myst-parser.*'\]\n\['editables[^,]*'\]\n\[\]\n", unbuilt)
    assert re.fullmatch(r"\[\]\n\['editables[^,]*'\]\n\[\]\n", read_requirements(ROOT))


def test_the_demo_of_the_wheel_shows_live_calls(demo: list[str], page: Any) -> None:
    # Imported here: the suite runs without Playwright.
    from playwright.sync_api import expect

    url, email, password = demo
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.goto(f"{url}login")
    page.get_by_label("E-mail").fill(email)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()
    expect(page).to_have_title(re.compile("Live"))
    expect(page.locator("#live tbody:not([hidden]) tr[data-call]").first).to_be_visible()
    for path in ("calls", "reports", "system", "docs"):
        page.goto(url + path)
        expect(page.locator("main")).to_be_visible()
    assert problems == []
