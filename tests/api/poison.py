"""Entries of children that die as a poisonous module makes TVM's loader die."""

import ctypes
import os

from tuner import intake


def segfault(channel) -> None:
    channel.recv()
    _fault()


def abort(channel) -> None:
    channel.recv()
    os.abort()


def spin(channel) -> None:
    channel.recv()
    while True:
        pass


def hog(channel) -> None:
    channel.recv()
    kept = []
    while True:
        kept.append(bytearray(64 << 20))


def over_softmax(channel) -> None:
    """Answers as an intake child does, and dies over one module."""

    class Poisoned:
        @staticmethod
        def recv():
            request, blobs = channel.recv()
            if request["op"] == "module" and "T_softmax" in str(request["module"]):
                _fault()
            return request, blobs

        send = staticmethod(channel.send)

    intake.run(Poisoned())


def _fault() -> None:
    """A true one: os.kill sends its signal to the main thread, and this one lives on for a moment."""
    ctypes.string_at(0)
