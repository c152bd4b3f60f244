"""One person's data as a ZIP: command `subject`, and the page Privacy."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
import stat
import zipfile
from pathlib import Path

import pytest

from integration.access import audit, people
from integration.cli import subject
from integration.core.number_search.wide_search import WideSearch
from integration.mirror.derived.rebuild import rebuild_due
from tests.support.application import running_app
from tests.support.applications.filled_data_dir import DDI, LEG, OTHER, THEIRS, FilledDataDir
from tests.support.harness import wait_for
from tests.support.page_text import text
from tests.support.people import ALICE, BOB

NOTATIONS = ("+44 7700 900456", "447700900456", "00447700900456", "07700 900456", "07700-900-456",
             "0044 (0) 7700 900456", "٠٧٧٠٠ ٩٠٠٤٥٦", "%2B447700900456", "07700 ***456",
             "".join(f"%{ord(digit):x}" for digit in OTHER))  # fmt: skip
"""Another person's number."""
SAMPLES = Path(__file__).parents[1] / "fixtures" / "platform"
TEXTS = (".html", ".csv", ".jsonl", ".json")


def read_zip(body: bytes) -> tuple[dict[str, bytes], dict]:
    """Return the files of a ZIP, and its manifest after a comparison with them."""
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(files["manifest.json"])
    assert {entry["path"]: entry["sha256"] for entry in manifest["files"]} == {
        name: hashlib.sha256(content).hexdigest()
        for name, content in files.items()
        if name != "manifest.json"
    }
    for label, count in manifest["counts"].items():
        path = f"records/{re.sub('[^a-z]+', '-', label.lower())}"
        assert len(files[f"{path}.jsonl"].splitlines()) == count, label
        rows = list(csv.reader(io.StringIO(files[f"{path}.csv"].decode("utf-8-sig"))))
        assert len(rows) == count + 1, label
    return files, manifest


def list_dry_run(place: FilledDataDir) -> dict[str, int]:
    lines = place.erase(f"+{THEIRS}").stdout.splitlines()[1:-1]
    return {
        label.removesuffix(" (removed)"): int(count)
        for label, count in (one.rsplit(None, 1) for one in lines)
    }


def write(place: FilledDataDir, *arguments: str) -> tuple[dict[str, bytes], dict]:
    folder = place.folder / "out"
    done = place.run(subject.command, f"+{THEIRS}", "--out", str(folder), "--json", *arguments)
    assert done.exit_code == 0, done.output
    (path,) = folder.iterdir()
    result = json.loads(done.stdout)
    assert (result["number"], result["file"]) == (f"+{THEIRS}", str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    files, manifest = read_zip(path.read_bytes())
    assert result["stored"] == manifest["counts"]
    return files, manifest


def test_the_file_has_what_an_erasure_counts_and_is_empty_after_it(place: FilledDataDir) -> None:
    counts = list_dry_run(place)
    files, manifest = write(place)
    assert manifest["counts"] == counts
    assert [name for name in files if name.endswith((".mp3", ".pdf"))] == [
        entry["path"] for entry in manifest["files"] if entry["size"] == 5
    ]
    page = files["index.html"].decode()
    assert "Ann Example" in page
    assert page.count("<audio") == 3
    assert 'href="records/sms.csv"' in page
    assert place.erase(f"+{THEIRS}", "--yes").exit_code == 0
    files, manifest = write(place)
    assert manifest["counts"] == {}
    assert set(files) == {"index.html", "manifest.json"}
    assert "No data of this number is stored." in files["index.html"].decode()


def test_a_hold_hides_nothing_from_the_person(place: FilledDataDir) -> None:
    counts = list_dry_run(place)
    assert place.hold(f"+{THEIRS}", "--reason", "claim 17").exit_code == 0
    files, manifest = write(place)
    assert manifest["counts"] | {"audit log": 1} == counts
    assert not any(b"claim 17" in content for name, content in files.items() if "audit" not in name)


def test_the_folder_is_outside_data_dir(place: FilledDataDir) -> None:
    for folder in (place.data_dir, place.data_dir / "out"):
        refused = place.run(subject.command, f"+{THEIRS}", "--out", str(folder))
        assert refused.exit_code == 2
        assert "Choose a folder outside" in refused.output


@pytest.fixture
def mixed(place: FilledDataDir) -> FilledDataDir:
    """Data directory in which data of the person names others in every notation."""
    numbers = "; ".join(NOTATIONS)
    words = f"Call Bob Other, Carl’s son or CARL'S on {numbers}, not {THEIRS[2:]}, on 2026-09-02 08:45."
    with place.product() as product:
        mirror_db = product.context.mirror_db

        def change(tx) -> None:
            for table, key, changes in (
                ("sms", 41, {"message": words, "from_name": "Ann Example", "to_name": "Carl Clerk"}),
                ("monitors", 11, {"transcript": words, "metadata": {"said": [words], "phone": f"00{OTHER}"}}),
                ("cdrs", 2, {"dst": OTHER, "dst_name": "Dora Deer", "info": "Dora Deer, dora@example.com",
                             "unknown": int(OTHER)}),
                ("voicemessages", 21, {"transcript": words, "other_hash": f"{OTHER}ab"}),
            ):  # fmt: skip
                (doc,) = tx.execute(f"SELECT _doc FROM {table} WHERE id = ?", (key,)).fetchone()
                doc = json.dumps(json.loads(doc) | changes)
                tx.execute(f"UPDATE {table} SET _doc = ? WHERE id = ?", (doc, key))

        mirror_db.write(change)
        for name in ("call.hangup", "call.missed-final", "monitor.audio_ready", "sms.received"):
            event = json.loads((SAMPLES / f"webhook-{name}.json").read_text())
            event |= {"call_id": LEG, "text": words} | {
                field: THEIRS for field in ("src", "from_no") if field in event
            }
            product.context.inbox.receive(json.dumps(event).encode()).result(30)
        rebuild_due(mirror_db, product.context.rules)
        audit.record(product.context.app_db, "sue@example.com", "export", f"calls of +{THEIRS} and +{OTHER}")
    return place


def test_numbers_and_names_of_others_are_hidden_in_every_text_file(mixed: FilledDataDir) -> None:
    shown, _ = write(mixed, "--show-others")
    (mixed.folder / "out").rename(mixed.folder / "shown")
    files, manifest = write(mixed)
    counts = list_dry_run(mixed)
    # The first file has no entry in the audit log with the number.
    assert manifest["counts"] == counts
    searches = {number: WideSearch(f"+{number}") for number in (OTHER, DDI, "442079460001")}
    names = (b"Bob", b"Carl", b"CARL", b"Dora", b"sue@example.com", b"dora@example.com",
             "٠٧٧٠٠".encode(), b"*456")  # fmt: skip
    for name, content in files.items():
        if name.endswith(TEXTS):
            for number, search in searches.items():
                assert not search.contains(content), (name, number)
            assert [word for word in names if word in content] == [], name
    everything = b"".join(shown.values())
    assert all(search.contains(everything) for search in searches.values())
    assert all(word in everything for word in names)
    message = json.loads(files["records/sms.jsonl"])["message"]
    numbers = "; ".join("%2Bhidden" if number.startswith("%2B") else "hidden" for number in NOTATIONS)
    people = "hidden, hidden’s son or hidden'S"
    assert message == f"Call {people} on {numbers}, not {THEIRS[2:]}, on 2026-09-02 08:45."
    (first, second) = map(json.loads, files["records/cdrs.jsonl"].splitlines())
    assert (first["src"], first["src_name"], first["dst"]) == (THEIRS, "Ann Example", "hidden")
    assert (second["dst"], second["dst_name"], second["unknown"], second["live_id"]) == (
        "hidden", "hidden", "hidden", 4_300_000_002,
    )  # fmt: skip
    assert json.loads(files["records/contacts.jsonl"])["last_name"] == "Example"
    events = files["records/call-events-of-webhooks-and-polls.jsonl"].splitlines()
    assert {json.loads(event)["kind"] for event in events} >= {"call.ringing", "call.hangup"}


def test_the_page_prepares_the_file_for_its_owner_until_an_erasure(place: FilledDataDir) -> None:
    with running_app(place.data_dir) as app:
        client = app.log_in()
        client.post("/privacy/find", number=f"+{THEIRS}")
        page = wait_for(
            lambda: (page := text(client.get("/privacy"))) and "as of" in page and page, "the report"
        )
        client.post("/privacy/file", hide="1")
        app.product.context.export_runner.do_due_runs(None)
        link = "/exports/prepared/1/file"
        assert link in client.get("/exports").text
        answer = client.get(link)
        files, manifest = read_zip(answer.content)
        for label, count in manifest["counts"].items():
            assert f"{label[:1].upper()}{label[1:]} {count}" in page
        assert not WideSearch(f"+{OTHER}").contains(files["index.html"])
        entries = [
            (entry.who, entry.what, entry.about, entry.result) for entry in audit.list_newest(app.app_db)
        ]
        assert ("alice@example.com", "export requested", "data of a number", "done") in entries
        assert ("alice@example.com", "export", "subject-data-1.zip, prepared export 1",
                f"{sum(manifest['counts'].values())} rows") in entries  # fmt: skip
        assert not place.find_texts(THEIRS).get("prepared/1.zip")
        assert app.log_in(ALICE.as_user(5)).get(link).status_code == 404
        client.post("/privacy/erase", number=f"+{THEIRS}")
        wait_for(lambda: "is complete" in text(client.get("/privacy")), "the erasure")
        assert client.get(link).status_code == 404
        assert not list((place.data_dir / "prepared").iterdir())


def test_the_file_needs_an_administrator_a_password_and_no_restart(place: FilledDataDir) -> None:
    with running_app(place.data_dir) as app:
        assert app.log_in(BOB).post("/privacy/file").status_code == 403
        people.set_password(app.app_db, app.add(ALICE).email, "x")
        client = app.log_in()
        assert "Search for the number first." in text(client.post("/privacy/file"))
        client.post("/privacy/find", number=f"+{THEIRS}")
        wait_for(lambda: "as of" in text(client.get("/privacy")), "the report")
        client.post("/privacy/file")
        app.clock.advance(601)
        assert "Confirm" in text(client.post("/privacy/file"))
        app.restart()
        app.product.context.export_runner.do_due_runs(None)
        page = text(app.log_in().get("/exports"))
        assert page.count("One person’s data") == 1
        assert "Switchroom was restarted before this file was complete." in page
