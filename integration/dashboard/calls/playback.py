"""Audio of a call: transcript lines with times, waveform by speaker."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from integration.access.visibility import Visibility
from integration.catalogue import get_resource
from integration.dashboard.account.editable import can_write
from integration.dashboard.site import formats
from integration.mirror.calls.reading import parse_number
from integration.mirror.page_queries.call_detail import CallDetail
from integration.platform_api import mp3_frames

POINTS = 160
"""Bars of a waveform."""
MAX_TINTS = 3
"""Speakers with a colour of their own."""
FLAT = 12
"""Height of the bars, 0 to 100, of a file that is not on the disk."""

_LINE = re.compile(
    r"\s*(?:[\[(]?(?P<time>(?:\d{1,2}:)?\d{1,2}:\d\d(?:[.,]\d+)?)[\])]?\s*(?:[-–—:]\s*)?)?"
    r"(?:(?P<speaker>[^\W\d][\w .'’#()+-]{0,39}?)\s*:\s+)?(?P<text>.*\S)\s*$"
)
_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+")
_TIME_NAMES = ("at", "start", "start_time", "begin", "from", "offset", "time")
_SPEAKER_NAMES = ("speaker", "role", "channel", "name")


@dataclass(frozen=True, slots=True)
class Line:
    """Line of a transcript.

    `at`: seconds after the start of the audio, None if the duration is unknown. `speaker` is "" if unknown,
    `tint` then None.
    """

    text: str
    speaker: str = ""
    at: float | None = None
    tint: int | None = None


@dataclass(frozen=True, slots=True)
class Playback:
    """Recording or voice message of a call.

    `kind` is 'recording' or 'voicemail'. `begin` is the start of the audio as Unix time. `wave` has an
    SVG path by tint; None is the tint of an unknown speaker. `is_estimated` is True if the
    times of the lines follow from the length of their texts.
    """

    kind: str
    record: sqlite3.Row
    file: sqlite3.Row | None
    lines: list[Line]
    is_estimated: bool
    wave: dict[int | None, str]
    begin: int | None

    @property
    def key(self) -> str:
        """Name of the player, by which lines and bars refer to it."""
        return f"{self.kind}-{self.record['id']}"

    @property
    def seconds(self) -> float:
        return _read_duration(self.record)


def can_edit_recordings(viewer: Visibility) -> bool:
    """Return whether the viewer may change transcripts, summaries and scores."""
    return viewer.can_open(get_resource("monitors")) and can_write(viewer, "monitors", "change")


def list_playbacks(details: CallDetail, data_dir: Path) -> list[Playback]:
    """Return the voice messages and recordings of a call, in this order."""
    found = [("voicemail", row, "origtime") for row in details.voicemails]
    found += [("recording", row, "timestamp") for row in details.recordings]
    return [
        _build_playback(kind, row, details.files.get((kind, row["id"])), formats.unix(row[start]), data_dir)
        for kind, row, start in found
    ]


def _read_duration(record: Mapping[str, Any] | sqlite3.Row) -> float:
    return float(parse_number(record["duration"]) or 0)


def _build_playback(
    kind: str, record: sqlite3.Row, file: sqlite3.Row | None, begin: int | None, data_dir: Path
) -> Playback:
    lines, turns, is_estimated = parse_transcript(record)
    curve: Sequence[int] = ()
    if file is not None and file["state"] == "have":
        curve = mp3_frames.measure_loudness(data_dir / file["path"], POINTS)
    wave = _draw_wave(curve, turns, _read_duration(record)) if curve or turns else {}
    return Playback(kind, record, file, lines, is_estimated, wave, begin)


# --- transcript ------------------------------------------------------------------------------------------


def parse_transcript(
    record: Mapping[str, Any] | sqlite3.Row,
) -> tuple[list[Line], list[tuple[float, int]], bool]:
    """Return (lines, turns, whether the times are estimated) of a record.

    Turns are (start in seconds, tint) of the speakers, empty if their times are unknown. The platform does
    not document the form of `transcript_speakers` and `metadata`: lines such as `[0:12] Agent: Hello` are
    read, anything else is text without speakers.
    """
    values = dict(record)
    duration = _read_duration(values)
    lines = _read_lines(str(values.get("transcript_speakers") or "")) or _read_plain(
        str(values.get("transcript") or "")
    )
    timeline = _read_timeline(values.get("metadata"))
    if timeline and len(timeline) == len(lines) and any(line.at is None for line in lines):
        lines = [
            Line(line.text, line.speaker or speaker, at)
            for line, (at, speaker) in zip(lines, timeline, strict=True)
        ]
    is_estimated = bool(lines) and any(line.at is None for line in lines)
    if is_estimated:
        lines = _estimate_times(lines, duration)
    tints = _number_speakers([line.speaker for line in lines] or [speaker for _, speaker in timeline])
    lines = [Line(line.text, line.speaker, line.at, tints.get(line.speaker.casefold())) for line in lines]
    turns: list[tuple[float, int]] = []
    if not is_estimated:
        turns = [(line.at, line.tint) for line in lines if line.at is not None and line.tint is not None]
    if not turns:
        turns = [(at, tints[name.casefold()]) for at, name in timeline if name.casefold() in tints]
    return lines, sorted(turns), is_estimated


def _read_lines(text: str) -> list[Line]:
    """Return the lines of a text with times or speakers.

    A line without either continues the line before.
    """
    lines: list[Line] = []
    for raw in text.splitlines():
        match = _LINE.match(raw)
        if match is None:
            continue
        if match["time"] is None and match["speaker"] is None and lines:
            lines[-1] = Line(f"{lines[-1].text} {match['text']}", lines[-1].speaker, lines[-1].at)
            continue
        lines.append(Line(match["text"], match["speaker"] or "", _parse_clock(match["time"])))
    return lines


def _read_plain(text: str) -> list[Line]:
    """Return the lines of a transcript; those with speakers, otherwise its sentences."""
    rows = [match for match in map(_LINE.match, text.splitlines()) if match]
    if len(rows) > 1 and all(row["speaker"] or row["time"] for row in rows):
        return _read_lines(text)
    return [
        Line(sentence.strip())
        for paragraph in text.splitlines()
        for sentence in _SENTENCE_END.split(paragraph)
        if sentence.strip()
    ]


def _read_timeline(metadata: object) -> list[tuple[float, str]]:
    """Return (seconds, speaker) of the entries of `metadata.timeline`."""
    try:
        value = json.loads(metadata) if isinstance(metadata, str) else metadata
    except ValueError:
        return []
    entries = value.get("timeline") if isinstance(value, dict) else None
    turns = []
    for entry in entries if isinstance(entries, list) else []:
        seconds = _to_seconds(entry) if isinstance(entry, dict) else None
        if seconds is not None:
            turns.append((seconds, str(_pick(entry, _SPEAKER_NAMES) or "")))
    return sorted(turns)


def _pick(entry: Mapping[str, Any], names: Iterable[str]) -> Any:
    return next((entry[name] for name in names if entry.get(name) is not None), None)


def _to_seconds(entry: Mapping[str, Any]) -> float | None:
    value = _pick(entry, _TIME_NAMES)
    if isinstance(value, str):
        return _parse_clock(value)
    return float(value) if isinstance(value, (int, float)) and 0 <= value < 1e6 else None


def _parse_clock(text: str | None) -> float | None:
    """Return the seconds of '1:02:03', '0:12.5' or '12.5', otherwise None."""
    if text is None or not re.fullmatch(r"(\d{1,2}:){0,2}\d{1,6}([.,]\d{1,6})?", text):
        return None
    seconds = 0.0
    for part in text.replace(",", ".").split(":"):
        seconds = seconds * 60 + float(part)
    return seconds


def _estimate_times(lines: list[Line], duration: float) -> list[Line]:
    """Return the lines with times in proportion to the letters before them."""
    letters = sum(len(line.text) for line in lines)
    if not duration or not letters:
        return [Line(line.text, line.speaker) for line in lines]
    before, timed = 0, []
    for line in lines:
        timed.append(Line(line.text, line.speaker, round(duration * before / letters, 1)))
        before += len(line.text)
    return timed


def _number_speakers(names: Iterable[str]) -> dict[str, int]:
    """Number at most MAX_TINTS speakers in the order of their first lines."""
    tints: dict[str, int] = {}
    for name in names:
        if name and len(tints) < MAX_TINTS:
            tints.setdefault(name.casefold(), len(tints))
    return tints


# --- waveform --------------------------------------------------------------------------------------------


def _draw_wave(
    curve: Sequence[int], turns: Sequence[tuple[float, int]], duration: float
) -> dict[int | None, str]:
    """Return SVG paths of POINTS bars by tint, 100 units high."""
    bars: dict[int | None, list[str]] = {}
    for n in range(POINTS):
        moment = duration * (n + 0.5) / POINTS
        tint = next((tint for at, tint in reversed(turns) if at <= moment), None) if duration else None
        half = max(4, curve[n] if curve else FLAT) // 2
        bars.setdefault(tint, []).append(f"M{n} {50 - half}v{2 * half}")
    return {tint: "".join(path) for tint, path in bars.items()}
