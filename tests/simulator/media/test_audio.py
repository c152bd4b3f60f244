"""Recordings and voicemail are valid MP3 of the stated duration and size."""

from __future__ import annotations

import pytest

from integration.simulator.media import audio

# MPEG-2.5 layer III, no CRC, 8 kbit/s, 8 kHz, mono: start of every frame, and its fixed bits.
HEADER, MASK = 0xFFE318C0, 0xFFFFFEC0
SAMPLES_PER_FRAME, RATE = 576, 8000


def count_frames(data: bytes) -> int:
    """Return the number of frames; fail at a byte between two frames."""
    count = 0
    for at in range(0, len(data), audio.FRAME_BYTES):
        assert int.from_bytes(data[at : at + 4], "big") & MASK == HEADER & MASK, at
        count += 1
    assert count * audio.FRAME_BYTES == len(data)
    return count


def test_a_recording_over_http_has_the_size_of_its_record_and_ignores_range(world):
    monitor = world.get("/monitors", limit=1).json()["data"][0]
    path = f"/monitors/{monitor['id']}.mp3"
    complete = world.get(path)
    assert complete.headers["Content-Type"] == "audio/mpeg3"
    assert len(complete.content) == monitor["size"]
    assert count_frames(complete.content) * SAMPLES_PER_FRAME / RATE == pytest.approx(
        monitor["duration"], abs=0.1
    )
    partial = world.send("GET", path, headers={"Range": "bytes=0-99"})
    assert (partial.status_code, partial.content) == (200, complete.content)
    assert "Accept-Ranges" not in partial.headers


def test_a_voicemail_message_has_the_duration_of_its_record(world):
    message = world.rows("/voicemessages")[0]
    data = world.get(f"/voicemessages/{message['id']}.mp3").content
    assert count_frames(data) * SAMPLES_PER_FRAME / RATE == pytest.approx(message["duration"], abs=0.1)
