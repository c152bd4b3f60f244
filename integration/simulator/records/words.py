"""Short invented conversations for transcripts, voicemail messages and SMS."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

_TOPICS: tuple[tuple[str, str, str, str], ...] = (
    (
        "an order that has not arrived",
        "I ordered two weeks ago and nothing has come yet.",
        "I can see it here. It left the depot this morning and should be with you tomorrow.",
        "Great, thank you for checking.",
    ),
    (
        "moving an appointment",
        "I need to move my appointment from Tuesday, is there anything later in the week?",
        "Thursday at ten or Friday at half past two.",
        "Friday works, please put me down.",
    ),
    (
        "an invoice charged twice",
        "I was charged twice on the last invoice.",
        "I am sorry about that. I will send the refund today and you get a mail to confirm.",
        "All right, but this is the second time.",
    ),
    (
        "opening hours and prices",
        "Are you open on Saturday, and what does the small one cost?",
        "Yes, from nine. The small one is 24.50 including delivery.",
        "Perfect, I will drop by.",
    ),
    (
        "a repair",
        "The repair from last month has failed again, it makes the same noise.",
        "That is under guarantee. Can you bring it in, or shall we collect it?",
        "Collecting would be best.",
    ),
    (
        "a quote for a larger order",
        "We would like a quote for forty units with delivery in March.",
        "I will work that out with the workshop and call you back before four.",
        "Looking forward to it.",
    ),
)
_SMS_PAIRS = (
    ("Hello, is my order ready to collect?", "Yes, it is at the front desk until 6pm."),
    ("Running 10 minutes late, sorry!", "No problem, see you soon."),
    ("Can you send me the address again?", "Unit 4, Example Yard / entrance on the left."),
    ("Thanks for the quick help today 👍", "You are welcome, any time."),
    ("Do you have the blue one in stock?", "Two left. Shall I keep one for you?"),
    ("Please confirm Friday 14:30", "Confirmed: Friday 14:30. See https://example.com/booking"),
    ("Wrong part delivered, please call me", "Sorry about that, we call you within the hour."),
    ("Is the café near you open? Meeting at 9", "It opens at eight."),
)
_VOICE_MESSAGES = (
    "Hello, this is about the order from last week, please call me back. Thank you.",
    "Hi, I tried to reach you this morning. I will be in until five.",
    "Good afternoon, could somebody ring me about the invoice, please?",
    "It is only me, nothing urgent, I will try again tomorrow.",
)


@dataclass(frozen=True, slots=True)
class Conversation:
    transcript: str
    speakers: str
    summary: str
    sentiment: str
    score: int
    timeline: list[dict[str, Any]]


def make_conversation(rng: random.Random, agent: str, seconds: int) -> Conversation:
    topic, question, answer, closing = rng.choice(_TOPICS)
    lines = [
        ("Agent", f"Good morning, {agent} speaking, how can I help?"),
        ("Caller", question),
        ("Agent", answer),
        ("Caller", closing),
    ]
    score = rng.choices(range(1, 11), weights=(1, 1, 2, 2, 3, 4, 6, 7, 5, 3))[0]
    return Conversation(
        transcript=" ".join(text for _, text in lines),
        speakers="\n".join(f"{speaker}: {text}" for speaker, text in lines),
        summary=f"The caller asked about {topic}. {agent} answered.",
        sentiment="negative" if score <= 3 else "neutral" if score <= 6 else "positive",
        score=score,
        timeline=[
            {"at": round(seconds * n / len(lines), 1), "speaker": speaker.lower()}
            for n, (speaker, _) in enumerate(lines)
        ],
    )


def choose_sms_pair(rng: random.Random) -> tuple[str, str]:
    """Choose an SMS from outside and its reply."""
    return rng.choice(_SMS_PAIRS)


def choose_voice_message(rng: random.Random) -> str:
    return rng.choice(_VOICE_MESSAGES)
