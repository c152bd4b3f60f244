"""Trial of SMS that arrive by webhook, as records, or both."""

from __future__ import annotations

import argparse
import itertools
import random
import re
from collections import Counter
from dataclasses import dataclass
from html import unescape

import requests

from tests.support.fake_exchange import read_fixture
from tests.trials.tools.recorded_platform import RecordedPlatform
from tests.trials.trial import Trial

SECONDS = (1, 4, 9)
"""Seconds of the minute in which the messages of one text are sent."""
PHASES = 3
FIRST_RECORD = 9_000_000
BUBBLE = re.compile(r'<li class="bubble [a-z]+"><p>(text [^<]+)</p>')
EARLIER = re.compile(r'<a [^>]*href="([^"]+)">Earlier messages</a>')


@dataclass(frozen=True)
class Text:
    """A text that is sent several times, and when each of its facts arrives.

    `webhooks` and `records` state the phase of each.
    """

    name: str
    webhooks: tuple[int, ...]
    records: tuple[int, ...]

    @property
    def count(self) -> int:
        """Number of messages: each webhook belongs to one record at most."""
        return max(len(self.webhooks), len(self.records))


class Messages(Trial):
    """SMS are neither doubled nor merged.

    Disturbed: texts that are sent up to three times within seconds arrive by webhook, as records, or both, in
    every combination and order; webhooks are delivered twice. The platform is a server of hand-written
    records.
    Checked: of each text there are as many messages as webhooks or records, whichever are more, in the
    mirror and on the pages of the thread.
    Detects: texts that are merged.
    """

    name = "messages"
    size_option, size = "--copies", 5
    bugs, symptoms = ("merge_equal_texts",), ("there are",)
    short = ("--copies 1 --most 2", "--copies 1 --most 2 --seed-bug")
    promises = ("P8",)
    long = ("--copies 5",) * 2

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--most", type=int, default=3, help="webhooks, and records, of one text")

    def boot(self) -> None:
        rng = random.Random(self.options.seed)
        orders = [
            (webhooks, records)
            for webhooks_count, records_count in itertools.product(range(self.options.most + 1), repeat=2)
            for webhooks in itertools.combinations_with_replacement(range(PHASES), webhooks_count)
            for records in itertools.combinations_with_replacement(range(PHASES), records_count)
            if webhooks or records
        ]
        self.texts = [
            Text(f"text {number}-{copy}", *order)
            for copy in range(self.options.size)
            for number, order in enumerate(orders)
        ]
        rng.shuffle(self.texts)
        self.platform = RecordedPlatform()
        self.cleanup.callback(self.platform.close)
        self.numbers = itertools.count(FIRST_RECORD)
        self.product = self.cleanup.enter_context(self.run_product(self.platform))

    def disturb(self) -> None:
        session, statuses = requests.Session(), Counter[int]()
        for phase in range(PHASES):
            for text in self.texts:
                self._list(text, phase)
            for text in self.texts:
                for number, when in enumerate(text.webhooks):
                    body = _make_event(text.name, number)
                    for _ in range(2 if when == phase else 0):
                        answer = session.post(self.product.webhook_url, json=body, timeout=60)
                        statuses[answer.status_code] += 1
            self.product.advance(60)
            self.product.sync_all()
            self.product.settle()
        self.verify(set(statuses) == {200}, f"webhooks get 200, not {dict(statuses)}")

    def _list(self, text: Text, phase: int) -> None:
        for number, when in enumerate(text.records):
            if when == phase:
                record = _make_record(next(self.numbers), text.name, number)
                self.platform.collections["sms"].add(record)

    def check(self) -> None:
        sql = "SELECT text, count(*) FROM _messages WHERE text LIKE 'text %' GROUP BY text"
        found = dict(self.product.query(sql))
        wrong = [text for text in self.texts if found.get(text.name, 0) != text.count]
        for text in wrong[:5]:
            self.verify(False, f"of {text} there are {text.count} messages, not {found.get(text.name, 0)}")
        shown = self._count_shown()
        hidden = [text.name for text in self.texts if shown[text.name] != found.get(text.name, 0)]
        self.verify(not hidden, f"the pages show the messages of every text, except of {hidden[:5]}")
        total = sum(text.count for text in self.texts)
        self.verify(sum(found.values()) == total, f"there are {total} messages, not {sum(found.values())}")
        self.figures.append(f"{len(self.texts)} texts, {total} messages, {len(wrong)} wrong")

    def _count_shown(self) -> Counter[str]:
        """Number of messages on all pages of the thread, by text."""
        browser, shown = self.product.login(), Counter[str]()
        path = f"/messages?with={read_fixture('webhook-sms.received')['from_no']}"
        while path:
            page = browser.get(self.product.origin + path, timeout=60).text
            shown.update(BUBBLE.findall(page))
            earlier = EARLIER.search(page)
            path = unescape(earlier[1]) if earlier else ""
        return shown


def _make_event(text: str, number: int) -> dict[str, object]:
    sample: dict[str, object] = read_fixture("webhook-sms.received")
    when = f"2026-09-02 09:00:{SECONDS[number]:02d}"
    return {**sample, "id": f"{text}.{number}", "event_time": when, "text": text}


def _make_record(key: int, text: str, number: int) -> dict[str, object]:
    """Return a record, which the platform created a second after its webhook."""
    (sample,) = read_fixture("response-sms-list-200")["data"]
    when = f"2026-09-02 09:00:{SECONDS[number] + 1:02d}"
    return {**sample, "id": key, "created_at": when, "message": text}
