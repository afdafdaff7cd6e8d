"""`tilefarm-server key`: made once, shown, and after a change of key the records are signed anew."""

import stat
import zlib

import pytest
from sqlalchemy import select

from db.migrate import upgrade
from db.session import connect, reading, transaction
from db.signatures import signable
from db.tables import RecordRow
from services.server.cli import main
from services.signing import Signer, verifies
from services.tuning.signatures import message_of, open_key, sign_published
from tests.tuning.rows import add_search, add_target


@pytest.fixture
def engine(tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path / 'tilefarm.db'}"
    monkeypatch.setenv("TILEFARM_DATABASE_URL", url)
    upgrade(url)
    engine = connect(url)
    yield engine
    engine.dispose()


def add_record(engine, *, signer=None, state="published") -> int:
    target_id = add_target(engine) if not count(engine) else 1
    search_id = add_search(engine, target_id, name=f"w{count(engine)}")
    with transaction(engine) as session:
        record = RecordRow(
            workload_id=search_id,
            target_id=target_id,
            tvm_version="0.27.0",
            state=state,
            trace_z=zlib.compress(b"[[],[]]"),
            trace_hash="0" * 64,
            run_secs=[1e-4],
            latency_secs=1e-4,
            policy={},
            device_class="cpu",
        )
        session.add(record)
        session.flush()
        if signer is not None:
            sign_published(session, record.id, signer)
        return record.id


def count(engine) -> int:
    with reading(engine) as session:
        return len(session.scalars(select(RecordRow.id)).all())


def test_a_key_is_made_once_for_its_owner_alone_and_shown(tmp_path, capsys):
    path = tmp_path / "signing-key.pem"
    assert main(["key", "create", str(path)]) == 0
    made = capsys.readouterr().out
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    signer = Signer.of_pem(path.read_text())
    assert made.splitlines() == [f"key id      {signer.key_id}", f"public key  {signer.public_key}"]
    assert main(["key", "create", str(path)]) == 2
    assert "never overwritten" in capsys.readouterr().err
    assert main(["key", "show", str(path)]) == 0
    assert capsys.readouterr().out == made
    path.write_text("nothing")
    assert main(["key", "show", str(path)]) == 2
    assert "holds no key" in capsys.readouterr().err


def test_after_a_change_of_key_what_the_old_key_signed_is_signed_by_the_new(engine, tmp_path, capsys):
    old, path = open_key(engine, Signer.new().pem()), tmp_path / "new.pem"
    signed, unsigned, forged = (add_record(engine, signer=signer) for signer in (old, None, old))
    quarantined = add_record(engine, state="quarantined")
    with transaction(engine) as session:
        session.get_one(RecordRow, forged).signature = old.sign(b"another message")
    main(["key", "create", str(path)])
    new = Signer.of_pem(path.read_text())
    capsys.readouterr()
    assert main(["key", "sign", str(path)]) == 0
    assert capsys.readouterr().out == f"1 records signed with key {new.key_id}; 2 left as they are\n"

    def by_new(record_id: int) -> bool:
        with reading(engine) as session:
            record = signable(session, record_id)
        return verifies(new.public_key, record.signature or "", message_of(record))

    everything = (signed, unsigned, forged, quarantined)
    assert [by_new(record_id) for record_id in everything] == [True, False, False, False]
    assert main(["key", "sign", str(path), "--unsigned"]) == 0
    assert [by_new(record_id) for record_id in everything] == [True, True, False, False]
    assert main(["key", "list"]) == 0
    listed = capsys.readouterr().out.splitlines()[-2:]
    assert {(line.split()[0], line.split()[-2]) for line in listed} == {(new.key_id, "2"), (old.key_id, "1")}
