"""Switchroom: local mirror of an account of a hosted phone system."""

__version__ = "1.0.0"
