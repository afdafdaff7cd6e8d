"""Requests and responses of /v1/expectations."""

from pydantic import BaseModel, ConfigDict, Field

from services.api.schemas import TargetRequest
from services.api.schemas_records import Shash, TvmVersion


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Response(BaseModel):
    model_config = ConfigDict(frozen=True)


class WorkToTune(_Request):
    #: Floating-point and integer operations, as TVM estimates them.
    flops: float = Field(ge=0, le=1e18, allow_inf_nan=False)
    #: Of all arguments.
    size_bytes: float = Field(ge=0, le=1e15, allow_inf_nan=False)


class AskExpectations(_Request):
    target: TargetRequest
    tvm_version: TvmVersion
    #: By structural hash.
    workloads: dict[Shash, WorkToTune] = Field(max_length=10_000)


class ExpectationView(_Response):
    """An estimate, from workloads that do as much work on as many bytes."""

    untuned_secs: float
    tuned_secs: float
    #: untuned / tuned: the median of the similar ones, the least and the most.
    speedup: float
    least_speedup: float
    most_speedup: float
    #: Tuned workloads that it is made of.
    similar: int


class ExpectationAnswer(_Response):
    target_key: str
    #: By structural hash; a workload to which nothing tuned is similar is not there.
    expectations: dict[str, ExpectationView]
