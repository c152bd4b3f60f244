from __future__ import annotations

import lameenc
import pytest

from integration.platform_api import file_types
from integration.simulator.media import audio

APE = b"APETAGEX" + (2000).to_bytes(4, "little") + (24).to_bytes(4, "little") + bytes(48)
ID3 = b"ID3\x04\x00\x00\x00\x00\x01\x02" + bytes(130)


@pytest.fixture(scope="module")
def ten_seconds():
    """An MP3.

    Encoding it as a constant would take time in each worker of the suite.
    """
    return audio.make_mp3(10, seed=1)


@pytest.fixture
def check_end(tmp_path):
    def check_end(content, seconds=None):
        path = tmp_path / "file.part"
        path.write_bytes(content)
        return file_types.make_mp3_end_check(seconds)(path)

    return check_end


def encoded(rate, channels, kbits):
    encoder = lameenc.Encoder()
    encoder.silence()
    encoder.set_in_sample_rate(rate)
    encoder.set_channels(channels)
    encoder.set_bit_rate(kbits)
    return bytes(encoder.encode(bytes(2 * channels * rate * 5)) + encoder.flush())


@pytest.mark.parametrize(("before", "after"), [(b"", b""), (ID3, b""), (b"", b"TAG".ljust(128)), (b"", APE)])
def test_a_regular_end_is_accepted(check_end, ten_seconds, before, after):
    assert check_end(before + ten_seconds + after) is None


@pytest.mark.parametrize("lacking", [1, 10, 69, 71])
def test_an_mp3_that_ends_within_a_frame_is_doubtful(check_end, ten_seconds, lacking):
    assert "last frame" in check_end(ten_seconds[:-lacking])
    assert "last frame" in check_end(ID3 + ten_seconds[:-lacking])


def test_an_mp3_much_shorter_than_its_record_is_doubtful(check_end, ten_seconds):
    half = ten_seconds[: len(ten_seconds) // audio.FRAME_BYTES // 2 * audio.FRAME_BYTES]
    assert check_end(half) is None
    assert check_end(half, seconds=10) == "it lasts 5.0 s instead of 10"
    assert check_end(ten_seconds, seconds=10) is None
    assert check_end(ten_seconds, seconds=12) is None, "the seconds of the record can include ringing"


@pytest.mark.parametrize(
    ("rate", "channels", "kbits"),
    [(44100, 2, 128), (48000, 1, 320), (22050, 1, 56), (16000, 2, 32), (8000, 1, 16)],
)
def test_the_end_is_checked_for_every_mpeg_version(check_end, rate, channels, kbits):
    sound = encoded(rate, channels, kbits)
    assert check_end(sound, seconds=5) is None
    assert "last frame" in check_end(sound[:-5])
    assert check_end(sound, seconds=8).startswith("it lasts 5.")


def test_a_pdf_needs_its_end_marker_near_the_end(tmp_path):
    path = tmp_path / "file.part"
    path.write_bytes(b"%PDF-1.4" + bytes(5000) + b"%%EOF\n")
    assert file_types.check_pdf_end(path) is None
    path.write_bytes(b"%PDF-1.4 %%EOF" + bytes(5000))
    assert file_types.check_pdf_end(path) == "it has no end after 5,014 bytes"
