"""Kernels for CUDA, really compiled, on a host that needs no GPU.

Not run where NVIDIA's packages are missing: `make test-cuda` installs them.
"""

import base64
import dataclasses
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from db.states import Outcome
from sandbox.fork_server import ForkServer
from sandbox.limits import Limits
from tests.workers.conftest import Bench
from tests.workers.test_two_hosts import Api, build
from workers.children_server import children_server
from workers.cuda_packages import check_compiler
from workers.device import DetectedTarget, detect_target, find_device
from workers.errors import DeviceError
from workers.messages import TrialBuilt
from workers.selftest_shipping import KernelShipper

try:
    check_compiler()
except DeviceError as error:
    pytest.skip(f"not run: {error}", allow_module_level=True)

TAG = {"tag": "nvidia/nvidia-h100"}
_EM_CUDA = 190


@pytest.fixture(scope="module")
def cuda_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    directory = tmp_path_factory.mktemp("cuda")
    device = find_device("cpu", num_cores=None, lock_dir=directory / "locks")
    with children_server(directory, device=device, target=TAG) as server:
        yield server


@pytest.fixture(scope="module")
def detected_cuda(cuda_server: ForkServer) -> DetectedTarget:
    return detect_target(cuda_server, num_cores=1, target=TAG, times=False)


@pytest.fixture
def cuda_bench(bench: Bench, cuda_server: ForkServer, detected_cuda: DetectedTarget) -> Bench:
    return dataclasses.replace(bench, server=cuda_server, detected=detected_cuda)


def author(server: ForkServer, entry: str = "run", **order: Any) -> dict[str, Any]:
    limits = Limits(large_stack=True, may_start_processes=True)
    with server.spawn(f"tests.workers.cuda_author:{entry}", limits=limits) as child:
        child.send(order)
        answer, _ = child.recv(120)
    return answer


def machine_code(library: bytes) -> bytes:
    """What stands in the library in place of the kernel's source; where TVM finds a driver, as it is."""
    found = re.search(rb"// tilefarm: machine code ([A-Za-z0-9+/=]+)", library)
    if found is not None:
        return base64.b64decode(found[1])
    places = [each.start() for each in re.finditer(rb"\x7fELF", library)]
    (place,) = [each for each in places if machine_of(library[each:]) == _EM_CUDA]
    return library[place:]


def machine_of(elf: bytes) -> int:
    return int.from_bytes(elf[18:20], "little")


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_candidates_for_a_gpu_are_built_and_sent_where_there_is_none(
    cuda_bench, detected_cuda, dtype, tmp_path
):
    made = author(cuda_bench.server, target=detected_cuda.target, dtype=dtype)
    api = Api()
    chunk = cuda_bench.chunk(made["module"], *made["traces"][:2])
    told = build(cuda_bench, api, chunk, own_target=detected_cuda.own_target)
    assert [type(each) for each in told] == [TrialBuilt, TrialBuilt], told
    for each in told:
        library = api.client().fetch(each.built.kernel, unwanted=lambda: False)
        code = machine_code(library)
        assert code[:4] == b"\x7fELF"
        assert int.from_bytes(code[18:20], "little") == _EM_CUDA
        assert b"__global__" not in library
        (tmp_path / "kernel.so").write_bytes(library)
        command = ["nm", "--dynamic", str(tmp_path / "kernel.so")]
        symbols = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert "__tvm_ffi_main" in symbols
        assert "__tvm_ffi__library_bin" in symbols


def test_short_headers_give_the_same_machine_code(cuda_server, detected_cuda):
    """The kernel's; NVIDIA's headers leave functions of their own beside it."""
    for dtype in ("float32", "float16", "int8"):
        codes = author(cuda_server, "both_headers", target=detected_cuda.target, dtype=dtype)
        short, own = (base64.b64decode(codes[name]) for name in ("short", "own"))
        assert section(short, ".text.main_kernel") == section(own, ".text.main_kernel")
        assert len(short) < len(own)


def test_a_kernel_that_does_not_compile_is_a_build_error(cuda_bench, detected_cuda):
    """TVM writes sums of float8 that its own header has no operator for."""
    made = author(cuda_bench.server, target=detected_cuda.target, dtype="float8_e4m3fn")
    chunk = cuda_bench.chunk(made["module"], made["traces"][0])
    told = build(cuda_bench, Api(), chunk, own_target=detected_cuda.own_target)
    assert [each.outcome for each in told] == [Outcome.BUILD_ERROR]
    assert "error" in told[0].error


def test_self_test_kernels_of_a_gpu_are_built_for_hosts_that_cannot(cuda_server, detected_cuda):
    api = Api()
    shipper = KernelShipper(server=cuda_server, client=api.client(), target=detected_cuda.target, linker="ld")
    made, library = shipper._build()
    assert made["elements"] % 1024 == 0
    code = machine_code(library)
    for name in ("fma_kernel", "copy_kernel", "main_kernel"):
        assert section(code, f".text.{name}")


def section(elf: bytes, name: str) -> bytes:
    """Of a 64-bit ELF file."""
    at, size, count, names = (
        int.from_bytes(elf[start : start + width], "little")
        for start, width in ((0x28, 8), (0x3A, 2), (0x3C, 2), (0x3E, 2))
    )
    headers = [elf[at + size * index : at + size * (index + 1)] for index in range(count)]

    def held(header: bytes) -> bytes:
        offset, length = (int.from_bytes(header[start : start + 8], "little") for start in (0x18, 0x20))
        return elf[offset : offset + length]

    table = held(headers[names])
    for header in headers:
        start = int.from_bytes(header[:4], "little")
        if table[start : table.index(b"\0", start)].decode() == name:
            return held(header)
    raise AssertionError(f"no section {name}")


def test_sections_are_read(tmp_path: Path):
    """The reader above, against binutils, on a library of this host."""
    path = tmp_path / "text.bin"
    source = Path("/proc/self/exe").resolve()
    subprocess.run(["objcopy", "-O", "binary", "--only-section=.interp", str(source), str(path)], check=True)
    assert section(source.read_bytes(), ".interp") == path.read_bytes()
