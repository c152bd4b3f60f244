"""Recordings and voicemail are valid MP3 of the stated duration and size."""

from __future__ import annotations

import time

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


@pytest.mark.parametrize("seconds", [1, 2, 15, 59, 600, 1799])
def test_frames_add_up_to_the_duration_and_the_computed_size(seconds):
    data = audio.make_mp3(seconds, seed=3)
    assert len(data) == audio.compute_size(seconds)
    length = count_frames(data) * SAMPLES_PER_FRAME / RATE
    assert seconds <= length < seconds + 0.1


def test_every_block_can_be_decoded_alone(monkeypatch):
    data = audio.make_mp3(30, seed=3)
    for at in range(0, len(data), audio.FRAME_BYTES * 14):
        # main_data_begin, the first eight bits of the side information of MPEG-2 layer III.
        assert data[at + 4] == 0


def test_audio_depends_only_on_its_seed_and_is_made_fast():
    audio.make_mp3(1, 1)
    started = time.thread_time()
    assert audio.make_mp3(600, 5) == audio.make_mp3(600, 5) != audio.make_mp3(600, 6)
    assert time.thread_time() - started < 0.5


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
