"""Is a record what the service's tuner signed? Checked whenever a public key is given, wherever it came from.

What is signed is the record's module, its target, its trace and its TVM version; the service has the same
`message` (golden vectors keep both equal). The extra `tilefarm[signatures]` brings the library. Which keys
are to be trusted is for whoever connects to say: none is taken from the service.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Iterable
from typing import Any

from tilefarm.answers import Record
from tilefarm.errors import NotConfiguredError, SignatureError

PublicKeys = str | bytes | Iterable[str | bytes]
_PREFIX = "ed25519:"
_DOMAIN = "tilefarm-record-1"
_RAW_BYTES = 32
_NO_LIBRARY = (
    "a public key is given, but nothing here verifies signatures: pip install 'tilefarm[signatures]'"
)


class Verifier:
    """Several keys are several trusted ones: while a service changes its key, the old and the new."""

    def __init__(self, keys: Iterable[Any]) -> None:
        """Of cryptography's Ed25519PublicKey; `of` reads texts."""
        self._keys = tuple(keys)

    @classmethod
    def of(cls, given: PublicKeys | None) -> "Verifier | None":
        """None where no key is given; NotConfiguredError where one does not read."""
        texts = _texts(given)
        return cls(_key(text) for text in texts) if texts else None

    def check(self, record: Record, *, target_key: str) -> None:
        """SignatureError unless one of the keys signed this record for this target."""
        if not record.signature:
            raise SignatureError(f"record {record.record_id} is not signed")
        signed = message(record, target_key=target_key)
        try:
            signature = base64.b64decode(record.signature, validate=True)
        except binascii.Error:
            signature = b""
        if not any(_verifies(key, signature, signed) for key in self._keys):
            raise SignatureError(f"record {record.record_id}: its signature is of none of the trusted keys")


def message(record: Record, *, target_key: str) -> bytes:
    """What the service signed. The trace counts as parsed: it may be written with other spaces on its way."""
    module_sha256 = hashlib.sha256(record.module.encode()).hexdigest()
    trace = json.dumps(record.trace, sort_keys=True, separators=(",", ":"))
    trace_sha256 = hashlib.sha256(trace.encode()).hexdigest()
    return f"{_DOMAIN}\n{module_sha256}\n{target_key}\n{trace_sha256}\n{record.tvm_version}".encode()


def _texts(given: PublicKeys | None) -> list[str | bytes]:
    """Each key apart; a text may hold several, one a line or between commas."""
    if given is None:
        return []
    if isinstance(given, bytes):
        return [given]
    if not isinstance(given, str):
        return [text for each in given for text in _texts(each)]
    if "-----BEGIN" in given:
        end = "-----END PUBLIC KEY-----"
        return [part.strip() + "\n" + end for part in given.split(end) if part.strip()]
    return [*given.replace(",", " ").split()]


def _key(text: str | bytes) -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise NotConfiguredError(_NO_LIBRARY) from error
    if isinstance(text, bytes) and len(text) == _RAW_BYTES:
        return ed25519.Ed25519PublicKey.from_public_bytes(text)
    pem = text.encode() if isinstance(text, str) else text
    if pem.lstrip().startswith(b"-----BEGIN"):
        return _of_pem(pem)
    try:
        raw = base64.b64decode(pem.removeprefix(_PREFIX.encode()), validate=True)
        return ed25519.Ed25519PublicKey.from_public_bytes(raw)
    except ValueError as error:
        raise NotConfiguredError(
            f"the public key {text!r:.80} is not `{_PREFIX}` and 32 bytes in base64"
        ) from error


def _of_pem(pem: bytes) -> Any:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        key = serialization.load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise NotConfiguredError("a public key's PEM does not read") from error
    if not isinstance(key, Ed25519PublicKey):
        raise NotConfiguredError("a public key is not an Ed25519 key")
    return key


def _verifies(key: Any, signature: bytes, signed: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(signature, signed)
    except InvalidSignature:
        return False
    return True
