"""The version of this distribution; its metadata is made of this. It asks no service."""

VERSION = "0.1.0"
