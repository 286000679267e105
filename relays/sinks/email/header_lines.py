"""Header lines of a mail: folded, and encoded where they are not ASCII (RFC 5322, RFC 2047, RFC 2231). Pure, no I/O.

Our own, because the same event must give the same bytes on each attempt (promise same-identity), and the standard
library folds long subjects in another way in Python 3.13 than in 3.12.
"""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from outbox.mailboxes import Mailbox

__all__ = ["address_line", "filename_parameters", "text_line"]

LINE_LENGTH = 76
"""Characters of a line we aim for; RFC 2047 allows no longer one with an encoded word."""

WORD_BYTES = 39
"""Bytes of text in one encoded word: 64 characters with its frame, 73 behind `Subject:`."""

_ATOMS = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?: [A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*", re.ASCII)
_PARAMETER_CHARACTERS = 50


def text_line(name: str, value: str, *, longest_word: int = LINE_LENGTH) -> bytes:
    """Return a header of free text; words longer than `longest_word` characters are encoded."""
    return _folded(name, list(_words_of_text(value, longest_word)))


def address_line(name: str, mailboxes: Iterable[Mailbox]) -> bytes:
    """Return a header of mailboxes. A local part that is not ASCII stays UTF-8 (RFC 6532): nothing may encode it."""
    words: list[str] = []
    for mailbox in mailboxes:
        if words:
            words[-1] += ","
        words += [*_words_of_name(mailbox.name), f"<{mailbox.address}>" if mailbox.name else mailbox.address]
    return _folded(name, words)


def filename_parameters(filename: str) -> list[str]:
    """Return the parameters that carry a file's name, in sections if it is long (RFC 2231)."""
    if filename.isascii() and len(filename) <= _PARAMETER_CHARACTERS:
        escaped = re.sub(r'(["\\])', r"\\\1", filename)
        return [f'filename="{escaped}"']
    sections = list(_sections(filename))
    if len(sections) == 1:
        return [f"filename*=utf-8''{sections[0]}"]
    return [
        f"filename*{position}*={'' if position else 'utf-8' + chr(39) * 2}{section}"
        for position, section in enumerate(sections)
    ]


def _folded(name: str, words: list[str]) -> bytes:
    """Return the line, broken before each word that would make it too long."""
    line = f"{name}:"
    lines = []
    for word in words:
        if len(line) + 1 + len(word) > LINE_LENGTH and not line.endswith(":"):
            lines.append(line)
            line = ""
        line += f" {word}"
    return "\r\n".join([*lines, line]).encode() + b"\r\n"


def _words_of_text(value: str, longest_word: int) -> Iterator[str]:
    """Yield the words to be joined by spaces: the text's own, or encoded ones that hold the spaces, too."""
    words = value.split(" ")
    if value.isascii() and "=?" not in value and all(words) and max(map(len, words)) <= longest_word:
        yield from words
    elif value:
        yield from _encoded_words(value)


def _words_of_name(name: str) -> Iterator[str]:
    if not name or (_ATOMS.fullmatch(name) and "=?" not in name and len(name) < LINE_LENGTH):
        yield from name.split()
    elif name.isascii() and len(name) < LINE_LENGTH:
        escaped = re.sub(r'(["\\])', r"\\\1", name)
        yield f'"{escaped}"'
    else:
        yield from _encoded_words(name)


def _encoded_words(text: str) -> Iterator[str]:
    for piece in _pieces(text, WORD_BYTES):
        yield f"=?utf-8?B?{base64.b64encode(piece.encode()).decode()}?="


def _pieces(text: str, most_bytes: int) -> Iterator[str]:
    """Yield the text in pieces of at most so many bytes of UTF-8; no character is cut in two."""
    piece, size = "", 0
    for character in text:
        width = len(character.encode())
        if size + width > most_bytes:
            yield piece
            piece, size = "", 0
        piece += character
        size += width
    yield piece


def _sections(filename: str) -> Iterator[str]:
    section = ""
    for character in filename:
        escaped = quote(character, safe="")
        if len(section) + len(escaped) > _PARAMETER_CHARACTERS:
            yield section
            section = ""
        section += escaped
    yield section
