"""The page: a server on this machine that shows comparisons in a browser. `docs/serve.md` tells how to use it."""
