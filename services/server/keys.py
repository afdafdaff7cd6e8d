"""`tilefarm-server key`: the Ed25519 key that signs records, made, shown, and put in place of another.

The private half is a file that only the tuner service reads; no database holds it.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import Engine

from db import signatures
from db.session import connect, reading, transaction
from db.signatures import Signable
from services.server.private_files import write_private
from services.signing import Signer, SigningKeyError, verifies
from services.tuning.signatures import message_of, sign

#: Records of one transaction.
_BATCH = 200


def ensure_file(path: Path) -> Signer:
    """The key in `path`, made there with mode 0600 where there is none. Raises SigningKeyError, OSError."""
    if path.exists():
        return Signer.of_pem(path.read_text(encoding="ascii", errors="replace"))
    signer = Signer.new()
    write_private(path, signer.pem())
    return signer


def create(path: Path) -> int:
    if path.exists():
        return _refuse(f"{path} is there already; a key is never overwritten")
    try:
        signer = ensure_file(path)
    except OSError as error:
        return _refuse(f"{path} cannot be written ({error.strerror})")
    _tell(signer)
    return 0


def show(path: Path) -> int:
    signer = _read(path)
    if signer is None:
        return 2
    _tell(signer)
    return 0


def list_all(url: str) -> int:
    engine = connect(url, pool_size=1)
    with reading(engine) as session:
        keys = signatures.list_keys(session)
    engine.dispose()
    for key in keys:
        print(f"{key.id}  {key.public_key}  since {key.created_at:%Y-%m-%d %H:%M}  {key.records} records")
    return 0


def sign_all(url: str, path: Path, *, unsigned_too: bool) -> int:
    """Sign published records anew with the key in `path`: those that another known key of this farm signed.

    What nobody signed is signed only where that is asked for: a signature says that the tuner published it.
    """
    signer = _read(path)
    if signer is None:
        return 2
    engine = connect(url, pool_size=1)
    with transaction(engine) as session:
        signatures.store_key(session, signer.key_id, signer.public_key)
        known = signatures.public_keys(session)
    signed = left = 0
    for batch in _lacking(engine, signer.key_id):
        with transaction(engine) as session:
            for record in batch:
                if (unsigned_too and record.signature is None) or _is_signed(record, known):
                    sign(session, record, signer)
                    signed += 1
                else:
                    left += 1
    engine.dispose()
    print(f"{signed} records signed with key {signer.key_id}; {left} left as they are")
    return 0


def _lacking(engine: Engine, key_id: str) -> Iterator[list[Signable]]:
    after_id = 0
    while True:
        with reading(engine) as session:
            batch = signatures.lacking(session, key_id, after_id=after_id, limit=_BATCH)
        if not batch:
            return
        yield batch
        after_id = batch[-1].record_id


def _is_signed(record: Signable, known: dict[str, str]) -> bool:
    public_key = known.get(record.signing_key_id or "")
    if public_key is None or record.signature is None:
        return False
    return verifies(public_key, record.signature, message_of(record))


def _read(path: Path) -> Signer | None:
    try:
        return Signer.of_pem(path.read_text(encoding="ascii"))
    except (OSError, UnicodeDecodeError, SigningKeyError) as error:
        _refuse(f"{path} holds no key: {error}")
        return None


def _tell(signer: Signer) -> None:
    print(f"key id      {signer.key_id}")
    print(f"public key  {signer.public_key}")


def _refuse(reason: str) -> int:
    print(f"tilefarm-server key: {reason}", file=sys.stderr)
    return 2
