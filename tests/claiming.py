"""Claims by hand, as a relay's cycle makes them."""

from __future__ import annotations

from outbox.model import Destination, DestinationState
from outbox.policy import Policy
from relays.claims import Ask, Claims
from relays.sessions import Session
from relays.targets import Target

LEASE_SECONDS = 30.0


def target(connection, name="shop", **policy) -> Target:
    row = connection.execute(
        "select id, state_changed_at from outbox.destinations where name = %s and removed_at is null", [name]
    ).fetchone()
    destination = Destination(
        id=row[0],
        name=name,
        sink="test",
        event_types=("*",),
        settings={},
        policy={},
        state=DestinationState.ACTIVE,
        state_reason=None,
        state_changed_at=row[1],
        held_until=None,
        version=1,
    )
    return Target(destination, Policy(**policy), sink=None, lease_seconds=LEASE_SECONDS)


async def claim(dsn, asked: Target, room: int = 10, *, keyed: bool = False, suspects: bool = False, mark=None):
    async with Session(dsn, "test") as session:
        ask = Ask(asked, room, asked.mark if mark is None else mark)
        claims = Claims(session, relay_id=1)
        if keyed or suspects:
            return await claims.with_keys([ask], suspects=suspects)
        return await claims.without_keys([ask])
