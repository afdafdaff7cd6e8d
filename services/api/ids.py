"""Identifiers in paths, bounded before a database sees them."""

from typing import Annotated

from fastapi import Path

from services.api.schemas import MAX_BIGINT

JobId = Annotated[str, Path(max_length=60, pattern=r"^[^\x00:/]+$")]
WorkerId = Annotated[str, Path(max_length=60, pattern=r"^[^\x00:/]+$")]
RowId = Annotated[int, Path(ge=1, le=MAX_BIGINT)]
ProfileName = Annotated[str, Path(max_length=120, pattern=r"^[^\x00]+$")]
