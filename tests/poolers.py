"""PgBouncer in transaction mode in front of a test server."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

INSTALL = "the tests of poolers need pgbouncer: apt-get install pgbouncer"


@contextmanager
def pgbouncer(dsn: str, *, pool_size: int = 3):
    """Run PgBouncer in transaction mode before `dsn` and return the DSN through it."""
    program = shutil.which("pgbouncer", path=f"{os.defpath}:/usr/sbin")
    assert program is not None, INSTALL
    parts = conninfo_to_dict(dsn)
    with tempfile.TemporaryDirectory(prefix="outbox-bouncer-") as folder, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        Path(folder).chmod(0o755)
        users = Path(folder, "users.txt")
        users.write_text(f'"{parts["user"]}" ""\n')
        Path(folder, "pgbouncer.ini").write_text(
            "[databases]\n"
            f"* = host={parts['host']} port={parts.get('port', 5432)}\n"
            "[pgbouncer]\n"
            f"listen_addr = 127.0.0.1\nlisten_port = {port}\nauth_type = trust\nauth_file = {users}\n"
            f"pool_mode = transaction\ndefault_pool_size = {pool_size}\nunix_socket_dir =\n"
        )
        account = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        process = subprocess.Popen(
            [program, "-q", Path(folder, "pgbouncer.ini")],
            user=None if account is None else account.pw_uid,
            stderr=subprocess.DEVNULL,
        )
        through = psycopg.conninfo.make_conninfo(dsn, host="127.0.0.1", port=port)
        try:
            _wait(through)
            yield through
        finally:
            process.terminate()
            process.wait(60)


def _wait(dsn: str) -> None:
    deadline = time.monotonic() + 10
    while True:
        try:
            psycopg.connect(dsn, connect_timeout=2).close()
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return
