"""Export a comparison as one HTML file: the page, the result and selected values, without a server."""

from firstdiff.server.sharing.page import MOST_BYTES, shared_page

__all__ = ["MOST_BYTES", "shared_page"]
