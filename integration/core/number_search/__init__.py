"""Fold and search telephone numbers in texts and bytes."""
