"""``constrain``: the usual stack of wrappers in one call."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import gymnasium as gym

from constrained_maxent.errors import InvalidSetting
from constrained_maxent.functionals import Entropy, LinearCost
from constrained_maxent.occupancy import OccupancyEstimator, Scale
from constrained_maxent.problem import Constraint
from constrained_maxent.tracker import Pairing
from constrained_maxent.wrappers import vector
from constrained_maxent.wrappers.convex_constraint import ConvexConstraint
from constrained_maxent.wrappers.cost_constraint import CostConstraint
from constrained_maxent.wrappers.entropy_objective import EntropyObjective
from constrained_maxent.wrappers.pseudo_reward import PseudoReward
from constrained_maxent.wrappers.states import LogProb, StateSource
from constrained_maxent.wrappers.terms import find_tracker
from constrained_maxent.wrappers.track_occupancy import TrackOccupancy

_SCALAR = SimpleNamespace(
    TrackOccupancy=TrackOccupancy,
    EntropyObjective=EntropyObjective,
    CostConstraint=CostConstraint,
    ConvexConstraint=ConvexConstraint,
    PseudoReward=PseudoReward,
)


def constrain(
    env: gym.Env[Any, Any] | gym.vector.VectorEnv[Any, Any, Any],
    objective: Entropy | None = None,
    constraints: Mapping[str, Constraint] | None = None,
    *,
    estimator: OccupancyEstimator | Mapping[str, Any] | None = None,
    episodes_per_batch: int | None = None,
    steps_per_batch: int | None = None,
    discount: float = 0.99,
    horizon: int | None = None,
    scale: Scale = "normalized",
    pairing: Pairing = "same",
    state: StateSource | None = None,
    policy_log_prob: LogProb | None = None,
    replace_reward: bool = True,
    agent_defaults: Mapping[str, Any] | None = None,
) -> Any:
    """``TrackOccupancy``, the objective, the constraints and ``PseudoReward`` around an environment, scalar or vector.

    Args:
        env: the environment; what comes back is of the same kind.
        objective: the entropy to maximize; ``Entropy()`` if not given.
        constraints: by name, each a functional with its limit and the penalty that enforces it.
        estimator, episodes_per_batch, steps_per_batch, discount, horizon, scale, pairing, state, policy_log_prob: see
            ``TrackOccupancy``.
        replace_reward: whether the reward becomes the pseudo-reward; ``info["pseudo_reward"]`` is there in any case.
        agent_defaults: hyperparameters by name that suit this problem: what ``PGP`` takes for those it is not given.

    Returns:
        The wrapped environment.

    Raises:
        InvalidSetting: an objective other than ``Entropy``, or a constraint without its penalty.
        InvalidSetting, UnsupportedSpace, DuplicateName, InvalidData: from the wrappers.

    >>> from constrained_maxent.functionals import LinearCost
    >>> from constrained_maxent.penalties import Quadratic
    >>> hole = Constraint(LinearCost(lambda s, a, s_next: float(s in (5, 7, 11, 12)), limit=0.0), Quadratic(beta=1.0))
    >>> constrain(gym.make("FrozenLake-v1"), constraints={"hole": hole}, episodes_per_batch=8)  # doctest: +ELLIPSIS
    <PseudoReward<CostConstraint<EntropyObjective<TrackOccupancy<TimeLimit<...
    """
    # The twins of a wrapper take the same arguments, so one stack serves both.
    kit: Any = vector if isinstance(env, gym.vector.VectorEnv) else _SCALAR
    entropy = Entropy() if objective is None else objective
    if not isinstance(entropy, Entropy):
        raise InvalidSetting(f"objective={objective!r} must be an Entropy.")
    for name, constraint in (constraints or {}).items():
        if not isinstance(constraint, Constraint):
            raise InvalidSetting(
                f"constraints[{name!r}] must be a Constraint: a functional and the penalty that enforces it, "
                "problem.Constraint(LinearCost(limit=0.0), Quadratic(beta=1.0))."
            )
    stack = kit.TrackOccupancy(
        env,
        estimator,
        episodes_per_batch=episodes_per_batch,
        steps_per_batch=steps_per_batch,
        discount=discount,
        horizon=horizon,
        scale=scale,
        pairing=pairing,
        state=state,
        policy_log_prob=policy_log_prob,
    )
    stack = kit.EntropyObjective(stack, over=entropy.over, smoothing=entropy.smoothing)
    for name, constraint in (constraints or {}).items():
        functional, penalty = constraint.functional, constraint.penalty
        if isinstance(functional, LinearCost):
            stack = kit.CostConstraint(stack, functional.cost, limit=functional.limit, penalty=penalty, name=name)
        else:
            stack = kit.ConvexConstraint(stack, functional, penalty=penalty, name=name)
    find_tracker(stack).agent_defaults = dict(agent_defaults or {})
    return kit.PseudoReward(stack) if replace_reward else stack
