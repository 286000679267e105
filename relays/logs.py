"""The log of a relay, on stderr: one line per entry, for people or as JSON."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

from outbox.errors import UsageError

__all__ = ["configure"]

LEVELS = ("debug", "info", "warning", "error")


def configure(log_format: str, log_level: str, *, show_tracebacks: bool) -> None:
    """Log everything of this process to stderr.

    Args:
        log_format: `console` or `json`.
        log_level: the lowest level shown: debug, info, warning or error.
        show_tracebacks: whether exceptions come with their traceback, or as one line.

    Raises:
        UsageError: a format or level is not known.
    """
    if log_format not in _FORMATTERS:
        raise UsageError(f"--log-format {log_format!r} is not known; write {' or '.join(_FORMATTERS)}")
    if log_level not in LEVELS:
        raise UsageError(f"--log-level {log_level!r} is not known; write {', '.join(LEVELS)}")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_FORMATTERS[log_format](show_tracebacks=show_tracebacks))
    logging.basicConfig(level=log_level.upper(), handlers=[handler], force=True)


class _ConsoleFormatter(logging.Formatter):
    """`2026-12-01T10:00:00.123+00:00 WARNING relays.cycle not claiming: …`."""

    def __init__(self, *, show_tracebacks: bool) -> None:
        super().__init__()
        self._show_tracebacks = show_tracebacks

    def format(self, record: logging.LogRecord) -> str:
        line = f"{_time(record)} {record.levelname} {record.name} {record.getMessage()}"
        if record.exc_info and record.exc_info[1] is not None:
            if self._show_tracebacks:
                return f"{line}\n{self.formatException(record.exc_info)}"
            return f"{line} ({_one_line(record.exc_info[1])})"
        return line


class _JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, what the entry has as `fields`, and an error."""

    def __init__(self, *, show_tracebacks: bool) -> None:
        super().__init__()
        self._show_tracebacks = show_tracebacks

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[1] is not None:
            entry["error"] = _one_line(record.exc_info[1])
            if self._show_tracebacks:
                entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


_FORMATTERS = {"console": _ConsoleFormatter, "json": _JsonFormatter}


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


def _one_line(error: BaseException) -> str:
    """Return the type of an exception: its text may hold what must not be logged."""
    return type(error).__name__
