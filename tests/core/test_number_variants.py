"""Variants of telephone numbers in text."""

from __future__ import annotations

import re

import pytest

from integration.core.number_search import folding, wide_search
from integration.core.number_search.wide_search import WideSearch
from integration.core.number_variants import make_finder
from integration.mirror.privacy.erasure_gate import remove_number

UK, US = "+447700900123", "+12025550143"
FINDER = make_finder([UK, US])


@pytest.mark.parametrize(
    "text",
    [
        "+447700900123", "00447700900123", "447700900123", "07700900123", "7700900123", "+44 7700 900123",
        "+44 (0) 7700-900-123", "(07700) 900 123", "011447700900123", "12025550143", "(202) 555-0143",
        "202.555.0143", "tel:+447700900123;ext=1", "442079460002 447700900123", "447700900123-20260301120000",
        "mine is 0 77 00 90 01 23, ring me",
    ],
)  # fmt: skip
def test_every_variant_of_a_number_is_found(text: str) -> None:
    assert [e164 for _, _, e164 in FINDER.find(text)] == [US if "0143" in text else UK]
    assert WideSearch(US if "0143" in text else UK).contains(text.encode())


SPELLINGS = {
    "non-breaking hyphen": "07700\u2011900123",
    "en dash": "07700\u2013900\u2013123",
    "minus": "07700\u2212900123",
    "middle dot": "07700\u00b7900\u00b7123",
    "zero-width space": "0\u200b7700\u200b900123",
    "comma": "07700,900,123",
    "underscore": "07700_900_123",
    "plus for a space": "07700+900123",
    "percent-encoding": "%2B44%207700%20900123",
    "repeated percent-encoding": "%252B44%25207700%2520900123",
    "percent-encoded dash": "07700%E2%80%91900123",
    "full-width digits": "\uff10\uff17\uff17\uff10\uff10 \uff19\uff10\uff10\uff11\uff12\uff13",
    "Arabic digits": "\u0660\u0667\u0667\u0660\u0660\u0669\u0660\u0660\u0661\u0662\u0663",
    "keycap digits": "".join(f"{digit}\ufe0f\u20e3" for digit in "07700900123"),
    "escapes of JSON": "07700\\u2011900123",
    "escaped digits of JSON": "\\uff10\\uff17\\uff17\\uff10\\uff10900123",
    "line break of JSON": "07700\\n900123",
    "JSON in JSON": "07700\\\\u2011900123",
    "HTML": "07700&#8209;900&nbsp;123",
    "no-break spaces and dash": "07700)\u00a0\u2014\u00a0900\u202f123",
}


@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS)
def test_a_number_is_found_in_every_script_and_escape(spelling: str) -> None:
    for text in (f"ring {spelling}.", spelling, f"442079460002 {spelling}"):
        assert {e164 for _, _, e164 in FINDER.find(text)} == {UK}
        assert FINDER.replace_numbers(text, "erased") == text.replace(spelling, "erased")
        assert WideSearch(UK).contains(text.encode())


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig", "cp1252"])
def test_a_number_is_removed_from_bytes_in_their_encoding(codec: str) -> None:
    spelling = "07700\u2013900\u00b7123"
    for number in (spelling, "07700900123"):
        body = f'{{"text": "ring {number}"}}'.encode(codec)
        assert FINDER.contains_number_in_bytes(body)
        assert WideSearch(UK).contains(body)
        left = FINDER.replace_numbers_in_bytes(body, "erased")
        assert left.decode(codec) == '{"text": "ring erased"}'


@pytest.mark.parametrize(
    "body",
    [
        b"00011447700900123999",
        b"+44\x00\x017700\xff\xfe 900123", "７７００９００１２３".encode("utf-16-le"),
        b"x" + "\u0667\u0667\u0660\u0660\u0669\u0660\u0660\u0661\u0662\u0663".encode("utf-16-be"),
        b"7700 and 900 and 123",
    ],
)  # fmt: skip
def test_the_wide_search_finds_digits_that_the_finder_overlooks(body: bytes, tmp_path, monkeypatch) -> None:
    assert WideSearch(UK).contains(body)
    path = tmp_path / "file"
    # The number spans two reads; a file of two real ones takes 0.2 s.
    monkeypatch.setattr(wide_search, "CHUNK_BYTES", 1 << 16)
    path.write_bytes(b"\0" * ((1 << 16) - 6) + body)
    assert WideSearch(UK).is_in_file(path)
    assert WideSearch(UK).is_in_audio_file(path)
    path.write_bytes(b"\0" * (1 << 17) + body + b"\0" * (1 << 17))
    assert not WideSearch(UK).is_in_audio_file(path)
    # Size 20 * 128 + 8 bytes: the number is far behind the first bytes, and within the tag.
    path.write_bytes(b"ID3\4\0\0\0\0\x14\x08" + b"\0" * 2400 + body + b"\0" * (1 << 17))
    assert WideSearch(UK).is_in_audio_file(path)
    assert not WideSearch("+447700900999").is_in_file(path)


def test_selected_digits_are_those_of_the_folded_text() -> None:
    characters = "".join(map(chr, range(0x110000)))
    assert folding.extract_digits(characters) == re.sub("[^0-9]", "", folding.fold(characters))


@pytest.mark.parametrize(
    "text",
    ["447700900124", "4477009001234", "17700900123", "9447700900123", "447700 and 900123", "", "123",
     "2026-03-01 12:00:00", "900123"],
)  # fmt: skip
def test_other_digits_are_not_found(text: str) -> None:
    assert not FINDER.contains_number(text)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("ring 07700 900123 or +447700900123!", "ring erased or erased!"),
        (
            '{"a":"Ann <7700900123>","b":[447700900123,"x"],"n":1.50}',
            '{"a":"erased","b":[null,"x"],"n":1.50}',
        ),
        ('{"\\u0034\\u0034 7700 900123": {"live_id": 7700900123}}', '{"erased":{"live_id":7700900123}}'),
        ('{"unfinished": "07700900123', '{"unfinished": "erased'),
    ],
)
def test_a_number_is_removed_from_text_and_json_stays_valid(text: str, left: str) -> None:
    assert remove_number(text, FINDER) == left
