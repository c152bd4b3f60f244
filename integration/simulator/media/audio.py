"""MP3 audio of any length from blocks of about 1 s.

`voices.mp3` has twelve blocks of synthetic, speech-like vowels: six of a low voice, then six of a high one.
Each block was encoded alone by LAME, so its first frame does not refer to earlier data (`main_data_begin` is
0), and blocks can be joined and truncated at any frame. MPEG-2.5 layer III, 8 kHz mono, 8 kbit/s: every frame
has 72 bytes and lasts 72 ms, so the size follows from the duration.
"""

from __future__ import annotations

import math
import random
from functools import cache
from pathlib import Path

FRAME_BYTES = 72
FRAME_SECONDS = 0.072
_FRAMES_PER_BLOCK = 14
_BLOCKS = 12
_VOICES = Path(__file__).with_name("voices.mp3")


def count_frames(seconds: int) -> int:
    return max(1, math.ceil(seconds / FRAME_SECONDS))


def compute_size(seconds: int) -> int:
    """Compute the size in bytes of an MP3 of `seconds`."""
    return count_frames(seconds) * FRAME_BYTES


def make_mp3(seconds: int, seed: int) -> bytes:
    """Create an MP3 of two voices.

    The same `seed` and duration give the same bytes.
    """
    voices = _read_voices()
    frame_count = count_frames(seconds)
    rng = random.Random(seed)
    blocks: list[bytes] = []
    speaker = 0
    for position in range(0, frame_count, _FRAMES_PER_BLOCK):
        if rng.random() < 0.35:
            speaker = 1 - speaker
        block = voices[speaker * (_BLOCKS // 2) + rng.randrange(_BLOCKS // 2)]
        blocks.append(block[: min(_FRAMES_PER_BLOCK, frame_count - position) * FRAME_BYTES])
    return b"".join(blocks)


@cache
def _read_voices() -> list[bytes]:
    content = _VOICES.read_bytes()
    size = _FRAMES_PER_BLOCK * FRAME_BYTES
    return [content[start : start + size] for start in range(0, len(content), size)]
