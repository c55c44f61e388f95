"""The local server that shows comparisons in a browser. `docs/serve.md` is its guide."""
