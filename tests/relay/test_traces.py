"""Traces of a real relay: from the transaction that recorded, through attempts, to what receivers and handlers see."""

from __future__ import annotations

import json
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

from opentelemetry.sdk.trace import TracerProvider

import outbox
from tests.processes import relay_process
from tests.queues import add_destination, count, record
from tests.receivers import Receiver, status
from tests.waiting import wait_until

SHOP = TracerProvider().get_tracer("shop")


def record_in_span(database) -> tuple[str, str]:
    """Record an event as an instrumented application does; return trace and span id."""
    with database.connect() as connection, connection.transaction(), SHOP.start_as_current_span("order") as span:
        outbox.record_event(connection, "order.paid", {"n": 1})
        context = span.get_span_context()
    return f"0x{context.trace_id:032x}", f"0x{context.span_id:016x}"


def spans_in(path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def traced_relay(database, path):
    return relay_process(
        database.dsn, "--traces", "--app", "tests.apps.traced", "--drain", environment={"TRACES": str(path)}
    )


def test_record_attempt_retry_is_one_child_and_one_link(database, add_webhook, tmp_path):
    path = tmp_path / "spans"
    with Receiver(status(500), status(200)) as receiver:
        add_webhook(receiver)
        trace_id, span_id = record_in_span(database)
        with (
            relay_process(
                database.dsn, "--traces", "--app", "tests.apps.traced", environment={"TRACES": str(path)}
            ) as relay,
            database.connect() as connection,
        ):
            wait_until(lambda: count(connection, "deliveries") == 0, "delivered")
            assert relay.stop() == 0
        first, second = spans_in(path)
        parents = [request.header("traceparent").split("-")[1:3] for request in receiver.requests]
    assert (first["context"]["trace_id"], first["parent_id"]) == (trace_id, span_id)
    assert first["status"] == {"status_code": "ERROR", "description": "http_500"}
    assert second["parent_id"] is None
    assert [(link["context"]["trace_id"], link["context"]["span_id"]) for link in second["links"]] == [
        (trace_id, span_id)
    ]
    assert [[f"0x{part}" for part in parent] for parent in parents] == [
        [span["context"]["trace_id"], span["context"]["span_id"]] for span in (first, second)
    ]


def test_what_a_handler_does_nests_in_its_attempt(database, tmp_path):
    path = tmp_path / "spans"
    with database.connect() as connection:
        add_destination(connection, "ledger", sink="handler", event_types=("order.paid",))
    trace_id, _ = record_in_span(database)
    with traced_relay(database, path) as relay:
        assert relay.ended() == 0
    inner, attempt = spans_in(path)
    assert (inner["name"], attempt["name"]) == ("post to ledger", "process ledger")
    assert inner["parent_id"] == attempt["context"]["span_id"]
    assert {inner["context"]["trace_id"], attempt["context"]["trace_id"]} == {trace_id}


class Collector(BaseHTTPRequestHandler):
    """A collector that keeps what it gets."""

    bodies: list[bytes]

    def do_POST(self):
        self.server.bodies.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


def test_without_a_provider_spans_go_to_the_collector_of_the_environment(database, add_webhook):
    server = HTTPServer(("127.0.0.1", 0), Collector)
    server.bodies = []
    Thread(target=server.serve_forever, daemon=True).start()
    with Receiver(status(200)) as receiver, database.connect() as connection:
        add_webhook(receiver)
        record(connection)
        endpoint = f"http://127.0.0.1:{server.server_port}"
        with relay_process(
            database.dsn, "--traces", "--drain", environment={"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
        ) as relay:
            assert relay.ended() == 0
    server.shutdown()
    [(path, body)] = server.bodies
    assert path == "/v1/traces"
    assert b"send shop" in body
    assert b"outbox-relay" in body


def test_a_collector_that_is_away_does_not_delay_the_end(database, add_webhook):
    with Receiver(status(200)) as receiver, database.connect() as connection:
        add_webhook(receiver)
        record(connection)
        with relay_process(
            database.dsn, "--traces", "--drain", environment={"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
        ) as relay:
            assert relay.ended() == 0
        assert count(connection, "deliveries") == 0


def test_traces_without_the_extra_is_a_usage_error(database):
    """The extra is hidden from a relay process; the message says how to install it."""
    hide = (
        "import sys; sys.modules['opentelemetry'] = None; sys.argv = ['outbox-relay', '--traces'];"
        "from relays.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", hide], env={"OUTBOX_DSN": database.dsn}, check=False, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr.strip() == "outbox-relay: --traces needs opentelemetry: pip install 'outbox-relay[otel]'"
