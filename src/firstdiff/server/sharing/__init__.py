"""One file to hand on: the page itself, the comparison, and the values worth seeing, with no server behind it."""

from firstdiff.server.sharing.page import MOST_BYTES, shared_page

__all__ = ["MOST_BYTES", "shared_page"]
