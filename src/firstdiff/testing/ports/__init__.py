"""Ports: models written again the way a porter would, healthy and with the mistakes that porters make.

`python -m firstdiff.testing.ports` compares each with its reference and counts what was found. Needs torch and
transformers. `docs/ports.md` tells more.
"""
