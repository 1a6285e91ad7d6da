"""Discounted counts: by hand, against NumPy's histograms, dense against sparse, and their memory of old batches."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete, Tuple
from hypothesis import given, settings
from hypothesis import strategies as st

from constrained_maxent.errors import InvalidData, InvalidSetting, NotFitted, UnsupportedSpace
from constrained_maxent.functionals import Entropy
from constrained_maxent.occupancy import Counts, Weighting, estimator_config, estimator_from_config
from constrained_maxent.occupancy.counts import DENSE_CELLS
from constrained_maxent.testing import check_estimator
from constrained_maxent.types import Batch

TWO = Discrete(2)
# (0,1) (0,0) then the end; (0,1) (1,1) (1,0). At γ = 0.5 the weights are 1, ½ and 1, ½, ¼.
BATCH = Batch(
    observations=np.array([0, 0, 0, 1, 1]),
    actions=np.array([1, 0, 1, 1, 0]),
    lengths=np.array([2, 3]),
    weights=np.array([1.0, 0.5, 1.0, 0.5, 0.25]),
    costs={"cost": np.array([4.0, 0.0, 0.0, 8.0, -16.0])},
)
TABLE = np.array([[0.25, 1.0], [0.125, 0.25]])
LARGE = Discrete(10**9)


def counts(**options: Any) -> Counts:
    return Counts(**options).bind(TWO, TWO)


def visits(cells: list[int], weights: list[float] | None = None) -> Batch:
    """One trajectory through cells s·2 + a of two states and two actions."""
    states, actions = np.divmod(np.array(cells), 2)
    return Batch(observations=states, actions=actions, lengths=np.array([len(cells)]), weights=weights)


class TestByHand:
    def test_two_discounted_trajectories(self) -> None:
        fitted = counts().fit(BATCH)
        np.testing.assert_allclose(fitted.occupancy_, TABLE, rtol=1e-15)
        assert fitted.mass_ == 1.625

    def test_expected_cost_is_not_discounted_twice(self) -> None:
        # (4·1 + 8·½ - 16·¼) / 2
        assert counts().fit(BATCH).expected_costs_ == {"cost": 2.0}
        assert counts().fit(BATCH).measure().expected_costs == {"cost": 2.0}

    def test_log_prob_is_the_logarithm_of_the_share(self) -> None:
        fitted = counts().fit(visits([1, 1, 1, 2]))
        log_prob = fitted.log_prob(np.array([0, 1, 1]), np.array([1, 0, 1]))
        np.testing.assert_allclose(log_prob, [np.log(0.75), np.log(0.25), -np.inf])

    def test_points_know_the_state_marginal(self) -> None:
        points = counts().fit(BATCH).points(np.array([1, 0, 1]), np.array([1, 0, 0]), {"cost": np.ones(3)})
        assert points.cells.tolist() == [3, 0, 2]
        np.testing.assert_allclose(points.density, [0.25, 0.25, 0.125])
        np.testing.assert_allclose(points.state_density, [0.375, 1.25, 0.375])
        assert points.costs["cost"].tolist() == [1.0, 1.0, 1.0]

    def test_fragments_count_as_the_share_of_an_episode_that_they_are(self) -> None:
        quarter = Batch(observations=[0], actions=[1], lengths=[1], weights=[0.5], episodes=0.25)
        assert counts().fit(quarter).mass_ == 2.0

    def test_cells_are_numbered_with_actions_fastest(self) -> None:
        bound = Counts().bind(MultiDiscrete([2, 3]), Tuple((TWO, MultiBinary(2))))
        assert bound.table_shape() == (6, 8)
        assert bound.encode(np.array([[1, 2]]), np.array([[1, 0, 1]])).tolist() == [5 * 8 + 5]
        assert bound.cell(np.array([1, 2]), (1, np.array([0, 1]))) == 5 * 8 + 5

    @given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 4))
    @settings(deadline=None)
    def test_is_numpys_weighted_histogram(self, seed: int, n_states: int, n_actions: int) -> None:
        rng = np.random.default_rng(seed)
        lengths = rng.integers(1, 9, size=3)
        n = lengths.sum()
        states, actions, weights = rng.integers(n_states, size=n), rng.integers(n_actions, size=n), rng.random(n)
        batch = Batch(observations=states, actions=actions, lengths=lengths, weights=weights)
        fitted = Counts().bind(Discrete(n_states), Discrete(n_actions)).fit(batch)
        edges = (np.arange(n_states + 1) - 0.5, np.arange(n_actions + 1) - 0.5)
        histogram = np.histogram2d(states, actions, bins=edges, weights=weights)[0] / 3
        np.testing.assert_allclose(fitted.occupancy_, histogram, rtol=1e-12, atol=1e-15)

    def test_no_mass_at_all_has_no_density_anywhere(self) -> None:
        # Half a million steps into an episode, γᵗ is 0 in float64.
        late = visits([0, 1], Weighting(0.5, scale="truncated").weights([500_000, 500_001]))
        for space in (TWO, LARGE):
            fitted = Counts().bind(space, TWO).fit(late)
            assert fitted.mass_ == 0.0
            assert fitted.log_prob(np.array([0]), np.array([0])).tolist() == [-np.inf]
            assert Entropy().value(fitted.measure()) == 0.0


class TestMemory:
    @given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=5), min_size=1, max_size=6), st.floats(0.0, 0.95))
    @settings(deadline=None)
    def test_is_the_explicit_exponential_average(self, batches: list[list[int]], memory: float) -> None:
        average = np.zeros(4)
        for k, cells in enumerate(batches):
            histogram = np.bincount(cells, minlength=4)
            average = histogram if k == 0 else memory * average + (1 - memory) * histogram
        for states in (TWO, LARGE):
            fitted = Counts(memory=memory).bind(states, TWO)
            for cells in batches:
                fitted.fit(visits(cells))
            everywhere = fitted.points(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]))
            np.testing.assert_allclose(everywhere.density, average, rtol=1e-9, atol=1e-9)
            assert fitted.mass_ == pytest.approx(average.sum(), rel=1e-9)

    def test_costs_are_remembered_alike(self) -> None:
        fitted = counts(memory=0.75)
        for cost in (4.0, 8.0):
            fitted.fit(Batch(observations=[0], actions=[0], lengths=[1], costs={"cost": [cost]}))
        assert fitted.expected_costs_ == {"cost": 5.0}

    def test_without_memory_the_last_batch_is_all(self) -> None:
        assert counts().fit(visits([0, 0])).fit(visits([3])).occupancy_.tolist() == [[0.0, 0.0], [0.0, 1.0]]

    def test_an_earlier_measure_stays_what_it_was(self) -> None:
        fitted = counts(memory=0.5).fit(visits([0]))
        earlier = fitted.measure()
        fitted.fit(visits([3]))
        assert earlier.weights.tolist() == [[1.0, 0.0], [0.0, 0.0]]

    def test_binding_forgets(self) -> None:
        assert not counts(memory=0.5).fit(BATCH).bind(TWO, TWO).is_fitted


class TestSmoothing:
    def test_spreads_a_share_of_the_mass_evenly(self) -> None:
        fitted = counts(smoothing=0.25).fit(visits([1, 1, 1, 2]))
        # 3/4 of the count plus 1/4 · 4 over four cells.
        assert fitted.occupancy_.tolist() == [[0.25, 2.5], [1.0, 0.25]]
        assert fitted.mass_ == fitted.measure().weights.sum() == 4.0
        assert np.isfinite(fitted.log_prob(np.array([0]), np.array([0]))).all()

    def test_memory_remembers_what_was_counted_and_smooths_once(self) -> None:
        fitted = counts(memory=0.5, smoothing=0.5).fit(visits([0])).fit(visits([0]))
        np.testing.assert_allclose(fitted.occupancy_, [[0.625, 0.125], [0.125, 0.125]])

    def test_is_refused_where_all_cells_are_too_many(self) -> None:
        with pytest.raises(InvalidSetting, match="smoothing="):
            Counts(smoothing=0.1).bind(LARGE, TWO)


class TestSparse:
    def test_begins_above_the_stated_number_of_cells(self) -> None:
        assert Counts().bind(Discrete(DENSE_CELLS // 2), TWO).is_dense
        assert not Counts().bind(Discrete(DENSE_CELLS // 2 + 1), TWO).is_dense

    def test_allocates_for_what_was_visited_only(self) -> None:
        rng = np.random.default_rng(0)
        n = 10_000
        batch = Batch(observations=rng.integers(10**9, size=n), actions=rng.integers(2, size=n), lengths=[n])
        tracemalloc.start()
        try:
            fitted = Counts(memory=0.5).bind(LARGE, TWO).fit(batch).fit(batch)
            entropy = Entropy().value(fitted.measure())
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 4e6
        # 10,000 visits of mass 1, hardly one of them twice.
        assert fitted.mass_ == n
        assert abs(entropy) < 100

    @given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.6]))
    @settings(deadline=None)
    def test_equals_dense_on_the_same_data(self, seed: int, memory: float) -> None:
        rng = np.random.default_rng(seed)
        dense, sparse = (Counts(memory=memory).bind(space, Discrete(3)) for space in (Discrete(20), LARGE))
        for _ in range(3):
            n = int(rng.integers(1, 30))
            batch = Batch(
                observations=rng.integers(20, size=n),
                actions=rng.integers(3, size=n),
                lengths=[n],
                weights=rng.random(n),
                costs={"cost": rng.normal(size=n)},
            )
            dense.fit(batch)
            sparse.fit(batch)
        states, actions = np.divmod(np.arange(60), 3)
        one, other = dense.points(states, actions), sparse.points(states, actions)
        np.testing.assert_allclose(one.density, other.density, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(one.state_density, other.state_density, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(
            dense.log_prob(states, actions), sparse.log_prob(states, actions), rtol=1e-9, atol=1e-12
        )
        assert dense.mass_ == pytest.approx(sparse.mass_, rel=1e-12)
        assert dense.expected_costs_ == sparse.expected_costs_
        for over in ("state-action", "state"):
            entropy = Entropy(over=over)
            assert entropy.value(sparse.measure()) == pytest.approx(entropy.value(dense.measure()), rel=1e-9, abs=1e-12)

    def test_cells_that_have_faded_are_dropped(self) -> None:
        fitted = Counts(memory=0.2).bind(LARGE, TWO).fit(visits([7]))
        for k in range(1, 20):
            fitted.fit(visits([4]))
            cells = fitted.measure().points.cells.tolist()
            # 0.2ᵏ of the visit is left: 1.3e-12 at k = 17, 2.6e-13 at 18; 1e-12 is the least that is kept.
            assert cells == ([4, 7] if k <= 17 else [4])
        assert fitted.log_prob(np.array([3]), np.array([1])).tolist() == [-np.inf]
        assert fitted.mass_ == fitted.measure().weights.sum()

    def test_has_no_table(self) -> None:
        with pytest.raises(UnsupportedSpace, match="sparse"):
            _ = Counts().bind(LARGE, TWO).fit(visits([0])).occupancy_


class TestContract:
    @pytest.mark.parametrize("options", [{}, {"memory": 0.9}, {"smoothing": 0.1}, {"memory": 0.5, "smoothing": 0.5}])
    def test_dense(self, options: dict[str, float]) -> None:
        check_estimator(Counts(**options), BATCH, TWO, TWO)

    @pytest.mark.parametrize("options", [{}, {"memory": 0.9}])
    def test_sparse(self, options: dict[str, float]) -> None:
        check_estimator(Counts(**options), BATCH, LARGE, TWO)

    def test_several_components(self) -> None:
        states, actions = MultiDiscrete([3, 4]), Tuple((TWO, MultiBinary(2)))
        rng = np.random.default_rng(0)
        rows = rng.integers(2, size=(12, 5))
        batch = Batch(observations=rows[:, :2], actions=rows[:, 2:], lengths=[5, 7])
        check_estimator(Counts(), batch, states, actions)


class TestConfig:
    def test_round_trip(self) -> None:
        config = estimator_config(Counts(memory=0.5))
        assert config == {"kind": "Counts", "memory": 0.5, "smoothing": 0.0}
        assert estimator_from_config(config).get_params() == {"memory": 0.5, "smoothing": 0.0}
        assert estimator_config(config) == config
        assert repr(estimator_from_config(config)) == "Counts(memory=0.5, smoothing=0.0)"

    def test_an_estimator_of_ones_own_is_described_by_its_class(self) -> None:
        class Own(Counts):
            pass

        config = estimator_config(Own(memory=0.5))
        assert config["kind"] is Own
        assert type(estimator_from_config(config)) is Own

    @pytest.mark.parametrize(
        ("config", "message"),
        [
            ({"kind": "Kernel"}, "kind='Kernel'"),
            ({}, "kind=None"),
            ({"kind": "Counts", "bins": 3}, "Counts does not take these arguments.*bins"),
            ({"kind": "Counts", "memory": 1.0}, "memory=1.0"),
        ],
    )
    def test_says_what_is_wrong(self, config: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidSetting, match=message):
            estimator_from_config(config)


class TestRefuses:
    @pytest.mark.parametrize("name", ["memory", "smoothing"])
    @pytest.mark.parametrize("value", [-0.1, 1.0, np.nan])
    def test_shares_outside_the_unit_interval(self, name: str, value: float) -> None:
        with pytest.raises(InvalidSetting, match=f"{name}={value}"):
            Counts(**{name: value})

    def test_states_without_cells(self) -> None:
        with pytest.raises(UnsupportedSpace, match="estimator="):
            Counts().bind(Box(0, 1), TWO)

    def test_more_pairs_than_can_be_numbered(self) -> None:
        with pytest.raises(UnsupportedSpace, match=r"1.84e\+19"):
            Counts().bind(MultiBinary(60), MultiBinary(4))

    def test_use_before_the_spaces_are_known(self) -> None:
        for use in (lambda c: c.fit(BATCH), lambda c: c.state_dict(), lambda c: c.table_shape()):
            with pytest.raises(NotFitted, match="bind"):
                use(Counts())

    def test_use_before_the_first_fit(self) -> None:
        for use in (lambda c: c.measure(), lambda c: c.occupancy_, lambda c: c.log_prob(np.array([0]), np.array([0]))):
            with pytest.raises(NotFitted, match="fit"):
                use(counts())

    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            ({"observations": [0, 2]}, "outside"),
            ({"actions": [0, -1]}, "outside"),
            ({"observations": [0.0, 1.0]}, "whole numbers"),
            ({"observations": [[0, 0], [0, 1]]}, r"must have shape \(n, 1\)"),
        ],
    )
    def test_data_of_another_space_and_keeps_the_old_estimate(self, columns: dict[str, Any], message: str) -> None:
        fitted = counts(memory=0.5).fit(BATCH)
        with pytest.raises(InvalidData, match=message):
            fitted.fit(Batch(**{"observations": [0, 1], "actions": [0, 1], "lengths": [2], **columns}))
        np.testing.assert_array_equal(fitted.occupancy_, TABLE)
        assert fitted.expected_costs_ == {"cost": 2.0}


class TestState:
    def test_an_unfitted_state_takes_the_fit_away(self) -> None:
        fitted = counts().fit(BATCH)
        fitted.load_state_dict(counts().state_dict())
        assert not fitted.is_fitted

    @pytest.mark.parametrize("space", [TWO, LARGE], ids=["dense", "sparse"])
    @pytest.mark.parametrize(
        ("damage", "message"),
        [
            (lambda state: state.update(kind="Mixture"), "holds Mixture"),
            (lambda state: state.update(n_cells=9), "of 9 cells"),
            (lambda state: state.update(values=np.ones(3)), r"values of shape \(3,\)"),
            (lambda state: state.update(values=np.full_like(state["values"], np.nan)), "values must be finite"),
            (lambda state: state.pop("mass"), "lacks mass"),
            (lambda state: state.pop("expected_costs"), "lacks expected_costs"),
        ],
    )
    def test_a_state_that_does_not_fit_changes_nothing(self, space: Any, damage: Any, message: str) -> None:
        fitted = Counts().bind(space, TWO).fit(BATCH)
        state = fitted.state_dict()
        damage(state)
        fitted.fit(visits([3, 3]))
        with pytest.raises(InvalidData, match=message):
            fitted.load_state_dict(state)
        assert fitted.mass_ == 2.0
        assert fitted.points(np.array([1]), np.array([1])).density.tolist() == [2.0]
