"""The Dockerfile copies what is there, and the build context holds what it copies and nothing secret."""

import re

from tests.deploy.dockerfile import DOCKERFILE, images
from tests.deploy.role import OWN, ROOT

TEXT = DOCKERFILE.read_text(encoding="utf-8")
COPIED = {
    source
    for line in re.findall(r"^COPY (?!--from)(.+)$", TEXT, re.MULTILINE)
    for source in line.split()[:-1]
}
CONTEXT = [
    line for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line[0] != "#"
]


def test_everything_that_is_copied_exists_and_is_in_the_context():
    sent = {line.removeprefix("!") for line in CONTEXT if line.startswith("!")}
    for source in COPIED:
        assert (ROOT / source).exists()
        assert any(source == each or source.startswith(f"{each}/") for each in sent), source
    assert set(OWN) <= COPIED


def test_the_context_is_a_list_of_what_may_go_in():
    assert CONTEXT[0] == "*"
    assert {line for line in CONTEXT if not line.startswith("!")} == {"*", "**/__pycache__"}


def test_every_image_that_runs_does_so_as_its_own_user():
    started = {name: image for name, image in images().items() if image.command}
    assert started.keys() == {"admin", "api", "tuner", "worker", "worker-cuda", "measurer"}
    assert {image.user for image in started.values()} == {"10001:10001"}
    assert all(image.command[0] == "tilefarm-server" for image in started.values())
    assert {name for name, image in started.items() if not image.health} == {"admin"}


def test_every_base_image_is_the_same_and_has_a_version():
    assert "find /opt/tilefarm -name 'libtvm_compiler.so' -delete" in TEXT
    bases = set(re.findall(r"^FROM (\S+) AS", TEXT, re.MULTILINE)) - set(images())
    assert bases == {"python:3.11-slim-bookworm"}
