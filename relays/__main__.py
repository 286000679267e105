"""The command `outbox-relay`, also as `python -m relays`."""

from __future__ import annotations

from outbox.driver import require_driver

__all__ = ["main"]


def main() -> None:
    """Run the command, once a driver is there: all of it talks to a database."""
    require_driver("outbox-relay")
    from relays.cli import main as run

    run()


if __name__ == "__main__":
    main()
