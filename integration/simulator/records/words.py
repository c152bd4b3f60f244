"""Short invented conversations for transcripts, voicemail messages and SMS."""

from __future__ import annotations

import random
from typing import Any

from integration.simulator.records.seeds import SEEDS


def make_conversation(rng: random.Random, agent: str, seconds: int) -> dict[str, Any]:
    """Make transcript, summary and ratings of a recording, by field of its record."""
    topic, question, answer, closing = rng.choice(SEEDS["words"]["topics"])
    lines = [
        ("Agent", f"Good morning, {agent} speaking, how can I help?"),
        ("Caller", question),
        ("Agent", answer),
        ("Caller", closing),
    ]
    score = rng.choices(range(1, 11), weights=(1, 1, 2, 2, 3, 4, 6, 7, 5, 3))[0]
    timeline = [
        {"at": round(seconds * n / len(lines), 1), "speaker": speaker.lower()}
        for n, (speaker, _) in enumerate(lines)
    ]
    return {
        "transcript": " ".join(text for _, text in lines),
        "transcript_speakers": "\n".join(f"{speaker}: {text}" for speaker, text in lines),
        "summary": f"The caller asked about {topic}. {agent} answered.",
        "sentiment": "negative" if score <= 3 else "neutral" if score <= 6 else "positive",
        "cx_score": score,
        "metadata": {"timeline": timeline},
    }


def choose_sms_pair(rng: random.Random) -> tuple[str, str]:
    """Choose an SMS from outside and its reply."""
    question, answer = rng.choice(SEEDS["words"]["sms_pairs"])
    return question, answer


def choose_voice_message(rng: random.Random) -> str:
    return str(rng.choice(SEEDS["words"]["voice_messages"]))
