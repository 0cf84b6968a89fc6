"""Unanimous deliberation on a problem."""
