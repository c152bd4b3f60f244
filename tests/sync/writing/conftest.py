"""Fixtures of the facade application: databases in front of a scripted platform."""

from tests.support.applications.facade_app import room, settings  # noqa
