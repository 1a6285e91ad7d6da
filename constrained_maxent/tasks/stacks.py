"""What ``gym.make`` returns for the -PGP- ids: each task inside its stack of wrappers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from os import PathLike, fspath
from typing import Any

from constrained_maxent import envs, wrappers
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.functionals import Entropy, LinearCost
from constrained_maxent.functionals.entropy import Over
from constrained_maxent.occupancy import OccupancyEstimator, Scale, estimator_config
from constrained_maxent.penalties import Penalty, Quadratic, penalty_from_config
from constrained_maxent.problem import Constraint
from constrained_maxent.schedules import Schedule
from constrained_maxent.tasks.presets import PRESETS, Preset, PresetName
from constrained_maxent.tracker import Pairing, find_tracker
from constrained_maxent.types import FloatArray, Points, check_count, is_number

Density = Callable[[Points], FloatArray]
"""λ_ref at points: a :class:`~constrained_maxent.references.Reference`, or any function."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """What tells the tasks apart."""

    env_id: str
    environment: str  # class of the scalar one in constrained_maxent.envs; the vector's ends with Vector
    is_continuous: bool = True  # λ̂ is a density; else cells are counted
    state: str = "state"  # the key of info that the density is over
    periodic: tuple[int, ...] = ()  # coordinates of that state that are angles
    imitates: bool = False  # its constraint is the distance to a reference; else it is the cost
    is_walker: bool = False  # each of its costs has a name and is a constraint


FROZEN_LAKE = Task(env_id="FrozenLake-PGP-v0", environment="SafeFrozenLake", is_continuous=False)
CARTPOLE = Task(env_id="SafeCartpole-PGP-v0", environment="SafeCartpole", periodic=(2,))
POINT_MASS = Task(env_id="PointMass-PGP-v0", environment="PointMass", imitates=True)
HALF_CHEETAH, ANT, HUMANOID = (
    Task(env_id=f"Safe{name}-PGP-v0", environment=f"Safe{name}", state="torso", periodic=periodic, is_walker=True)
    for name, periodic in (("HalfCheetah", (2,)), ("Ant", (3, 5)), ("Humanoid", (3, 5)))
)


def make_frozen_lake(**settings: Any) -> Any:
    """The paper's grid with its entropy objective and cost budget; what ``gym.make("FrozenLake-PGP-v0")`` returns.

    With ``num_envs`` it is a vector environment, that of ``gym.make_vec``. The settings are those of
    :func:`make_stack` and :class:`~constrained_maxent.envs.SafeFrozenLake`.
    """
    return make_stack(FROZEN_LAKE, **settings)


def make_cartpole(**settings: Any) -> Any:
    """The cartpole with its entropy objective and cost budget; what ``gym.make("SafeCartpole-PGP-v0")`` returns.

    λ̂ is a density of ``info["state"]``, angle periodic, times π(a|s) where the acting agent tells log π. The limit is
    the mean cost per step at scale ``normalized`` [m]; β has the scale of 1/cost². With ``num_envs`` it is a vector
    environment, whose copies start staggered, unless batches are of whole episodes or ``staggered_starts`` says
    otherwise. The settings are those of :func:`make_stack` and :class:`~constrained_maxent.envs.SafeCartpole`.
    """
    return make_stack(CARTPOLE, **settings)


def make_point_mass(**settings: Any) -> Any:
    r"""The point mass with the entropy objective; what ``gym.make("PointMass-PGP-v0")`` returns.

    The task itself forbids nothing. With ``limit`` the policy stays near an expert,
    :math:`\mathrm{KL}(\lambda\|\lambda_{\mathrm{ref}}) \le` limit [nats], the paper's :math:`r_{\max}` (*Apprenticeship
    Learning*); the constraint is called ``imitation``. The settings are those of :func:`make_stack` and
    :class:`~constrained_maxent.envs.PointMass`.
    """
    return make_stack(POINT_MASS, **settings)


def make_half_cheetah(**settings: Any) -> Any:
    """The half cheetah with its entropy objective and cost budgets; ``gym.make("SafeHalfCheetah-PGP-v0")`` returns it.

    λ̂ is a density of ``info["torso"]``: the policy explores where its body can be, and how turned. Observations tell
    the place too, unless ``exclude_current_positions_from_observation`` is given. Each of ``costs`` is a constraint of
    its own name, and at scale ``normalized`` the limit is the share of steps that may break its threshold. The settings
    are those of :func:`make_stack` and :class:`~constrained_maxent.envs.SafeHalfCheetah`.
    """
    return make_stack(HALF_CHEETAH, **settings)


def make_ant(**settings: Any) -> Any:
    """The ant as :func:`make_half_cheetah` has it; ``gym.make("SafeAnt-PGP-v0")`` returns it."""
    return make_stack(ANT, **settings)


def make_humanoid(**settings: Any) -> Any:
    """The humanoid as :func:`make_half_cheetah` has it; ``gym.make("SafeHumanoid-PGP-v0")`` returns it."""
    return make_stack(HUMANOID, **settings)


def make_stack(
    task: Task,
    *,
    num_envs: int | None = None,
    preset: PresetName = "default",
    iterations: int | None = None,
    pairing: Pairing | None = None,
    limit: float | None = None,
    beta: float | None = None,
    penalty: Penalty | Mapping[str, Any] | None = None,
    reference: Density | str | PathLike[str] | None = None,
    episodes_per_batch: int | None = None,
    steps_per_batch: int | None = None,
    discount: float | None = None,
    scale: Scale | None = None,
    over: Over | None = None,
    smoothing: float | None = None,
    estimator: OccupancyEstimator | Mapping[str, Any] | None = None,
    memory: Schedule | None = None,
    buffer_size: int | None = None,
    normalize_reward: bool | None = None,
    **environment: Any,
) -> Any:
    """A task inside ``TrackOccupancy``, the entropy objective, its constraint and ``PseudoReward``.

    Args:
        num_envs: ``None`` for the scalar environment, else the number of sub-environments of the vector one.
        preset: ``"default"`` for what measures best with ``PGP``, ``"paper"`` for the paper's settings, ``"ppo"`` for
            agents that update on their own schedule. What is given explicitly goes before the preset.
        iterations: batches that the training will have. Schedules of penalty, memory and learning rate end there.
            ``PGP.learn(iterations=...)`` says it as well: this is for other agents.
        pairing: which estimate goes with which reward, see :data:`~constrained_maxent.tracker.Pairing`; by default the
            preset's.
        limit: of the constraint: the budget of ⟨c, λ⟩, usual 0, or the largest KL divergence from the reference.
        beta: β of a quadratic penalty, constant. The default presets find a price by schedules of their own.
        penalty: another one, or its plain data, instead of the preset's.
        reference: what the point mass imitates: a :class:`~constrained_maxent.references.Reference`, its file, or any
            function that gives λ_ref at points; by default the expert that comes with the package.
        episodes_per_batch, steps_per_batch: size of a batch, all copies together. The default presets of continuous
            control take 8 whole episodes; with more copies than that, or without a time limit, as many steps.
        discount: γ of the occupancy. The agent's own is ``PGP(return_discount=)``.
        scale: ``"normalized"`` or ``"truncated"``; β and the limit are in its units.
        over: the entropy of ``"state-action"`` (of the state, where log π is unknown) or of ``"state"``.
        smoothing: σ of the entropy, in units of λ̂.
        estimator: instead of the preset's; the angle of the cartpole needs ``periodic=(2,)``.
        memory, buffer_size: of the estimator, instead of the preset's.
        normalize_reward: whether the reward is divided by a running scale, instead of what the preset says.
        environment: arguments of the bare environment.

    Raises:
        InvalidSetting: unknown preset, values out of range, or parts of a constraint that is not there.
        FileNotFoundError, DamagedReference: the reference cannot be read.
    """
    if preset not in PRESETS[task.env_id]:
        raise InvalidSetting(f"preset={preset!r} must be one of {', '.join(PRESETS[task.env_id])}.")
    chosen = replace(
        PRESETS[task.env_id][preset],
        **_given(
            pairing=pairing,
            limit=limit,
            discount=discount,
            scale=scale,
            over=over,
            smoothing=smoothing,
            estimator=estimator,
            normalize_reward=normalize_reward,
        ),
    )
    _check_constraint(task, chosen.limit, beta=beta, penalty=penalty, reference=reference)
    if beta is not None and penalty is not None:
        raise InvalidSetting("beta= is that of a quadratic penalty: give it or penalty=, not both.")
    enforced = chosen.penalty if beta is None else Quadratic(beta)
    if penalty is not None:
        enforced = penalty_from_config(penalty) if isinstance(penalty, Mapping) else penalty
    has_time_limit = environment.get("time_limit", 0.0) is not None
    if not has_time_limit and chosen.discount == 1.0:
        raise InvalidSetting(
            "time_limit=None and discount=1 make the occupancy infinite: give a time_limit, or a discount below 1."
        )
    if episodes_per_batch is None and steps_per_batch is None:
        episodes_per_batch, steps_per_batch = _batch_size(chosen, num_envs or 1, has_time_limit=has_time_limit)
    if num_envs is not None:
        environment = {"num_envs": num_envs, **environment}
        if task.is_continuous:
            # Fragments of copies in step would all show the same phase of the episode.
            environment.setdefault("staggered_starts", episodes_per_batch is None and has_time_limit)
    described = estimator_config(chosen.estimator)
    if task.is_continuous and estimator is None:
        described["periodic"] = list(task.periodic)
    described |= _given(memory=memory, buffer_size=buffer_size)
    if task.is_walker:
        # What the density is over, the policy should know.
        environment = {"exclude_current_positions_from_observation": False, **environment}
    bare = getattr(envs, task.environment if num_envs is None else f"{task.environment}Vector")(**environment)
    constraints = {}
    if chosen.limit is not None and not task.imitates:
        keys = {name: f"cost_{name}" for name in bare.limits} if task.is_walker else {"cost": "cost"}
        constraints = {name: Constraint(LinearCost(key, limit=chosen.limit), enforced) for name, key in keys.items()}
    imitates = task.imitates and chosen.limit is not None
    stack = wrappers.constrain(
        bare,
        Entropy(over=chosen.over, smoothing=chosen.smoothing),
        constraints,
        estimator=described,
        episodes_per_batch=episodes_per_batch,
        steps_per_batch=steps_per_batch,
        discount=chosen.discount,
        scale=chosen.scale,
        pairing=chosen.pairing,
        state=task.state if task.is_continuous else None,
        replace_reward=not imitates,
        normalize_reward=chosen.normalize_reward and not imitates,
        suggestions=chosen.agent,
    )
    if imitates:
        kit: Any = wrappers if num_envs is None else wrappers.vector
        stack = kit.ImitationConstraint(stack, _described(reference), limit=chosen.limit, penalty=enforced)
        stack = kit.PseudoReward(stack, normalize=chosen.normalize_reward)
    if iterations is not None:
        find_tracker(stack).announce(iterations=check_count("iterations", iterations))
    return stack


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _check_constraint(task: Task, limit: float | None, **parts: Any) -> None:
    """Raise ``InvalidSetting`` at parts of a constraint that the task does not have, or that nobody can keep."""
    if not task.imitates:
        if parts["reference"] is not None:
            raise InvalidSetting(f"reference=: only {POINT_MASS.env_id} imitates one.")
        return
    given = ", ".join(f"{name}=" for name in _given(**parts))
    if limit is None and given:
        raise InvalidSetting(
            f"{given} without a limit does nothing: give limit= as well (--limit on the command line), the largest KL "
            "divergence from the reference [nats], the paper's r_max, or leave it out."
        )
    if limit is not None and is_number(limit) and limit < 0.0:
        raise InvalidSetting(f"limit={limit!r}: a KL divergence is at least 0, so no policy can keep it.")


def _batch_size(preset: Preset, copies: int, *, has_time_limit: bool) -> tuple[int | None, int | None]:
    """Episodes and steps of a batch, one of them ``None``, for so many copies."""
    episodes, steps = preset.episodes_per_batch, preset.steps_per_batch
    if steps is None:
        return max(episodes or 1, copies), None
    # One episode of each of many copies would make batches that the schedules and the buffer are not meant for.
    if has_time_limit and episodes is not None and episodes >= copies:
        return episodes, None
    return None, max(steps, copies)


def _described(reference: Density | str | PathLike[str] | None) -> Any:
    """A reference as plain data, so that the environment's spec can be written as JSON; one in memory as it is."""
    if reference is None:
        return {"entry_point": "constrained_maxent.references:shipped", "kwargs": {"env_id": "PointMass-v0"}}
    if isinstance(reference, str | PathLike):
        path = fspath(reference)
        return {"entry_point": "constrained_maxent.references:Reference.load", "kwargs": {"path": path}}
    if not callable(reference):
        raise InvalidSetting(f"reference={reference!r} must be a references.Reference, its file, or a function.")
    return reference
