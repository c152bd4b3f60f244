"""Compare requirements.lock with published advisories: `python -m tests.advisories`.

pip-audit reads the advisories from PyPI. Its exit status is 0 as well if it found no package there, so the
report counts.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "build" / "advisories.txt"
COMMAND = (
    str(Path(sys.executable).with_name("pip-audit")), "--requirement", str(ROOT / "requirements.lock"),
    "--require-hashes", "--disable-pip", "--progress-spinner", "off", "--timeout", "20", "--format", "json",
)  # fmt: skip


def check(command: Sequence[str] = COMMAND, *, seconds: float = 300) -> tuple[bool, str]:
    """Run pip-audit. Returns whether no advisory applies, and a dated text.

    A package that could not be compared is no failure; the text names it.
    """
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    try:
        process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)
    except (OSError, subprocess.TimeoutExpired) as error:
        return True, f"{today}: NOT CHECKED, pip-audit did not run: {error}"
    try:
        packages = json.loads(process.stdout)["dependencies"]
    except ValueError:
        reason = (process.stderr.strip().splitlines() or ["no output"])[-1]
        return True, f"{today}: NOT CHECKED, the advisories could not be read: {reason}"
    compared = [package for package in packages if "skip_reason" not in package]
    skipped = [package["name"] for package in packages if "skip_reason" in package]
    found = [
        f"  {package['name']} {package['version']}: {advisory['id']}, corrected in "
        + (", ".join(advisory["fix_versions"]) or "no version yet")
        for package in compared
        for advisory in package["vulns"]
    ]
    if not compared:
        return True, f"{today}: NOT CHECKED, PyPI had no advisories for any of {len(skipped)} packages"
    lines = [f"{today}: {len(compared)} packages compared, {len(found)} advisories apply", *found]
    if skipped:
        lines.append(f"  NOT CHECKED: {', '.join(skipped)}")
    return not found, "\n".join(lines)


def main() -> int:
    """Print the result and write it to build/advisories.txt. Returns 1 if an advisory applies."""
    is_clear, text = check()
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(text + "\n")
    print(text)
    return 0 if is_clear else 1


if __name__ == "__main__":
    sys.exit(main())
