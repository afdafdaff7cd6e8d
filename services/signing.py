"""Ed25519 signatures of published records: the key, and what exactly is signed.

A signature says: this service's tuner published this trace for this module, target and TVM. It says nothing
of times, and does not expire: a record is revoked by no longer being served. The client verifies it with its
copy of `message` (tilefarm.signatures); golden vectors keep both equal.
"""

import base64
import binascii
import hashlib
import json
from typing import Self

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_PREFIX = "ed25519:"
_DOMAIN = "tilefarm-record-1"


class SigningKeyError(ValueError):
    """A text is no Ed25519 key."""


class Signer:
    """The private half of a key."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        raw = private.public_key().public_bytes_raw()
        #: First 16 hex digits of the SHA-256 of the raw public key.
        self.key_id = key_id(raw)
        #: `ed25519:` and the raw public key in base64: what clients are given.
        self.public_key = _PREFIX + base64.b64encode(raw).decode()

    @classmethod
    def new(cls) -> Self:
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def of_pem(cls, text: str) -> Self:
        """SigningKeyError where `text` is no unencrypted PKCS#8 PEM of an Ed25519 key."""
        try:
            private = serialization.load_pem_private_key(text.encode(), password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            # What the library says may quote the key.
            raise SigningKeyError("no PEM of an unencrypted private key") from None
        if not isinstance(private, Ed25519PrivateKey):
            raise SigningKeyError("the key is not an Ed25519 key")
        return cls(private)

    def pem(self) -> str:
        return self._private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode()

    def sign(self, message: bytes) -> str:
        """Base64 of the 64 bytes."""
        return base64.b64encode(self._private.sign(message)).decode()


def key_id(raw_public: bytes) -> str:
    return hashlib.sha256(raw_public).hexdigest()[:16]


def verifies(public_key: str, signature: str, message: bytes) -> bool:
    """Whether the signature is of this message by this key (`ed25519:` and base64)."""
    try:
        raw = base64.b64decode(public_key.removeprefix(_PREFIX), validate=True)
        Ed25519PublicKey.from_public_bytes(raw).verify(base64.b64decode(signature, validate=True), message)
    except (ValueError, binascii.Error, InvalidSignature):
        return False
    return True


def message(*, module_sha256: str, target_key: str, trace: str, tvm_version: str) -> bytes:
    """What is signed: the stored module's bytes, the canonical target, the trace, the TVM version.

    The trace counts as parsed: it may be written with other spaces on its way.
    """
    canonical = json.dumps(json.loads(trace), sort_keys=True, separators=(",", ":"))
    trace_sha256 = hashlib.sha256(canonical.encode()).hexdigest()
    return f"{_DOMAIN}\n{module_sha256}\n{target_key}\n{trace_sha256}\n{tvm_version}".encode()
