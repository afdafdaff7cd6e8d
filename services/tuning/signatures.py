"""The tuner service signs what it publishes, in the transaction that publishes, and nothing else.

Where no key is set records stay unsigned, and a client that verifies gets none. It publishes nothing itself.
"""

import structlog
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from db import signatures
from db.session import transaction
from db.signatures import Signable
from services.signing import Signer, message

_log = structlog.get_logger(__name__)


def open_key(engine: Engine, pem: str | None) -> Signer | None:
    """The signer of the setting, its public half made known; None where there is no key."""
    if pem is None:
        return None
    signer = Signer.of_pem(pem)
    with transaction(engine) as session:
        signatures.store_key(session, signer.key_id, signer.public_key)
    _log.info("records_are_signed", key_id=signer.key_id, public_key=signer.public_key)
    return signer


def sign_published(session: Session, record_id: int, signer: Signer) -> None:
    sign(session, signatures.signable(session, record_id), signer)


def sign(session: Session, record: Signable, signer: Signer) -> None:
    signature = signer.sign(message_of(record))
    signatures.sign_record(session, record.record_id, key_id=signer.key_id, signature=signature)


def message_of(record: Signable) -> bytes:
    return message(
        module_sha256=record.module_sha256,
        target_key=record.target_key,
        trace=record.trace,
        tvm_version=record.tvm_version,
    )
