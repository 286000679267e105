"""`python -m outbox` is `outbox`."""

from outbox.cli import main

if __name__ == "__main__":
    main()
