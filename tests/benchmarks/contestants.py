"""Who is measured: ours and the peers, each at its best documented settings, installed by the benchmark itself."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path

PEERS = Path(__file__).parent / "peers"
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Contestant:
    """One system: what to install, the script that uses it, and the query that says nothing is open."""

    name: str
    settings: str
    packages: tuple[str, ...]
    script: str
    is_done: str
    keys: int = 0

    @property
    def is_node(self) -> bool:
        return self.script.endswith(".mjs")

    def command(self, home: Path) -> list[str]:
        """Install it below `home` unless it is there, and return the command of its script."""
        if not self.packages:
            return [sys.executable, str(PEERS / self.script)]
        folder = self._folder(home)
        if self.is_node:
            if not (folder / "node_modules").exists():
                folder.mkdir(parents=True, exist_ok=True)
                npm = shutil.which("npm") or "npm"
                subprocess.run([npm, "install", "--silent", "--prefix", folder, *self.packages], check=True)
            node = folder / "node_modules" / NODE.split("@", maxsplit=1)[0] / "bin" / "node"
            return [str(node), str(PEERS / self.script)]
        if not (folder / "bin").exists():
            subprocess.run([_newest_python(), "-m", "venv", folder], check=True)
            subprocess.run([folder / "bin" / "pip", "install", "--quiet", *self.packages], check=True)
        return [str(folder / "bin" / "python"), "-W", "ignore", str(PEERS / self.script)]

    def _folder(self, home: Path) -> Path:
        """Return where it is installed: another place for other versions."""
        return home / f"{self.name}-{zlib.crc32(' '.join(self.packages).encode()):08x}"

    def environment(self, home: Path, server: Path, database: str) -> dict[str, str]:
        return {
            **os.environ,  # noqa: TID251 - handed on to the child, not read
            "BENCH_URI": f"postgresql://postgres@/{database}?host={server}",
            "BENCH_HOST": str(server),
            "BENCH_DATABASE": database,
            "BENCH_KEYS": str(self.keys),
            "BENCH_NODE_MODULES": str(self._folder(home) / "node_modules"),
        }


NODE = f"node-linux-{'arm64' if platform.machine() == 'aarch64' else 'x64'}@24"
"""Node.js itself, from npm: what the system has is often too old for the peers."""

OURS = "outbox-relay"

BY_NAME = {
    contestant.name: contestant
    for contestant in (
        Contestant(
            OURS,
            "psycopg, concurrency 1000; keeps an attempt row per event",
            (),
            "outbox_relay_peer.py",
            "select not exists (select from outbox.deliveries)",
        ),
        Contestant(
            f"{OURS} keyed",
            "the same, events of 1,000 keys in order",
            (),
            "outbox_relay_peer.py",
            "select not exists (select from outbox.deliveries)",
            keys=1000,
        ),
        Contestant(
            "pgqueuer",
            "asyncpg, batch 500",
            ("pgqueuer", "asyncpg", "uvloop"),
            "pgqueuer_peer.py",
            "select not exists (select from pgqueuer)",
        ),
        Contestant(
            "txoutbox",
            "asyncpg, batch 1000, concurrency 200",
            ("txoutbox", "asyncpg"),
            "txoutbox_peer.py",
            "select not exists (select from outbox where status = 'pending')",
        ),
        Contestant(
            "faststream-outbox",
            "asyncpg, 20 workers, batches of 100",
            ("faststream-outbox", "asyncpg"),
            "faststream_outbox_peer.py",
            "select not exists (select from outbox)",
        ),
        Contestant(
            "procrastinate",
            "psycopg, concurrency 20; enqueues in a transaction of its own, without the order",
            ("procrastinate", "psycopg[binary,pool]"),
            "procrastinate_peer.py",
            "select not exists (select from procrastinate_jobs where status in ('todo', 'doing'))",
        ),
        Contestant(
            "oban",
            "psycopg, limit 50",
            ("oban", "psycopg[binary,pool]"),
            "oban_peer.py",
            "select not exists (select from oban_jobs"
            " where state in ('available', 'executing', 'scheduled', 'retryable', 'suspended'))",
        ),
        Contestant(
            "graphile-worker",
            "24 jobs, local queue 500, batched completion; keeps no record of success",
            ("graphile-worker@0.18", "pg", NODE),
            "graphile_worker_peer.mjs",
            "select not exists (select from graphile_worker._private_jobs)",
        ),
        Contestant(
            "pg-boss",
            "batches of 500, four loops; batch handlers",
            ("pg-boss@12", "pg", NODE),
            "pg_boss_peer.mjs",
            "select not exists (select from pgboss.job where state < 'completed' and name = 'bench')",
        ),
    )
}


def _newest_python() -> str:
    """Return the newest Python here: some peers want one, and all are faster on it."""
    installed = sorted(Path.home().glob(".pyenv/versions/3.1[2-9].*/bin/python"), reverse=True)
    for name in ("python3.14", "python3.13", "python3.12", *map(str, installed)):
        found = shutil.which(name)
        if found and subprocess.run([found, "--version"], check=False, capture_output=True).returncode == 0:
            return found
    return sys.executable


def cache_folder() -> Path:
    """Return where peers are installed: outside the repository, kept between runs."""
    home = os.environ.get("XDG_CACHE_HOME")  # noqa: TID251 - the benchmark's own setting
    folder = (Path(home) if home else Path(tempfile.gettempdir())) / "outbox-benchmark-peers"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def has_npm() -> bool:
    return shutil.which("npm") is not None


def everybody() -> list[str]:
    """Return the names of all that can be measured here, ours first."""
    return [name for name, contestant in BY_NAME.items() if has_npm() or not contestant.is_node]
