"""A small text-to-speech pipeline with the stages of a modern one, in PyTorch: the reference of the port."""
