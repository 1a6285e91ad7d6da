"""The engine as its users meet it: independence of runs, interruptions, records, degenerate and wrong input."""

from dataclasses import replace

import numpy as np
import pytest

from constrained_maxent.agents.tabular import EngineProgress, Geometric, RunSettings, TabularEngine
from constrained_maxent.errors import CheckpointMismatch, InvalidData, InvalidSetting
from constrained_maxent.functionals import Autograd, Entropy, LinearCost
from constrained_maxent.oracle import TabularMDP
from constrained_maxent.penalties import Lagrangian, Quadratic
from constrained_maxent.problem import Constraint


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


def test_more_runs_than_memory(ending_mdp):
    runs = [RunSettings(seed=seed) for seed in range(100)]
    with pytest.raises(InvalidSetting, match="memory_limit"):
        TabularEngine(ending_mdp, runs, memory_limit=1000)
    engine = TabularEngine(ending_mdp, runs, snapshot_every=1, memory_limit=100_000)
    with pytest.raises(InvalidSetting, match="snapshot_every"):
        engine.run(1000)
    assert engine.run(2).iterations.tolist() == [2] * 100


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
        {"momentum": Geometric(1.0, 2.0, 10)},
        {"momentum": 0.1, "memory": 0.5},
        {"importance_bound": 0.5},
        {"importance_bound": float("inf")},
        {"damping": 0.0},
        {"proximal_weight": -1.0},
        {"proximal_weight": float("nan")},
        {"inner_iterations": 0},
        {"memory": Geometric(0.5, 1.0, 10)},
        {"learning_rate": 0.0},
        {"learning_rate": float("nan")},
        {"beta": -1.0},
        {"projection_radius": 0.0},
        {"beta": 1.0, "constraints": {"cost": Constraint(LinearCost([[1.0]]), Lagrangian(0.1))}},
        {"constraints": {"no name": Constraint(LinearCost([[1.0]]), Quadratic(0.1))}},
    ],
    ids=str,
)
def test_settings_out_of_range(settings):
    with pytest.raises(InvalidSetting):
        RunSettings(**settings)


@pytest.mark.parametrize("arguments", [(0.0, 1.0, 5), (1.0, float("inf"), 5), (1.0, 2.0, 0), (1.0, 2.0, 1.5)])
def test_schedules_out_of_range(arguments):
    with pytest.raises(InvalidSetting):
        Geometric(*arguments)


@pytest.mark.parametrize(
    ("runs", "options", "error"),
    [
        ([], {}, InvalidSetting),
        ([RunSettings()], {"threads": 0}, InvalidSetting),
        ([RunSettings()], {"snapshot_every": 0}, InvalidSetting),
        ([RunSettings()], {"record_every": 1.5}, InvalidSetting),
        ([RunSettings(objective=Entropy(smoothing=0.0))], {}, InvalidSetting),
        ([RunSettings(objective=Autograd(lambda table: table.sum()))], {}, InvalidSetting),
        ([RunSettings(objective=LinearCost("cost"))], {}, InvalidSetting),
        ([RunSettings(objective=LinearCost([[1.0]]))], {}, InvalidData),
        ([RunSettings(), RunSettings(constraints={"a": Constraint(Entropy(), Quadratic(1.0))})], {}, InvalidSetting),
    ],
    ids=["no runs", "threads", "snapshots", "records", "smoothing", "autograd", "observed", "size", "names"],
)
def test_engines_that_cannot_be(ending_mdp, runs, options, error):
    with pytest.raises(error):
        TabularEngine(ending_mdp, runs, **options)


@pytest.mark.parametrize("iterations", [-1, 1.5, True, float("nan")])
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


def test_the_state_survives_a_file(ending_mdp, constraints, tmp_path):
    runs = assorted_runs(constraints)
    whole, first, second = (TabularEngine(ending_mdp, runs, snapshot_every=10, record_every=5) for _ in range(3))
    first.run(20)
    np.savez(tmp_path / "state.npz", **first.state_dict())
    with np.load(tmp_path / "state.npz") as state:
        second.load_state_dict(state)
    require_equal(second.run(40), whole.run(40))
