"""Fixtures of these tests."""

from tests.support.applications.shared_app import shared_app  # noqa: F401
from tests.support.name_lookup import set_addresses  # noqa: F401
