"""What the queue is supposed to be: the rules of DESIGN in plain Python, against which the database is held.

Times are reduced to "due" and "later". Everything a relay or an operator can do is a method that changes the model as
the statement of the same name changes the tables. tests/db/test_stateful_queue.py runs both side by side.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_ATTEMPTS = 3
DEAD_AFTER = 4
RUN_LIMIT = 20


@dataclass
class Place:
    """A destination."""

    id: int
    name: str
    blocks: bool
    state: str = "active"

    @property
    def is_removed(self) -> bool:
        return self.state == "removed"


@dataclass
class Delivery:
    """One delivery. `history` counts its rows of outbox.attempts by attempt and outcome."""

    id: int
    event_id: str
    to: Place
    key: str | None
    is_later: bool
    where: str = "open"
    attempt: int = 0
    interruptions: int = 0
    token: int | None = None
    has_lapsed: bool = False
    history: Counter[tuple[int, str]] = field(default_factory=Counter)

    @property
    def is_open(self) -> bool:
        return self.where == "open"

    @property
    def is_free(self) -> bool:
        return self.is_open and self.token is None and not self.is_later

    def note(self, outcome: str) -> None:
        self.history[self.attempt, outcome] += 1

    def unlease(self, *, is_later: bool) -> None:
        self.token, self.has_lapsed, self.is_later = None, False, is_later

    def revive(self, outcome: str) -> None:
        """Open it again with a new budget."""
        self.attempt = 0 if outcome == "replayed" else self.attempt
        self.note(outcome)
        self.where, self.attempt, self.interruptions = "open", 0, 0
        self.unlease(is_later=False)


@dataclass
class Queue:
    """All deliveries and destinations, removed ones included."""

    places: list[Place] = field(default_factory=list)
    deliveries: dict[int, Delivery] = field(default_factory=dict)

    # ------------------------------------------------------------------ what holds

    def place(self, name: str) -> Place | None:
        """Return the destination that has the name now."""
        return next((place for place in self.places if place.name == name and not place.is_removed), None)

    def where(self, where: str) -> list[Delivery]:
        return [delivery for delivery in self.deliveries.values() if delivery.where == where]

    def older(self, delivery: Delivery, where: str) -> list[Delivery]:
        """Return the earlier deliveries of the same key to the same destination."""
        return [
            other
            for other in self.where(where)
            if delivery.key is not None
            and (other.key, other.to) == (delivery.key, delivery.to)
            and other.id < delivery.id
        ]

    def is_blocked(self, delivery: Delivery) -> bool:
        """Tell whether an earlier event of the key is unfinished (key-order)."""
        return bool(self.older(delivery, "open") or (delivery.to.blocks and self.older(delivery, "dead")))

    def state(self, delivery: Delivery) -> str:
        """Return the state of a delivery as users see it."""
        if not delivery.is_open:
            return delivery.where
        if delivery.token is not None and not delivery.has_lapsed:
            return "leased"
        if delivery.to.state != "active":
            return "held"
        if self.is_blocked(delivery):
            return "blocked"
        return "scheduled" if delivery.is_later else "waiting"

    # ------------------------------------------------------------------ what relays do

    def claimable(self, place: Place, *, keyed: bool, suspects: bool) -> set[int]:
        """Return what a claim may choose from: heads of keys and deliveries without one."""
        return {
            delivery.id
            for delivery in self.where("open")
            if delivery.to is place
            and delivery.is_free
            and (delivery.interruptions > 0) == suspects
            and (keyed or delivery.key is None)
            and not self.is_blocked(delivery)
        }

    def run(self, head_id: int, *, suspects: bool) -> list[int]:
        """Return the head and the followers that are claimed with it."""
        head = self.deliveries[head_id]
        run = [head_id]
        if head.key is None or suspects:
            return run
        keyed = [one for one in self.where("open") if (one.key, one.to) == (head.key, head.to) and one.id > head_id]
        for follower in sorted(keyed, key=lambda one: one.id)[:RUN_LIMIT]:
            if not follower.is_free or follower.interruptions:
                break
            run.append(follower.id)
        return run

    def claim(self, ids: Iterable[int], token: int) -> None:
        for delivery in map(self.deliveries.__getitem__, ids):
            delivery.token, delivery.has_lapsed = token, False
            delivery.attempt += 1

    def owns(self, delivery_id: int, token: int) -> bool:
        """Tell whether a write with this token changes anything (lease-token)."""
        delivery = self.deliveries[delivery_id]
        return delivery.is_open and delivery.token == token

    def settle(self, delivery_id: int, outcome: str) -> None:
        """Write an outcome: delivered, retry, refused (for good), uncharged or released."""
        delivery = self.deliveries[delivery_id]
        tries = delivery.attempt - delivery.interruptions
        if outcome == "refused" or (outcome == "retry" and tries >= MAX_ATTEMPTS):
            outcome = "dead"
        if outcome != "released":
            delivery.note("retry" if outcome == "uncharged" else outcome)
        delivery.unlease(is_later=outcome in ("retry", "uncharged"))
        delivery.attempt -= outcome in ("uncharged", "released")
        if outcome in ("delivered", "dead"):
            delivery.where = outcome

    def recover(self) -> list[int]:
        """Take back what lapsed, and return what is to wait before it is tried again."""
        waiting = []
        for delivery in self.where("open"):
            if not delivery.has_lapsed or delivery.to.state != "active":
                continue
            delivery.interruptions += 1
            is_dead = delivery.interruptions >= DEAD_AFTER
            delivery.note("dead" if is_dead else "interrupted")
            delivery.unlease(is_later=not is_dead and delivery.interruptions > 1)
            if is_dead:
                delivery.where = "dead"
            elif delivery.is_later:
                waiting.append(delivery.id)
        return waiting

    # ------------------------------------------------------------------ what operators do

    def redrive(self, chosen: Iterable[Delivery]) -> list[int]:
        return self._revived([d for d in chosen if d.where == "dead" and not d.to.is_removed], "redriven")

    def replay(self, chosen: Iterable[Delivery]) -> list[int]:
        was_delivered = [d for d in chosen if any(outcome == "delivered" for _, outcome in d.history)]
        return self._revived(
            [d for d in was_delivered if not d.is_open and d.where != "dead" and not d.to.is_removed], "replayed"
        )

    @staticmethod
    def _revived(deliveries: list[Delivery], outcome: str) -> list[int]:
        for delivery in deliveries:
            delivery.revive(outcome)
        return sorted(delivery.id for delivery in deliveries)

    def discard(self, name: str) -> list[int]:
        """Drop the dead letters of a name, and what removed destinations of that name left and nobody works on."""
        dropped = [
            delivery
            for delivery in self.deliveries.values()
            if delivery.to.name == name
            and (
                delivery.where == "dead"
                or (delivery.is_open and delivery.to.is_removed and (delivery.token is None or delivery.has_lapsed))
            )
        ]
        for delivery in dropped:
            delivery.note("discarded")
            delivery.where = "discarded"
            delivery.unlease(is_later=False)
        return sorted(delivery.id for delivery in dropped)

    def resume(self, name: str) -> Place:
        """Make a destination active; without one of that name, the one that was removed last comes back."""
        place = self.place(name)
        if place is None:
            place = [place for place in self.places if place.name == name][-1]
            self.places.remove(place)
            self.places.append(place)  # the order of removal
        place.state = "active"
        return place

    def remove(self, name: str) -> int:
        """Remove a destination and return how many open deliveries it leaves."""
        place = self.place(name)
        place.state = "removed"
        self.places.remove(place)
        self.places.append(place)
        return sum(delivery.to is place for delivery in self.where("open"))
