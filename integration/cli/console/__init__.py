"""Shared parts of the commands: messages, progress, JSON, completion."""
