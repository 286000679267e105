from __future__ import annotations

import subprocess
import sys

OPENING = """
import asyncio, sys
from relays.sinks.webhook import WebhookSink
async def opened():
    sink = WebhookSink()
    await sink.open(None)
    await sink.close()
before = "aiohttp" in sys.modules
asyncio.run(opened())
print(before, "aiohttp" in sys.modules)
"""


def test_the_http_library_is_loaded_before_the_first_attempt_whose_time_it_would_take(root):
    done = subprocess.run([sys.executable, "-c", OPENING], capture_output=True, text=True, check=True, cwd=root)
    assert done.stdout.split() == ["False", "True"]
