"""What handlers share, made once by the app: settings, engine, intake, event poller.

They wait for nothing, so they are coroutines: a plain function would take a thread of the pool each.
"""

from typing import Annotated, Any

from fastapi import Depends, Request
from sqlalchemy import Engine

from services.api.events import EventPoller
from services.api.intake import Intake
from services.api.lookup_traffic import LookupTraffic
from services.api.settings import ApiSettings


def _state(request: Request, name: str) -> Any:
    return getattr(request.app.state, name)


async def _settings(request: Request) -> ApiSettings:
    settings: ApiSettings = _state(request, "settings")
    return settings


async def _engine(request: Request) -> Engine:
    engine: Engine = _state(request, "engine")
    return engine


async def _intake(request: Request) -> Intake:
    intake: Intake = _state(request, "intake")
    return intake


async def _events(request: Request) -> EventPoller:
    events: EventPoller = _state(request, "events")
    return events


async def _traffic(request: Request) -> LookupTraffic:
    traffic: LookupTraffic = _state(request, "lookup_traffic")
    return traffic


SettingsDep = Annotated[ApiSettings, Depends(_settings)]
EngineDep = Annotated[Engine, Depends(_engine)]
IntakeDep = Annotated[Intake, Depends(_intake)]
EventsDep = Annotated[EventPoller, Depends(_events)]
TrafficDep = Annotated[LookupTraffic, Depends(_traffic)]
