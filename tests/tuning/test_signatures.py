"""What the tuner service publishes it signs, in the same transaction; nothing else is ever signed by it."""

import pytest
from pydantic import SecretStr, ValidationError
from sqlalchemy import Engine

from db.session import reading
from db.signatures import list_keys, signable
from db.states import JobState
from db.tables import JobRow, RecordRow
from services.signing import Signer, verifies
from services.tuning.settings import TunerSettings
from services.tuning.signatures import message_of, open_key
from tests.tuning.farm import WORKER, Farm
from tests.tuning.rows import add_job, add_search, add_target, add_worker, read

URLS = {"database_url": "sqlite://", "broker_url": "memory://"}


@pytest.mark.parametrize("with_key", [True, False])
def test_every_published_record_carries_the_signature_of_the_key(engine: Engine, *, with_key: bool) -> None:
    target_id = add_target(engine)
    add_worker(engine, target_id, worker_id=WORKER)
    add_job(engine, [add_search(engine, target_id)], max_trials=6)
    signer = open_key(engine, Signer.new().pem()) if with_key else open_key(engine, None)
    with Farm(engine, signer=signer) as farm:
        farm.run_until(lambda: JobState(read(engine, JobRow.state)[0]).ended)
    ids = read(engine, RecordRow.id)
    assert ids
    with reading(engine) as session:
        found = [signable(session, record_id) for record_id in ids]
        keys = list_keys(session)
    if signer is None:
        assert {record.signature for record in found} == {None}
        assert keys == []
        return
    assert all(verifies(signer.public_key, record.signature or "", message_of(record)) for record in found)
    assert [(key.id, key.public_key, key.records) for key in keys] == [
        (signer.key_id, signer.public_key, len(ids))
    ]


def test_the_setting_is_a_pem_and_is_never_shown(tmp_path) -> None:
    signer = Signer.new()
    path = tmp_path / "key.pem"
    path.write_text(signer.pem())
    settings = TunerSettings(**URLS, signing_key_file=path)
    assert settings.signing_key is not None
    assert Signer.of_pem(settings.signing_key.get_secret_value()).key_id == signer.key_id
    assert "PRIVATE" not in repr(settings)
    with pytest.raises(ValidationError, match="no PEM") as refused:
        TunerSettings(**URLS, signing_key=SecretStr(signer.pem()[:-60]))
    assert signer.pem()[40:60] not in str(refused.value)
