"""Set-ups, fakes and payloads that tests share."""
