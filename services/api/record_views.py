"""Records as responses."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping

from checks.target_family import NearRule
from db.imports import Progress
from db.records import Record
from services.api.schemas_records import FoundRecord, NearRecord, RecordView, VerificationView
from services.api.views import gflops


def record_view(record: Record, verification: Progress | None = None) -> RecordView:
    return RecordView(
        id=record.id,
        workload=record.shash,
        target=record.target,
        target_key=record.target_key,
        tvm_version=record.tvm_version,
        state=record.state,
        trace_hash=record.trace_hash,
        run_secs=record.run_secs,
        latency_secs=record.latency_secs,
        gflops=gflops(record.flops, record.latency_secs),
        policy=record.policy,
        device_class=record.device_class,
        trial_id=record.trial_id,
        signing_key_id=record.signing_key_id,
        verification=None if verification is None else VerificationView(**dataclasses.asdict(verification)),
        created_at=record.created_at,
    )


def found_record(record: Record, trace: object) -> FoundRecord:
    return FoundRecord(
        record_id=record.id,
        module=record.module,
        trace=trace,
        run_secs=record.run_secs,
        latency_secs=record.latency_secs,
        tvm_version=record.tvm_version,
        device_class=record.device_class,
        created_at=record.created_at,
        signature=record.signature,
        signing_key_id=record.signing_key_id,
        etag=record_etag(record),
    )


def near_record(record: Record, rule: NearRule) -> NearRecord:
    found = found_record(record, json.loads(record.trace))
    return NearRecord(**found.model_dump(), rule=rule, target=record.target, target_key=record.target_key)


def record_etag(record: Record) -> str:
    text = (
        f"{record.id} {record.shash} {record.trace_hash} {record.created_at.isoformat()} {record.signature}"
    )
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def lookup_etag(target_key: str, tvm_version: str, etags: Mapping[str, str]) -> str:
    """The ETag of a lookup: of each asked workload the record's etag, or "" where there is none.

    A client that kept the parts computes the same. It is weak: what is near a miss is not in it.
    """
    lines = [target_key, tvm_version, *(f"{shash} {etags[shash]}" for shash in sorted(etags))]
    return 'W/"' + hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32] + '"'
