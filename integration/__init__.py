"""Switchroom: a true copy of a hosted phone system's account, on a box of one's own."""

__version__ = "0.1.0"
