"""Frames on a stream socket: one JSON object and any number of raw blobs. Never pickle.

A frame is: length of the JSON (uint32), count of blobs (uint32), length of each blob (uint64), the JSON, the
blobs; little-endian. Both sides cap the size of a whole frame, so a child cannot fill its parent's memory.
"""

import json
import socket
import struct
from collections import deque
from collections.abc import Mapping
from typing import Any

from sandbox.errors import ChannelError

MAX_FRAME_BYTES = 256 << 20
MAX_BLOBS = 1024

_HEAD = struct.Struct("<II")
_READ_BYTES = 1 << 18

Frame = tuple[dict[str, Any], list[bytes]]


def encode(obj: Mapping[str, Any], blobs: tuple[bytes, ...], *, max_bytes: int = MAX_FRAME_BYTES) -> bytes:
    text = json.dumps(obj, separators=(",", ":")).encode()
    total = len(text) + sum(len(blob) for blob in blobs)
    if total > max_bytes or len(blobs) > MAX_BLOBS:
        raise ChannelError(f"a frame of {total} bytes and {len(blobs)} blobs is larger than allowed")
    lengths = struct.pack(f"<{len(blobs)}Q", *(len(blob) for blob in blobs))
    return b"".join((_HEAD.pack(len(text), len(blobs)), lengths, text, *blobs))


class FrameReader:
    """Cuts a stream of bytes into frames; does no IO."""

    def __init__(self, *, max_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_bytes = max_bytes
        self._buffer = bytearray()
        self._frames: deque[Frame] = deque()

    def feed(self, data: bytes) -> None:
        """Take bytes as they arrive; raises ChannelError on what can be no frame."""
        self._buffer += data
        while (frame := self._cut()) is not None:
            self._frames.append(frame)

    def pop(self) -> Frame | None:
        return self._frames.popleft() if self._frames else None

    def _cut(self) -> Frame | None:
        if len(self._buffer) < _HEAD.size:
            return None
        text_bytes, blob_count = _HEAD.unpack_from(self._buffer)
        if blob_count > MAX_BLOBS or text_bytes > self._max_bytes:
            raise ChannelError(f"a frame announces {text_bytes} bytes of JSON and {blob_count} blobs")
        start = _HEAD.size + 8 * blob_count
        if len(self._buffer) < start:
            return None
        lengths = struct.unpack_from(f"<{blob_count}Q", self._buffer, _HEAD.size)
        total = text_bytes + sum(lengths)
        if total > self._max_bytes:
            raise ChannelError(f"a frame announces {total} bytes; {self._max_bytes} are allowed")
        if len(self._buffer) < start + total:
            return None
        obj = _parse(bytes(self._buffer[start : start + text_bytes]))
        blobs, at = [], start + text_bytes
        for length in lengths:
            blobs.append(bytes(self._buffer[at : at + length]))
            at += length
        del self._buffer[:at]
        return obj, blobs


class Channel:
    """The child's end: blocking send and receive."""

    def __init__(self, sock: socket.socket, *, max_bytes: int = MAX_FRAME_BYTES) -> None:
        self._sock = sock
        self._max_bytes = max_bytes
        self._reader = FrameReader(max_bytes=max_bytes)

    def send(self, obj: Mapping[str, Any], *blobs: bytes) -> None:
        self._sock.sendall(encode(obj, blobs, max_bytes=self._max_bytes))

    def recv(self) -> Frame:
        """The next frame; EOFError when the parent closed its end."""
        while (frame := self._reader.pop()) is None:
            data = self._sock.recv(_READ_BYTES)
            if not data:
                raise EOFError("the parent closed the channel")
            self._reader.feed(data)
        return frame


def _parse(text: bytes) -> dict[str, Any]:
    try:
        obj = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ChannelError(f"a frame's JSON does not parse: {error}") from error
    if not isinstance(obj, dict):
        raise ChannelError(f"a frame holds a JSON {type(obj).__name__}, not an object")
    return obj
