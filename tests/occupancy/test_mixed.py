"""States with coordinates of few values: what is found, entropies that are known, categories that are rare or new."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box
from scipy.stats import norm

from constrained_maxent.errors import InvalidData, InvalidSetting, MixedState
from constrained_maxent.evaluation import state_entropy
from constrained_maxent.functionals import Entropy, KLDivergence
from constrained_maxent.occupancy import AdamGaussianMixture, GaussianMixture, NearestNeighbors
from constrained_maxent.occupancy.mixed import few_valued
from constrained_maxent.occupancy.samples import Frame
from constrained_maxent.testing import check_estimator
from constrained_maxent.types import Batch
from constrained_maxent.wrappers import constrain

KINDS: dict[str, Any] = {
    "mixture": lambda **options: GaussianMixture(n_components=2, **options),
    "adam": lambda **options: AdamGaussianMixture(**{"n_components": 2, "n_steps": 20} | options),
    "neighbors": NearestNeighbors,
}
every_kind = pytest.mark.parametrize("kind", KINDS)
N = 3000


def batch_of(states: Any, **columns: Any) -> Batch:
    n = len(states)
    actions = np.linspace(-1.0, 1.0, n)[:, None]
    return Batch(
        observations=states, actions=actions, weights=np.full(n, 2.0 / n), lengths=[n // 2, n - n // 2], **columns
    )


def fitted(estimator: Any, states: Any, **columns: Any) -> Any:
    space = Box(-np.inf, np.inf, (states.shape[1],))
    return estimator.bind(space, Box(-1.0, 1.0, (1,))).fit(batch_of(states, **columns))


def legged(n: int = N, seed: int = 0) -> Any:
    """Coordinate 0 is a contact, of probability 0.3; 1 does not change; 2 is N(0, 1), or N(10, 25) in contact."""
    rng = np.random.default_rng(seed)
    contact = rng.random(n) < 0.3
    x = np.where(contact, 10.0 + 5.0 * rng.normal(size=n), rng.normal(size=n))
    return np.stack((contact, np.full(n, 7.0), x), axis=1).astype(np.float64)


NORMAL = 0.5 * np.log(2.0 * np.pi * np.e)
EXACT = -0.3 * np.log(0.3) - 0.7 * np.log(0.7) + NORMAL + 0.3 * np.log(5.0)


@pytest.mark.parametrize(
    ("values", "is_found"),
    [
        (np.tile([0.0, 1.0, 1.0], 100), True),
        (np.full(300, 0.1), True),
        (0.1 + 1e-17 * np.arange(300), True),
        (np.arange(300) % 16, True),
        (np.arange(300) % 17, False),
        (np.repeat([0.3, -1.2, 0.8, 2.4], 75), False),  # a goal, in each of the four episodes another
        (np.repeat([1.0, 0.0, 0.0, 1.0], 75), True),  # one of two tasks
        (np.random.default_rng(0).normal(size=300), False),
        (np.where(np.arange(300) % 2, 0.0, np.arange(300)), False),  # warned of: values that recur, beside others
    ],
)
def test_few_values_are_found(values: Any, is_found: bool) -> None:
    rows = np.stack((np.linspace(0.0, 1.0, 300), values), axis=1)
    assert few_valued(rows, [75] * 4) == ([1] if is_found else [])


def test_a_handful_of_samples_tells_nothing() -> None:
    assert few_valued(np.zeros((20, 1)), [20]) == []


@pytest.mark.parametrize("kind", ["mixture", "neighbors"])
def test_entropy_is_that_of_the_counts_and_of_the_densities_within(kind: str) -> None:
    estimator = fitted(KINDS[kind](), legged())
    assert estimator.counts_few == (0, 1)
    assert Entropy(over="state").value(estimator.measure()) == pytest.approx(EXACT, abs=0.06)


@every_kind
def test_batches_too_small_to_tell_are_looked_at_together(kind: str) -> None:
    small = [legged(40, seed) for seed in (1, 2)]
    estimator = fitted(KINDS[kind](), small[0])
    assert estimator.counts_few == ()
    resumed = KINDS[kind]().bind(Box(-np.inf, np.inf, (3,)), Box(-1.0, 1.0, (1,)))
    resumed.load_state_dict(estimator.state_dict())
    for one in (estimator, resumed):
        assert one.fit(batch_of(small[1])).counts_few == (0, 1)
        assert one.notice.startswith("Coordinate 0 of the state takes few values")


@pytest.mark.parametrize("kind", ["mixture", "neighbors"])
def test_what_is_counted_after_a_small_first_batch_is_what_it_would_have_been(kind: str) -> None:
    late = fitted(KINDS[kind](), legged(40)).fit(batch_of(legged()))
    assert late.counts_few == (0, 1)
    assert Entropy(over="state").value(late.measure()) == pytest.approx(EXACT, abs=0.06)


def test_evaluation_measures_the_same_entropy() -> None:
    episodes = np.array_split(legged(4000), 8)
    assert state_entropy(episodes).mean == pytest.approx(EXACT, abs=0.1)
    assert state_entropy(episodes, counted=(0, 1)).mean == state_entropy(episodes).mean


@every_kind
def test_contract(kind: str) -> None:
    batch = batch_of(legged(400), costs={"cost": np.arange(400.0)})
    check_estimator(KINDS[kind](), batch, Box(-np.inf, np.inf, (3,)), Box(-1.0, 1.0, (1,)))
    check_estimator(
        KINDS[kind](over="state-action", buffer_size=300), batch, Box(-np.inf, np.inf, (3,)), Box(-1.0, 1.0, (1,))
    )


@every_kind
def test_live_state_tells_the_same(kind: str) -> None:
    states = legged(800)
    states[:3, 0] = [4.0, 5.0, 5.0]  # rare ones share a density
    one = fitted(KINDS[kind](), states)
    other = KINDS[kind]().bind(Box(-np.inf, np.inf, (3,)), Box(-1.0, 1.0, (1,)))
    other.load_state_dict(one.live_state())
    places = np.concatenate((states, [[9.0, 7.0, 0.0]]))
    actions = np.zeros((len(places), 1))
    np.testing.assert_array_equal(one.log_prob(places, actions), other.log_prob(places, actions))


def test_counts_alone() -> None:
    # Two coordinates of four values each: no density at all, but shares, as a table has them.
    states = np.random.default_rng(0).integers(0, 4, (500, 2)).astype(np.float64)
    estimator = fitted(NearestNeighbors(), states)
    _, inverse, counts = np.unique(states, axis=0, return_inverse=True, return_counts=True)
    np.testing.assert_allclose(
        estimator.log_prob(states, np.zeros((500, 1))), np.log(counts / 500)[inverse.reshape(-1)]
    )
    new = estimator.log_prob(np.array([[9.0, 0.0]]), np.zeros((1, 1)))
    assert new.item() == pytest.approx(-np.log(501.0))


def test_a_new_category_has_the_density_of_all() -> None:
    estimator = fitted(GaussianMixture(n_components=1), legged())
    at = estimator.log_prob(np.array([[2.0, 7.0, 3.0]]), np.zeros((1, 1))).item()
    of_all = 0.7 * norm.pdf(3.0) + 0.3 * norm.pdf(3.0, 10.0, 5.0)
    assert at == pytest.approx(np.log(of_all) - np.log(N + 1.0), abs=0.1)


def test_a_rare_category_has_the_density_of_all() -> None:
    states = legged()
    states[:5, 0] = 2.0
    estimator = fitted(GaussianMixture(n_components=1), states)
    at = estimator.log_prob(np.array([[2.0, 7.0, 3.0]]), np.zeros((1, 1))).item()
    of_all = norm.logpdf(3.0, states[:, 2].mean(), states[:, 2].std())
    assert at == pytest.approx(of_all + np.log(5 / N), abs=1e-3)


def test_angles_and_actions_keep_their_places() -> None:
    # Beside a flag at 0, coordinate 2 is a uniform angle and 1 normal; the action is uniform on [-1, 1].
    rng = np.random.default_rng(0)
    states = np.stack((rng.random(N) < 0.5, rng.normal(size=N), rng.uniform(-np.pi, np.pi, N)), axis=1)
    batch = Batch(observations=states, actions=rng.uniform(-1.0, 1.0, (N, 1)), lengths=[N], weights=np.full(N, 1.0 / N))
    estimator = NearestNeighbors(over="state-action", periodic=(2,))
    estimator.bind(Box(-np.inf, np.inf, (3,)), Box(-1.0, 1.0, (1,))).fit(batch)
    measure = estimator.measure()
    of_states = np.log(2.0) + NORMAL + np.log(2.0 * np.pi)
    assert Entropy(over="state").value(measure) == pytest.approx(of_states, abs=0.1)
    assert Entropy().value(measure) == pytest.approx(of_states + np.log(2.0), abs=0.15)


def test_rewards_of_neighbors_are_the_gradient_of_the_entropy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Frame, "of", lambda rows, *_: Frame(np.zeros(rows.shape[1]), np.ones(rows.shape[1])))
    states, entropy = legged(400), Entropy(over="state")
    states[:40, 0], states[40:80, 0] = 3.0, 4.0  # too rare for densities of their own, and not together

    def measured(weights: Any) -> Any:
        batch = replace(batch_of(states), weights=weights)
        return NearestNeighbors().bind(Box(-np.inf, np.inf, (3,)), Box(-1.0, 1.0, (1,))).fit(batch).measure()

    rewards = entropy.derivative(measured(np.ones(400)), measured(np.ones(400)).points)
    for j in (5, 50, 100, 399):
        up, down = (entropy.value(measured(np.ones(400) + step * np.eye(400)[j])) for step in (1e-4, -1e-4))
        assert rewards[j] == pytest.approx((up - down) / 1e-4, abs=1e-4)  # two episodes: a step weighs half


def test_cells_have_no_size_in_what_is_counted() -> None:
    entropy = Entropy(over="state", resolution=(123.0, 456.0, 0.1))
    measure = fitted(GaussianMixture(n_components=2), legged()).measure()
    assert entropy.value(measure) == pytest.approx(EXACT - np.log(0.1), abs=0.06)


def test_a_reference_is_a_density_of_all() -> None:
    measure = fitted(GaussianMixture(n_components=2), legged(300)).measure()
    with pytest.raises(InvalidData, match="Coordinates 0, 1 of the state take few values"):
        KLDivergence(lambda points: np.ones(len(points.density)), over="state").value(measure)


def test_what_takes_many_values_later_is_measured_from_then_on() -> None:
    estimator = fitted(GaussianMixture(n_components=2), legged(300))
    later = legged(300, seed=1)
    later[:, 1] = np.random.default_rng(0).normal(size=300)
    estimator.fit(batch_of(later))
    assert estimator.counts_few == (0,)
    assert "Coordinates 1 of the state take more than 16 values now" in str(estimator.notice)
    exact = EXACT + NORMAL
    assert Entropy(over="state").value(estimator.measure()) == pytest.approx(exact, abs=0.2)


def test_words_and_refusals() -> None:
    notice = str(fitted(GaussianMixture(), legged(300)).notice)
    assert "Coordinate 0 of the state takes few values" in notice
    assert "Coordinate 1 of the state does not change" in notice
    assert fitted(GaussianMixture(counted=(0, 1)), legged(300)).notice is None
    assert fitted(GaussianMixture(counted=()), legged(300)).counts_few == ()
    with pytest.raises(InvalidSetting, match="only 3 coordinates"):
        fitted(GaussianMixture(counted=(3,)), legged(300))


def test_it_is_said_once() -> None:
    env = constrain(
        gym.make("Pendulum-v1"),
        Entropy(over="state"),
        estimator=GaussianMixture(n_components=2),
        state=lambda o: (o[2], float(o[2] > 0.0)),
        steps_per_batch=200,
    )

    def run() -> Any:
        env.reset(seed=0)
        for t in range(600):
            info = env.step(np.array([2.0 * np.sin(0.1 * t)], dtype=np.float32))[4]
            if t % 200 == 199:
                env.reset()
        return info

    with pytest.warns(MixedState, match="Coordinate 1 of the state takes few values") as caught:
        info = run()
    assert sum(issubclass(warning.category, MixedState) for warning in caught) == 1
    assert np.isfinite(info["pseudo_reward"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fitted(NearestNeighbors(), np.random.default_rng(0).normal(size=(300, 2))).notice is None


def test_many_categories_share_a_density():
    """32 of equal share, and N(0, 1) in each: log 32 + 1.419 nats, though no more than 16 fits are made, and one."""
    rng = np.random.default_rng(3)
    flags = np.arange(4096)[:, None] >> np.arange(5) & 1
    states = np.concatenate((flags, rng.normal(size=(4096, 1))), axis=1).astype(np.float64)
    estimator = fitted(GaussianMixture(n_components=1), states)
    assert len(estimator._mixed.densities) == 17
    measure = estimator.measure()
    assert Entropy(over="state").value(measure) == pytest.approx(np.log(32.0) + NORMAL, abs=0.05)


def test_categories_share_the_components():
    """16 flags of equal share and six N(0, 1) within: 16 components in each would be 32 samples for 28 numbers."""
    rng = np.random.default_rng(0)
    states = np.concatenate((rng.integers(0, 16, (8192, 1)), rng.normal(size=(8192, 6))), axis=1).astype(np.float64)
    estimator = fitted(GaussianMixture(), states)
    value = Entropy(over="state").value(estimator.measure())
    assert value == pytest.approx(np.log(16.0) + 6.0 * NORMAL, abs=0.05)
    again = GaussianMixture().bind(Box(-np.inf, np.inf, (7,)), Box(-1.0, 1.0, (1,)))
    again.load_state_dict(estimator.state_dict())
    later = batch_of(states[::-1].copy())
    assert again.fit(later).log_prob(states[:5], np.zeros((5, 1))).tolist() == (
        estimator.fit(later).log_prob(states[:5], np.zeros((5, 1))).tolist()
    )


@every_kind
def test_all_coordinates_of_the_state_may_be_counted_beside_actions(kind):
    """λ̂(s, a) = P(s) d̂(a|s): three cells and uniform actions, log 3 + log 2 nats."""
    rng = np.random.default_rng(0)
    states, actions = rng.integers(0, 3, (900, 1)).astype(np.float64), rng.uniform(-1.0, 1.0, (900, 1))
    estimator = KINDS[kind](over="state-action").bind(Box(-np.inf, np.inf, (1,)), Box(-1.0, 1.0, (1,)))
    estimator.fit(Batch(observations=states, actions=actions, weights=np.full(900, 1 / 900), lengths=[900]))
    assert Entropy(over="state").value(estimator.measure()) == pytest.approx(np.log(3.0), abs=0.02)
    if kind != "adam":  # whose few steps are far from a fit; two Gaussians are none of a uniform distribution
        assert Entropy().value(estimator.measure()) == pytest.approx(np.log(6.0), abs=0.2)
