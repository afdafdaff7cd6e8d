"""What imports and their verification are asked and answered, as the API writes it."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from services.api.schemas import PlainName, TargetRequest
from services.api.schemas_records import Shash, TvmVersion


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Response(BaseModel):
    model_config = ConfigDict(frozen=True)


class ImportedRecord(_Request):
    trace: JsonValue
    #: Seconds, one per repeat.
    run_secs: list[Annotated[float, Field(gt=0, lt=1e6, allow_inf_nan=False)]] = Field(
        min_length=1, max_length=1000
    )


class ImportedWorkload(_Request):
    """Records of one workload on one target."""

    target: TargetRequest
    #: Module JSON with one PrimFunc, as an object or as text.
    module: dict[str, JsonValue] | str
    records: list[ImportedRecord] = Field(min_length=1, max_length=64)


class ImportRecords(ImportedWorkload):
    """What one workload brings, by itself."""

    tvm_version: TvmVersion
    #: Where they come from, in words.
    source: PlainName | None = None


class ImportMany(_Request):
    """What several workloads bring; one of them may stand there more than once."""

    tvm_version: TvmVersion
    workloads: list[ImportedWorkload] = Field(min_length=1, max_length=256)
    #: Where they come from, in words.
    source: PlainName | None = None


class RefusedRecord(_Response):
    #: Index in the request.
    index: int
    code: str
    detail: str


class ImportAnswer(_Response):
    workload: str
    target_key: str
    #: Ids of the quarantined records.
    quarantined: list[int]
    #: How many were known already.
    known: int
    refused: list[RefusedRecord]


class RefusedWorkload(_Response):
    code: str
    detail: str


class ImportResult(_Response):
    """Of one workload: it was taken, or refused as a whole."""

    taken: ImportAnswer | None = None
    refused: RefusedWorkload | None = None


class ImportManyAnswer(_Response):
    #: In the order of the request.
    workloads: list[ImportResult]


class VerifyImports(_Request):
    """Which quarantined records the farm is to measure itself."""

    target: TargetRequest
    tvm_version: TvmVersion
    #: Structural hashes; all that were imported where it is empty.
    workloads: list[Shash] = Field(default_factory=list, max_length=1000)
    #: Of each workload so many, those first that claim to be fastest.
    top: int = Field(default=3, ge=1, le=64)
    priority: int = Field(default=0, ge=-100, le=100)


class VerifyAnswer(_Response):
    #: The job that measures them.
    job_id: str
    workloads: int
    #: Ids of the quarantined records.
    records: list[int]
