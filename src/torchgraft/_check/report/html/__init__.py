"""Reports as one HTML page that needs nothing else; the pictures are SVG, written here."""

from .page import html_page

__all__ = ["html_page"]
