"""`switchroom catalogue`: all operations and their use."""

from __future__ import annotations

import csv
import json
import re

import pytest

from integration.catalogue import OPERATIONS


def test_each_operation_has_a_row_with_its_use_in_facade_and_mirror(home):
    done = home.run("catalogue", "--format", "csv")
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert len(rows) == 165
    assert [f"{row['method']} {row['path']}" for row in rows] == [row.name for row in OPERATIONS]
    assert all(row["facade"] for row in rows)
    (cdrs,) = [row for row in rows if (row["method"], row["path"]) == ("GET", "/cdrs")]
    assert (cdrs["facade"], cdrs["mirror"]) == ("served from the mirror", "incremental and full sync")
    (erase,) = [row for row in rows if (row["method"], row["path"]) == ("DELETE", "/sms")]
    assert "facade.destructive" in erase["facade"]


@pytest.mark.parametrize("form", ["table", "markdown"])
def test_tables_and_markdown_have_a_line_for_each_operation(home, form):
    done = home.run("catalogue", "--format", form)
    lines = done.stdout.splitlines()
    assert len(lines) == 165 + (1 if form == "table" else 2)
    if form == "markdown":
        assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {8}


def test_openapi_is_the_document_of_the_facade(home):
    document = json.loads(home.run("catalogue", "--format", "openapi").stdout)
    assert document["openapi"].startswith("3.")
    assert len([method for item in document["paths"].values() for method in item]) == 175
