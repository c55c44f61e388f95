"""Run models in a browser, and compare their tensors with Python's."""
