"""The engine as its users meet it: independence of runs, interruptions, records, degenerate and wrong input."""

import time
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest

from constrained_maxent.engine import EngineProgress, RunSettings, TabularEngine
from constrained_maxent.engine.engine import CHUNK_SECONDS, next_chunk
from constrained_maxent.errors import (
    CheckpointMismatch,
    ConstrainedMaxentError,
    InvalidData,
    InvalidSetting,
    UnsupportedFunctional,
)
from constrained_maxent.functionals import Autograd, Entropy, LinearCost
from constrained_maxent.oracle import TabularMDP
from constrained_maxent.penalties import AdaptiveLagrangian, Lagrangian, Quadratic, QuadraticContinuation
from constrained_maxent.problem import Constraint
from constrained_maxent.schedules import Geometric

STEEP = LinearCost(100.0 * np.random.default_rng(0).normal(size=(5, 3)))


def assorted_runs(constraints):
    return [
        RunSettings(
            seed=seed,
            constraints=constraints,
            episodes_per_batch=4 + 4 * (seed % 3),
            pairing=("same", "split", "previous")[seed % 3],
            optimizer=("sgd", "adam")[seed % 2],
            memory=0.1 * seed,
            learning_rate=0.2,
        )
        for seed in range(6)
    ]


def require_equal(one, other):
    for name in ("iterations", "transitions", "theta", "snapshots", "objective"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    for name in one.constraints:
        np.testing.assert_array_equal(one.constraints[name], other.constraints[name])
        np.testing.assert_array_equal(one.multipliers[name], other.multipliers[name])


def test_a_run_depends_on_its_own_settings_alone(ending_mdp, constraints):
    runs = assorted_runs(constraints)
    together = TabularEngine(ending_mdp, runs, threads=2).run(60)
    reverse = TabularEngine(ending_mdp, runs[::-1], threads=1).run(60, chunk_iterations=7)
    np.testing.assert_array_equal(together.theta, reverse.theta[::-1])
    for i, settings in enumerate(runs):
        alone = TabularEngine(ending_mdp, [settings]).run(60)
        np.testing.assert_array_equal(alone.theta[0], together.theta[i])
    other_seed = TabularEngine(ending_mdp, [replace(runs[0], seed=99)]).run(60)
    assert (other_seed.theta[0] != together.theta[0]).any()


def test_going_on_equals_one_call(ending_mdp, constraints):
    def engine():
        return TabularEngine(ending_mdp, assorted_runs(constraints), snapshot_every=10, record_every=3)

    whole = engine().run(61)
    parts = engine()
    for target in (0, 10, 29, 29, 61):
        result = parts.run(target)
    require_equal(result, whole)
    assert parts.run(5).iterations.tolist() == [61] * 6  # nothing is undone

    first, second = engine(), engine()
    first.run(29)
    second.load_state_dict(first.state_dict())
    require_equal(second.run(61), whole)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_an_interruption_loses_nothing_that_was_done(ending_mdp, constraints, error):
    def interrupt(engine, progress):
        if progress.iterations >= 20:
            raise error

    whole = TabularEngine(ending_mdp, assorted_runs(constraints), snapshot_every=10).run(61)
    engine = TabularEngine(ending_mdp, assorted_runs(constraints), snapshot_every=10)
    with pytest.raises(error):
        engine.run(61, callback=interrupt, chunk_iterations=10)
    assert engine.result().iterations.tolist() == [20] * 6
    require_equal(engine.run(61), whole)


def test_the_callback_sees_progress_and_can_end_it(ending_mdp):
    seen = []

    def callback(engine, progress):
        seen.append(progress)
        return progress.iterations < 20

    engine = TabularEngine(ending_mdp, [RunSettings(seed=seed) for seed in range(3)])
    result = engine.run(50, callback=callback, chunk_iterations=10)
    assert [progress.iterations for progress in seen] == [10, 20]
    assert all(isinstance(progress, EngineProgress) and progress.target == 50 for progress in seen)
    assert seen[-1].transitions == result.transitions.sum()
    assert result.iterations.tolist() == [20] * 3


@pytest.mark.parametrize("optimizer", ["sgd", "normalized", "natural", "adam"])
@pytest.mark.parametrize("momentum", [1.0, 0.4])
def test_results_do_not_depend_on_the_length_of_chunks(ending_mdp, constraints, optimizer, momentum):
    settings = RunSettings(constraints=constraints, optimizer=optimizer, momentum=momentum, pairing="previous")

    def engine():
        return TabularEngine(ending_mdp, [settings, replace(settings, seed=1)], snapshot_every=7, record_every=2)

    whole = engine().run(40, chunk_iterations=40)
    require_equal(engine().run(40, chunk_iterations=1), whole)
    require_equal(engine().run(40), whole)


def test_on_a_large_state_space_progress_does_not_wait():
    """10,000 cells and 100 transitions a batch: what takes the time is the cells. 8 s of batches, seen in pieces."""
    mdp = TabularMDP.random(2500, 4, seed=0, discount=0.99, branching=2, horizon=100)
    engine = TabularEngine(mdp, [RunSettings(episodes_per_batch=1, optimizer="adam")])
    engine.run(1)
    seen, begun = [], time.perf_counter()

    def callback(engine, progress):
        seen.append(progress.iterations)
        return time.perf_counter() - begun < 1.0

    engine.run(10**7, callback=callback)
    assert len(seen) > 1
    assert time.perf_counter() - begun < 5.0


def test_records_and_snapshots_say_when(lake):
    constraints = {"cost": Constraint(lake.cost, Lagrangian(0.001))}
    settings = RunSettings(constraints=constraints)
    result = TabularEngine(lake.mdp, [settings], scale="truncated", snapshot_every=4, record_every=3).run(10)
    assert result.snapshot_iterations.tolist() == [0, 4, 8]
    assert result.record_iterations.tolist() == [0, 3, 6, 9]
    np.testing.assert_array_equal(result.snapshots[0, 0], np.zeros((36, 4)))
    np.testing.assert_allclose(result.snapshot_policies[0, 0], 0.25)
    for position, iterations in ((1, 4), (2, 8)):
        shorter = TabularEngine(lake.mdp, [settings], scale="truncated").run(iterations)
        np.testing.assert_array_equal(result.snapshots[0, position], shorter.theta[0])
    # Dual ascent: each slope is the multiplier before the batch, the last one has moved on by η R.
    assert result.slopes["cost"][0, 0] == 0.0
    assert result.multipliers["cost"][0] == pytest.approx(
        max(result.slopes["cost"][0, -1] + 0.001 * result.constraints["cost"][0, -1], 0.0)
    )


def test_wide_branching_is_sampled_with_the_right_frequencies():
    """One action, 40 successors: λ̂ of a large batch is the exact occupancy, within 5 standard errors."""
    rng = np.random.default_rng(0)
    transition = np.tile(rng.dirichlet(np.ones(40)), (40, 1))[:, None, :]
    mdp = TabularMDP.from_arrays(transition, rng.dirichlet(np.ones(40)), discount=1.0, horizon=2)
    engine = TabularEngine(mdp, [RunSettings(episodes_per_batch=200_000)])
    engine.run(1)
    counted, exact = engine.state_dict()["occupancy"][0], mdp.occupancy(np.ones((40, 1)))[:, 0]
    assert (np.abs(counted - exact) < 5.0 * np.sqrt(exact / 200_000) + 1e-12).all()


# Schedules run over the planned batches.


@pytest.fixture
def scheduled(constraints):
    """Runs that have every schedule there is between them."""
    functional = constraints["cost"].functional
    slow, fast = Geometric(0.3, 0.01), Geometric(0.5, 0.99)
    return [
        RunSettings(constraints={"cost": Constraint(functional, Quadratic(1.0))}, beta=Geometric(0.1, 20.0)),
        RunSettings(constraints={"cost": Constraint(functional, QuadraticContinuation(0.1, 20.0))}, memory=fast),
        RunSettings(constraints={"cost": Constraint(functional, AdaptiveLagrangian(0.1, 5.0))}, learning_rate=slow),
        RunSettings(constraints={"cost": constraints["cost"]}, momentum=Geometric(1.0, 0.1), pairing="previous"),
    ]


def test_calls_in_a_loop_are_one_run_where_the_plan_is_given(ending_mdp, scheduled):
    whole = TabularEngine(ending_mdp, scheduled, snapshot_every=5).run(40)
    engine = TabularEngine(ending_mdp, scheduled, planned_iterations=40, snapshot_every=5)
    for target in (0, 10, 20, 30, 40):
        result = engine.run(target)
    require_equal(result, whole)


def test_the_first_call_is_the_plan_if_none_is_given(ending_mdp, scheduled):
    """Later calls do not stretch it: schedules stay at their end."""
    engine = TabularEngine(ending_mdp, scheduled)
    engine.run(0)
    engine.run(10)
    assert engine.planned_iterations == 10
    theta = engine.run(40).theta
    np.testing.assert_array_equal(theta, TabularEngine(ending_mdp, scheduled, planned_iterations=10).run(40).theta)
    for stretched, kept in zip(TabularEngine(ending_mdp, scheduled).run(40).theta, theta, strict=True):
        assert (stretched != kept).any()


def test_the_plan_is_part_of_the_state(ending_mdp, scheduled, tmp_path):
    whole = TabularEngine(ending_mdp, scheduled).run(40)
    first = TabularEngine(ending_mdp, scheduled, planned_iterations=40)
    first.run(20)
    np.savez(tmp_path / "state.npz", **first.state_dict())
    for planned in (None, 40):
        second = TabularEngine(ending_mdp, scheduled, planned_iterations=planned)
        with np.load(tmp_path / "state.npz") as state:
            second.load_state_dict(state)
        require_equal(second.run(40), whole)
    other = TabularEngine(ending_mdp, scheduled, planned_iterations=30)
    with pytest.raises(CheckpointMismatch, match="planned_iterations"):
        other.load_state_dict(first.state_dict())
    with pytest.raises(CheckpointMismatch, match="planned_iterations"):
        first.load_state_dict({key: value for key, value in first.state_dict().items() if key != "planned_iterations"})
    other.load_state_dict(TabularEngine(ending_mdp, scheduled).state_dict())  # nothing was planned, nothing run
    assert other.planned_iterations == 30


# Chunks.


@pytest.mark.parametrize("seconds_per_batch", [1e-7, 1e-5, 1e-3, 0.05])
def test_chunks_come_to_take_the_time_that_they_are_to(seconds_per_batch):
    """From the third on none takes more than that; the shortest, of 20 batches, may be longer on a slow machine."""
    batches, taken = 20, []
    for _ in range(12):
        taken.append(batches * seconds_per_batch)
        batches = next_chunk(batches, taken[-1], 20)
    least = 20 * seconds_per_batch
    assert max(taken) <= max(CHUNK_SECONDS, least) * (1.0 + 1e-9)
    assert taken[-1] >= 0.9 * CHUNK_SECONDS


def test_a_slow_first_chunk_is_made_up_for():
    """The first call waits for the compiler."""
    batches = next_chunk(20, 20.0, 20)
    for _ in range(8):
        batches = next_chunk(batches, batches * 1e-5, 20)
    assert batches * 1e-5 == pytest.approx(CHUNK_SECONDS, rel=0.1)


def test_no_time_at_all_and_a_very_long_one():
    assert 1 < next_chunk(1, 0.0, 1) < 100
    assert next_chunk(8, 1e6, 1) == 1


# Degenerate input.


def test_no_iterations(ending_mdp):
    result = TabularEngine(ending_mdp, [RunSettings()], snapshot_every=5, record_every=5).run(0)
    assert result.theta.tolist() == np.zeros((1, 5, 3)).tolist()
    assert result.snapshots.shape == (1, 1, 5, 3)
    assert result.objective.shape == (1, 0)
    np.testing.assert_allclose(result.policies, 1.0 / 3.0)
    assert repr(result) == "TabularResult(1 runs of 0 batches, 0 transitions)"


def test_one_state_and_one_action():
    mdp = TabularMDP.from_arrays([[[1.0]]], [1.0], discount=1.0, horizon=3)
    result = TabularEngine(mdp, [RunSettings(episodes_per_batch=1)]).run(4)
    assert result.theta.tolist() == [[[0.0]]]
    assert result.transitions.tolist() == [12]


def test_a_policy_that_never_ends_an_episode_is_cut_at_the_horizon():
    # Action 0 stays for ever, action 1 ends the episode; with a cost on staying away from the end, and without.
    mdp = TabularMDP.from_arrays(
        [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]], [1.0, 0.0], discount=0.9, horizon=50, terminal=[1]
    )
    stay = RunSettings(objective=LinearCost([[1.0, -50.0], [0.0, 0.0]]), learning_rate=50.0)
    result = TabularEngine(mdp, [stay]).run(20)
    assert result.policies[0, 0, 0] > 0.999
    assert result.transitions[0] > 15 * 8 * 50 // 2
    with pytest.raises(InvalidSetting, match="horizon"):
        TabularEngine(replace(mdp, horizon=None), [stay])


def test_an_absorbing_start():
    """An episode that starts in a terminal state takes one action there, as the exact occupancy says."""
    mdp = TabularMDP.from_arrays(
        np.eye(2)[:, None, :].repeat(2, axis=1), [0.0, 1.0], discount=0.5, horizon=4, terminal=[1]
    )
    engine = TabularEngine(mdp, [RunSettings(episodes_per_batch=1000)], scale="truncated")
    assert engine.run(1).transitions.tolist() == [1000]
    occupancy = engine.state_dict()["occupancy"].reshape(2, 2)
    np.testing.assert_allclose(
        occupancy.sum(axis=1), mdp.occupancy(np.full((2, 2), 0.5), scale="truncated").sum(axis=1)
    )


def test_a_diverged_run_stops_and_leaves_the_others_alone(ending_mdp):
    cost = LinearCost(np.full((5, 3), 1.0))
    runs = [
        RunSettings(seed=seed, constraints={"cost": Constraint(cost, Quadratic(beta))})
        for seed, beta in ((0, 1.0), (1, 1e308))
    ]
    result = TabularEngine(ending_mdp, runs, snapshot_every=5).run(10)
    assert result.diverged.tolist() == [-1, 0]
    assert result.iterations.tolist() == [10, 0]
    assert np.isfinite(result.theta).all()
    assert np.isfinite(result.snapshots[0]).all()
    assert np.isnan(result.snapshots[1, 1:]).all()
    alone = TabularEngine(ending_mdp, runs[:1]).run(10)
    np.testing.assert_array_equal(alone.theta[0], result.theta[0])


@pytest.mark.parametrize("optimizer", ["sgd", "natural", "adam"])
def test_a_step_that_overflows_is_not_taken(ending_mdp, optimizer):
    """Steps of 1e308: sooner or later θ would be infinite. It stays where it was, as without the batches from there."""
    settings = RunSettings(objective=STEEP, learning_rate=1e308, optimizer=optimizer, seed=1)
    result = TabularEngine(ending_mdp, [settings]).run(60)
    (last,) = result.diverged
    assert 0 <= last < 60
    assert result.iterations.tolist() == [last]
    assert np.isfinite(result.theta).all()
    assert np.isfinite(result.policies).all()
    np.testing.assert_array_equal(TabularEngine(ending_mdp, [settings]).run(last).theta, result.theta)


@pytest.mark.parametrize("optimizer", ["sgd", "natural"])
def test_a_projection_brings_steps_that_overflow_back(ending_mdp, optimizer):
    settings = RunSettings(objective=STEEP, learning_rate=1e308, optimizer=optimizer, seed=1, projection_radius=5.0)
    result = TabularEngine(ending_mdp, [settings]).run(20)
    assert result.diverged.tolist() == [-1]
    assert np.abs(result.theta).max() == 5.0


def test_more_runs_than_memory(ending_mdp):
    runs = [RunSettings(seed=seed) for seed in range(100)]
    with pytest.raises(InvalidSetting, match="memory_limit"):
        TabularEngine(ending_mdp, runs, memory_limit=1000)
    engine = TabularEngine(ending_mdp, runs, snapshot_every=1, memory_limit=100_000)
    with pytest.raises(InvalidSetting, match="snapshot_every"):
        engine.run(1000)
    assert engine.run(2).iterations.tolist() == [2] * 100


def test_batches_larger_than_memory(ending_mdp):
    """A cell is 4 bytes, and there are 7 steps: 10**10 episodes take 260 GiB, as many as threads at a time."""
    with pytest.raises(InvalidSetting, match=r"episodes_per_batch"):
        TabularEngine(ending_mdp, [RunSettings(episodes_per_batch=10**10)])
    runs = [RunSettings(seed=seed, episodes_per_batch=1000) for seed in range(2)]
    assert TabularEngine(ending_mdp, runs, threads=1, memory_limit=60_000).run(1).iterations.tolist() == [1, 1]
    with pytest.raises(InvalidSetting, match="threads"):
        TabularEngine(ending_mdp, runs, threads=2, memory_limit=60_000)


# Wrong input.


@pytest.mark.parametrize(
    "settings",
    [
        {"seed": -1},
        {"seed": 0.5},
        {"episodes_per_batch": 0},
        {"episodes_per_batch": 1, "pairing": "split"},
        {"pairing": "other"},
        {"optimizer": "newton"},
        {"baseline": "critic"},
        {"memory": 1.0},
        {"momentum": 0.0},
        {"momentum": 1.5},
        {"momentum": Geometric(1.0, 2.0)},
        {"momentum": 0.1, "memory": 0.5},
        {"importance_bound": 0.5},
        {"importance_bound": float("inf")},
        {"damping": 0.0},
        {"proximal_weight": -1.0},
        {"proximal_weight": float("nan")},
        {"inner_iterations": 0},
        {"memory": Geometric(0.5, 1.0)},
        {"learning_rate": 0.0},
        {"learning_rate": float("nan")},
        {"beta": -1.0},
        {"projection_radius": 0.0},
        {"beta": 1.0, "constraints": {"cost": Constraint(LinearCost([[1.0]]), Lagrangian(0.1))}},
        {"beta": 1.0, "constraints": {"cost": Constraint(LinearCost([[1.0]]), QuadraticContinuation(0.1, 1.0))}},
        {"constraints": {"no name": Constraint(LinearCost([[1.0]]), Quadratic(0.1))}},
    ],
    ids=str,
)
def test_settings_out_of_range(settings):
    with pytest.raises(InvalidSetting):
        RunSettings(**settings)


@pytest.mark.parametrize(
    "settings",
    [
        *(
            {name: wrong}
            for name in ("seed", "episodes_per_batch", "inner_iterations")
            for wrong in (None, "8", True, 3.0)
        ),
        *(
            {name: wrong}
            for name in ("memory", "learning_rate", "damping", "momentum", "importance_bound")
            for wrong in (None, "1", True)
        ),
        *({name: wrong} for name in ("beta", "proximal_weight", "projection_radius") for wrong in ("1", True)),
        *({name: ["none"]} for name in ("pairing", "optimizer", "baseline")),
        {"objective": "entropy"},
        {"constraints": None},
        {"constraints": [1]},
        {"constraints": {"cost": LinearCost([[1.0]])}},
        {"constraints": {"cost": Constraint(LinearCost([[1.0]]), 0.1)}},
        {"constraints": {"cost": Constraint("cost", Quadratic(0.1))}, "beta": 1.0},
    ],
    ids=str,
)
def test_settings_of_another_kind(settings):
    with pytest.raises(InvalidSetting, match=next(iter(settings)).rstrip("s")):
        RunSettings(**settings)


@pytest.mark.parametrize(
    ("runs", "options", "error"),
    [
        ([], {}, InvalidSetting),
        (RunSettings(), {}, InvalidSetting),
        ([RunSettings(), 1], {}, InvalidSetting),
        ([RunSettings()], {"planned_iterations": 0}, InvalidSetting),
        ([RunSettings()], {"threads": "2"}, InvalidSetting),
        ([RunSettings()], {"snapshot_every": True}, InvalidSetting),
        ([RunSettings()], {"memory_limit": None}, InvalidSetting),
        ([RunSettings()], {"threads": 0}, InvalidSetting),
        ([RunSettings()], {"snapshot_every": 0}, InvalidSetting),
        ([RunSettings()], {"record_every": 1.5}, InvalidSetting),
        ([RunSettings(objective=Entropy(smoothing=0.0))], {}, InvalidSetting),
        ([RunSettings(objective=Autograd(lambda table: table.sum()))], {}, UnsupportedFunctional),
        ([RunSettings(objective=LinearCost("cost"))], {}, ConstrainedMaxentError),
        ([RunSettings(objective=LinearCost([[1.0]]))], {}, InvalidData),
        ([RunSettings(), RunSettings(constraints={"a": Constraint(Entropy(), Quadratic(1.0))})], {}, InvalidSetting),
    ],
    ids=[
        *("no runs", "one run", "no settings", "nothing planned", "threads of text", "true", "no limit"),
        *("threads", "snapshots", "records", "smoothing", "autograd", "observed", "size", "names"),
    ],
)
def test_engines_that_cannot_be(ending_mdp, runs, options, error):
    with pytest.raises(error):
        TabularEngine(ending_mdp, runs, **options)


def test_runs_from_a_generator(ending_mdp):
    assert len(TabularEngine(ending_mdp, (RunSettings(seed=seed) for seed in range(3))).run(2).theta) == 3


def test_an_environment_is_no_mdp():
    with pytest.raises(InvalidSetting, match=r"TabularMDP.from_env"):
        TabularEngine(gym.make("SafeFrozenLake-v0"), [RunSettings()])


@pytest.mark.parametrize("iterations", [-1, 1.5, True, float("nan"), "5", None])
def test_iterations_out_of_range(ending_mdp, iterations):
    engine = TabularEngine(ending_mdp, [RunSettings()])
    with pytest.raises(InvalidSetting):
        engine.run(iterations)
    with pytest.raises(InvalidSetting):
        engine.run(1, chunk_iterations=0)


def test_the_state_of_other_runs_is_refused(ending_mdp):
    def engine(mdp, *seeds, **settings):
        return TabularEngine(mdp, [RunSettings(seed=seed, **settings) for seed in seeds])

    mine = engine(ending_mdp, 0, 1)
    before = mine.run(3)
    others = [
        engine(ending_mdp, 0),
        engine(ending_mdp, 1, 0),
        engine(ending_mdp, 0, 1, learning_rate=0.1),
        engine(ending_mdp, 0, 1, objective=Entropy(smoothing=0.1)),
        engine(TabularMDP.random(4, 3, seed=0, discount=0.9, horizon=7), 0, 1),
    ]
    for other in others:
        with pytest.raises(CheckpointMismatch):
            mine.load_state_dict(other.state_dict())
    for name in ("counters", "theta"):
        with pytest.raises(CheckpointMismatch):
            mine.load_state_dict({key: value for key, value in mine.state_dict().items() if key != name})
    np.testing.assert_array_equal(mine.result().theta, before.theta)


def test_the_state_of_another_mdp_or_of_other_intervals_is_refused(ending_mdp):
    """All have as many states, actions, steps and runs."""

    def engine(mdp, scale="normalized", snapshot_every=1, record_every=1):
        return TabularEngine(
            mdp, [RunSettings()], scale=scale, snapshot_every=snapshot_every, record_every=record_every
        )

    mine = engine(ending_mdp)
    before = mine.run(3)
    moves = replace(ending_mdp, initial=ending_mdp.initial[::-1].copy())
    others = {
        "another MDP": engine(moves),
        "discount": engine(replace(ending_mdp, discount=0.5)),
        "scale": engine(ending_mdp, scale="truncated"),
        "snapshot_every": engine(ending_mdp, snapshot_every=2),
        "record_every": engine(ending_mdp, record_every=None),
    }
    for difference, other in others.items():
        for there, here in ((mine, other), (other, mine)):
            with pytest.raises(CheckpointMismatch, match=difference):
                here.load_state_dict(there.state_dict())
    require_equal(mine.result(), before)
    engine(ending_mdp).load_state_dict(mine.state_dict())


def test_the_state_survives_a_file(ending_mdp, constraints, tmp_path):
    runs = assorted_runs(constraints)
    whole, first, second = (TabularEngine(ending_mdp, runs, snapshot_every=10, record_every=5) for _ in range(3))
    first.run(20)
    np.savez(tmp_path / "state.npz", **first.state_dict())
    with np.load(tmp_path / "state.npz") as state:
        second.load_state_dict(state)
    require_equal(second.run(40), whole.run(40))
