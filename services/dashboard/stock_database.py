"""MetaSchedule's own database as a zip that is written while it is read: what stock's JSONDatabase loads.

Text alone: TVM made each part of it when the record was measured, and nothing here asks it again. The formats
are those of WorkloadNode::AsJSON and TuningRecordNode::AsJSON (TVM 0.27, meta_schedule/database).
"""

import base64
import io
import json
import struct
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping

from db.records import Record

WORKLOADS = "database_workload.json"
RECORDS = "database_tuning_record.json"
PROVENANCE = "database_provenance.json"
#: Bytes that are gathered before they are sent.
_PART = 1 << 16


def workload_line(record: Record) -> str:
    """Structural hash and module, as stock has them: a decimal number, and base64 of length and text."""
    module = record.module.encode()
    packed = base64.b64encode(struct.pack("<Q", len(module)) + module).decode()
    return json.dumps([str(int(record.shash, 16)), packed])


def record_line(index: int, record: Record) -> str:
    """A record of the workload on line `index`."""
    args = [["TENSOR", arg["dtype"], arg["shape"]] for arg in record.args]
    return json.dumps([index, [json.loads(record.trace), record.run_secs, record.target, args]])


def provenance_line(record: Record, *, service: str) -> str:
    """Where it came from; stock does not read this file."""
    return json.dumps(
        {
            "service": service,
            "record_id": record.id,
            "workload": record.shash,
            "target": record.target,
            "tvm_version": record.tvm_version,
            "device_class": record.device_class,
        }
    )


def zipped(files: Mapping[str, Callable[[], Iterable[str]]]) -> Iterator[bytes]:
    """Files of lines, by name, one after the other; no more than a part of one is held."""
    sink = _Sink()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, lines in files.items():
            with archive.open(name, "w", force_zip64=True) as file:
                for line in lines():
                    file.write(line.encode() + b"\n")
                    if sink.size >= _PART:
                        yield sink.taken()
    yield sink.taken()


class _Sink(io.RawIOBase):
    """What was written and not yet taken. It cannot seek, so sizes stand behind each file of the zip."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: bytes | bytearray | memoryview) -> int:  # type: ignore[override] # narrower than a Buffer
        part = bytes(data)
        self._parts.append(part)
        self.size += len(part)
        return len(part)

    def taken(self) -> bytes:
        found = b"".join(self._parts)
        self._parts.clear()
        self.size = 0
        return found
