"""Workflows of several steps, each behind a command."""
