"""Server-sent events, read line by line (WHATWG HTML, section 9.2). It opens no connection."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    name: str
    data: str
    #: The `id:` seen last; what a reconnection sends as Last-Event-ID.
    last_id: str | None


def parse(lines: Iterable[str]) -> Iterator[Event]:
    """Events of a stream; comments (heartbeats) are dropped, and so is an event cut off by the end."""
    name, data, last_id = "message", list[str](), None
    for line in lines:
        if not line:
            if data:
                yield Event(name=name, data="\n".join(data), last_id=last_id)
            name, data = "message", []
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            name = value
        elif field == "data":
            data.append(value)
        elif field == "id":
            last_id = value
