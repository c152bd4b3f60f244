"""The check of published advisories states what it compared (S22)."""

from __future__ import annotations

import json
import re
import sys

import pytest

from tests.advisories import check

CLEAR = {"name": "flask", "version": "3.1.0", "vulns": []}
AFFECTED = {
    "name": "jinja2",
    "version": "2.4.1",
    "vulns": [{"id": "PYSEC-2014-8", "fix_versions": ["2.7.2"], "aliases": [], "description": ""}],
}
SKIPPED = {"name": "orjson", "skip_reason": "Dependency not found on PyPI and could not be audited"}


def audit(stdout: str, status: int = 0, stderr: str = "") -> tuple[bool, str]:
    """Run the check with a program that responds like pip-audit."""
    program = f"import sys; print({stdout!r}); print({stderr!r}, file=sys.stderr); sys.exit({status})"
    is_clear, text = check([sys.executable, "-c", program])
    assert re.match(r"20\d\d-\d\d-\d\d: ", text)
    return is_clear, text.partition(": ")[2]


@pytest.mark.parametrize(
    ("packages", "status", "expected"),
    [
        ([CLEAR], 0, (True, "1 packages compared, 0 advisories apply")),
        (
            [CLEAR, AFFECTED],
            1,
            (
                False,
                "2 packages compared, 1 advisories apply\n  jinja2 2.4.1: PYSEC-2014-8, corrected in 2.7.2",
            ),
        ),
        (
            [CLEAR, SKIPPED],
            0,
            (True, "1 packages compared, 0 advisories apply\n  NOT CHECKED: orjson"),
        ),
        ([SKIPPED], 0, (True, "NOT CHECKED, PyPI had no advisories for any of 1 packages")),
    ],
)
def test_the_result_names_advisories_and_what_was_not_compared(packages, status, expected) -> None:
    assert audit(json.dumps({"dependencies": packages, "fixes": []}), status) == expected


def test_an_unreachable_database_is_stated_and_no_failure() -> None:
    assert audit("", 1, "ERROR: Name or service not known") == (
        True,
        "NOT CHECKED, the advisories could not be read: ERROR: Name or service not known",
    )


def test_a_missing_program_is_stated_and_no_failure(tmp_path) -> None:
    is_clear, text = check([str(tmp_path / "pip-audit")])
    assert is_clear
    assert "NOT CHECKED, pip-audit did not run" in text
