"""Transactional handlers: what they write and the end of their deliveries are one transaction (exactly-once effect).

The delivery's row is touched at the very end only: locked for longer it would keep the relay from renewing its leases.
Whatever happens before the commit rolls everything back. After a commit whose answer is lost the row is gone, and the
relay's own settling finds the lease lost and changes nothing (promise lease-token).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from psycopg.pq import TransactionStatus
from psycopg_pool import PoolClosed, PoolTimeout

from outbox.model import Certainty
from relays.decisions import storable
from relays.queries import query
from relays.results import Delivered, Refused
from relays.sessions import PLAN_COUNT, SET_PLANS
from relays.sinks.handler.contexts import in_own_context

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import AsyncConnection, Connection
    from psycopg_pool import ConnectionPool

    from relays.deliveries import Delivery
    from relays.results import Result
    from relays.sinks.handler.connections import Connections
    from relays.sinks.handler.groups import GroupCall
    from relays.sinks.handler.registry import Handler
    from relays.sinks.handler.threads import Threads

__all__ = ["TransactionMisused", "async_transaction", "thread_transaction"]

WAIT_SHARE = 0.5
"""Of a delivery's time, how much may pass until a connection is free."""

_SET_LOCAL = [True] * PLAN_COUNT
_NO_CONNECTION = Refused(
    "no_connection",
    "no connection for a transactional handler was free in time; lower max_in_flight, or look at the database",
    retry_after=1.0,
    certainty=Certainty.NOT_SENT,
    charged=False,
)
_LOST = Refused(
    "lease_lost", "another relay has the delivery: rolled back", certainty=Certainty.NOT_SENT, charged=False
)
_WITH_LOST = Refused("rolled_back", "another lease of the batch was lost", certainty=Certainty.NOT_SENT, charged=False)


class TransactionMisused(Exception):
    """A handler ended the transaction the relay had opened for it, or went on in one that had failed."""


class _Undone(Exception):
    """Rolls the transaction back and carries what to say of the deliveries."""

    def __init__(self, results: list[Result]) -> None:
        super().__init__(results)
        self.results = results


def async_transaction(handler: Handler, connections: Connections) -> GroupCall:
    """Return the call of an async function with a connection in a transaction."""

    async def call(deliveries: Sequence[Delivery]) -> list[Result]:
        pool = await connections.for_async()
        try:
            async with pool.connection(_wait_seconds(deliveries)) as connection, connection.transaction():
                value = await in_own_context(handler.function(handler.argument(deliveries), connection))
                results = handler.read(deliveries, value)
                await _settle(connection, deliveries, results)
        except _Undone as undone:
            return undone.results
        except (PoolTimeout, PoolClosed):
            return [_NO_CONNECTION] * len(deliveries)
        return [_settled(result) for result in results]

    return call


def thread_transaction(handler: Handler, connections: Connections, threads: Threads) -> GroupCall:
    """Return the call of a blocking function with a connection in a transaction, in a thread."""

    def work(pool: ConnectionPool[Connection[Any]], deliveries: Sequence[Delivery]) -> list[Result]:
        with pool.connection(_wait_seconds(deliveries)) as connection, connection.transaction():
            value = handler.function(handler.argument(deliveries), connection)
            results = handler.read(deliveries, value)
            _settle_blocking(connection, deliveries, results)
        return [_settled(result) for result in results]

    async def call(deliveries: Sequence[Delivery]) -> list[Result]:
        try:
            results: list[Result] = await threads.run(partial(work, connections.for_threads(), deliveries))
        except _Undone as undone:
            return undone.results
        except (PoolTimeout, PoolClosed):
            return [_NO_CONNECTION] * len(deliveries)
        return results

    return call


def _wait_seconds(deliveries: Sequence[Delivery]) -> float:
    return min(delivery.deadline_seconds for delivery in deliveries) * WAIT_SHARE


async def _settle(connection: AsyncConnection[Any], deliveries: Sequence[Delivery], results: list[Result]) -> None:
    """Delete the delivered deliveries in the transaction under way, or undo it."""
    parameters = _parameters(connection, deliveries, results)
    await connection.execute(SET_PLANS, _SET_LOCAL)
    row = await (await connection.execute(query("settle_transactional"), parameters)).fetchone()
    _check_owned(deliveries, results, row)


def _settle_blocking(connection: Connection[Any], deliveries: Sequence[Delivery], results: list[Result]) -> None:
    parameters = _parameters(connection, deliveries, results)
    connection.execute(SET_PLANS, _SET_LOCAL)
    _check_owned(deliveries, results, connection.execute(query("settle_transactional"), parameters).fetchone())


def _parameters(
    connection: AsyncConnection[Any] | Connection[Any], deliveries: Sequence[Delivery], results: list[Result]
) -> dict[str, Any]:
    """Return what to settle.

    Raises:
        TransactionMisused: the transaction is no longer the one the handler was given.
        _Undone: nothing was delivered, so nothing may stay.
    """
    match connection.info.transaction_status:
        case TransactionStatus.INTRANS:
            pass
        case TransactionStatus.INERROR:
            raise TransactionMisused("the handler went on after a database error; let it raise, or use a savepoint")
        case _:
            raise TransactionMisused("the handler ended the transaction; the relay does that, so that both are one")
    delivered = [(d, r) for d, r in zip(deliveries, results, strict=True) if isinstance(r, Delivered)]
    if not delivered:
        raise _Undone(results)
    return {
        "ids": [delivery.id for delivery, _ in delivered],
        "tokens": [delivery.lease_token for delivery, _ in delivered],
        "statuses": [result.status for _, result in delivered],
        "details": [storable(result.detail) for _, result in delivered],
    }


def _check_owned(deliveries: Sequence[Delivery], results: list[Result], row: Any) -> None:
    """Undo everything if a lease was lost: the effects of its delivery are another relay's to make."""
    settled = set(row[0])
    is_lost = [
        isinstance(result, Delivered) and delivery.id not in settled
        for delivery, result in zip(deliveries, results, strict=True)
    ]
    if any(is_lost):
        raise _Undone(
            [
                _LOST if lost else (_WITH_LOST if isinstance(result, Delivered) else result)
                for lost, result in zip(is_lost, results, strict=True)
            ]
        )


def _settled(result: Result) -> Result:
    return replace(result, settled=True) if isinstance(result, Delivered) else result
