"""Lakes small enough to work out, and the occupancy of a policy by following every path."""

import gymnasium as gym
import numpy as np
import pytest

import constrained_maxent  # noqa: F401  (registers the ids)
from constrained_maxent.functionals import LinearCost
from constrained_maxent.penalties import Quadratic
from constrained_maxent.problem import Constraint
from constrained_maxent.wrappers import constrain


@pytest.fixture
def constrained():
    """Wraps an environment: a budget of 2 for its cost, 8 episodes a batch."""

    def wrap(env, *, cost="cost", limit=2.0, **stack):
        budget = Constraint(LinearCost(cost, limit=limit), Quadratic(1.0))
        stack = {"constraints": {"cost": budget}, "episodes_per_batch": 8, "scale": "truncated"} | stack
        return constrain(env, **stack)

    return wrap


@pytest.fixture
def lake(constrained):
    """A wrapped SafeFrozenLake: scalar, one of several in a SyncVectorEnv, or a copy of the vector environment."""

    def make(kind="scalar", *, cost="cost", limit=2.0, stack=None, **arguments):
        if kind == "scalar":
            env = gym.make("SafeFrozenLake-v0", **arguments)
        else:
            mode = "sync" if kind == "sync" else "vector_entry_point"
            env = gym.make_vec("SafeFrozenLake-v0", num_envs=4, vectorization_mode=mode, **arguments)
        return constrained(env, cost=cost, limit=limit, **(stack or {}))

    return make


@pytest.fixture
def follow_paths():
    """Occupancy (truncated) and expected discounted cost of a policy, path by path through ``P``."""

    def follow(bare, policy, *, discount, horizon, cost):
        occupancy, total = np.zeros(policy.shape), 0.0

        def visit(state, time, probability):
            nonlocal total
            for action, pi in enumerate(policy[state]):
                weight = probability * pi * discount**time
                occupancy[state, action] += weight
                for p, successor, _, ended in bare.P[state][action]:
                    total += weight * p * cost(state, action, successor)
                    if not ended and time + 1 < horizon:
                        visit(successor, time + 1, probability * pi * p)

        for state, p in enumerate(bare.initial_state_distrib):
            if p:
                visit(state, 0, p)
        return occupancy, total

    return follow


@pytest.fixture
def random_policy():
    return np.random.default_rng(3).dirichlet(np.ones(4), size=16)
