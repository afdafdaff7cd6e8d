"""Brings a contraction to C[b, m, n] += A[b, m, k] * B[b, n, k] with single axes, padded to whole tiles.

What a plan stages becomes a copy that the block reads; what it does not stage is read where it lies. The
epilogue, or else the copy that crops the padding, is what is left to compute behind a tile of the output.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tuner.expressions import loads_of
from tuner.space.axes import Axis
from tuner.space.contraction import Contraction, reindexed_places
from tuner.space.epilogue import Epilogue, epilogue_of
from tuner.space.fitting_tiles import divides
from tuner.space.index_maps import fusing
from tuner.space.plans import Plan, Staging
from tuner.space.staging import Stage, panels
from tuner.trace import TVM_ERRORS


@dataclass(frozen=True, slots=True, kw_only=True)
class NormalForm:
    """What stands beside the block, whose axes are now (batch, rows, columns, depth)."""

    scalars: Stage | None
    vectors: Stage | None
    #: Takes a tile of the output to where it belongs; None where the block writes it itself.
    tail: Any | None
    #: Axes of the rows, a loop each; one where they are fused.
    n_rows: int


def normal_form(schedule: Any, block: Any, contraction: Contraction, plan: Plan) -> NormalForm:
    """Raises what TVM raises where it cannot."""
    return _Forming(schedule, block, contraction, plan).run()


def fuse_sides(schedule: Any, block: Any, contraction: Contraction) -> None:
    """The block's axes are single ones from now on: the batch's, where it has any, rows, columns, depth."""
    _fuse(schedule, block, contraction, contraction.rows)


def fuse_sides_of_epilogue(schedule: Any, epilogue: Epilogue, contraction: Contraction) -> None:
    """The same of what follows a contraction, which has no depth."""
    parts = contraction.groups(contraction.rows, contraction.columns)
    schedule.transform_block_layout(epilogue.block, fusing(epilogue.places, parts))


def _fuse(schedule: Any, block: Any, contraction: Contraction, *rows: tuple[Axis, ...]) -> None:
    parts = contraction.groups(*rows, contraction.columns, contraction.depth)
    schedule.transform_block_layout(block, fusing(range(contraction.n_axes), parts))


def copied(schedule: Any, block: Any, contraction: Contraction, *, of_rows: bool) -> Any:
    """The block reads A'[b, m, k] or B'[b, n, k]; the block that is returned writes it."""
    operand = contraction.scalars if of_rows else contraction.vectors
    side = contraction.rows if of_rows else contraction.columns
    node = schedule.get(block)
    buffer = node.reads[operand.read].source
    load = next(load for load in loads_of(node.body) if load.source.same_as(buffer))
    fused = _fusing_of(schedule, block, contraction, load.indices, side, contraction.depth)
    copy = schedule.reindex(block, ("read", operand.read))
    schedule.transform_layout(block, ("read", operand.read), fused)
    schedule.transform_block_layout(copy, fused)
    return copy


def _fusing_of(
    schedule: Any, block: Any, contraction: Contraction, indices: Iterable[Any], *sides: tuple[Axis, ...]
) -> Any:
    """Of what reindex is about to copy: one axis for each side, of the axes that it finds there."""
    places = reindexed_places(schedule.get(block), indices)
    groups = contraction.groups(*sides)
    return fusing(places, [[axis for axis in axes if axis.place in places] for axes in groups])


class _Forming:
    def __init__(self, schedule: Any, block: Any, contraction: Contraction, plan: Plan) -> None:
        self._schedule = schedule
        self._block = block
        self._contraction = contraction
        self._plan = plan
        rows, columns, _ = contraction.extents
        pads_rows = rows % plan.tile.rows > 0 and not plan.peels
        pads_columns = columns % plan.tile.columns > 0 and not plan.ends
        self._pads = pads_rows or pads_columns
        #: What rows and columns become multiples of.
        self._multiples = (plan.tile.rows if pads_rows else 1, plan.tile.columns if pads_columns else 1)

    def run(self) -> NormalForm:
        schedule, plan = self._schedule, self._plan
        epilogue = epilogue_of(schedule, self._block, self._contraction)
        crop = self._cropped(epilogue) if self._needs_crop(epilogue) else None
        scalars = self._copied(of_rows=True) if self._pads or plan.scalars is not Staging.NONE else None
        vectors = self._copied(of_rows=False) if self._pads or plan.vectors is not Staging.NONE else None
        is_in_place = crop is epilogue is scalars is None
        rows = self._row_axes() if is_in_place else [self._contraction.rows]
        _fuse(schedule, self._block, self._contraction, *rows)
        if self._pads:
            scalars, vectors = self._padded(scalars, vectors)
        tail = self._tail(crop, epilogue)
        return NormalForm(
            scalars=self._stage(scalars, of_rows=True, staging=plan.scalars),
            vectors=self._stage(vectors, of_rows=False, staging=plan.vectors),
            tail=tail,
            n_rows=len(rows),
        )

    def _needs_crop(self, epilogue: Epilogue | None) -> bool:
        """Whether the output is first written with an axis for all rows, and one for all columns.

        What follows has to take no more than a tile: of a tile that goes on in the next line TVM 0.27 knows
        the lines alone, and has both read whole, with elements that another core is still summing.
        """
        contraction = self._contraction
        wraps = any(contraction.wraps) and epilogue is not None
        return self._pads or not contraction.writes_rows or wraps

    def _row_axes(self) -> list[tuple[Axis, ...]]:
        """Parts of the rows that are an axis each: every long one where tiles do not wrap around any.

        Of one axis for all lines TVM divides a place p * 28 + y * 4 + r, 56 in a line, into p // 2 and a
        remainder that it leaves as it is. Neighbouring rows might then be the same memory for all that LLVM
        knows, and sums wait there in place of registers: of random programs, 56 x 56, 64 to 64, a sixth
        took 4.3 to 5 ms, and with lines and their tiles apart 1.5 to 1.8 (Zen 3, two cores).
        """
        rows = self._contraction.rows
        if not divides(rows, self._plan.tile.rows):
            return [rows]
        units = tuple(axis for axis in rows if axis.extent == 1)
        long = [axis for axis in rows if axis.extent > 1]
        return [(*units, *long[:1]), *((axis,) for axis in long[1:])]

    def _cropped(self, epilogue: Epilogue | None) -> Any:
        """The block writes C'[b, m, n]; the block that is returned takes it to the output."""
        contraction, schedule = self._contraction, self._schedule
        store = schedule.get(self._block).body
        sides = contraction.rows, contraction.columns
        fused = _fusing_of(schedule, self._block, contraction, store.indices, *sides)
        crop = schedule.reindex(self._block, ("write", 0))
        schedule.transform_layout(self._block, ("write", 0), fused)
        if epilogue is None:
            schedule.transform_block_layout(crop, fused)
        return crop

    def _copied(self, *, of_rows: bool) -> Any:
        return copied(self._schedule, self._block, self._contraction, of_rows=of_rows)

    def _padded(self, scalars: Any, vectors: Any) -> tuple[Any, Any]:
        """Whole register tiles; a copy that pads takes the place of one that does not."""
        schedule = self._schedule
        schedule.pad_einsum(self._block, [*(1 for _ in self._contraction.batches), *self._multiples, 1])
        found = []
        for copy, operand in ((scalars, self._contraction.scalars), (vectors, self._contraction.vectors)):
            buffer = schedule.get(self._block).reads[operand.read].source
            writer = next(
                producer
                for producer in schedule.get_producers(self._block)
                if schedule.get(producer).writes[0].source.same_as(buffer)
            )
            if not schedule.get(copy).writes[0].source.same_as(buffer):
                schedule.compute_inline(copy)
            found.append(writer)
        schedule.compute_inline(schedule.get_consumers(self._block)[0])
        return found[0], found[1]

    def _tail(self, crop: Any, epilogue: Epilogue | None) -> Any:
        """One block that reads the contraction's output tile by tile, its axes (batch, rows, columns)."""
        if epilogue is not None:
            if crop is not None:
                self._schedule.compute_inline(crop)
            fuse_sides_of_epilogue(self._schedule, epilogue, self._contraction)
            return epilogue.block
        return crop

    def _stage(self, copy: Any, *, of_rows: bool, staging: Staging) -> Stage | None:
        if copy is None:
            return None
        if staging is Staging.NONE:
            self._schedule.compute_inline(copy)
            return None
        contraction = self._contraction
        operand = contraction.scalars if of_rows else contraction.vectors
        side = contraction.rows if of_rows else contraction.columns
        along_depth = side[-1].place not in operand.contiguous and bool(
            {axis.place for axis in contraction.depth} & set(operand.contiguous)
        )
        self._inline_producers(copy)
        lanes = self._plan.tile.rows if of_rows else self._plan.tile.columns
        in_panels = not (of_rows and along_depth)
        if in_panels:
            panels(self._schedule, self._block, operand.read, size=lanes)
        return Stage(
            block=copy,
            lanes=lanes,
            along_depth=along_depth,
            in_panels=in_panels,
            depth=self._plan.depth_grain,
        )

    def _inline_producers(self, copy: Any) -> None:
        """What only moves or pads the operand becomes part of its copy, where TVM can."""
        for producer in self._schedule.get_producers(copy):
            try:
                self._schedule.compute_inline(producer)
            except TVM_ERRORS:
                continue
