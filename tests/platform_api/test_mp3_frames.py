"""Loudness of MP3 files, read from the frames of files that an encoder made."""

from __future__ import annotations

import array
import random

import lameenc
import pytest

from integration.platform_api import mp3_frames

RATE = 8000
PARTS = (0.0, 1.0, 0.05, 0.0, 1.0)
"""Amplitudes of five parts."""
SECONDS = 0.5
"""Duration of a part."""


def encode(amplitudes: tuple[float, ...], channels: int = 1, rate: int = RATE) -> bytes:
    """Encode noise; SECONDS for each amplitude."""
    rng, samples = random.Random(1), array.array("h")
    noise = [rng.gauss(0, 8000) for _ in range(rate)]
    for amplitude in amplitudes:
        for value in noise[: int(SECONDS * rate)]:
            samples.extend([max(-32768, min(32767, int(amplitude * value)))] * channels)
    encoder = lameenc.Encoder()
    encoder.set_in_sample_rate(rate)
    encoder.set_out_sample_rate(rate)
    encoder.set_channels(channels)
    encoder.set_bit_rate(16 if rate == RATE else 64)
    encoder.silence()
    return bytes(encoder.encode(samples.tobytes())) + bytes(encoder.flush())


@pytest.mark.parametrize(("rate", "channels"), [(8000, 1), (8000, 2), (32000, 1), (32000, 2)])
def test_the_curve_follows_the_loudness_in_every_form(tmp_path, rate, channels):
    path = tmp_path / "1.mp3"
    path.write_bytes(encode(PARTS, channels, rate))
    curve = mp3_frames.measure_loudness(path, 25)
    assert len(curve) == 25
    silence, loud, faint, more_silence, also_loud = (curve[5 * n + 2] for n in range(5))
    assert silence == more_silence == 0
    assert 0 < faint < min(loud, also_loud) <= 100


def test_other_files_have_no_curve(tmp_path):
    path = tmp_path / "1.mp3"
    assert mp3_frames.measure_loudness(path, 10) == ()
    for content in (b"", b"no audio", b"\xff\xe3", bytes(1000)):
        path.write_bytes(content)
        assert mp3_frames.measure_loudness(path, 10) == ()
    (tmp_path / "2.mp3").symlink_to(path)
    path.write_bytes(encode((1.0,)))
    assert mp3_frames.measure_loudness(tmp_path / "2.mp3", 10) == ()


def test_a_changed_file_has_a_new_curve(tmp_path):
    path = tmp_path / "1.mp3"
    path.write_bytes(encode((0.0, 1.0)))
    first = mp3_frames.measure_loudness(path, 4)
    assert first[0] < first[3]
    path.write_bytes(encode((1.0, 0.0)))
    second = mp3_frames.measure_loudness(path, 4)
    assert second[0] > second[3]
