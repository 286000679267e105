"""`python -m relays` is `outbox-relay`."""

from relays.cli import main

if __name__ == "__main__":
    main()
