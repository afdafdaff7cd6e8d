"""Why a saved graph is refused, and how large one may be."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphLimits:
    max_nodes: int = 200_000
    max_depth: int = 500
    #: Paths from the root to the leaves: a small graph of shared nodes can be an endless tree.
    max_paths: int = 5_000_000
    max_name_chars: int = 300
    max_rank: int = 8
    max_buffer_bytes: int = 1 << 30
    #: Of all buffers of the module together.
    max_total_bytes: int = 4 << 30
    #: Of all constants of a model together, as the full shapes that their types tell.
    max_constant_bytes: int = 1 << 30


class GraphError(ValueError):
    """A module's graph is refused, with a stable code, and the function and node where they are known."""

    def __init__(
        self, code: str, detail: str, *, node: int | None = None, function: str | None = None
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.node = node
        self.function = function
