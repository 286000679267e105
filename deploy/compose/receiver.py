"""A receiver as small as it can be: checks the signature, prints the event, answers 204."""

import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from outbox.errors import InvalidSignature
from outbox.webhooks import verify

LONGEST_BODY = 1024 * 1024


class Receiver(BaseHTTPRequestHandler):
    """Answers 204 to what the outbox signed, 401 to everything else."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Take one event. A real receiver deduplicates by its id, which `verify` returns."""
        body = self.rfile.read(min(int(self.headers["content-length"]), LONGEST_BODY))
        try:
            event_id = verify(self.headers, body, os.environ["SHOP_SECRET"])
        except InvalidSignature as error:
            self.log_message("refused: %s", error)
            self.send_response(401)
        else:
            self.log_message("event %s: %s", event_id, body.decode())
            self.send_response(204)
        self.send_header("content-length", "0")
        self.end_headers()


if __name__ == "__main__":
    ThreadingHTTPServer(("", 8080), Receiver).serve_forever()
