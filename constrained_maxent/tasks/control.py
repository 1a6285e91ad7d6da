"""``SafeCartpole-PGP-v0`` and ``PointMass-PGP-v0``: continuous control inside its wrapper stack."""

from __future__ import annotations

import math
from collections.abc import Mapping
from os import PathLike
from typing import Any

import gymnasium as gym

from constrained_maxent import envs
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.functionals import Entropy, LinearCost
from constrained_maxent.functionals.entropy import Over
from constrained_maxent.occupancy import (
    AdamGaussianMixture,
    GaussianMixture,
    OccupancyEstimator,
    Scale,
    estimator_config,
)
from constrained_maxent.penalties import AdaptiveLagrangian, Penalty, Quadratic
from constrained_maxent.problem import Constraint
from constrained_maxent.references import Reference
from constrained_maxent.tasks.imitation import distance_limit, imitate
from constrained_maxent.tasks.presets import Preset, penalty_of, settings_of
from constrained_maxent.tracker import Pairing
from constrained_maxent.wrappers import constrain

_SMOOTHING = 1e-6
"""σ of the entropy [1/(m·m/s·rad·rad/s·N), or the like]. What is rarer is an outlier's, and earns no more for it."""

_SHARED: dict[str, dict[str, Any]] = {
    # Whole episodes and a buffer of two batches: the pseudo-reward is that of the policy as it is now.
    "default": {
        "num_envs": 8,
        "episodes_per_batch": 8,
        "steps_per_batch": 8192,
        "discount": 1.0,
        "scale": "normalized",
        "over": "state-action",
        "smoothing": _SMOOTHING,
        "estimator": {**estimator_config(GaussianMixture(n_components=16)), "buffer_size": 16_000},
        # Iterates swing between over-exploring and over-obeying: what is shown is their average.
        "agent": {
            "return_discount": 0.99,
            "learning_rate": 1e-3,
            "final_learning_rate": 3e-5,
            "averaging": 0.9,
            "hidden_sizes": [128, 128],
        },
    },
    # The paper's table of training parameters.
    "paper": {
        "num_envs": 32,
        "steps_per_batch": 4096,
        "discount": 1.0,
        "scale": "normalized",
        "over": "state-action",
        "smoothing": _SMOOTHING,
        "estimator": {**estimator_config(AdamGaussianMixture(n_components=16)), "buffer_size": 200_000},
        "agent": {
            "return_discount": 0.99,
            "baseline": "critic",
            "gae_lambda": 1.0,
            "normalize_advantages": False,
            "normalize_observations": False,
            "epochs": 1,
            "minibatch_size": 0,
            "clip_range": math.inf,
            "learning_rate": 3e-4,
            "max_gradient_norm": 1.0,
            "averaging": 0.0,
            "hidden_sizes": [256, 256],
            "critic_learning_rate": 3e-4,
            "critic_steps": 10,
            "critic_batch_size": 512,
        },
    },
}
"""What both tasks share. The paper weighs all states that are visited alike: the occupancy's discount is 1."""

CARTPOLE_PRESETS = {
    "default": _SHARED["default"] | {"iterations": 60},
    "paper": _SHARED["paper"] | {"iterations": 2000},
}

POINT_MASS_PRESETS = {
    "default": _SHARED["default"] | {"iterations": 150},
    "paper": _SHARED["paper"] | {"iterations": 1000},
}


def make_cartpole(
    *,
    num_envs: int | None = None,
    preset: Preset = "default",
    iterations: int | None = None,
    beta: float | None = None,
    penalty: Penalty | Mapping[str, Any] | None = None,
    limit: float = 0.0,
    pairing: Pairing = "same",
    episodes_per_batch: int | None = None,
    steps_per_batch: int | None = None,
    discount: float | None = None,
    scale: Scale | None = None,
    over: Over | None = None,
    smoothing: float | None = None,
    estimator: OccupancyEstimator | Mapping[str, Any] | None = None,
    memory: float | None = None,
    buffer_size: int | None = None,
    **environment: Any,
) -> Any:
    """The cartpole with the entropy objective and its cost budget; what ``gym.make("SafeCartpole-PGP-v0")`` returns.

    λ̂ is a density of ``info["state"]``, angle wrapped, times π(a|s) where the acting agent tells log π. The copies of a
    vector start staggered, unless batches are of whole episodes or ``staggered_starts`` says otherwise.

    Args:
        num_envs: ``None`` for the scalar environment, else the number of sub-environments of the vector one.
        preset: ``"default"``, or ``"paper"`` for the paper's settings. What is given explicitly goes before the preset.
        iterations: batches that a run will have: the default preset suggests to ``PGP`` to shrink its steps meanwhile.
        beta: β of the quadratic penalty, constant; it has the scale of 1/cost². The default preset finds it out, see
            ``penalties.AdaptiveLagrangian``.
        penalty: another one, or its plain data, instead of the preset's.
        limit: the budget of ⟨c, λ⟩: the mean cost per step at scale ``normalized`` [m].
        pairing: which estimate goes with which reward.
        episodes_per_batch, steps_per_batch: size of a batch, all copies together. The default preset takes 8 whole
            episodes; with more copies than that, or without a time limit, as many steps.
        discount: γ of the occupancy. The agent's own is ``PGP(return_discount=)``.
        scale: ``"normalized"`` or ``"truncated"``; β and the limit are in its units.
        over: the entropy of ``"state-action"`` (of the state, where log π is unknown) or of ``"state"``.
        smoothing: σ of the entropy, in units of λ̂.
        estimator: instead of the preset's; an angle needs ``periodic=(2,)``.
        memory, buffer_size: of the estimator, see
            :class:`~constrained_maxent.occupancy.continuous.ContinuousEstimator`.
        environment: arguments of :class:`~constrained_maxent.envs.SafeCartpole`.

    Raises:
        InvalidSetting: unknown preset, or values out of range.
    """
    settings = settings_of(CARTPOLE_PRESETS, preset, iterations=iterations)
    # Where the rail hardly lets a cart pass the limit, the largest violation is a hundredth of a millimetre: with that
    # as its unit, the penalty would shake the policy for nothing. A millimetre, at scale "normalized".
    usual = _usual_penalty(preset, settings["iterations"], least_violation=1e-3)
    return _make(
        envs.SafeCartpole if num_envs is None else envs.SafeCartpoleVector,
        {"cost": Constraint(LinearCost("cost", limit=limit), penalty_of(usual, beta=beta, penalty=penalty))},
        settings,
        periodic=[2],
        num_envs=num_envs,
        pairing=pairing,
        episodes_per_batch=episodes_per_batch,
        steps_per_batch=steps_per_batch,
        given={
            "discount": discount,
            "scale": scale,
            "over": over,
            "smoothing": smoothing,
            "estimator": estimator,
        },
        samples={"memory": memory, "buffer_size": buffer_size},
        environment=environment,
    )


def make_point_mass(
    *,
    num_envs: int | None = None,
    preset: Preset = "default",
    iterations: int | None = None,
    limit: float | None = None,
    r_max: float | None = None,
    beta: float | None = None,
    penalty: Penalty | Mapping[str, Any] | None = None,
    reference: Reference | str | PathLike[str] | None = None,
    pairing: Pairing = "same",
    episodes_per_batch: int | None = None,
    steps_per_batch: int | None = None,
    discount: float | None = None,
    scale: Scale | None = None,
    over: Over | None = None,
    smoothing: float | None = None,
    estimator: OccupancyEstimator | Mapping[str, Any] | None = None,
    memory: float | None = None,
    buffer_size: int | None = None,
    **environment: Any,
) -> Any:
    """The point mass with the entropy objective; what ``gym.make("PointMass-PGP-v0")`` returns.

    The task itself forbids nothing. With ``limit`` the policy stays near an expert, KL(λ‖λ_ref) ≤ limit (paper,
    *Apprenticeship Learning*).

    Args:
        limit, reference: of the constraint ``imitation``, see
            :func:`~constrained_maxent.tasks.imitation.imitate`; none without ``limit``.
        r_max: the paper's name of ``limit``.
        beta: β of its quadratic penalty, constant; the default preset finds it out, see
            :class:`~constrained_maxent.penalties.AdaptiveLagrangian`.
        penalty: another one, or its plain data, instead of the preset's.
        num_envs, preset, iterations, pairing, episodes_per_batch, steps_per_batch, discount, scale, over, smoothing,
            estimator, memory, buffer_size: as in :func:`make_cartpole`.
        environment: arguments of :class:`~constrained_maxent.envs.PointMass`.

    Raises:
        InvalidSetting: unknown preset, values out of range, or parts of the constraint without its limit.
    """
    limit = distance_limit(limit, r_max, beta=beta, penalty=penalty, reference=reference)
    settings = settings_of(POINT_MASS_PRESETS, preset, iterations=iterations)
    stack = _make(
        envs.PointMass if num_envs is None else envs.PointMassVector,
        {},
        settings,
        periodic=[],
        num_envs=num_envs,
        pairing=pairing,
        episodes_per_batch=episodes_per_batch,
        steps_per_batch=steps_per_batch,
        given={
            "discount": discount,
            "scale": scale,
            "over": over,
            "smoothing": smoothing,
            "estimator": estimator,
        },
        samples={"memory": memory, "buffer_size": buffer_size},
        environment=environment,
        replace_reward=limit is None,
    )
    if limit is None:
        return stack
    usual = _usual_penalty(preset, settings["iterations"])
    enforced = penalty_of(usual, beta=beta, penalty=penalty)
    return imitate(stack, limit=limit, penalty=enforced, reference=reference)


def make_cartpole_vector(*, num_envs: int = 1, **settings: Any) -> gym.vector.VectorEnv[Any, Any, Any]:
    """The vector form; what ``gym.make_vec("SafeCartpole-PGP-v0", num_envs=...)`` returns."""
    env: gym.vector.VectorEnv[Any, Any, Any] = make_cartpole(num_envs=num_envs, **settings)
    return env


def make_point_mass_vector(*, num_envs: int = 1, **settings: Any) -> gym.vector.VectorEnv[Any, Any, Any]:
    """The vector form; what ``gym.make_vec("PointMass-PGP-v0", num_envs=...)`` returns."""
    env: gym.vector.VectorEnv[Any, Any, Any] = make_point_mass(num_envs=num_envs, **settings)
    return env


def _make(
    kind: Any,
    constraints: Mapping[str, Constraint],
    settings: Mapping[str, Any],
    *,
    periodic: list[int],
    num_envs: int | None,
    pairing: Pairing,
    episodes_per_batch: int | None,
    steps_per_batch: int | None,
    given: Mapping[str, Any],
    samples: Mapping[str, Any],
    environment: dict[str, Any],
    replace_reward: bool = True,
) -> Any:
    """The stack, by the settings of a preset; what is given explicitly goes before them."""
    settings = {**settings, **{name: value for name, value in given.items() if value is not None}}
    estimator = estimator_config(settings["estimator"])
    if given["estimator"] is None:
        estimator["periodic"] = periodic
    estimator |= {name: value for name, value in samples.items() if value is not None}
    has_time_limit = environment.get("time_limit", 0.0) is not None
    if not has_time_limit and settings["discount"] == 1.0:
        raise InvalidSetting(
            "time_limit=None and discount=1 make the occupancy infinite: give a time_limit, or a discount below 1."
        )
    if episodes_per_batch is None and steps_per_batch is None:
        # One episode of each of many copies would make batches that the schedules and the buffer are not meant for.
        if has_time_limit and settings.get("episodes_per_batch", 0) >= (num_envs or 1):
            episodes_per_batch = settings["episodes_per_batch"]
        else:
            steps_per_batch = max(settings["steps_per_batch"], num_envs or 1)
    if num_envs is not None:
        # Fragments of copies in step would all show the same phase of the episode.
        staggered = episodes_per_batch is None and has_time_limit
        environment = {"num_envs": num_envs, "staggered_starts": staggered, **environment}
    agent = dict(settings["agent"])
    return constrain(
        kind(**environment),
        Entropy(over=settings["over"], smoothing=settings["smoothing"]),
        constraints,
        estimator=estimator,
        episodes_per_batch=episodes_per_batch,
        steps_per_batch=steps_per_batch,
        discount=settings["discount"],
        scale=settings["scale"],
        pairing=pairing,
        state="state",
        replace_reward=replace_reward,
        suggestions=agent,
    )


def _usual_penalty(preset: str, iterations: int, *, least_violation: float = 0.0) -> Penalty:
    if preset == "default":
        # Little at first: an agent that is punished before it has seen anything stays where it is.
        return AdaptiveLagrangian(3.0, 60.0, largest_violation=least_violation)
    return Quadratic(10.0)
