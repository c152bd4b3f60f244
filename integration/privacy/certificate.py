"""Certificate of an erasure: what was erased, what was kept and why."""

from __future__ import annotations

from integration.privacy.erasures import Erasure

_REMAINING = {
    "held": "Kept under legal hold",
    "held_copies": "Copies kept under legal hold",
    "backups": "Backups that may contain the number until they are removed",
    "delivered": "Delivered exports with the number",
    "possibly_left": "Places that possibly contain the digits of the number",
}
"""Headings of the fields of `Erasure.report`, in the order of the certificate."""


def write(erasure: Erasure, number: str | None, *, installation: str, version: str, issued_at: str) -> str:
    """Return the certificate of a completed erasure as text.

    `number`: the erased number in E.164 if the user entered it, because only its keyed hash is stored.
    Times are UTC text.
    """
    lines = [
        "CERTIFICATE OF ERASURE",
        "",
        f"Installation: {installation}",
        f"Erasure:      {erasure.id}",
        f"Number:       {number or 'not stored; enter it to issue a certificate that names it'}",
        f"Requested:    {erasure.at} UTC by {erasure.who}",
        f"Completed:    {erasure.done_at} UTC",
        "",
        "Erased",
        *(f"  {label}: {count:,}" for label, count in erasure.removed.items()),
    ]
    if not erasure.removed:
        lines.append("  no data was stored")
    for name, heading in _REMAINING.items():
        entries = _list_entries(erasure.report.get(name))
        lines += ["", heading, *(f"  {entry}" for entry in entries or ["none"])]
    lines += [
        "",
        "The calls are still counted, without the number, names, texts and recordings.",
        "Data of this number from before the request is erased when it arrives later.",
        "Not erased: records on the phone system, delivered exports, sent e-mails.",
        "",
        f"Issued {issued_at} UTC by Switchroom {version}",
        "",
    ]
    return "\n".join(lines)


def _list_entries(values: object) -> list[str]:
    if isinstance(values, dict):
        return [f"{label}: {', '.join(map(str, keys))}" for label, keys in values.items()]
    return [str(value) for value in values] if isinstance(values, list) else []
