from __future__ import annotations

import lameenc
import pytest

from integration.platform_api import file_types
from integration.simulator.media import audio

TEN = audio.make_mp3(10, seed=1)
APE = b"APETAGEX" + (2000).to_bytes(4, "little") + (24).to_bytes(4, "little") + bytes(48)
ID3 = b"ID3\x04\x00\x00\x00\x00\x01\x02" + bytes(130)


@pytest.fixture
def end(tmp_path):
    def end(content, seconds=None):
        path = tmp_path / "file.part"
        path.write_bytes(content)
        return file_types.make_mp3_end_check(seconds)(path)

    return end


def encoded(rate, channels, kbits):
    encoder = lameenc.Encoder()
    encoder.silence()
    encoder.set_in_sample_rate(rate)
    encoder.set_channels(channels)
    encoder.set_bit_rate(kbits)
    return bytes(encoder.encode(bytes(2 * channels * rate * 5)) + encoder.flush())


@pytest.mark.parametrize(
    "content", [TEN, ID3 + TEN, TEN + b"TAG".ljust(128), TEN + APE, b"\xff\xfb\x00 not told", b"x"]
)
def test_what_ends_as_it_should_or_cannot_be_judged_is_in_order(end, content):
    assert end(content) is None


@pytest.mark.parametrize("lacking", [1, 10, 69, 71])
def test_an_mp3_that_ends_amid_a_frame_is_doubtful(end, lacking):
    assert "last frame" in end(TEN[:-lacking])
    assert "last frame" in end(ID3 + TEN[:-lacking])


def test_one_that_is_much_shorter_than_it_should_be_is_doubtful(end):
    half = TEN[: len(TEN) // audio.FRAME_BYTES // 2 * audio.FRAME_BYTES]
    assert end(half) is None
    assert end(half, seconds=10) == "it lasts 5.0 s instead of 10"
    assert end(TEN, seconds=10) is None
    assert end(TEN, seconds=12) is None, "what counts seconds may count ringing, too"


@pytest.mark.parametrize(
    ("rate", "channels", "kbits"),
    [(44100, 2, 128), (48000, 1, 320), (22050, 1, 56), (16000, 2, 32), (8000, 1, 16)],
)
def test_frames_of_every_version_are_walked(end, rate, channels, kbits):
    sound = encoded(rate, channels, kbits)
    assert end(sound, seconds=5) is None
    assert "last frame" in end(sound[:-5])
    assert end(sound, seconds=8).startswith("it lasts 5.")


def test_a_pdf_has_its_end_near_its_end(tmp_path):
    path = tmp_path / "file.part"
    path.write_bytes(b"%PDF-1.4" + bytes(5000) + b"%%EOF\n")
    assert file_types.check_pdf_end(path) is None
    path.write_bytes(b"%PDF-1.4 %%EOF" + bytes(5000))
    assert file_types.check_pdf_end(path) == "it has no end after 5,014 bytes"
