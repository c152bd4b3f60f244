"""What house.db won't do, said to a person."""

from __future__ import annotations

from integration.core.errors import SwitchroomError


class Refused(SwitchroomError):
    """What was asked can't be done with what house.db holds; the message says why and what to do."""
