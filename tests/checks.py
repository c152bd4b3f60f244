"""Run ruff, mypy and the import contracts: `python -m tests.checks`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent

CHECKS = (
    ("ruff", "check", "."),
    ("ruff", "format", "--check", "."),
    ("mypy",),
    ("lint-imports",),
)


def main() -> int:
    """Run all checks. Returns 1 if one failed, else 0."""
    failed = []
    for program, *arguments in CHECKS:
        print(f"== {program} {' '.join(arguments)}", flush=True)
        if subprocess.run([BIN / program, *arguments], cwd=ROOT, check=False).returncode:
            failed.append(program)
    print("checks failed: " + ", ".join(failed) if failed else "all checks passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
