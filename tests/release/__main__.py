"""Make a release: `python -m tests.release`.

It checks version, changelog, schemas and work tree, and writes to `dist/`: wheel, sdist, a package for the
Debian release on which it runs, SBOM (CycloneDX), notices of the packages of requirements.lock, release notes
and SHA256SUMS. `--rehearsal` writes them without the checks.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from integration import __version__
from tests.release import debian_package, schemas
from tests.support.harness import ROOT

BIN = Path(sys.executable).parent
CHANGELOG = ROOT / "CHANGELOG.md"
HEADING = re.compile(r"^## (\S+), (.+)$", re.MULTILINE)
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def find_problems() -> list[str]:
    """Return what must be done before the release, one line each."""
    problems = []
    date = dict(HEADING.findall(CHANGELOG.read_text("utf-8"))).get(__version__)
    if date is None:
        problems.append(f"CHANGELOG.md has no section for {__version__}: add '## {__version__}, YYYY-MM-DD'.")
    elif not DATE.fullmatch(date):
        problems.append(f"CHANGELOG.md: write the date of the release into '## {__version__}, {date}'.")
    if schemas.record(__version__):
        problems.append(f"The schemas of {__version__} were written to {schemas.FOLDER}: commit them.")
    if status := run_git("status", "--porcelain"):
        problems.append("Commit or remove these changes:\n" + status.rstrip())
    if run_git("tag", "--list", f"v{__version__}"):
        problems.append(f"The tag v{__version__} exists: set the next version in integration/__init__.py.")
    return problems


def run_git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def run(*command: str | Path) -> None:
    """Run a command. Raises SystemExit with its output if it fails."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{Path(command[0]).name} failed:\n{done.stdout}{done.stderr}")


def extract_notes(changelog: str, version: str) -> str:
    """Return the section of `version`, without its heading."""
    sections = re.split(r"^## ", changelog, flags=re.MULTILINE)
    (section,) = [text for text in sections if text.startswith(f"{version},")]
    return section.partition("\n")[2].strip() + "\n"


def write_packages(out: Path) -> None:
    run(sys.executable, "-m", "build", "--no-isolation", "--sdist", "--wheel", "--outdir", out, ROOT)


def write_bill_and_notices(out: Path, python: Path) -> None:
    """Write SBOM and notices of the packages in the environment of `python`."""
    bill = out / f"switchroom-{__version__}.cdx.json"
    environment = ("environment", "--pyproject", "pyproject.toml", "--output-reproducible")
    run(BIN / "cyclonedx-py", *environment, "--output-format", "JSON", "--output-file", bill, python)
    notices = ("--format=plain-vertical", "--with-license-file", "--no-license-path", "--with-urls")
    target = f"--output-file={out / 'THIRD-PARTY-NOTICES.txt'}"
    run(BIN / "pip-licenses", f"--python={python}", *notices, target)


def write_installed(out: Path) -> None:
    """Write SBOM, notices and Debian package of an environment with requirements.lock and the wheel."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "root")
        program = root / debian_package.PROGRAM
        run(debian_package.PYTHON, "-m", "venv", "--without-pip", program)
        python = program / "bin" / "python"
        pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-compile")
        run(*pip, "--require-hashes", "--requirement", ROOT / "requirements.lock")
        write_bill_and_notices(out, python)
        run(*pip, "--no-deps", next(out.glob("*.whl")))
        debian_package.write_package(root, out)


def write_checksums(out: Path) -> None:
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(out.iterdir())
    ]
    (out / "SHA256SUMS").write_text("".join(lines))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.release", description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder for the files (dist)")
    parser.add_argument("--rehearsal", action="store_true", help="write the files without the checks")
    options = parser.parse_args()
    problems = [] if options.rehearsal else find_problems()
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        return 1
    if options.out.exists():
        shutil.rmtree(options.out)
    options.out.mkdir(parents=True)
    write_packages(options.out)
    write_installed(options.out)
    notes = extract_notes(CHANGELOG.read_text("utf-8"), __version__)
    (options.out / "RELEASE-NOTES.txt").write_text(notes, "utf-8")
    write_checksums(options.out)
    for path in sorted(options.out.iterdir()):
        print(path)
    if not options.rehearsal:
        print(f"Next: git tag v{__version__} && git push origin v{__version__}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
