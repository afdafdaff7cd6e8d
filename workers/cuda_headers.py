"""CUDA's headers laid out as TVM looks for them, with three of the standard library's in a short form.

Kernels that TVM writes include <cuda/std/cstdint>, <cuda/std/type_traits> and <cuda/std/limits>. NVIDIA's
own (libcu++) are two seconds of each compilation, of which TVM uses the few names below. The kernel's
machine code is the same with either (tests/workers/test_cuda.py); what does not compile with the short ones
is compiled with NVIDIA's (workers/cuda_code.py).
"""

import os
from pathlib import Path

_CSTDINT = """#pragma once
namespace cuda { namespace std {
using int8_t = signed char; using uint8_t = unsigned char;
using int16_t = short; using uint16_t = unsigned short;
using int32_t = int; using uint32_t = unsigned int;
using int64_t = long; using uint64_t = unsigned long;
} }
"""
_LIMITS = """#pragma once
namespace cuda { namespace std {
template <typename T> struct numeric_limits;
template <> struct numeric_limits<float> {
  static constexpr float infinity() { return __builtin_bit_cast(float, 0x7f800000); }
};
} }
"""
_TYPE_TRAITS = """#pragma once
namespace cuda { namespace std {
template <bool V> struct bool_constant { static constexpr bool value = V; };
template <typename A, typename B> struct is_same : bool_constant<false> {};
template <typename A> struct is_same<A, A> : bool_constant<true> {};
template <typename A, typename B> inline constexpr bool is_same_v = is_same<A, B>::value;
template <typename T, typename... Of> inline constexpr bool is_one_of = (is_same_v<T, Of> || ...);
template <bool C, typename T = void> struct enable_if {};
template <typename T> struct enable_if<true, T> { using type = T; };
template <bool C, typename T, typename F> struct conditional { using type = T; };
template <typename T, typename F> struct conditional<false, T, F> { using type = F; };
template <typename T> struct is_floating_point : bool_constant<is_one_of<T, float, double>> {};
template <typename T> struct is_unsigned : bool_constant<
    is_one_of<T, bool, unsigned char, unsigned short, unsigned int, unsigned long, unsigned long long>> {};
template <typename T> struct is_integral : bool_constant<
    is_unsigned<T>::value || is_one_of<T, char, signed char, short, int, long, long long>> {};
template <typename T> struct is_signed : bool_constant<
    is_floating_point<T>::value || (is_integral<T>::value && !is_unsigned<T>::value)> {};
} }
"""
_SHORT = {"cstdint": _CSTDINT, "limits": _LIMITS, "type_traits": _TYPE_TRAITS}
#: NVIDIA's standard library is beside the other headers under this name.
_LIBRARY = "cccl"


def lay_out(headers: Path, directory: Path) -> tuple[Path, Path]:
    """Two toolkits in `directory`, of links to NVIDIA's `headers`: with the short ones first, and without.

    Either is what CUDA_PATH may name.
    """
    short, own = directory / "short", directory / "own"
    machine = f"targets/{os.uname().machine}-linux"
    for toolkit in (short, own):
        (toolkit / machine).mkdir(parents=True, exist_ok=True)
        _link(toolkit / machine / "include", headers)
    _link(own / "include", headers)
    standard = short / "include" / "cuda" / "std"
    standard.mkdir(parents=True, exist_ok=True)
    for header in headers.iterdir():
        if header.name not in (_LIBRARY, "cuda"):
            _link(short / "include" / header.name, header)
    for name, text in _SHORT.items():
        (standard / name).write_text(text)
    return short, own


def _link(place: Path, target: Path) -> None:
    place.unlink(missing_ok=True)
    place.symlink_to(target)
