"""Names of drawn workloads: a kind, a colon, and sizes with an `x` between them (`matmul:33x500x63`)."""

from collections.abc import Sequence


def drawn_name(kind: str, sizes: Sequence[int]) -> str:
    return f"{kind}:{'x'.join(map(str, sizes))}"


def kind_and_sizes(name: str) -> tuple[str, tuple[int, ...]]:
    """No sizes where the name is one of a list."""
    kind, _, sizes = name.partition(":")
    return kind, tuple(int(size) for size in sizes.split("x")) if sizes else ()
