"""Alerts: rules that watch calls and health, and send notifications.

`conditions.py` finds matches, `evaluate.py` runs periodically and decides which of them to notify about, and
`send.py` sends notifications by e-mail, HTTP or Apprise. Rules and current alerts are stored by `rules.py`,
notifications by `notification_log.py`.
"""
