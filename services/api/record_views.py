"""Records as responses."""

from db.records import Record
from services.api.schemas_records import FoundRecord, RecordView
from services.api.views import gflops


def record_view(record: Record) -> RecordView:
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
    )
