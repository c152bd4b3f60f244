"""`python -m tests.release`: its checks, and the files of a rehearsal."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from integration import __version__
from tests.support.application import running_app
from tests.support.harness import ROOT


def test_the_changelog_begins_with_the_version_of_the_code() -> None:
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    version, _, date = headings[0].partition(", ")
    assert version == __version__
    assert re.fullmatch(r"not yet released|\d{4}-\d{2}-\d{2}", date)


@pytest.fixture(scope="module")
def rehearsal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the files of a release."""
    out = tmp_path_factory.mktemp("rehearsal") / "dist"
    command = [sys.executable, "-m", "tests.release", "--rehearsal", "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture
def debian_package(rehearsal: Path) -> Path:
    (path,) = rehearsal.glob("*.deb")
    return path


@pytest.mark.exhaustive
def test_a_rehearsal_writes_packages_bill_notices_notes_and_checksums(
    rehearsal: Path, debian_package: Path
) -> None:
    bill = f"switchroom-{__version__}.cdx.json"
    names = {
        bill, f"switchroom-{__version__}.tar.gz", f"switchroom-{__version__}-py3-none-any.whl",
        debian_package.name, "THIRD-PARTY-NOTICES.txt", "RELEASE-NOTES.txt", "SHA256SUMS",
    }  # fmt: skip
    assert {path.name for path in rehearsal.iterdir()} == names
    for line in (rehearsal / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256((rehearsal / name).read_bytes()).hexdigest() == digest
        names.remove(name)
    assert names == {"SHA256SUMS"}
    locked = dict(
        re.findall(r"^([a-z0-9._-]+)==(\S+) ", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    )
    components = {
        re.sub(r"[-_.]+", "-", one["name"]).lower(): one["version"]
        for one in json.loads((rehearsal / bill).read_text())["components"]
    }
    assert components == locked
    notices = (rehearsal / "THIRD-PARTY-NOTICES.txt").read_text()
    for text in ("Flask\n3.", "Copyright 2010 Pallets", "Copyright (c) Alex Grönholm"):
        assert text in notices
    assert "Webhooks are stored before they are acknowledged" in (rehearsal / "RELEASE-NOTES.txt").read_text()


INSTALLATION = """
mount -t tmpfs none "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
mount --rbind /dev "$1/root/dev"
cp -r "$2"/* "$1/root/tmp"
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin PIP_NO_DEPS=1
exec chroot "$1/root" bash -eu -c '
cd /tmp
mkdir -p /run/systemd/system
cat >/usr/local/sbin/sudo <<"SUDO"
#!/bin/sh
case $1 in --user=*) shift; exec runuser --user switchroom -- "$@" ;; esac
exec "$@"
SUDO
for program in systemctl invoke-rc.d; do
    printf "#!/bin/sh\\necho %s \\"\\$@\\"\\n" $program >/usr/local/sbin/$program
done
chmod 755 /usr/local/sbin/*
list_files() { find /etc /opt /usr/lib /usr/share /var/lib -path "*switchroom*" -type f; }
run() { echo "== $1"; shift; "$@"; }
run install dpkg --install /tmp/*.deb
run version runuser --user switchroom -- /opt/switchroom/bin/switchroom --version
run conffiles dpkg-query --show --showformat="\\${Conffiles}" switchroom
run settings ls -A /etc/switchroom
cp config.toml /etc/switchroom
cp -r data/. /var/lib/switchroom
chown -R switchroom: /etc/switchroom /var/lib/switchroom
mkdir -p /etc/systemd/system/multi-user.target.wants
for unit in switchroom switchroom@london; do
    ln -s /usr/lib/systemd/system/switchroom.service /etc/systemd/system/multi-user.target.wants/$unit.service
done
run upgrade dpkg --install /tmp/*.deb
run backup bash -eu old.sh
find /var/lib/switchroom /etc/switchroom -mindepth 1 -delete
run restore bash -eu new.sh
run instance bash -eu instance.sh
run settings_of_instance cat /etc/switchroom/paris.toml
run remove dpkg --remove switchroom
run purge dpkg --purge switchroom
run rest list_files
run installed bash -eu install.sh
run program list_files
run removed bash -eu remove.sh
run kept list_files
run deleted bash -eu delete.sh
run nothing list_files
run user grep -c switchroom /etc/passwd || true
'
"""
"""Script for a copy-on-write view of this computer: `systemctl` only prints how it is called."""


CONFIGURATION = """\
[platform]
base_url = "http://127.0.0.1:9/v1.2"
user_id = "100001"
api_key = "k"

[storage]
data_dir = "/var/lib/switchroom"
"""
SERVICE = ROOT / "deploy" / "systemd" / "switchroom.service"


def list_blocks(heading: str) -> list[str]:
    """Return the commands of a section of docs/upkeep.md."""
    section = (ROOT / "docs" / "upkeep.md").read_text("utf-8").partition(f"\n## {heading}\n")[2]
    return re.findall(r"^```sh\n(.*?)^```$", section.partition("\n## ")[0], re.MULTILINE | re.DOTALL)


def write_scripts(folder: Path) -> None:
    """Write the commands of the documentation and of the unit's head as scripts."""
    head = re.findall(r"^#   (.*)", SERVICE.read_text().partition("[Unit]")[0], re.MULTILINE)
    # `init` prompts.
    install = [line for line in head if "python3 -m venv" in line or line.startswith(("cp ", "install "))]
    assert [line for line in head if line not in install] == [
        "sudo -u switchroom /opt/switchroom/bin/switchroom init --config /etc/switchroom/config.toml \\",
        "  --data-dir /var/lib/switchroom",
        "systemctl enable --now switchroom",
    ]
    purge, remove, delete = list_blocks("Remove it")
    assert purge == "sudo apt purge switchroom\n"
    alias = "shopt -s expand_aliases\n" + list_blocks("Run as a service")[0]
    old, new = list_blocks("Move to another computer")
    scripts = {
        "install": "\n".join(install), "remove": remove, "delete": delete, "old": alias + old,
        # No platform to check.
        "new": alias + new.replace("switchroom doctor\n", ""),
        "instance": list_blocks("Several accounts on one computer")[1],
    }  # fmt: skip
    for name, text in scripts.items():
        (folder / f"{name}.sh").write_text(text)


@pytest.mark.exhaustive
@pytest.mark.skipif(os.geteuid() != 0, reason="installs into a chroot, which needs root")
def test_an_installed_service_starts_by_command_and_leaves_only_settings_and_data(
    debian_package: Path, rehearsal: Path, tmp_path: Path
) -> None:
    """The Debian package, then the commands of the unit's head and of the documentation."""
    files, view = tmp_path / "files", tmp_path / "view"
    files.mkdir()
    view.mkdir()
    for path in (debian_package, *rehearsal.glob("*.whl"), SERVICE, SERVICE.with_suffix(".sysusers.conf")):
        shutil.copy(path, files)
    write_scripts(files)
    with running_app(files / "data"):
        pass
    (files / "config.toml").write_text(CONFIGURATION)
    command = ["unshare", "--mount", "sh", "-euc", INSTALLATION, "sh", str(view), str(files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    steps = dict(re.findall(r"^== (\w+)\n((?:(?!== ).*\n)*)", done.stdout, re.MULTILINE))
    calls = {name: re.findall(r"^systemctl (.*)", text, re.MULTILINE) for name, text in steps.items()}
    assert calls["install"] == ["daemon-reload"]
    version = rf"switchroom {re.escape(__version__)} \(commit [0-9a-f]{{12}}\)\n"
    assert re.fullmatch(version, steps["version"])
    assert (steps["conffiles"], steps["settings"]) == ("", "")
    restart = "--no-block try-restart switchroom.service switchroom@*.service"
    assert calls["upgrade"] == ["daemon-reload", restart]
    disable = [f"disable --quiet switchroom{name}.service" for name in ("", "@london")]
    stop = "stop switchroom.* switchroom@*"
    assert calls["remove"] == [*disable, stop, "daemon-reload"]
    assert calls["restore"] == ["enable --now switchroom"]
    assert calls["instance"] == ["disable --now switchroom", "enable --now switchroom@paris"]
    kept = set(steps["rest"].split())
    assert {f"/var/lib/switchroom/paris/{name}.db" for name in ("house", "mirror", "inbox")} < kept
    assert all(path.startswith(("/etc/switchroom/paris.toml", "/var/lib/switchroom/paris/")) for path in kept)
    assert 'data_dir = "/var/lib/switchroom/paris"\n' in steps["settings_of_instance"]
    assert "/opt/switchroom/bin/switchroom" in steps["program"].split()
    assert calls["removed"] == ["disable --now switchroom", "daemon-reload"]
    assert set(steps["kept"].split()) == kept
    assert (steps["nothing"], steps["user"]) == ("", "0\n")
