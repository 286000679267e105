"""A postfix of our own on loopback, that relays everything to one server. Debian: apt-get install postfix."""

from __future__ import annotations

import os
import shutil
import smtplib
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path

MAIN = """
compatibility_level = 3.6
queue_directory = {folder}/queue
data_directory = {folder}/data
command_directory = /usr/sbin
daemon_directory = /usr/lib/postfix/sbin
meta_directory = /etc/postfix
mail_owner = postfix
setgid_group = postdrop
myhostname = postfix.test
mydestination =
mynetworks = 127.0.0.0/8
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
relayhost = [127.0.0.1]:{next_port}
smtp_tls_security_level = none
smtpd_tls_security_level = may
smtpd_tls_cert_file = {certificate}
smtpd_tls_key_file = {key}
smtpd_recipient_restrictions =
    check_recipient_access inline:{{ {{ gone@example.com = 550 5.1.1 no such user }} {{ busy@example.com = DEFER }} }}
    permit_mynetworks reject
smtpd_timeout = 2s
message_size_limit = 100000
maillog_file_prefixes = {folder}
maillog_file = {folder}/mail.log
{more}
"""
MASTER = """
127.0.0.1:{port} inet n - n - - smtpd
pickup unix n - n 60 1 pickup
cleanup unix n - n - 0 cleanup
qmgr unix n - n 1 1 qmgr
tlsmgr unix - - n 1000? 1 tlsmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
proxymap unix - - n - - proxymap
smtp unix - - n - - smtp
relay unix - - n - - smtp
error unix - - n - - error
retry unix - - n - - error
discard unix - - n - - discard
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
postlog unix-dgram n - n - 1 postlogd
"""


@contextmanager
def postfix(next_port: int, certificate: tuple[str, str], **more: str):
    """Run a postfix that hands on to `next_port`; yield its port. `more` are further settings."""
    assert shutil.which("postfix", path="/usr/sbin:/usr/bin"), "postfix is missing; run: apt-get install postfix"
    port = _free_port()
    with tempfile.TemporaryDirectory(prefix="outbox-postfix-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        _configure(folder, port, next_port, certificate, more)
        _run(folder, "start")
        try:
            _await(folder, port)
            yield port
        finally:
            _run(folder, "stop")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def _configure(folder: Path, port: int, next_port: int, files: tuple[str, str], more: dict[str, str]) -> None:
    for part in ("queue", "data", "config"):
        (folder / part).mkdir()
    shutil.copy(files[0], folder / "certificate.pem")
    shutil.copy(files[1], folder / "key.pem")
    main = MAIN.format(
        folder=folder,
        next_port=next_port,
        certificate=folder / "certificate.pem",
        key=folder / "key.pem",
        more="\n".join(f"{setting} = {value}" for setting, value in more.items()),
    )
    (folder / "config" / "main.cf").write_text(main)
    (folder / "config" / "master.cf").write_text(MASTER.format(port=port))
    subprocess.run([*_as_root(), "chown", "postfix", folder / "data"], check=True)
    subprocess.run([*_as_root(), "chown", "root", folder / "queue"], check=True)


def _as_root() -> list[str]:
    """Postfix starts as root and drops to its own account."""
    return [] if os.geteuid() == 0 else ["sudo", "-n"]


def _run(folder: Path, verb: str) -> None:
    command = [*_as_root(), "/usr/sbin/postfix", "-c", str(folder / "config"), verb]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, f"postfix {verb}: {done.stderr}{_log(folder)}"


def _await(folder: Path, port: int, seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not _answers(port):
        assert time.monotonic() < deadline, f"postfix does not answer on port {port}: {_log(folder)}"
        time.sleep(0.05)


def _answers(port: int) -> bool:
    with suppress(OSError, smtplib.SMTPException), smtplib.SMTP("127.0.0.1", port, timeout=5) as client:
        return client.noop()[0] == 250
    return False


def _log(folder: Path) -> str:
    with suppress(OSError):
        return (folder / "mail.log").read_text()
    return ""
