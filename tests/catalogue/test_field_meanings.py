"""Meanings of fields: label, format, masking, erasure, drift and export columns."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import integration
from integration.catalogue import RESOURCES
from integration.catalogue.events import EVENTS
from integration.catalogue.field_meanings import get_meaning, is_secret
from integration.catalogue.shapes import Field
from tests.support.harness import ROOT

ANCHOR = '            Field("info", "string", "additional information"),\n'
NEW_FIELDS = """\
            Field("second_number", "string", meaning="phone"),
            Field("private_number", "string", meaning="contact_phone"),
            Field("desk", "string", meaning="extension"),
            Field("displayed", "string", meaning="caller_id"),
            Field("queue_time", "integer", meaning="duration"),
            Field("hold_limit", "integer", meaning="seconds"),
            Field("capacity", "integer", meaning="bytes"),
            Field("noticed", "integer", meaning="unix_time"),
            Field("surcharge", "number", meaning="cost"),
            Field("mood", "string", meaning="code", codes=("GOOD",)),
            Field("reason", "string", meaning="open_code"),
            Field("tone", "string", meaning="choice"),
            Field("doorcode", "string", meaning="secret"),
            Field("remark", "string", meaning="text"),
"""
BARE_PREFIX = "bare_"
"""Start of the names of the same fields without meanings."""

PROGRAM = Path(__file__).with_name("added_fields.py")


def report(folder: Path, new_fields: str) -> dict[str, object]:
    """Return how a copy of the product treats added CDR fields.

    Only `catalogue` is copied. Links share the compiled modules of the other packages.
    """
    package = folder / "integration"
    package.mkdir()
    for path in Path(integration.__file__).parent.iterdir():
        if path.name == "catalogue":
            shutil.copytree(path, package / path.name)
        elif path.name != "__pycache__":
            (package / path.name).symlink_to(path)
    history = package / "catalogue" / "history.py"
    source = history.read_text()
    assert source.count(ANCHOR) == 1
    history.write_text(source.replace(ANCHOR, ANCHOR + new_fields))
    done = subprocess.run(
        [sys.executable, PROGRAM, folder / "data"],
        env={**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Treatment of the fields with and without meanings, in one run."""
    bare_fields = re.sub(r', meaning="\w+"(, codes=\(.*?\))?', "", NEW_FIELDS)
    bare_fields = bare_fields.replace('Field("', f'Field("{BARE_PREFIX}')
    return report(tmp_path_factory.mktemp("added"), NEW_FIELDS + bare_fields)


@pytest.fixture(scope="module")
def added(reports):
    return reports["with meanings"]


@pytest.fixture(scope="module")
def without_meanings(reports):
    return reports["without meanings"]


@pytest.mark.exhaustive
def test_each_added_field_has_a_label(added):
    assert added["labels"] == {
        "second_number": "Second number", "private_number": "Private number", "desk": "Desk",
        "displayed": "Displayed", "queue_time": "Queue time", "hold_limit": "Hold limit",
        "capacity": "Capacity", "noticed": "Noticed", "surcharge": "Surcharge", "mood": "Mood",
        "reason": "Reason", "tone": "Tone", "doorcode": "Doorcode", "remark": "Remark",
    }  # fmt: skip


def test_the_meaning_determines_the_display_format(added, without_meanings):
    shown = {
        "second_number": "phone", "private_number": "phone", "desk": "text", "displayed": "text",
        "queue_time": "duration", "hold_limit": "number", "capacity": "number", "noticed": "time",
        "surcharge": "number", "mood": "text", "reason": "text", "tone": "text", "doorcode": "secret",
        "remark": "prose",
    }  # fmt: skip
    assert {name: kind for name, (kind, _) in added["shown"].items()} == shown
    assert added["shown"]["hold_limit"][1] == "30 s"
    assert added["shown"]["capacity"][1] != "2000000"
    assert {kind for kind, _ in without_meanings["shown"].values()} == {"text", "number"}


def test_a_field_with_the_meaning_secret_is_masked_hidden_and_redacted(added, without_meanings):
    assert added["masked"] == ["doorcode"]
    assert added["hidden"] == ["doorcode"]
    assert added["redacted"] == ["doorcode"]
    assert without_meanings["masked"] == without_meanings["hidden"] == without_meanings["redacted"] == []


def test_the_meaning_determines_what_an_erasure_strips(added, without_meanings):
    stripped = dict.fromkeys(added["labels"]) | {
        "second_number": "442079460002", "desk": "101", "displayed": None, "queue_time": 75,
        "hold_limit": 30, "capacity": 2000000, "noticed": 1790000000, "surcharge": 0.5, "mood": "BAD",
        "reason": "busy",
    }  # fmt: skip
    assert added["stripped"] == stripped
    assert added["erased"] == ["desk", "second_number"]
    assert {value for value in without_meanings["stripped"].values() if isinstance(value, str)} == set()
    assert without_meanings["erased"] == []


def test_the_meaning_determines_which_codes_are_checked_for_drift(added, without_meanings):
    assert added["drift"] == [["mood", "code", "BAD"]]
    assert added["watched"] == [["mood", "code", "BAD"], ["tone", "code", "sharp"]]
    assert without_meanings["drift"] == without_meanings["watched"] == []


def test_the_meaning_determines_additional_export_columns(added, without_meanings):
    assert "queue_time_hms" in added["columns"]
    assert '"cdrs"."surcharge"' in added["currency"]
    assert "bare_queue_time_hms" not in without_meanings["columns"]
    assert '"cdrs"."bare_surcharge"' not in without_meanings["currency"]


def test_an_unknown_meaning_is_rejected():
    with pytest.raises(ValueError, match="unknown meaning 'fone'"):
        Field("src", "string", meaning="fone")


def test_fields_of_the_same_name_have_the_same_meaning_in_all_resources():
    """Undocumented and nested fields have only a name."""
    meanings = {}
    for field in (field for row in RESOURCES for field in row.fields if field.meaning is not None):
        assert meanings.setdefault(field.name, field.meaning) == field.meaning, field.name
    for field in (field for row in EVENTS for field in row.fields if field.meaning is not None):
        assert get_meaning(field.name, None) is not None, field.name


def test_an_undocumented_field_has_the_meaning_of_its_name():
    assert get_meaning("src", None) == "phone"
    assert get_meaning("phone_number", None) == "contact_phone"
    assert get_meaning("src", Field("src", "string")) is None
    assert is_secret("sip_passphrase")
