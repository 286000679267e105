"""A private certificate authority for loopback receivers."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from pathlib import Path

DAY = dt.timedelta(days=1)


class Authority:
    """Issues certificates; files go to `folder`."""

    def __init__(self, folder: Path, name: str = "test authority"):
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._certificate = self._build(self._name, self._key).sign(self._key, hashes.SHA256())
        self.file = str(self._write("authority.pem", self._certificate.public_bytes(serialization.Encoding.PEM)))

    def issue(self, *names: str, days: int = 1) -> tuple[str, str]:
        """Return the files of a certificate for `names` (host names or addresses) and of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
        certificate = self._build(subject, key, names, days).sign(self._key, hashes.SHA256())
        return (
            str(self._write(f"{names[0]}.pem", certificate.public_bytes(serialization.Encoding.PEM))),
            str(
                self._write(
                    f"{names[0]}.key",
                    key.private_bytes(
                        serialization.Encoding.PEM,
                        serialization.PrivateFormat.PKCS8,
                        serialization.NoEncryption(),
                    ),
                )
            ),
        )

    def server_context(self, *names: str, days: int = 1, clients: Authority | None = None, seen=None) -> ssl.SSLContext:
        """Return a server's context; with `clients` it asks for their certificates, `seen` collects SNI names."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.issue(*names, days=days))
        if clients is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(clients.file)
        if seen is not None:
            context.sni_callback = lambda _socket, name, _context: seen.append(name)
        return context

    def _build(self, subject, key, names=(), days: int = 1) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 2 * DAY)
            .not_valid_after(now + days * DAY)
            .add_extension(x509.BasicConstraints(ca=not names, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if not names:
            return builder.add_extension(_key_usage(), critical=True)
        return builder.add_extension(
            x509.SubjectAlternativeName([_alternative(name) for name in names]), critical=False
        )

    def _write(self, name: str, data: bytes) -> Path:
        file = self._folder / name
        file.write_bytes(data)
        return file


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _key_usage() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
