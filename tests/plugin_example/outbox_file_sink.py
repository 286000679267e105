import asyncio
from pathlib import Path

from outbox.model import Certainty
from relays import Delivered, Refused


class FileSink:
    async def send(self, delivery):
        path = Path(delivery.destination.settings["path"])
        line = b'{"id":"%b","data":%b}\n' % (delivery.event_id.encode(), delivery.body)
        try:
            with await asyncio.to_thread(path.open, "ab", 0) as file:
                await asyncio.to_thread(file.write, line)
        except OSError as error:
            return Refused("not_written", error.strerror, certainty=Certainty.NOT_SENT)
        return Delivered()
