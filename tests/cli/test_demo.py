"""`switchroom demo`: start, printed login, stop of all processes."""

from __future__ import annotations

import os
import re
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests

from integration.cli.demo import prepare_data_dir
from tests.support.child_processes import ROOT, Running, wait_for
from tests.support.harness import alive, children

Start = Callable[..., Running]
START_SECONDS = 60.0


def start_demo(start: Start, data: Path, *more: object) -> Running:
    # A port and settings of a real installation must not leak into the demo.
    environ = {"SWITCHROOM_CONFIG": "absent.toml", "SWITCHROOM_SERVER__PORT": "nonsense"}
    return start(ROOT / "app.py", "demo", "--port", 0, "--data", data, *more, **environ)


def read_login(demo: Running) -> tuple[str, str, str]:
    """Wait for the printed URL, e-mail address and password, and return them."""

    def is_printed() -> bool:
        assert demo.process.poll() is None, demo.err
        return len(demo.out) >= 4

    wait_for(is_printed, f"login of the demo in {demo.err}", START_SECONDS)
    assert [line.split(": ")[0] for line in demo.out] == ["Dashboard", "Login", "Password", "Open"]
    url, email, password, _ = (line.split(": ", 1)[1] for line in demo.out)
    return url, email, password


def list_processes(demo: Running) -> list[int]:
    """Return the process ids of supervisor and worker."""
    found = children(demo.pid)
    return found + [grandchild for child in found for grandchild in children(child)]


def log_in(url: str, email: str, password: str) -> requests.Session:
    browser = requests.Session()
    browser.trust_env = False
    page = browser.get(f"{url}login", timeout=30)
    token = re.search(r'name="csrf_token"[^>]*value="([^"]+)"', page.text)
    assert token, page.text
    form = {"email": email, "password": password, "csrf_token": token[1]}
    response = browser.post(f"{url}login", data=form, timeout=30)
    assert response.status_code == 200
    assert "/login" not in response.url
    return browser


@pytest.fixture
def demo(start: Start, tmp_path: Path) -> Iterator[Running]:
    running = start_demo(start, tmp_path / "demo-data", "--speed", 4, "--cdrs", 40)
    yield running
    if running.process.poll() is None:
        running.signal(signal.SIGTERM)
        running.ended()


@pytest.mark.exhaustive
def test_the_demo_prints_a_valid_login_shows_live_calls_and_ends_all_its_processes(
    demo: Running, start: Start, tmp_path: Path
) -> None:
    url, email, password = read_login(demo)
    browser = log_in(url, email, password)
    events: set[str] = set()

    def has_event() -> bool:
        stream = browser.get(f"{url}live/stream", stream=True, timeout=30)
        for line in stream.iter_lines(decode_unicode=True):
            if line.startswith("event: "):
                events.add(line)
                stream.close()
                return True
        return False

    wait_for(has_event, "a change on the live stream")
    assert not any("/setup/" in line for line in demo.err)
    assert events
    second = start_demo(start, tmp_path / "demo-data")
    assert second.ended() == 1
    assert "demo-data is in use by `switchroom serve`" in second.err[-1]
    processes = list_processes(demo)
    assert len(processes) == 2
    demo.signal(signal.SIGINT)
    assert demo.ended() == 0
    assert not any(alive(pid) for pid in processes)
    assert os.listdir(tmp_path) == ["demo-data"]


@pytest.mark.exhaustive
def test_the_demo_has_names_at_the_first_login_and_a_morning_with_a_name_of_its_own(demo: Running) -> None:
    url, email, password = read_login(demo)
    browser = log_in(url, email, password)

    def read(path: str) -> str:
        return re.sub("<[^>]+>", "", browser.get(f"{url}{path}", timeout=30).text)

    assert "No contacts yet" not in read("contacts")
    assert "Your team appears here" not in read("live")
    assert "no webhooks" not in read("live")
    now = re.search(r"It is (\d\d):(\d\d) in London \(demo time\)\.", "\n".join(demo.err))
    assert now, demo.err
    assert 570 <= int(now[1]) * 60 + int(now[2]) < 631
    assert "London (demo time)" in read("live")
    table = browser.get(f"{url}exports/cdrs.csv?tz=London (demo time)&headings=words", timeout=30).text
    assert "London (demo time)" in table.splitlines()[0]


@pytest.mark.exhaustive
def test_the_printed_link_logs_in_once_by_its_button(demo: Running) -> None:
    url, email, _ = read_login(demo)
    link = demo.out[3].removeprefix("Open: ")
    assert link.startswith(f"{url}demo/")
    browser, late_browser = requests.Session(), requests.Session()
    for session in (browser, late_browser):
        session.trust_env = False
    forms = [session.get(link, timeout=30).text for session in (browser, late_browser)]
    csrf_tokens = [re.search(r'name="csrf_token" value="([^"]+)"', form)[1] for form in forms]  # type: ignore[index]
    assert all("Open the demo" in form for form in forms), "GET must not use the link"
    assert browser.post(link, timeout=30).status_code == 403, "without the token of the form"
    assert ">Demo<" in browser.post(link, data={"csrf_token": csrf_tokens[0]}, timeout=30).text
    assert browser.get(f"{url}calls", timeout=30).url == f"{url}calls"
    for response in (
        late_browser.post(link, data={"csrf_token": csrf_tokens[1]}, timeout=30),
        late_browser.get(link, timeout=30),
    ):
        assert "This link was already used" in response.text
        assert f'value="{email}"' in response.text
    assert late_browser.get(f"{url}calls", timeout=30).url.startswith(f"{url}login")
    assert late_browser.get(link, headers={"X-Forwarded-For": "192.0.2.1"}, timeout=30).status_code == 404


@pytest.mark.exhaustive
def test_a_second_start_deletes_the_data(tmp_path: Path) -> None:
    login = prepare_data_dir(tmp_path, "http://127.0.0.1:8000")
    for name in ("inbox.db", "webhook-secret", "other-file"):
        (tmp_path / name).write_text("old")
    (tmp_path / "recordings").mkdir()
    assert set(prepare_data_dir(tmp_path, "http://127.0.0.1:8000")).isdisjoint(login)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["demo.json", "house.db", "lock", "other-file"]


@pytest.mark.exhaustive
def test_the_demo_stops_with_an_error_when_serve_ends(demo: Running) -> None:
    read_login(demo)
    serve, worker = list_processes(demo)
    os.kill(serve, signal.SIGKILL)
    assert demo.ended() == 1
    assert any("`switchroom serve` ended with status -9" in line for line in demo.err)
    wait_for(lambda: not alive(worker), "end of the worker")


@pytest.mark.exhaustive
def test_all_processes_end_when_the_demo_is_killed(demo: Running) -> None:
    read_login(demo)
    processes = list_processes(demo)
    demo.signal(signal.SIGKILL)
    wait_for(lambda: not any(alive(pid) for pid in processes), "end of its processes")


def test_a_port_in_use_is_an_error_before_any_process_starts(start: Start, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        demo = start(ROOT / "app.py", "demo", "--port", taken, "--data", tmp_path / "demo-data")
        assert demo.ended() == 1
    assert demo.err == [
        f"switchroom: port {taken} on 127.0.0.1 is in use by another program. Stop that program,"
        " or choose another --port."
    ]
    assert os.listdir(tmp_path) == []


def test_a_folder_with_other_files_is_rejected_unchanged(start: Start, tmp_path: Path) -> None:
    (tmp_path / "mirror.db").write_text("precious")
    demo = start_demo(start, tmp_path)
    assert demo.ended() == 1
    assert demo.err[-1].endswith(
        "contains files that do not belong to a demo. Choose another folder by --data."
    )
    assert (tmp_path / "mirror.db").read_text() == "precious"
