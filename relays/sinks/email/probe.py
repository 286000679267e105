"""A test of a submission server, step by step, without sending a mail: `outbox destinations test NAME`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from outbox.errors import InvalidSettings
from relays.details import clean_detail
from relays.sinks.email.budget import Budget
from relays.sinks.email.replies import Trouble, refused_by
from relays.sinks.email.server import resolve_server
from relays.sinks.email.session import Session
from relays.sinks.email.settings import parse_settings
from relays.sinks.reports import ProbeReport, ProbeStep

if TYPE_CHECKING:
    from outbox.model import Destination
    from relays.sinks.email.server import Server

__all__ = ["probe_server"]


async def probe_server(destination: Destination, seconds: float) -> ProbeReport:
    """Go through settings, connection, encryption, login and sender, up to the first step that fails."""
    began = time.monotonic()
    try:
        server = resolve_server(parse_settings(destination.settings))
    except InvalidSettings as error:
        return ProbeReport(destination.name, None, (_step("settings", began, str(error), is_ok=False),))
    steps = [_step("settings", began, f"{server.name}, {server.settings.security}")]
    session = Session(server)
    try:
        await _converse(session, server, Budget(seconds), steps)
    finally:
        await session.quit()
    return ProbeReport(destination.name, server.name, tuple(steps))


async def _converse(session: Session, server: Server, budget: Budget, steps: list[ProbeStep]) -> None:
    for name, step in session.trial_steps(budget):
        began = time.monotonic()
        try:
            said = await step()
        except Trouble as trouble:
            refused = refused_by(trouble, server.name, server.hidden)
            steps.append(_step(name, began, refused.detail or refused.reason, is_ok=False))
            return
        steps.append(_step(name, began, clean_detail(said, server.hidden)))


def _step(name: str, began: float, detail: str, *, is_ok: bool = True) -> ProbeStep:
    return ProbeStep(name, is_ok, time.monotonic() - began, detail)
