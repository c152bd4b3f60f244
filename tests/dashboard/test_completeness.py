"""What System says about completeness and about changes of the platform."""

from __future__ import annotations

from integration.mirror import coverage, walks
from tests.dashboard.reading import text


def test_system_shows_each_gap_with_its_cause_and_new_fields_of_the_platform(site, client):
    def job(tx) -> None:
        walks.finish(tx, "cdrs", 9, 9, "2026-11-20 09:00:00")
        coverage.note(tx, "cdrs", "2026-11-18", 7, 7)
        coverage.note(tx, "cdrs", "2026-11-17", 5, 3, "the platform counts 2 more than it lists")
        tx.execute(
            "INSERT INTO _drift VALUES ('cdrs', '<b>mood</b>', 'field', 'string', '2026-11-01 10:00:00', "
            "'2026-11-19 10:00:00', 0)"
        )

    site.mirror.write(job)
    page = client.get("/system")
    shown = text(page)
    assert "2026-11-17: 3 of 5" in shown
    assert "the platform counts 2 more than it lists" in shown
    assert "a new field (string)" in shown
    assert "<b>mood</b>" not in page.text


def test_system_says_nothing_of_either_before_anything_is_known(client):
    shown = text(client.get("/system"))
    assert "Completeness" not in shown
    assert "Changes of the platform" not in shown
