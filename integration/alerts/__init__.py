"""Alerts: rules look at calls and at the health of this house, and tell people of what they find.

`conditions.py` finds, `decide.py` says what of it is to be told now, `evaluate.py` does both round by round,
`send.py` brings messages to mailboxes and addresses. Rules and log are in `alerts/rules.py` and
`alerts/notification_log.py`.
"""
