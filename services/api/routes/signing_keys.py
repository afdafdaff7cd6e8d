"""/v1/signing-keys: the public keys that records were signed with."""

from fastapi import APIRouter

from db.session import reading
from db.signatures import list_keys
from services.api.auth import AnyToken
from services.api.deps import EngineDep
from services.api.schemas_records import SigningKeyList, SigningKeyView

router = APIRouter(prefix="/v1/signing-keys", tags=["records"])


@router.get("")
def list_signing_keys(token: AnyToken, engine: EngineDep) -> SigningKeyList:
    """Newest first. Whoever verifies records takes the key from the operator, not from here alone."""
    del token
    with reading(engine) as session:
        keys = list_keys(session)
    return SigningKeyList(
        keys=[
            SigningKeyView(
                id=key.id, public_key=key.public_key, created_at=key.created_at, records=key.records
            )
            for key in keys
        ]
    )
