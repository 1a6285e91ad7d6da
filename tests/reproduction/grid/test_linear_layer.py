"""The linear layer, against PyTorch's own and against W and b that are carried one by one."""

import numpy as np
import pytest
import torch

from constrained_maxent.engine import RunSettings, TabularEngine
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.functionals import LinearCost
from constrained_maxent.oracle import TabularMDP
from constrained_maxent.penalties import Quadratic
from constrained_maxent.problem import Constraint
from constrained_maxent.reproduction.grid.linear_layer import LinearLayerEngine, complete_step, random_start

MDP = TabularMDP.random(5, 3, seed=1, discount=0.9, horizon=6)


@pytest.fixture
def settings():
    """A run whose constraint binds."""
    cost = LinearCost(np.random.default_rng(2).uniform(size=(5, 3)), limit=0.3)
    return RunSettings(seed=4, constraints={"cost": Constraint(cost, Quadratic(2.0))}, learning_rate=0.3)


def test_a_step_is_that_of_torch():
    """One step of SGD on weights and biases, up the policy gradient of given returns; autograd of nn.Linear."""
    torch.manual_seed(0)
    layer = torch.nn.Linear(5, 3, dtype=torch.float64)
    returns = torch.randn(5, 3, dtype=torch.float64)  # the sum of returns of all steps of a cell

    def table():
        with torch.no_grad():
            return layer(torch.eye(5, dtype=torch.float64)).numpy()

    before = table()
    # The table's gradient: F - π Σ F, of the engine's REINFORCE.
    policy = np.exp(before) / np.exp(before).sum(axis=1, keepdims=True)
    gradient = returns.numpy() - policy * returns.numpy().sum(axis=1, keepdims=True)
    theta = before + 0.1 * gradient
    complete_step(theta, before)

    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1, maximize=True)
    (returns * torch.log_softmax(layer(torch.eye(5, dtype=torch.float64)), dim=1)).sum().backward()
    optimizer.step()
    np.testing.assert_allclose(theta, table(), rtol=0.0, atol=1e-12)
    assert np.abs(theta - before - 0.1 * gradient).max() > 0.01, "the bias did not move"


def test_a_run_is_that_of_weights_and_biases(settings):
    """The engine of tables, batch by batch, with W and b beside it."""
    result = LinearLayerEngine(MDP, [settings], planned_iterations=30).run(30)
    bias = np.array([0.3, -0.1, 0.2])  # however the start is shared out
    weights = random_start(4, 5, 3) - bias
    engine = TabularEngine(MDP, [settings], planned_iterations=30)
    for k in range(30):
        engine.load_state_dict({**engine.state_dict(), "theta": (weights + bias)[None]})
        step = engine.run(k + 1).theta[0] - (weights + bias)
        weights, bias = weights + step, bias + step.sum(axis=0)
    np.testing.assert_allclose(result.theta[0], weights + bias, rtol=0.0, atol=1e-10)
    assert np.abs(bias - [0.3, -0.1, 0.2]).max() > 0.1


def test_interruptions_and_snapshots_change_nothing(settings):
    whole = LinearLayerEngine(MDP, [settings], planned_iterations=12, snapshot_every=4).run(12)
    engine = LinearLayerEngine(MDP, [settings], planned_iterations=12, snapshot_every=4)
    for target in (3, 4, 9):
        engine.run(target, chunk_iterations=2)
    state = engine.state_dict()
    resumed = LinearLayerEngine(MDP, [settings], planned_iterations=12, snapshot_every=4)
    resumed.load_state_dict(state)
    np.testing.assert_array_equal(resumed.run(12).snapshots, whole.snapshots)
    np.testing.assert_array_equal(whole.snapshots[0, 0], random_start(4, 5, 3))
    np.testing.assert_array_equal(whole.snapshots[0, 3], whole.theta[0])


def test_the_start_is_distributed_as_that_of_torch():
    """Mean and standard deviation of all numbers, and of the part of a column that the bias makes common to it."""
    torch.manual_seed(0)
    inputs = torch.eye(36)
    with torch.no_grad():
        theirs = np.array([torch.nn.Linear(36, 4)(inputs).numpy() for _ in range(2000)])
    ours = np.array([random_start(seed, 36, 4) for seed in range(2000)])
    assert np.abs(ours).max() <= 2.0 / 6.0  # ±1/√36 each
    assert ours.mean() == pytest.approx(theirs.mean(), abs=0.005)
    assert ours.std() == pytest.approx(theirs.std(), rel=0.01)
    assert ours.mean(axis=1).std() == pytest.approx(theirs.mean(axis=1).std(), rel=0.05)
    assert (random_start(1, 36, 4) != random_start(2, 36, 4)).all()


@pytest.mark.parametrize(
    "options", [{"optimizer": "adam"}, {"projection_radius": 3.0}, {"proximal_weight": 1.0}], ids=str
)
def test_other_steps_are_refused(options):
    with pytest.raises(InvalidSetting, match="plain steps"):
        LinearLayerEngine(MDP, [RunSettings(), RunSettings(**options)])
