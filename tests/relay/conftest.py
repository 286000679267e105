"""Fixtures for tests that run real relay processes against scripted receivers."""

from __future__ import annotations

import pytest

from tests.queues import add_destination


@pytest.fixture
def add_webhook(database):
    """Add a webhook destination that sends to a loopback receiver; quick retries unless the policy says other."""

    def add(receiver, name="shop", *, settings=None, **policy) -> int:
        merged = {"url": receiver.url(), "allow_http": True, "allow_networks": ["127.0.0.0/8"], **(settings or {})}
        merged.setdefault("secret", "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX")
        with database.connect() as connection:
            return add_destination(
                connection,
                name,
                sink="webhook",
                settings=merged,
                policy={"schedule": ["0.2s"], "max_attempts": 5, "timeout": "3s", **policy},
            )

    return add
