"""Keys of Standard Webhooks: `whsec_` (HMAC-SHA256, `v1`), `whsk_` and `whpk_` (ed25519, `v1a`)."""

from __future__ import annotations

import binascii
import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from outbox.errors import InvalidSettings

if TYPE_CHECKING:
    from collections.abc import Container

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

__all__ = ["Key", "SigningKey", "generate_secret", "parse_key", "parse_signing_key", "signed_content"]

_HMAC_BLOCK_BYTES = 64
_SHARED_BYTES = range(24, _HMAC_BLOCK_BYTES + 1)
_PUBLIC_BYTES = 32
_FORMS = "whsec_… (24 to 64 bytes) or whsk_… (ed25519, 64 bytes; its receiver has whpk_…, 32 bytes)"


class Key(Protocol):
    """Verifies signatures of one version: `v1` (HMAC) or `v1a` (ed25519)."""

    @property
    def version(self) -> str:
        """The version its signatures carry in `webhook-signature`."""
        ...

    def is_valid(self, signature: bytes, content: bytes) -> bool:
        """Return whether `signature` (decoded, of this version) is one of `content`."""
        ...


class SigningKey(Key, Protocol):
    """Signs, too."""

    def sign(self, content: bytes) -> str:
        """Return the signature of `content` as it stands in `webhook-signature`: `v1,…`."""
        ...


def signed_content(webhook_id: str, timestamp: str, body: bytes) -> bytes:
    """Return what is signed: id, timestamp and body, joined by full stops (Standard Webhooks)."""
    return b"%b.%b.%b" % (webhook_id.encode(), timestamp.encode(), body)


def generate_secret() -> str:
    """Return a new `whsec_` secret of 32 random bytes."""
    return "whsec_" + b64encode(secrets.token_bytes(32)).decode()


def parse_key(secret: str, name: str) -> Key:
    """Return the key in `secret`, read strictly: a secret that two sides read differently verifies nowhere.

    Raises:
        InvalidSettings: wrong prefix, base64 or length, or ed25519 without the `cryptography` package; names
            the setting `name`, never the secret.
    """
    if secret.startswith("whpk_"):
        return _verifying_key(_decode(secret, name, {_PUBLIC_BYTES}), name)
    return parse_signing_key(secret, name)


def parse_signing_key(secret: str, name: str) -> SigningKey:
    """Return the key in `secret`, which must be one to sign with; see `parse_key`."""
    if secret.startswith("whsk_"):
        return _signing_key(_decode(secret, name, {2 * _PUBLIC_BYTES}), name)
    if secret.startswith("whsec_"):
        return _SharedKey(_decode(secret, name, _SHARED_BYTES))
    raise InvalidSettings(f"{name}: is no secret to sign with; write {_FORMS}")


def _decode(secret: str, name: str, lengths: Container[int]) -> bytes:
    text = secret.partition("_")[2]
    try:
        decoded = b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        decoded = b""
    if len(decoded) not in lengths or b64encode(decoded).decode() != text:  # too much padding passes `validate`
        raise InvalidSettings(f"{name}: is no webhook secret of the right length in base64; write {_FORMS}")
    return decoded


class _SharedKey:
    """HMAC-SHA256 as RFC 2104 defines it, with the key's two blocks hashed once: that halves each signature."""

    __slots__ = ("_inner", "_outer")
    version = "v1"

    def __init__(self, secret: bytes) -> None:
        block = secret.ljust(_HMAC_BLOCK_BYTES, b"\0")
        self._inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in block))
        self._outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in block))

    def sign(self, content: bytes) -> str:
        return "v1," + b64encode(self._digest(content)).decode()

    def is_valid(self, signature: bytes, content: bytes) -> bool:
        return hmac.compare_digest(signature, self._digest(content))

    def _digest(self, content: bytes) -> bytes:
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(content)
        outer.update(inner.digest())
        return outer.digest()


@dataclass(frozen=True, slots=True)
class _SigningKey:
    private: Ed25519PrivateKey = field(repr=False)
    version: str = "v1a"

    def sign(self, content: bytes) -> str:
        return "v1a," + b64encode(self.private.sign(content)).decode()

    def is_valid(self, signature: bytes, content: bytes) -> bool:
        return _VerifyingKey(self.private.public_key()).is_valid(signature, content)


@dataclass(frozen=True, slots=True)
class _VerifyingKey:
    public: Ed25519PublicKey = field(repr=False)
    version: str = "v1a"

    def is_valid(self, signature: bytes, content: bytes) -> bool:
        from cryptography.exceptions import InvalidSignature

        try:
            self.public.verify(signature, content)
        except InvalidSignature:
            return False
        return True


def _signing_key(decoded: bytes, name: str) -> SigningKey:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise _needs_cryptography(name) from None
    private = ed25519.Ed25519PrivateKey.from_private_bytes(decoded[:_PUBLIC_BYTES])
    if private.public_key().public_bytes_raw() != decoded[_PUBLIC_BYTES:]:
        raise InvalidSettings(f"{name}: the two halves of the whsk_… key do not belong together")
    return _SigningKey(private)


def _verifying_key(decoded: bytes, name: str) -> Key:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise _needs_cryptography(name) from None
    return _VerifyingKey(ed25519.Ed25519PublicKey.from_public_bytes(decoded))


def _needs_cryptography(name: str) -> InvalidSettings:
    return InvalidSettings(f"{name}: ed25519 keys need `cryptography`; pip install 'outbox-relay[ed25519]'")
