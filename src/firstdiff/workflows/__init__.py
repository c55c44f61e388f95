"""Chains of steps: each a command of its own."""
