r"""A reference occupancy :math:`\lambda_{\mathrm{ref}}(s,a) = m\,d_{\mathrm{ref}}(s)\,\pi_{\mathrm{ref}}(a|s)`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from os import PathLike
from typing import Any, Self, Unpack

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from constrained_maxent.errors import InvalidData, InvalidSetting, UnlikeTraining, UnsupportedPolicy
from constrained_maxent.functionals.entropy import Over
from constrained_maxent.occupancy import GaussianMixture, Mixture, Scale, Weighting
from constrained_maxent.occupancy.horizon import find_horizon
from constrained_maxent.references import files
from constrained_maxent.references.gaussian_network import GaussianNetwork, clone
from constrained_maxent.references.policies import CallablePolicy, ReferencePolicy, policy_of
from constrained_maxent.references.rollouts import RolloutSettings, check_scalar, roll_out
from constrained_maxent.types import Batch, FloatArray, Points, Trajectory
from constrained_maxent.wrappers.states import STATE_SPACE, StateSource

_COMPARABLE = 10
"""Training episodes that tell what an expert earns."""

_ROUNDING = 1e-6
"""Of sums of weights."""

_LARGEST_LOG = 700.0
"""exp overflows shortly above."""

SHIPPED = {"PointMass-v0": "point_mass.npz"}
"""Environment to file; ``cmaxent reference show`` tells how each was made."""


@dataclass(frozen=True, eq=False)
class Reference:
    """A state density and a policy to imitate; what ``ImitationConstraint`` takes in continuous spaces.

    Called on :class:`~constrained_maxent.types.Points` it gives λ_ref there: with π_ref where λ̂ is over actions too,
    and the density of states alone where log π is unknown.

    Args:
        states: the state density times its mass, which must be of the scale of the occupancy that it is compared with.
        policy: π_ref, or ``None``: then states alone are compared.
        about: where it comes from: names to strings and numbers.

    Raises:
        InvalidSetting: a part of the wrong kind.
    """

    states: Mixture
    policy: ReferencePolicy | None = None
    about: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.states, Mixture):
            raise InvalidSetting(f"states={self.states!r} must be an occupancy.Mixture.")
        if not (self.policy is None or isinstance(self.policy, ReferencePolicy)):
            raise InvalidSetting("policy must have log_prob(observations, actions) and act(observations, rng).")

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # Nothing in it changes; and a spec that is copied must equal the first.
        return self

    @property
    def over(self) -> Over:
        """Over what occupancies can be compared with it: ``"state-action"``, or without a policy ``"state"``."""
        return "state" if self.policy is None else "state-action"

    @property
    def periodic(self) -> tuple[int, ...]:
        """Coordinates of the state that are angles."""
        return self.states.periodic

    def log_prob(self, points: Points) -> FloatArray:
        """Logarithm of λ_ref / mass at points of a density, in their shape.

        Raises:
            InvalidData: the points are cells, or of another state, observation or action.
        """
        if points.states is None or points.observations is None or points.actions is None:
            raise InvalidData(
                "This reference is a density, but the occupancy is one of cells: give a table as reference."
            )
        log_prob = self.states.log_prob(np.reshape(points.states, (len(points.states), -1)))
        if self.policy is not None and points.is_over_actions:
            log_prob = log_prob + self.policy.log_prob(points.observations, points.actions)
        return log_prob

    def log_density(self, points: Points) -> FloatArray:
        """Logarithm of λ_ref at points, in their shape; nowhere further below that of the reference's own states than
        what tells them apart: 690 nats.
        """
        with np.errstate(divide="ignore"):
            logs: FloatArray = np.logaddexp(self.log_prob(points) + np.log(self.states.mass), self.states.log_floor)
        return logs

    def __call__(self, points: Points) -> FloatArray:
        """λ_ref at points, in their shape; 0 where it underflows."""
        density: FloatArray = self.states.mass * np.exp(np.minimum(self.log_prob(points), _LARGEST_LOG))
        return density

    def require_comparable(self, action_space: gym.Space[Any], weighting: Weighting) -> None:
        """Find out what would make the comparison with an occupancy meaningless, whatever the states are.

        Raises:
            UnsupportedSpace: π_ref has other bounds of actions, as where a wrapper rescales them.
            InvalidSetting: more mass than an occupancy of this weighting can have: it was made at another scale.
        """
        if isinstance(self.policy, GaussianNetwork):
            self.policy.require_box(action_space)
        if (full := weighting.full_mass) < self.states.mass * (1.0 - _ROUNDING):
            raise InvalidSetting(
                f"The reference has mass {self.states.mass:g}, an occupancy of this scale and discount at most "
                f"{full:g}: make it with the same scale= and discount=."
            )

    def act(self, observations: NDArray[Any], rng: np.random.Generator, *, deterministic: bool = False) -> NDArray[Any]:
        """Actions of π_ref, ``(n, ...)``, for observations ``(n, ...)``.

        Raises:
            UnsupportedPolicy: it has no policy, or one that cannot act.
        """
        if self.policy is None:
            raise UnsupportedPolicy("This reference is a density of states alone: it has no policy to act by.")
        return self.policy.act(observations, rng, deterministic=deterministic)

    def sample(self, n: int, rng: np.random.Generator) -> FloatArray:
        """States drawn from the density, ``(n, n_states)``."""
        return self.states.sample(n, rng)

    def save(self, path: str | PathLike[str]) -> None:
        """Write it, atomically, as plain data.

        Raises:
            UnsupportedPolicy: the policy is a function of the user's.
        """
        files.write(path, self.states, self.policy, self.about)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """The reference of a file, which is read without executing code.

        Raises:
            DamagedReference: truncated, corrupt, of another version, or no reference.
        """
        return cls(*files.read(path))

    @classmethod
    def from_agent(cls, agent: Any, env: gym.Env[Any, Any], **settings: Unpack[RolloutSettings]) -> Self:
        """Roll out an agent as it is now: ``env``, with observations like in its training, and settings are those of
        :meth:`from_rollouts`.

        Args:
            agent: ``PGP`` with ``Box`` actions, a model of Stable-Baselines3 by ``adapters.sb3.as_agent(model)``, or
                any agent that has ``predict`` and ``log_prob``.

        Raises:
            UnsupportedPolicy: another kind of agent or policy.
            UnsupportedSpace: other observations or actions than those of its training.

        An agent that knows what it earned in training, as models of Stable-Baselines3 do, is compared with that; where
        it earns far less, there is the warning ``UnlikeTraining``.
        """
        check_scalar(env)
        policy = policy_of(agent, env.observation_space, env.action_space)
        reference = cls.from_rollouts(policy, env, **settings)
        _compare_with_training(
            reference.about, getattr(agent, "training_episodes", np.empty((0, 2))), find_horizon(env)
        )
        return reference

    @classmethod
    def from_policy(
        cls,
        log_prob: Callable[[NDArray[Any], NDArray[Any]], Any] | None,
        env: gym.Env[Any, Any],
        *,
        act: Callable[[Any], Any],
        **settings: Unpack[RolloutSettings],
    ) -> Self:
        """Roll out a policy given by functions; ``env`` and settings are those of :meth:`from_rollouts`.

        Args:
            log_prob: log π_ref [nats], ``(n,)``, of rows of observations and actions; ``None`` to compare states alone.
            act: one observation to one action, drawn from π_ref.
        """
        policy = CallablePolicy(log_prob or (lambda rows, actions: np.zeros(len(rows))), act)
        rolled_out = cls.from_rollouts(policy, env, **settings)
        return cls(rolled_out.states, None, rolled_out.about) if log_prob is None else rolled_out

    @classmethod
    def from_trajectories(
        cls,
        trajectories: Sequence[Trajectory] | Batch,
        action_space: gym.Space[Any] | None,
        *,
        periodic: Sequence[int] = (),
        n_components: int = 16,
        discount: float = 1.0,
        scale: Scale = "normalized",
        horizon: int | None = None,
        hidden_sizes: Sequence[int] = (64, 64),
        n_steps: int = 3000,
        seed: int = 0,
    ) -> Self:
        """Recorded episodes: a mixture of their states, and their actions by behavior cloning.

        Args:
            trajectories: of the expert; whatever weights they carry are replaced.
            action_space: a ``Box``, or ``None`` to compare states alone.
            periodic, n_components, discount, scale: as in :meth:`from_rollouts`.
            horizon: of the occupancy that will be compared; by default the steps of the longest trajectory.
            hidden_sizes, n_steps: layers and steps of Adam of the cloned policy.
            seed: of the fits.

        Raises:
            InvalidData: trajectories that do not fit together, or actions outside the space.
            UnsupportedSpace: actions that are not in a ``Box``.
        """
        given = list(trajectories)
        ends = [trajectory.start + len(trajectory) for trajectory in given]
        weighting = Weighting(discount, max(ends, default=1) if horizon is None else horizon, scale)
        batch = Batch.from_trajectories(
            [
                Trajectory(
                    observations=trajectory.observations,
                    actions=trajectory.actions,
                    weights=weighting.weights(np.arange(trajectory.start, end)),
                    states=trajectory.states,
                    start=trajectory.start,
                )
                for trajectory, end in zip(given, ends, strict=True)
            ]
        )
        policy = None
        if action_space is not None:
            rows, actions = batch.observations, batch.actions
            policy = clone(rows, actions, action_space, hidden_sizes=hidden_sizes, n_steps=n_steps, seed=seed)
        states = _mixture(batch, n_components=n_components, periodic=periodic, seed=seed)
        return cls(states, policy, {"episodes": len(batch), "steps": batch.n_steps})

    @classmethod
    def from_rollouts(
        cls,
        policy: ReferencePolicy,
        env: gym.Env[Any, Any],
        *,
        n_episodes: int = 30,
        state: StateSource | None = None,
        periodic: Sequence[int] = (),
        n_components: int = 16,
        discount: float = 1.0,
        scale: Scale = "normalized",
        horizon: int | None = None,
        seed: int = 0,
    ) -> Self:
        """Roll out a policy π_ref in a bare scalar environment, and fit a mixture to its states.

        Args:
            policy, env, n_episodes: what to roll out.
            state: what the density is over, as in ``TrackOccupancy``.
            periodic: coordinates of the state that are angles.
            n_components: of the mixture.
            discount, scale, horizon: of the occupancy that will be compared; by default the environment's horizon.
            seed: of rollouts and fit.
        """
        check_scalar(env)
        weighting = Weighting(discount, find_horizon(env) if horizon is None else horizon, scale)
        batch, returns = roll_out(policy, env, n_episodes=n_episodes, weighting=weighting, state=state, seed=seed)
        states = _mixture(batch, n_components=n_components, periodic=periodic, seed=seed)
        about = {
            "environment": "unregistered" if env.spec is None else env.spec.id,
            "episodes": len(batch),
            "steps": batch.n_steps,
            "mean_return": float(returns.mean()),
        }
        return cls(states, policy, about)


def shipped(env_id: str) -> Reference:
    """The reference that comes with the package for an environment.

    Raises:
        InvalidSetting: there is none.

    >>> shipped("PointMass-v0").states.n_states
    4
    """
    if env_id not in SHIPPED:
        raise InvalidSetting(
            f"No reference for {env_id!r} comes with the package; there is one for {', '.join(SHIPPED)}."
        )
    return _load(SHIPPED[env_id])


@cache
def _load(name: str) -> Reference:
    with resources.as_file(resources.files(__package__) / "data" / name) as path:
        return Reference.load(path)


def _compare_with_training(about: Mapping[str, Any], training: FloatArray, horizon: int | None) -> None:
    """Warn if an expert earns far less than in each of its training episodes, rows of return and length."""
    if len(training) < _COMPARABLE:
        return
    (earned, lengths), here = training.T, about["mean_return"]
    length = about["steps"] / about["episodes"]
    if (lengths == lengths[0]).all() and length == horizon and horizon != lengths[0]:
        # Episodes of other time limits: what is comparable is the reward of a step.
        earned, here = earned / lengths, here / length
    # An expert that still improves has worse episodes among its latest; none earns so much less than the worst of them.
    least = earned.min() - max(np.ptp(earned), 0.1 * abs(earned.mean()))
    if here < least:
        warnings.warn(
            f"In its latest training episodes this expert earned {earned.mean():.4g} [{earned.min():.4g}, "
            f"{earned.max():.4g}], here it earns {here:.4g}: to the expert it is not the same environment. Give one "
            "with the wrappers of its training and, where a VecNormalize normalized its observations, "
            "adapters.sb3.as_agent(model, normalization=...).",
            UnlikeTraining,
            stacklevel=3,
        )


def _mixture(batch: Batch, *, n_components: int, periodic: Sequence[int], seed: int) -> Mixture:
    """The states of a batch as one mixture, with the batch's mass."""
    estimator = GaussianMixture(n_components=n_components, periodic=tuple(periodic), counted=(), seed=seed)
    states = estimator.bind(STATE_SPACE, STATE_SPACE).fit(batch).measure().states
    assert isinstance(states, Mixture)
    return states
