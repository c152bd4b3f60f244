"""Hash chain and syslog copy of the audit log."""
