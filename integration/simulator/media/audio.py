"""MP3 audio of any length from blocks that are encoded once.

Twelve blocks of about 1 s are encoded once (two voices of synthetic, speech-like vowels). Every block comes
from a new encoder, so its first frame does not refer to earlier data (`main_data_begin` is 0), and blocks can
be joined and truncated at any frame. MPEG-2.5 layer III, 8 kHz mono, 8 kbit/s: every frame has 72 bytes and
lasts 72 ms, so the size follows from the duration without encoding.
"""

from __future__ import annotations

import array
import math
import random
import threading

import lameenc

FRAME_BYTES = 72
FRAME_SECONDS = 0.072
_RATE = 8000
_FRAMES_PER_BLOCK = 14
_BLOCKS = 12
_VOWELS = ((320.0, 900.0), (600.0, 1100.0), (450.0, 1700.0), (700.0, 1250.0))

_lock = threading.Lock()
_blocks: list[bytes] = []


def count_frames(seconds: int) -> int:
    return max(1, math.ceil(seconds / FRAME_SECONDS))


def compute_size(seconds: int) -> int:
    """Compute the size in bytes of an MP3 of `seconds`."""
    return count_frames(seconds) * FRAME_BYTES


def make_mp3(seconds: int, seed: int) -> bytes:
    """Create an MP3 of two voices.

    The same `seed` and duration give the same bytes.
    """
    with _lock:
        if not _blocks:
            _blocks.extend(_encode_block(n) for n in range(_BLOCKS))
    frame_count = count_frames(seconds)
    rng = random.Random(seed)
    blocks: list[bytes] = []
    speaker = 0
    for position in range(0, frame_count, _FRAMES_PER_BLOCK):
        if rng.random() < 0.35:
            speaker = 1 - speaker
        block = _blocks[speaker * (_BLOCKS // 2) + rng.randrange(_BLOCKS // 2)]
        blocks.append(block[: min(_FRAMES_PER_BLOCK, frame_count - position) * FRAME_BYTES])
    return b"".join(blocks)


def _encode_block(number: int) -> bytes:
    encoder = lameenc.Encoder()
    encoder.set_bit_rate(8)
    encoder.set_in_sample_rate(_RATE)
    encoder.set_out_sample_rate(_RATE)
    encoder.set_channels(1)
    encoder.set_quality(5)
    encoder.silence()
    encoded = bytes(encoder.encode(_synthesize_voice(number).tobytes()) + encoder.flush())
    return encoded[: _FRAMES_PER_BLOCK * FRAME_BYTES]


def _synthesize_voice(number: int) -> array.array[int]:
    """Synthesize 1.15 s of vowels.

    They have a pitch with two formants, in four syllables that fade in and out.
    """
    rng = random.Random(number)
    base_pitch = 118.0 if number < _BLOCKS // 2 else 205.0
    sample_count = int(_RATE * FRAME_SECONDS * (_FRAMES_PER_BLOCK + 2))
    syllable = sample_count // 4
    samples = array.array("h")
    wave: list[float] = []
    for n in range(sample_count):
        if n % syllable == 0:
            wave = _synthesize_period(
                base_pitch * rng.choice((0.89, 1.0, 1.0, 1.12, 1.26)), rng.choice(_VOWELS)
            )
        swell = math.sin(math.pi * (n % syllable) / syllable) ** 0.7
        samples.append(int(max(-1.0, min(1.0, wave[n % len(wave)] * swell * 0.28)) * 30000))
    return samples


def _synthesize_period(pitch: float, formants: tuple[float, float]) -> list[float]:
    """Synthesize one period of a voice.

    `pitch` is in Hz; overtones are strong near `formants` (Hz).
    """
    length = round(_RATE / pitch)
    weights = [
        sum(math.exp(-(((n * pitch - f) / 220.0) ** 2)) for f in formants) + 0.25 / n for n in range(1, 10)
    ]
    return [
        sum(w * math.sin(2 * math.pi * n * t / length) for n, w in enumerate(weights, 1))
        for t in range(length)
    ]
