from __future__ import annotations

import hashlib

import pytest

from integration.core import atomic_files
from integration.core.errors import PlatformBroken
from integration.platform_api import downloads, file_types

SOUND = b"\xff\xfb\x90\x64" + bytes(range(256)) * 400
KIND = "audio/mpeg3"


@pytest.fixture
def fetch(make, tmp_path):
    """Download /monitors/7.mp3 as a recording."""

    def fetch(**options):
        target = tmp_path / "recordings" / "2026" / "09" / "02" / "7.mp3"
        call_options = {name: options.pop(name) for name in ("seconds", "arrival") if name in options}
        expected = downloads.Expected(
            **{"size": len(SOUND), "check_head": file_types.check_mp3_head, **options}
        )
        return make().download("/monitors/7.mp3", target, expected, **call_options)

    fetch.folder = tmp_path
    return fetch


def names(folder):
    return sorted(path.name for path in folder.rglob("*") if not path.is_dir())


def test_a_valid_file_is_stored_completely_and_its_folders_are_synced(server, fetch, monkeypatch):
    synced, real = [], atomic_files.fsync_path
    monkeypatch.setattr(atomic_files, "fsync_path", lambda folder: (synced.append(folder), real(folder)))
    server.routes["*"] = lambda request, reply: reply.content(SOUND, KIND)
    found = fetch()
    assert found == downloads.DownloadedFile(len(SOUND), hashlib.sha256(SOUND).hexdigest(), KIND)
    assert names(fetch.folder) == ["7.mp3"]
    path = next(fetch.folder.rglob("7.mp3"))
    assert path.read_bytes() == SOUND
    assert synced == [*path.parents][:5]
    assert path.stat().st_mode & 0o777 == 0o600


HEAD = f"HTTP/1.1 200 OK\r\nContent-Type: {KIND}\r\n".encode()
WRONG = {
    "short body": HEAD + b"Content-Length: %d\r\n\r\n" % len(SOUND) + SOUND[:-10],
    "no length and an early end": HEAD + b"Connection: close\r\n\r\n" + SOUND[:-10],
    "a chunk cut": HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % len(SOUND) + SOUND[:-10],
    "one byte too many": HEAD + b"Connection: close\r\n\r\n" + SOUND + b"x",
    "another length announced": HEAD + b"Content-Length: 3\r\n\r\n" + SOUND[:3],
    "no bytes": HEAD + b"Content-Length: 0\r\n\r\n",
    "HTML by type": b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>",
    "HTML in disguise": HEAD + b"Connection: close\r\n\r\n" + b"<!DOCTYPE html>".ljust(len(SOUND)),
    "JSON in disguise": HEAD + b"Connection: close\r\n\r\n" + b'{"message":"x"}'.ljust(len(SOUND)),
    "not an MP3": HEAD + b"Connection: close\r\n\r\n" + b"RIFF".ljust(len(SOUND)),
    "JSON by type": b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
}


ONLY_BY_SIZE = {"no length and an early end", "one byte too many", "another length announced"}
"""Faults that only the size in the record can detect."""


@pytest.mark.parametrize(
    ("fault", "sized"),
    [(fault, True) for fault in WRONG] + [(fault, False) for fault in WRONG if fault not in ONLY_BY_SIZE],
)
def test_a_wrong_file_is_not_stored(server, fetch, fault, sized):
    server.routes["*"] = lambda request, reply: reply.raw(WRONG[fault], close=True)
    with pytest.raises(PlatformBroken):
        fetch(size=len(SOUND) if sized else None)
    assert names(fetch.folder) == []
    server.routes["*"] = lambda request, reply: reply.content(SOUND, KIND)
    assert fetch().size == len(SOUND)


def test_a_file_without_a_length_needs_two_equal_downloads(server, fetch):
    complete = HEAD + b"Connection: close\r\n\r\n" + SOUND
    responses = iter([complete[:-10], complete, complete, complete])
    server.routes["*"] = lambda request, reply: reply.raw(next(responses), close=True)
    with pytest.raises(PlatformBroken, match="two downloads of the file differ"):
        fetch(size=None)
    assert names(fetch.folder) == []
    assert fetch(size=None).size == len(SOUND)
    assert next(responses, None) is None


def without_length(content: bytes) -> bytes:
    return HEAD + b"Connection: close\r\n\r\n" + content


def fails_after(size: int):
    return lambda file: f"no end after {size}"


def test_a_file_without_a_length_and_with_a_truncated_end_is_refused_until_the_problem_is_accepted(
    server, fetch
):
    server.routes["*"] = lambda request, reply: reply.raw(without_length(SOUND), close=True)
    with pytest.raises(PlatformBroken) as caught:
        fetch(size=None, check_end=fails_after(9))
    assert names(fetch.folder) == []
    with pytest.raises(PlatformBroken):
        fetch(size=None, check_end=fails_after(7), accepted_problem=str(caught.value))
    found = fetch(size=None, check_end=fails_after(9), accepted_problem=str(caught.value))
    assert (found.size, found.doubt) == (len(SOUND), "the file seems to be cut: no end after 9")


def test_an_endless_file_stops_at_the_size_limit(server, fetch):
    def endless(request, reply):
        reply.raw(HEAD + b"Connection: close\r\n\r\n" + SOUND[:4], close=True)
        while not server.stopping.is_set():
            reply.raw(bytes(65536))

    server.routes["*"] = endless
    with pytest.raises(PlatformBroken, match="larger"):
        fetch(size=None, limit=1_000_000)
    assert names(fetch.folder) == []


def test_a_symbolic_link_at_the_partial_file_is_not_followed(server, fetch, tmp_path):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    folder = tmp_path / "recordings" / "2026" / "09" / "02"
    folder.mkdir(parents=True)
    (folder / "7.mp3.part").symlink_to(victim)
    server.routes["*"] = lambda request, reply: reply.content(SOUND, KIND)
    with pytest.raises(OSError, match=r"7\.mp3\.part"):
        fetch()
    assert victim.read_bytes() == b"precious"
