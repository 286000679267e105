"""A `curl` line that sends a request again, without a secret in it. Pure, no I/O."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

from outbox.secrets import is_reference

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from relays.http.engine import Request

__all__ = ["curl_line"]


def curl_line(
    settings: Mapping[str, Any], request: Request, address: str | None, seconds: float
) -> tuple[str, dict[str, str]]:
    """Return the line, and what the shell variables in it stand for.

    Header values, and a URL with a path or query, may be credentials: they become variables. The signature is
    that of `request`, so receivers take it for five minutes.
    """
    variables = dict(_variables(settings, request))
    own = {header.lower() for header in settings.get("headers", {})}
    words = ["curl", "--silent", "--show-error", "--include", "--request", "POST", "--max-time", f"{seconds:g}"]
    words += _connection_words(settings, request, address)
    for header, value in {**request.route.headers, **request.headers}.items():
        shown = f'"{header}: ${_variable(header)}"' if header in own else shlex.quote(f"{header}: {value}")
        words += ["--header", shown]
    words += [
        "--data-binary",
        shlex.quote(request.body.decode()),
        '"$URL"' if "URL" in variables else str(request.route.url),
    ]
    return " ".join(words), variables


def _variables(settings: Mapping[str, Any], request: Request) -> Iterator[tuple[str, str]]:
    if request.route.url.target != "/":
        yield "URL", f"the destination's url, {request.route.url.shown}"
    for header, value in settings.get("headers", {}).items():
        yield _variable(header), value if is_reference(value) else f"the destination's header {header.lower()}"


def _variable(header: str) -> str:
    return re.sub(r"[^A-Z0-9]", "_", header.upper())


def _connection_words(settings: Mapping[str, Any], request: Request, address: str | None) -> Iterator[str]:
    if address is not None and not request.route.url.is_literal:
        shown = f"[{address}]" if ":" in address else address
        yield from ("--resolve", shlex.quote(f"{request.route.url.host}:{request.route.url.port}:{shown}"))
    for option, name in (("--cacert", "ca_file"), ("--cert", "client_certificate"), ("--key", "client_key")):
        if name in settings:
            yield from (option, shlex.quote(settings[name]))
    if request.route.proxy is not None:
        yield from ("--proxy", str(request.route.proxy))
