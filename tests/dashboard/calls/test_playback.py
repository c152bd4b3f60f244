"""What the call page and the drawer show beside a recording: transcript, waveform, bars of the legs."""

from __future__ import annotations

import json
import re

import lameenc
import pytest

from integration.core import clock
from integration.dashboard.calls.playback import parse_transcript
from tests.support.applications.shared_app import module_app  # noqa: F401
from tests.support.page_text import text
from tests.support.people import BOB, CAROL, DAVE

START = 1_795_000_000
"""Start of the call, as Unix time."""


def at(seconds: int) -> str:
    return clock.utc_text(START + seconds)


@pytest.fixture
def recorded(app):
    """A call of 40 s: 10 s of ringing, then 30 s of talk with a recording of two speakers."""
    app.event("call.ringing", 5, at(0), state="RINGING", dst_id="11")
    app.event("call.connected", 5, at(10), state="CONNECTED", connected_at=at(10), dst_id="11")
    app.event("call.hangup", 5, at(40), state="HANGUP", dst_id="11")
    record = {"id": 900, "live_id": 5, "user_id": 11, "duration": 30, "timestamp": at(10)}
    spoken = "[0:00] Agent: Good morning.\n[0:12] Caller: My order <b>77</b> is late.\nAll of it."
    app.put("monitors", {**record, "summary": "An order is late.", "transcript_speakers": spoken})
    return app


def sound(seconds: int) -> bytes:
    encoder = lameenc.Encoder()
    encoder.set_in_sample_rate(8000)
    encoder.set_channels(1)
    encoder.set_bit_rate(16)
    encoder.silence()
    return bytes(encoder.encode(bytes(range(0, 250, 2)) * (128 * seconds))) + bytes(encoder.flush())


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        # Lines with speakers and times.
        (
            {"transcript_speakers": "[0:00] Agent: Hello.\n1:02:03.5 - Caller: Hi: there."},
            [(0, "Agent", "Hello."), (3723.5, "Caller", "Hi: there.")],
        ),
        # Times come from the timeline, if it has one for each line.
        (
            {
                "transcript_speakers": "Agent: Hello.\nCaller: Hi.",
                "metadata": '{"timeline": [{"at": 0, "speaker": "agent"}, {"at": 7.5, "speaker": "caller"}]}',
            },
            [(0, "Agent", "Hello."), (7.5, "Caller", "Hi.")],
        ),
        # A text without speakers is divided into sentences. Their times follow from their lengths: 6 of 24
        # letters are a quarter of 20 s.
        (
            {"transcript": "Hello. Is anybody there?!", "duration": 20},
            [(0, "", "Hello."), (5, "", "Is anybody there?!")],
        ),
        ({"transcript": "Hello.", "duration": None}, [(None, "", "Hello.")]),
        # Nothing that can be read.
        ({"metadata": '{"timeline": 7}'}, []),
    ],
)
def test_transcripts_of_every_form_have_lines(record, expected):
    lines, _, _ = parse_transcript({"duration": 10, **record} if "duration" not in record else record)
    assert [(line.at, line.speaker, line.text) for line in lines] == expected


def test_estimated_times_tint_nothing():
    _, turns, is_estimated = parse_transcript({"duration": 10, "transcript_speakers": "A: Hello.\nB: Hi."})
    assert (turns, is_estimated) == ([], True)
    timed = {"duration": 10, "transcript_speakers": "0:01 A: Hello.\n0:05 B: Hi.\n0:08 a: Bye."}
    assert parse_transcript(timed)[1:] == ([(1, 0), (5, 1), (8, 0)], False)
    speakers = [{"at": 0, "speaker": "a"}, {"at": 5, "speaker": "b"}]
    silent = {"duration": 10, "metadata": {"timeline": speakers}}
    assert parse_transcript(silent) == ([], [(0, 0), (5, 1)], False)


@pytest.mark.parametrize("path", ["/calls/5", "/calls/5/beside"])
def test_page_and_drawer_have_player_summary_and_transcript(app, recorded, path):
    page = app.log_in(CAROL).get(path)
    assert "An order is late." in text(page)
    assert "0:12 Caller My order <b>77</b> is late. All of it." in text(page)
    assert 'data-player="recording-900"' in page.text
    assert '<li data-at="12.0"><a href="/calls/5?t=12">0:12</a>' in page.text
    assert 'src="/recordings/900.mp3"' in page.text


def test_the_waveform_has_a_tint_for_each_speaker(app, recorded):
    """12 of 30 s are 64 of 160 bars."""

    def waves() -> dict[str, list[str]]:
        page = app.log_in(CAROL).get("/calls/5").text
        return {
            tint: path.split("M")[1:] for tint, path in re.findall(r'<path class="(\w*)" d="([^"]*)"', page)
        }

    # The file is not downloaded yet: the bars have one height.
    assert {tint: len(bars) for tint, bars in waves().items()} == {"held": 64, "talk": 96}
    assert len({bar.split(" ")[1] for bars in waves().values() for bar in bars}) == 1
    app.archive("recording", 900, sound(30))
    assert {tint: len(bars) for tint, bars in waves().items()} == {"held": 64, "talk": 96}
    assert len({bar.split(" ")[1] for bars in waves().values() for bar in bars}) > 1


def test_bars_of_the_legs_lead_into_the_recording(app, recorded):
    """The recording starts with the connection, 10 s after the start."""
    page = app.log_in(CAROL).get("/calls/5").text
    bars = re.findall(
        r'<a href="\?t=(\d+)" data-of="recording-900" data-at="([\d.-]+)" data-for="([\d.]+)"', page
    )
    assert bars == [("0", "0.0", "30.0")]
    ((x, step),) = re.findall(r'data-cursor="recording-900" data-step="([\d.]+)" x1="([\d.]+)"', page)
    # 584 units for 40 s, after 176 units of names.
    assert (float(x), float(step)) == (14.6, 176 + 146)


def test_without_the_right_nothing_leads_into_the_recording(app, recorded):
    page = app.log_in(DAVE).get("/calls/5")
    assert "You don’t have permission to play recordings." in text(page)
    assert 'data-of="recording-900" data-at' not in page.text
    assert "?t=" not in page.text


def test_raw_records_are_for_supervisors(app, recorded):
    app.put("cdrs", {"id": 70, "live_id": 5, "calldate": at(0), "duration": 40, "custom": "as received"})
    page = app.log_in(BOB).get("/calls/5").text
    found = re.findall(r'<details class="raw"><summary>(\w+) <span class="faint">(\d)</span>', page)
    assert found == [("CDRs", "1"), ("Recordings", "1"), ("Events", "3")]
    assert json.dumps("as received") in page.replace("&#34;", '"')
    for member in (DAVE, CAROL):
        page = app.log_in(member).get("/calls/5").text
        assert 'class="raw"' not in page
        assert "as received" not in page
        assert "Events" in page
