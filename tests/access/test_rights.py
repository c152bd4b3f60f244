"""A test right in RIGHTS: storage, checks, settings page and command line."""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from integration.access import people
from integration.access.rights import RIGHTS, Right, has
from integration.dashboard.site.guard import requires
from integration.sqlite.readers import ReadOnlyDatabase
from tests.cli.test_export import variables
from tests.support.application import Browser, TestApp, running_app
from tests.support.people import Member

FAX = Right("fax", from_role="supervisor", label="Send faxes")


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestApp]:
    monkeypatch.setitem(RIGHTS, FAX.name, FAX)
    with running_app(tmp_path) as app:
        view = requires("fax")(lambda: "sent")
        app.product.site.add_url_rule("/send-fax", "send_fax", view)
        yield app


def test_right_follows_the_role_until_the_settings_page_changes_it(app: TestApp) -> None:
    admin, agent_token = app.log_in(), app.make_token(Member("carol@example.com", "agent"))
    agent = Browser(app.url, agent_token)
    carol = people.find(app.app_db, "carol@example.com")
    assert carol is not None
    assert (agent.get("/send-fax").status_code, admin.get("/send-fax").text) == (403, "sent")
    page = admin.get(f"/settings/people/{carol.id}").text
    assert "<span>Send faxes</span>" in page
    admin.post(f"/settings/people/{carol.id}", role="agent", fax="yes", recordings="no")
    assert agent.get("/send-fax").text == "sent"
    page = admin.get(f"/settings/people/{carol.id}").text
    chosen = re.findall(r'<select name="(\w+)">(?:(?!</select>).)*<option value="(\w*)" selected>', page)
    assert {("fax", "yes"), ("recordings", "no")} <= set(chosen)
    admin.post(f"/settings/people/{carol.id}", role="agent", fax="", recordings="")
    assert people.load_explicit_rights(app.app_db, carol.id) == {}


def test_rights_are_one_json_column(app: TestApp) -> None:
    app.make_token(Member("carol@example.com", "agent"))
    people.change(app.app_db, "carol@example.com", rights={"fax": True})
    people.change(app.app_db, "carol@example.com", rights={"recordings": False})
    with app.app_db.read() as connection:
        row = connection.execute("SELECT rights FROM people WHERE email = 'carol@example.com'").fetchone()
    assert json.loads(row["rights"]) == {"fax": True, "recordings": False}


def test_unregistered_stored_right_is_kept_and_has_no_effect(
    app: TestApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.make_token(Member("carol@example.com", "agent"))
    people.change(app.app_db, "carol@example.com", rights={"fax": True})
    monkeypatch.delitem(RIGHTS, "fax")
    carol = people.change(app.app_db, "carol@example.com", rights={"export": True})
    assert carol.rights == {"export", "recordings"}
    with pytest.raises(ValueError, match="fax"):
        has(carol, "fax")
    assert people.load_explicit_rights(app.app_db, carol.id) == {"export": True, "fax": True}


def test_command_line_offers_the_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RIGHTS, FAX.name, FAX)
    # The command reads its choices when it is imported.
    monkeypatch.delitem(sys.modules, "integration.cli.user", raising=False)
    command = importlib.import_module("integration.cli.user").command
    for arguments in (
        ("add", "dave@example.com", "--role", "viewer"),
        ("change", "dave@example.com", "--grant", "fax"),
    ):
        result = CliRunner().invoke(command, arguments, env=variables(tmp_path))
        assert result.exit_code == 0, result.output
    (dave,) = people.list_all(ReadOnlyDatabase(tmp_path / "house.db"))
    assert dave.rights == {"fax"}
