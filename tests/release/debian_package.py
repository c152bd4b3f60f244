"""Debian package: a virtual environment in /opt/switchroom, units and user.

It is for the Debian release and architecture on which it is built.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

from integration import __version__
from tests.support.harness import ROOT

PYTHON = "/usr/bin/python3"
"""Python of Debian, which the installed environment uses."""
PROGRAM = Path("opt", "switchroom")
UNITS = Path("usr", "lib", "systemd", "system")
DOCUMENTATION = Path("usr", "share", "doc", "switchroom")
EXAMPLES = ("grafana", "prometheus", "proxies", "restic")
COMMAND = f"""\
#!/{PROGRAM}/bin/python
import sys

from integration.cli import main

sys.exit(main())
"""


def make_control(size: int) -> str:
    """Return the control file. `size`: KiB of the installed files."""
    release = platform.freedesktop_os_release()
    architecture = _run("dpkg", "--print-architecture").strip()
    major, minor = _run(PYTHON, "-c", "import sys; print(*sys.version_info[:2])").split()
    # `~` sorts a candidate before its release.
    version = re.sub(r"(?=(?:a|b|rc)\d)", "~", __version__)
    return (
        "Package: switchroom\n"
        f"Version: {version}+{release['ID']}{release['VERSION_ID']}\n"
        f"Architecture: {architecture}\n"
        "Maintainer: Switchroom <switchroom@example.com>\n"
        f"Installed-Size: {size}\n"
        f"Depends: python3 (>= {major}.{minor}), python3 (<< {major}.{int(minor) + 1}), libc6, systemd\n"
        "Section: comm\n"
        "Priority: optional\n"
        "Description: integration worker and dashboard of a hosted phone system\n"
        " Stores webhooks, copies an account and serves dashboard and REST API.\n"
    )


def finish_environment(root: Path) -> None:
    """Make the environment in `root`/opt/switchroom independent of the folder in which it was built."""
    program = root / PROGRAM
    configuration = program / "pyvenv.cfg"
    lines = configuration.read_text().splitlines(keepends=True)
    configuration.write_text("".join(line for line in lines if not line.startswith("command")))
    for path in (program / "bin").iterdir():
        if not path.name.startswith("python"):
            path.unlink()
    command = program / "bin" / "switchroom"
    command.write_text(COMMAND)
    command.chmod(0o755)
    for path in program.rglob("direct_url.json"):
        path.unlink()
    # The service cannot write to /opt: without these files each start would compile the modules.
    _run(PYTHON, "-m", "compileall", "-q", "-s", str(root), "-p", "/", str(program / "lib"))


def add_files(root: Path) -> None:
    """Add units, user, documents and maintainer scripts."""
    deploy = ROOT / "deploy"
    for folder in (UNITS, Path("usr", "lib", "sysusers.d"), DOCUMENTATION, Path("DEBIAN")):
        (root / folder).mkdir(parents=True)
    for path in (deploy / "systemd").iterdir():
        if path.suffix in (".service", ".socket"):
            # Without the head, which installs the files by hand.
            unit = "[Unit]" + path.read_text().partition("\n[Unit]")[2]
            (root / UNITS / path.name).write_text(unit)
    instance = _run(
        "sed", "-f", str(deploy / "systemd/instance.sed"), str(root / UNITS / "switchroom.service")
    )
    (root / UNITS / "switchroom@.service").write_text(instance)
    shutil.copy(deploy / "systemd" / "switchroom.sysusers.conf", root / "usr/lib/sysusers.d/switchroom.conf")
    for name in ("CHANGELOG.md", "NOTICE", "config.example.toml"):
        shutil.copy(ROOT / name, root / DOCUMENTATION)
    shutil.copy(ROOT / "LICENSE", root / DOCUMENTATION / "copyright")
    for name in EXAMPLES:
        shutil.copytree(deploy / name, root / DOCUMENTATION / "examples" / name)
    for path in (ROOT / "examples").glob("*.py"):
        shutil.copy(path, root / DOCUMENTATION / "examples")
    for path in (deploy / "debian").iterdir():
        shutil.copy(path, root / "DEBIAN")


def write_package(root: Path, out: Path) -> None:
    """Write `switchroom_VERSION_ARCHITECTURE.deb` of `root`, whose environment has the packages, to `out`."""
    finish_environment(root)
    add_files(root)
    size = sum(path.lstat().st_size for path in root.rglob("*") if not path.is_dir()) // 1024
    (root / "DEBIAN" / "control").write_text(make_control(size))
    for folder, _, names in os.walk(root):
        for path in (Path(folder), *(Path(folder, name) for name in names)):
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
    # The default of xz takes 42 s of CPU time instead of 6 s, for a sixth less.
    _run("dpkg-deb", "--root-owner-group", "-z1", "--build", str(root), str(out))


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
