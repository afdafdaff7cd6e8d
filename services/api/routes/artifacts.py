"""/v1/artifacts: kernels and references on their way from workers that build to workers that time.

By the SHA-256 of their bytes, compressed by zlib on the wire and at rest. The API checks size and hash and
runs nothing of them; they are kept for a while (TILEFARM_ARTIFACT_SECS of the tuner service), then made anew.
"""

import hashlib
import zlib
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request, Response

from db.artifacts import load_artifact, store_artifact, touch_artifact
from db.session import reading, transaction
from services.api.auth import WorkerToken
from services.api.body import BINARY_TYPE
from services.api.deps import EngineDep, SettingsDep
from services.api.errors import InvalidError, NotFoundError, TooLargeError

router = APIRouter(prefix="/v1/artifacts", tags=["workers"])
_PIECE_BYTES = 1 << 20

Sha256 = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")]


async def _body(request: Request) -> bytes:
    return await request.body()


@router.put(
    "/{sha256}",
    status_code=204,
    openapi_extra={"requestBody": {"content": {BINARY_TYPE: {}}, "required": True}},
)
def put_artifact(
    sha256: Sha256,
    data_z: Annotated[bytes, Depends(_body)],
    token: WorkerToken,
    engine: EngineDep,
    settings: SettingsDep,
) -> Response:
    """Store zlib-compressed bytes under the SHA-256 of what they inflate to; safe to repeat."""
    del token
    _check(data_z, sha256, most_bytes=settings.max_artifact_bytes)
    with transaction(engine) as session:
        store_artifact(session, sha256, data_z)
    return Response(status_code=204)


@router.get("/{sha256}", response_class=Response, responses={200: {"content": {BINARY_TYPE: {}}}})
def get_artifact(sha256: Sha256, token: WorkerToken, engine: EngineDep) -> Response:
    """The zlib-compressed bytes."""
    del token
    with reading(engine) as session:
        data_z = load_artifact(session, sha256)
    if data_z is None:
        raise _not_found(sha256)
    return Response(data_z, media_type=BINARY_TYPE)


@router.post("/{sha256}:touch", status_code=204)
def touch(sha256: Sha256, token: WorkerToken, engine: EngineDep) -> Response:
    """Ask for it to be kept a while longer. 404: send it."""
    del token
    with transaction(engine) as session:
        if not touch_artifact(session, sha256):
            raise _not_found(sha256)
    return Response(status_code=204)


def _check(data_z: bytes, sha256: str, *, most_bytes: int) -> None:
    """Raises TooLargeError, or InvalidError where the bytes are not what their name says."""
    inflater, digest, size_bytes = zlib.decompressobj(), hashlib.sha256(), 0
    rest = data_z
    try:
        while rest and not inflater.eof:
            piece = inflater.decompress(rest, _PIECE_BYTES)
            size_bytes += len(piece)
            digest.update(piece)
            rest = inflater.unconsumed_tail
            if size_bytes > most_bytes:
                raise TooLargeError("artifact_too_large", f"an artifact has at most {most_bytes} bytes")
    except zlib.error:
        raise InvalidError.of("bad_artifact", "the body is not zlib") from None
    if not inflater.eof or inflater.unused_data:
        raise InvalidError.of("bad_artifact", "the body is not one whole zlib stream")
    if digest.hexdigest() != sha256:
        detail = f"the bytes have the SHA-256 {digest.hexdigest()}, not {sha256}"
        raise InvalidError.of("artifact_hash_differs", detail)


def _not_found(sha256: str) -> NotFoundError:
    return NotFoundError("artifact_not_found", f"there is no artifact {sha256}, or no longer")
