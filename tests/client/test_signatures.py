"""With a public key given, only what the service's tuner signed is a record, wherever it was kept."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import tvm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import tilefarm
from services import signing
from services.signing import Signer
from tests.client.conftest import TARGET, FakeService, MMRelu, database, record
from tests.client.test_cli import run
from tests.client.test_compile_relax import compiled_right
from tests.client.test_database import SHASH, compiled, is_tuned
from tilefarm import answers, module, signatures
from tilefarm import target as targets

SIGNER = Signer.new()
VECTOR = json.loads((Path(__file__).parents[1] / "data" / "signature_vector.json").read_text())


def signed(signer: Signer = SIGNER, *, target: dict[str, Any] = TARGET, **changes: Any) -> dict[str, Any]:
    """A record of the service with its signature; `changes` come after the signing."""
    found = record()
    parsed = answers.parse_record(found, tvm.__version__)
    signature = signer.sign(signatures.message(parsed, target_key=targets.key(target)))
    return found | {"signature": signature, "signing_key_id": signer.key_id} | changes


@pytest.fixture
def farm(service: FakeService) -> FakeService:
    service.records[SHASH] = signed()
    return service


def test_service_and_client_sign_the_same_bytes() -> None:
    trace = [[["SampleCategorical", [], [[0, 16], [0.25, 1e-05]], ["v0"]]], [[0, 1]]]
    text = json.dumps(trace, indent=1)
    found = answers.Record(
        record_id="1", module="{}", trace=trace, run_secs=(1.0,), tvm_version="0.27.0.post1"
    )
    theirs = signing.message(
        module_sha256=VECTOR["module_sha256"],
        target_key=VECTOR["target_key"],
        trace=text,
        tvm_version="0.27.0.post1",
    )
    assert theirs.decode() == VECTOR["message"]
    assert signatures.message(found, target_key=VECTOR["target_key"]) == theirs
    assert signing.verifies(VECTOR["public_key"], VECTOR["signature"], theirs)
    assert Signer.of_pem(VECTOR["private_key"]).sign(theirs) == VECTOR["signature"]


def test_a_signed_record_is_used_from_the_service_from_disk_and_from_a_lock_file(
    farm: FakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = SIGNER.public_key
    for _ in range(2):
        assert is_tuned(compiled(database(farm, public_key=key)).mod)
    assert len(farm.requests) == 1
    monkeypatch.setenv("TILEFARM_PUBLIC_KEY", key)
    source = tmp_path / "mm_relu.json"
    source.write_text(module.to_json(MMRelu))
    lock = tmp_path / "tilefarm.lock"
    assert run(farm, "lock", str(source), "--target", json.dumps(TARGET), "-o", str(lock)) == 0
    assert is_tuned(compiled(tilefarm.connect(lock=lock, mode="offline")).mod)
    monkeypatch.setenv("TILEFARM_PUBLIC_KEY", Signer.new().public_key)
    assert compiled(tilefarm.connect(lock=lock, mode="offline")) is None


TAMPERED = {
    "no signature": record(),
    "another signature": signed(signature=Signer.new().sign(b"something else")),
    "no base64": signed(signature="!"),
    "another key": signed(Signer.new()),
    "another trace": signed(trace=[[], []]),
    "another target": signed(target={**TARGET, "num-cores": 4}),
    "another TVM": signed() | {"signature": SIGNER.sign(b"tilefarm-record-1\n0.26")},
}


@pytest.mark.parametrize("found", TAMPERED.values(), ids=TAMPERED.keys())
def test_what_is_not_signed_for_exactly_this_is_no_record(
    service: FakeService, caplog: pytest.LogCaptureFixture, found: dict[str, Any]
) -> None:
    service.records[SHASH] = found
    db = database(service, public_key=SIGNER.public_key, on_miss="silent")
    with caplog.at_level(logging.WARNING, logger="tilefarm"):
        assert compiled(db) is None
        assert compiled(db) is None
    assert (db.stats().hits, db.stats().errors) == (0, 2)
    assert [line.levelname for line in caplog.records if "sign" in line.getMessage()] == ["WARNING"]


def test_a_rightly_signed_record_of_another_workload_is_none(service: FakeService) -> None:
    """The signature fits what came, but that is not what was asked."""
    other = module.workload_of(
        tvm.IRModule({"main": MMRelu["mm_relu"].with_attr("layout_free_buffers", [1])})
    )
    parsed = answers.parse_record(record(module=module.to_json(other.module)), tvm.__version__)
    signature = SIGNER.sign(signatures.message(parsed, target_key=targets.key(TARGET)))
    service.records[SHASH] = {**parsed.as_json(), "record_id": 1, "signature": signature}
    db = database(service, public_key=SIGNER.public_key, on_miss="silent")
    assert compiled(db) is None
    assert db.stats().errors == 1


def test_while_a_service_changes_its_key_both_are_trusted(farm: FakeService) -> None:
    new = Signer.new()
    keys = [new.public_key, SIGNER.public_key]
    assert is_tuned(compiled(database(farm, public_key=keys)).mod)
    assert is_tuned(compiled(database(farm, public_key=",".join(keys))).mod)
    assert compiled(database(farm, public_key=new.public_key, on_miss="silent")) is None


def test_a_key_may_be_given_as_text_bytes_or_pem() -> None:
    private = Ed25519PrivateKey.generate()
    public = private.public_key()
    pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    found = answers.parse_record(record(), tvm.__version__)
    signature = Signer(private).sign(signatures.message(found, target_key="k"))
    found = answers.parse_record(record(signature=signature), tvm.__version__)
    texts = (Signer(private).public_key, pem, pem.decode(), pem.decode() * 2, public.public_bytes_raw())
    for text in texts:
        verifier = signatures.Verifier.of(text)
        assert verifier is not None
        verifier.check(found, target_key="k")
        with pytest.raises(tilefarm.SignatureError):
            verifier.check(found, target_key="another")


@pytest.mark.parametrize("key", ["nonsense", "ed25519:AAAA", b"\x00" * 31, "-----BEGIN PUBLIC KEY-----"])
def test_a_key_that_does_not_read_is_refused(key: str | bytes) -> None:
    with pytest.raises(tilefarm.NotConfiguredError, match="public key"):
        tilefarm.connect("http://farm.test", public_key=key)


def test_a_signature_tampered_with_in_the_middle_of_compile_relax_costs_the_schedule_alone() -> None:
    """Both functions of the model have a record, each with a signature of nobody known."""

    class Hostile(FakeService):
        def _lookup(self, asked: dict[str, Any]) -> dict[str, Any]:
            self.records = {shash: signed(Signer.new()) for shash in asked["workloads"]}
            return super()._lookup(asked)

    db = database(Hostile(), public_key=SIGNER.public_key, on_miss="silent")
    assert compiled_right(db)
    assert (db.stats().hits, db.stats().errors) == (0, 2)
