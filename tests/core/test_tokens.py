"""Tokens and their digests. Installations store these digests."""

from __future__ import annotations

import pytest

from integration.core import tokens


@pytest.mark.parametrize(
    ("secret", "expected"),
    [
        # SHA-256 test vectors of FIPS 180-2, appendix B.1, and of the empty text.
        ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        (b"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
    ],
)
def test_digest(secret: str | bytes, expected: str) -> None:
    assert tokens.digest(secret).hex() == expected


def test_matches() -> None:
    stored = tokens.digest("secret")
    assert tokens.matches("secret", stored)
    assert tokens.matches(b"secret", stored)
    assert not tokens.matches("secret ", stored)
    assert not tokens.matches("", stored)


def test_new_tokens_differ_and_fit_a_url() -> None:
    made = {tokens.new() for _ in range(100)}
    assert len(made) == 100
    assert all(len(token) == 43 and token.replace("-", "").replace("_", "").isalnum() for token in made)
    assert len(tokens.new(12)) == 16


def test_text_that_utf8_cannot_encode_has_a_digest() -> None:
    assert tokens.digest("a\ud800b") == tokens.digest("a?b")
