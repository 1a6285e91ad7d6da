"""``check_constrained_env``: the contract of a stack, or what an environment of one's own does inside a usual one."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import gymnasium as gym

from constrained_maxent.errors import InvalidSetting, MissingTracker, UnsupportedSpace
from constrained_maxent.functionals import CostFunction, LinearCost
from constrained_maxent.occupancy import Counts, GaussianMixture
from constrained_maxent.occupancy.horizon import find_horizon
from constrained_maxent.penalties import AdaptiveLagrangian
from constrained_maxent.problem import Constraint
from constrained_maxent.spaces import Environment, FiniteSpace, single_spaces
from constrained_maxent.testing.contract import check_stack
from constrained_maxent.testing.examination import examine, reported_cost
from constrained_maxent.tracker import find_tracker
from constrained_maxent.wrappers import constrain

_STEPS = 300  # of a batch


def check_constrained_env(
    env: Environment,
    n_batches: int = 2,
    *,
    max_steps: int = 100_000,
    cost: str | CostFunction | None = None,
    limit: float = 0.0,
    **tracking: Any,
) -> None:
    """Step an environment by sampled actions, and check what a stack makes of it.

    With a ``TrackOccupancy`` in it, scalar or vector, what that adds to ``info``: it begins a new batch, and resets
    once in the middle of an episode, after the first batch. A bare environment is looked at alone and inside a usual
    stack, as ``cmaxent check`` does, which also says what is only worth knowing: spaces, costs, ends, seeds, pickling,
    autoreset.

    Args:
        env: scalar or vector; bare ones are scalar, and copies of them are stepped.
        n_batches: how many batches of a stack to watch.
        max_steps: how many calls of ``step`` of a stack may pass until they have ended.
        cost: of a bare environment, a key of ``info`` or a function of observation, action and next observation;
            ``"cost"`` where it is reported.
        limit: of that cost.
        tracking: for a bare environment, arguments of ``TrackOccupancy``, such as ``state`` and ``estimator``.

    Raises:
        AssertionError: what is wrong.
        InvalidSetting: a stack has its costs and its state, and none may be given.
        MissingTracker: a vector environment without a stack.

    >>> import constrained_maxent
    >>> check_constrained_env(gym.make("FrozenLake-PGP-v0", iterations=2))
    >>> check_constrained_env(gym.make("FrozenLake-v1"))
    """
    try:
        find_tracker(env)
    except MissingTracker:
        if isinstance(env, gym.vector.VectorEnv):
            raise
        _check_bare(env, cost, limit, tracking)
        return
    if tracking or cost is not None:
        raise InvalidSetting(f"The stack has its own: leave out {', '.join(['cost', *tracking][cost is None :])}.")
    check_stack(env, n_batches, max_steps=max_steps)


def _check_bare(
    env: gym.Env[Any, Any], cost: str | CostFunction | None, limit: float, tracking: dict[str, Any]
) -> None:
    def make() -> gym.Env[Any, Any]:
        return deepcopy(env) if env.spec is None else env.spec.make()

    cost = reported_cost(make) if cost is None else cost

    def wrap(copies: gym.vector.VectorEnv[Any, Any, Any]) -> Environment:
        settings: dict[str, Any] = {
            "steps_per_batch": _STEPS,
            "discount": 0.99 if find_horizon(copies) is None else 1.0,
        }
        if "episodes_per_batch" in tracking:
            del settings["steps_per_batch"]
        constraints = {} if cost is None else {"cost": Constraint(LinearCost(cost, limit=limit), AdaptiveLagrangian())}
        settings = {"estimator": _usual(copies)} | settings | tracking
        stack: Environment = constrain(copies, None, constraints, **settings)
        find_tracker(stack).announce(iterations=100)
        return stack

    wrong = [finding for finding in examine(make, wrap, cost=cost, n_steps=2 * _STEPS) if finding.verdict == "wrong"]
    if wrong:
        raise AssertionError("\n".join(f"{finding.about}: {finding.text}" for finding in wrong))


def _usual(env: Environment) -> Counts | GaussianMixture:
    """Counts where both spaces are finite, else a density."""
    try:
        for space in single_spaces(env):
            FiniteSpace(space)
    except UnsupportedSpace:
        return GaussianMixture(n_components=4)
    return Counts()
