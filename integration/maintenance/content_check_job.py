"""Scheduled check of a sample of the stored content, with repair."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from integration.context import AppContext
from integration.core.errors import StorageError
from integration.maintenance.content_checks import ContentChecks, Finding
from integration.maintenance.content_repair import PHASES, repair_target

log = logging.getLogger(__name__)

JOB_NAME = "content checks"
"""Name of the job and of its health check."""
INTERVAL_SECONDS = 3600.0
"""Seconds between two runs."""
SAMPLED_ROWS = 5000
"""Rows of each table that one run checks, in 0.2 s: about 120,000 per day."""
SAMPLED_LEGS = 200
"""Legs whose calls one run computes."""


class ContentCheckJob:
    """Checks a sample and repairs what it finds.

    One thread calls `run()` periodically. What cannot be repaired fails the health check, and is tried again
    by each run.
    """

    def __init__(self, context: AppContext) -> None:
        self._context = context
        self._unrepaired: dict[str, Finding] = {}

    def run(self) -> None:
        """Check and repair a sample. Raises StorageError if damaged content remains."""
        findings = self._unrepaired | {finding.text: finding for finding in self._find_faults()}
        reasons: dict[str, str] = {}
        for text, finding in sorted(findings.items(), key=_get_phase):
            if self._context.scheduler.stopping.is_set():
                return
            reason = repair_target(self._context, finding.target) if finding.target else finding.advice
            if reason is not None:
                reasons[text] = reason
            else:
                log.error("%s; repaired", text)
        self._unrepaired = {text: findings[text] for text in reasons}
        if reasons:
            text, reason = next(iter(reasons.items()))
            values = "value" if len(reasons) == 1 else "values"
            raise StorageError(
                f"{len(reasons):,} damaged {values} could not be repaired; {text}: {reason.rstrip('.')}."
                " Run `switchroom verify` to check all content."
            )

    def _find_faults(self) -> Iterator[Finding]:
        context = self._context
        checks = ContentChecks(context.settings.storage.data_dir, context.rules, sample_size=SAMPLED_ROWS)
        for check in (checks.check_webhooks, checks.check_records, checks.check_events):
            if self._should_continue():
                yield from check()
        if self._should_continue():
            yield from checks.check_derived(sampled=True)

    def _should_continue(self) -> bool:
        return not self._context.scheduler.stopping.is_set()


def _get_phase(item: tuple[str, Finding]) -> int:
    return PHASES.index((item[1].target or PHASES)[0])
