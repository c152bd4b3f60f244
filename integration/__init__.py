"""Switchroom: local mirror of an account of a hosted phone system."""

__version__ = "0.1.0"
