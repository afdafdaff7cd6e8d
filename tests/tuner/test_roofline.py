"""What is expected of a program before anything ran: packed, balanced and in registers beats what is not."""

import math

import numpy as np
import pytest
from scipy.stats import spearmanr

from tests.tuner.contractions import matmul
from tuner.cost_model.prior import Prior
from tuner.cost_model.protocol import Sample
from tuner.cost_model.roofline import _FORK_CYCLES, Cpu, RooflineModel
from tuner.cost_model.xgb import XGBoostModel
from tuner.features import N_FEATURES, N_STOCK, N_WITH_FOOTPRINTS, extract, widened
from tuner.module import canonical_module, save_module
from tuner.search.options import SearchOptions
from tuner.search.picks import measure_candidate
from tuner.search.setup import open_setup
from tuner.tvm_light import load_tvm

tvm = load_tvm()
te = tvm.te


@pytest.fixture(scope="module")
def rows_of(llvm):
    """Feature rows of a 256x256x256 product, scheduled by a function."""
    mod = matmul(256, 256, 256)
    setup = open_setup(module=save_module(mod), target=llvm, space=None, seed=0, options=SearchOptions())
    context = setup.context

    def rows(write):
        schedule = tvm.s_tir.Schedule(mod, debug_mask="none")
        write(schedule, *schedule.get_loops(schedule.get_sblock("C")))
        return extract(context, [measure_candidate(schedule)])[0]

    return rows


def tiled(*, pieces, tile=(4, 16), vectors=True):
    """(i, j) over the cores in so many pieces; a register tile, its rows unrolled, its columns a vector."""

    def write(schedule, i, j, k):
        outer, i, rows = schedule.split(i, [pieces, None, tile[0]])
        j, columns = schedule.split(j, [None, tile[1]])
        schedule.reorder(outer, i, j, k, rows, columns)
        schedule.parallel(outer)
        schedule.unroll(rows)
        if vectors:
            schedule.vectorize(columns)

    return write


def expected(rows, **cpu):
    (secs,) = RooflineModel(Cpu(**{"cores": 2, "lanes": 16, **cpu})).expected([rows])
    return secs


def test_features_see_what_fits_into_a_cache(rows_of):
    """The intensity at small shares of the work: a tile's own, and not only that of the outermost loops."""
    small, large = rows_of(tiled(pieces=2, tile=(1, 16))), rows_of(tiled(pieces=2, tile=(8, 32)))
    assert small.shape[1] == large.shape[1] == N_FEATURES
    inner = N_STOCK + 9  # 2^-10 of the work
    assert large[:, inner].max() > small[:, inner].max() + 0.4


def test_a_panel_that_crowds_a_few_sets_is_expected_to_lose(llvm):
    """Of a matrix 4 KiB wide, read where it lies; of one that is a line wider it stays in the cache."""

    def secs_per_column(width):
        mod = matmul(64, width, 64)
        setup = open_setup(module=save_module(mod), target=llvm, space=None, seed=0, options=SearchOptions())
        schedule = tvm.s_tir.Schedule(mod, debug_mask="none")
        i, j, k = schedule.get_loops(schedule.get_sblock("C"))
        (i, rows), (j, columns) = schedule.split(i, [None, 4]), schedule.split(j, [None, 16])
        schedule.reorder(j, i, k, rows, columns)
        schedule.unroll(rows)
        schedule.vectorize(columns)
        return expected(extract(setup.context, [measure_candidate(schedule)])[0]) / width

    assert secs_per_column(1024) > 1.1 * secs_per_column(1024 + 16)


def test_vectors_are_expected_to_win(rows_of):
    assert expected(rows_of(tiled(pieces=2))) < expected(rows_of(tiled(pieces=2, vectors=False))) / 4


def test_code_unrolled_by_hundreds_is_expected_to_lose(rows_of):
    def unrolled(steps):
        def write(schedule, i, j, k):
            tiled(pieces=2)(schedule, i, j, k)
            schedule.annotate(
                schedule.get_loops(schedule.get_sblock("C"))[0], "pragma_auto_unroll_max_step", steps
            )

        return expected(rows_of(write))

    assert unrolled(64) == pytest.approx(unrolled(16))
    assert 1.05 < unrolled(512) / unrolled(64) < 1.5


def test_a_padding_that_is_computed_where_it_is_read_costs_no_calls(llvm):
    """`if_then_else` counts as a call of a function, as exp does; it is none."""
    from tvm.s_tir.meta_schedule.testing import te_workload

    mod = canonical_module(te.create_prim_func(list(te_workload.conv2d_nhwc(1, 28, 28, 32, 32, 3, 1, 1))))
    setup = open_setup(module=save_module(mod), target=llvm, space=None, seed=0, options=SearchOptions())

    def secs(*, in_place):
        schedule = tvm.s_tir.Schedule(mod, debug_mask="none")
        if in_place:
            schedule.compute_inline(schedule.get_sblock("PadInput"))
        return expected(extract(setup.context, [measure_candidate(schedule)])[0])

    assert secs(in_place=True) < 2 * secs(in_place=False)


def test_a_copy_that_divides_for_each_element_is_expected_to_take_several_times_as_long(llvm):
    """Taps of windows, side by side, and as many elements that lie in rows already."""

    def secs(index):
        x = te.placeholder((3, 58, 58), name="x")
        out = te.compute((3136, 27), lambda i, j: x[index(i, j)], name="out")
        mod = canonical_module(te.create_prim_func([x, out]))
        setup = open_setup(module=save_module(mod), target=llvm, space=None, seed=0, options=SearchOptions())
        return expected(extract(setup.context, [measure_candidate(tvm.s_tir.Schedule(mod))])[0])

    taps = secs(lambda i, j: (j // 9, i // 56 + j % 9 // 3, i % 56 + j % 3))
    rows = secs(lambda i, j: (i % 3, i % 58, j))
    assert taps > 4 * rows


def test_an_odd_number_of_pieces_leaves_a_core_idle(rows_of):
    even, odd = (expected(rows_of(tiled(pieces=pieces, tile=(1, 16)))) for pieces in (2, 1))
    assert even < 0.7 * odd


@pytest.mark.parametrize(("cores", "pieces"), [(2, 16), (2, 64), (16, 16), (32, 32)])
def test_pieces_that_share_the_cores_evenly_leave_none_idle(rows_of, cores, pieces):
    """Of 16 came back 16.0000007, which 16 cores would take twice as long for."""
    rows = rows_of(tiled(pieces=pieces, tile=(1, 16)))
    alone = expected(rows, cores=1) - _FORK_CYCLES
    assert expected(rows, cores=cores) - _FORK_CYCLES == pytest.approx(alone / cores)


def test_accumulators_in_flight_are_expected_to_win(rows_of):
    assert (
        expected(rows_of(tiled(pieces=2, tile=(8, 16))))
        < expected(rows_of(tiled(pieces=2, tile=(1, 16)))) / 2
    )


def test_sums_that_do_not_fit_into_the_registers_are_expected_to_lose(rows_of):
    """32 accumulators of a vector each, beside their operands."""
    spilled = rows_of(tiled(pieces=2, tile=(32, 16)))
    assert expected(spilled) > 2 * expected(rows_of(tiled(pieces=2, tile=(16, 16))))
    assert expected(spilled, registers=64) < expected(spilled) / 2


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("rows", [8, 16, 32])
def test_sums_that_just_fill_their_registers_are_not_expected_to_spill(rows_of, rows, lanes):
    """Columns are float32 logarithms: of 28 registers came back 28.000002, and the best tiles as spilled.

    So they did where a vector of 8 came back as one of 7.9999998.
    """
    just = rows_of(tiled(pieces=2, tile=(rows, lanes)))
    enough = expected(just, registers=rows + 4, lanes=lanes)
    assert enough == pytest.approx(expected(just, registers=2 * rows, lanes=lanes))
    assert expected(just, registers=rows + 3, lanes=lanes) > 2 * enough


def test_of_rows_that_an_older_version_stored_as_much_is_expected_as_they_tell(rows_of):
    rows = rows_of(tiled(pieces=2))
    assert math.isnan(expected(rows[:, :N_STOCK]))
    assert widened(rows[:, :N_STOCK]).shape[1] == N_FEATURES
    # 256 columns of float32 lie 1 KiB apart; those that knew footprints alone are ranked without that.
    assert expected(rows[:, :N_WITH_FOOTPRINTS]) <= expected(rows)


class Ranked:
    """An Expectation: the time stands in a row's first column."""

    def expected(self, candidates):
        return np.array([rows[0, 0] for rows in candidates], dtype=float)


def candidate(time, *, noise=0.0):
    rows = np.zeros((2, N_FEATURES), dtype=np.float32)
    rows[0, :2] = time, noise
    return rows


def test_a_prior_alone_scores_from_the_first_batch():
    model = XGBoostModel(prior=Prior(Ranked()))
    model.fit([])
    assert model.predict([candidate(2.0), candidate(4.0)]).tolist() == [1.0, 0.5]
    assert model.predict([candidate(1.0)]).tolist() == [2.0]


def test_a_prior_that_holds_ranks_what_lies_between_the_samples():
    samples = [Sample(rows=candidate(time), score=1 / time) for time in (1.0, 1.5, 2.0, 4.0, 5.0, 6.0, 8.0)]
    model = XGBoostModel(prior=Prior(Ranked()))
    model.fit(samples)
    unseen = model.predict([candidate(time) for time in (2.4, 2.8, 3.2, 3.6)])
    assert (np.diff(unseen) < 0).all()


def test_a_prior_that_misleads_is_followed_less_by_every_sample():
    """Measured, the expected order is the wrong one: in the end only the level stays."""
    leads = []
    for times in ((1.0, 8.0), np.geomspace(1, 8, 24), np.geomspace(1, 8, 400)):
        prior = Prior(Ranked())
        prior.fit([Sample(rows=candidate(time), score=time / 8) for time in times])
        first, last = prior.scores([candidate(1.0), candidate(8.0)])
        leads.append(first / last)
    assert leads[0] > leads[1] > leads[2] == 1.0


def test_few_samples_do_not_overrule_a_prior():
    """Sixteen programs at random, timed with the noise of a shared machine, and a hundred others to rank."""
    random = np.random.default_rng(0)

    def drawn(n):
        return [candidate(time, noise=random.normal()) for time in np.exp(random.uniform(0, 4, size=n))]

    def truth(rows):
        return rows[0, 0] ** 0.5 * math.exp(random.normal(scale=0.5))

    measured, unseen = drawn(16), drawn(100)
    times = [truth(rows) for rows in measured]
    model = XGBoostModel(prior=Prior(Ranked()))
    model.fit([Sample(rows=r, score=min(times) / t) for r, t in zip(measured, times, strict=True)])
    expected_order = [-rows[0, 0] for rows in unseen]
    assert spearmanr(model.predict(unseen), expected_order).statistic > 0.95


def test_a_censored_time_is_no_part_of_the_trend():
    times = (1.0, 1.5, 2.0, 4.0, 5.0, 6.0, 8.0)
    honest = [Sample(rows=candidate(time), score=1 / time) for time in times]
    bounds = [Sample(rows=candidate(time), score=1.0, censored=True) for time in times]
    alone, beside = Prior(Ranked()), Prior(Ranked())
    alone.fit(honest)
    beside.fit([*honest, *bounds])
    asked = [candidate(3.0)]
    assert alone.scores(asked).tolist() == beside.scores(asked).tolist()
