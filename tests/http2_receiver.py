"""A loopback receiver that speaks HTTP/2 and answers every request with 204, or with bytes of a script."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Self

import h2.config
import h2.connection
import h2.events

if TYPE_CHECKING:
    from collections.abc import Iterable


class Http2Receiver:
    """Serves one connection after the other in its own thread while in its `with` block."""

    def __init__(self, tls, script: Iterable[bytes] | None = None):
        self.bodies: list[bytes] = []
        self._tls = tls
        self._script = script
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._listener.close()

    def url(self, path: str = "/hooks", host: str = "127.0.0.1") -> str:
        return f"https://{host}:{self.port}{path}"

    def _serve(self) -> None:
        plain, _ = self._listener.accept()
        with self._tls.wrap_socket(plain, server_side=True) as connection:
            state = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
            state.initiate_connection()
            connection.sendall(state.data_to_send())
            body = b""
            while data := connection.recv(65536):
                for event in state.receive_data(data):
                    match event:
                        case h2.events.DataReceived():
                            body += event.data
                            state.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                        case h2.events.StreamEnded():
                            self.bodies.append(body)
                            if self._script is not None:
                                self._play(connection, self._script)
                                return
                            state.send_headers(event.stream_id, [(":status", "204")], end_stream=True)
                connection.sendall(state.data_to_send())

    def _play(self, connection, script: Iterable[bytes]) -> None:
        """Send what the script says until the client hangs up."""
        with suppress(OSError):
            for data in script:
                connection.sendall(data)
            while connection.recv(65536):
                pass
