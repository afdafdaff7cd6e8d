"""The version of this distribution, as its metadata says it. It asks no service."""

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("tilefarm")
except PackageNotFoundError:  # a source tree that was never installed
    VERSION = "0+unknown"
