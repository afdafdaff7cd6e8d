"""Entries of children that die as a poisonous module makes TVM's loader die."""

import os
import signal


def segfault(channel) -> None:
    channel.recv()
    os.kill(os.getpid(), signal.SIGSEGV)


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
