"""Reads a written page as a browser would: tags, handlers, links."""

from __future__ import annotations

import re
from html.parser import HTMLParser

TAGS = set(
    re.findall(
        r"\w+",
        "html head meta title link script body a header nav button main h1 h2 h3 p span small div "
        "table thead tbody tr th td dl dt dd pre code footer label input ul li b br form select "
        "option section details summary strong",
    )
)
LINKS = {"href", "src"}


class Page(HTMLParser):
    """Tags, attributes and links of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.handlers: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.handlers += [name for name, _ in attrs if name.startswith("on")]
        self.links += [value or "" for name, value in attrs if name in LINKS]

    @property
    def harm(self) -> list[str]:
        """Everything that somebody's words have brought in."""
        schemes = r"\s*(javascript:|data:text|vbscript:)"
        return [
            *(self.tags - TAGS),
            *self.handlers,
            *(link for link in self.links if re.match(schemes, link)),
        ]
