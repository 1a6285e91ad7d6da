"""Objective, constraints and reward: the wrappers that say what is optimized, as mixins of both kinds of layers."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from typing import Any, Literal, SupportsFloat, get_args

import numpy as np
from numpy.typing import ArrayLike

from constrained_maxent.errors import DuplicateName, InvalidSetting
from constrained_maxent.functionals import (
    CostFunction,
    Entropy,
    Functional,
    KLDivergence,
    L2Distance,
    LinearCost,
    MixtureDistance,
)
from constrained_maxent.functionals.config import functional_config, functional_from_config
from constrained_maxent.functionals.entropy import Over, Resolution
from constrained_maxent.penalties import AdaptiveLagrangian, Penalty, is_known_kind, penalty_from_config
from constrained_maxent.spaces import single_spaces
from constrained_maxent.types import FloatArray, Points
from constrained_maxent.wrappers.layers import Declaring, ScalarLayer
from constrained_maxent.wrappers.replies import with_pseudo_reward

Divergence = Literal["kl", "l2"]

ImitationReference = ArrayLike | Callable[[Points], FloatArray] | Mapping[str, Any]
"""λ_ref: a table ``(n_states, n_actions)``; what tells it at points, such as a ``references.Reference``; or plain data
``{"entry_point": "module:function", "kwargs": {...}}``, the function that makes one of these."""


class DeclaresObjective(Declaring):
    """The arguments of ``Objective``, whatever kind of environment it is put around."""

    def __init__(self, env: Any, functional: Functional | Mapping[str, Any]) -> None:
        made = functional_from_config(functional)
        self._wrap(env, functional=functional_config(made))
        self.tracker.set_objective(made)


class DeclaresEntropy(Declaring):
    """The arguments of ``EntropyObjective``, whatever kind of environment it is put around."""

    def __init__(
        self,
        env: Any,
        *,
        over: Over = "state-action",
        smoothing: float | None = None,
        resolution: Resolution | None = None,
    ) -> None:
        entropy = Entropy(over=over, smoothing=smoothing, resolution=resolution)
        plain = list(entropy.resolution) if isinstance(entropy.resolution, tuple) else entropy.resolution
        self._wrap(env, over=over, smoothing=smoothing, resolution=plain)
        self.tracker.set_objective(entropy)


class DeclaresConstraint(Declaring):
    """The arguments of ``ConvexConstraint``, whatever kind of environment it is put around."""

    def __init__(
        self,
        env: Any,
        functional: Functional | Mapping[str, Any],
        *,
        penalty: Penalty | Mapping[str, Any] | None = None,
        limit: float | None = None,
        name: str = "convex",
    ) -> None:
        made = functional_from_config(functional)
        self._wrap(env, functional=functional_config(made), penalty=penalty_config(penalty), limit=limit, name=name)
        self.tracker.add_constraint(name, made if limit is None else made.with_limit(limit), as_penalty(penalty))


class DeclaresCost(Declaring):
    """The arguments of ``CostConstraint``, whatever kind of environment it is put around."""

    def __init__(
        self,
        env: Any,
        cost: str | CostFunction | ArrayLike = "cost",
        *,
        limit: float,
        penalty: Penalty | Mapping[str, Any] | None = None,
        name: str = "cost",
    ) -> None:
        self._wrap(env, cost=cost, limit=limit, penalty=penalty_config(penalty), name=name)
        self.tracker.add_constraint(name, LinearCost(cost, limit=limit), as_penalty(penalty))


class DeclaresImitation(Declaring):
    """The arguments of ``ImitationConstraint``, whatever kind of environment it is put around."""

    def __init__(
        self,
        env: Any,
        reference: ImitationReference,
        *,
        limit: float,
        penalty: Penalty | Mapping[str, Any] | None = None,
        divergence: Divergence = "kl",
        name: str = "imitation",
    ) -> None:
        self._wrap(
            env, reference=reference, limit=limit, penalty=penalty_config(penalty), divergence=divergence, name=name
        )
        functional = imitation(reference, divergence, limit)
        if (require := getattr(getattr(functional, "reference", None), "require_comparable", None)) is not None:
            require(single_spaces(env)[1], self.tracker.weighting)
        self.tracker.add_constraint(name, functional, as_penalty(penalty))


class DeclaresReward(Declaring):
    """``PseudoReward``, whatever kind of environment it is put around; at most one, which keeps the original reward."""

    def __init__(self, env: Any, *, normalize: bool = False) -> None:
        self._wrap(env, normalize=normalize)
        if not isinstance(normalize, bool):
            raise InvalidSetting(f"normalize={normalize!r} must be True or False.")
        layer = env
        while layer is not None:
            if isinstance(layer, DeclaresReward):
                raise DuplicateName("There is a PseudoReward in this stack already; constrain() puts one.")
            layer = getattr(layer, "__dict__", {}).get("env")
        if normalize:
            self.tracker.normalize_rewards()


class Objective(DeclaresObjective, ScalarLayer):
    r"""Maximize a concave functional :math:`F(\lambda)`.

    Its part of the pseudo-reward, ``info["pseudo_reward_objective"]``, is :math:`\partial F/\partial\lambda(s,a)`.

    Args:
        env: a stack with ``TrackOccupancy`` in it.
        functional: F, for example ``0.1 * functionals.Entropy() + functionals.Reward()``.

    Raises:
        InvalidSetting: a vector environment, no functional, or one that is convex.
        InvalidData: the functional has another size.
        MissingTracker: no ``TrackOccupancy`` below.
        DuplicateName: there is an objective already.
    """


class EntropyObjective(DeclaresEntropy, ScalarLayer):
    r"""Maximize :math:`H(\lambda)` [nats]; ``Objective(env, Entropy(...))`` with arguments that are plain data.

    Args:
        env: a stack with ``TrackOccupancy`` in it.
        over: ``"state-action"`` or ``"state"``, see :class:`~constrained_maxent.functionals.Entropy`.
        smoothing: σ ≥ 0, in units of λ; usual: 1e-6 for masses of cells, and 1e-300 for densities.
        resolution: for densities: the size of a cell in each coordinate, or a share of the first batch's standard
            deviations, such as 0.01. Where episodes end early, it says what a step of life is worth.

    Raises:
        InvalidSetting: a vector environment.
        MissingTracker: no ``TrackOccupancy`` below.
        DuplicateName: there is an objective already.

    >>> import gymnasium as gym
    >>> from constrained_maxent.wrappers import TrackOccupancy
    >>> env = TrackOccupancy(gym.make("FrozenLake-v1"), episodes_per_batch=8)
    >>> EntropyObjective(env, over="state").tracker.problem.objective.over
    'state'
    """


class ConvexConstraint(DeclaresConstraint, ScalarLayer):
    r"""Keep :math:`F(\lambda) \le` ``limit`` for a convex functional.

    Args:
        env: a stack with ``TrackOccupancy`` in it.
        functional: F, for example ``functionals.Autograd(lambda occupancy: (occupancy**2).sum(), limit=0.1)``.
        penalty: how it is enforced; ``AdaptiveLagrangian()`` if not given.
        limit: instead of the functional's own; sums of functionals have none.
        name: its name in ``info``.

    Raises:
        InvalidData: the functional has another size.
        InvalidSetting: a vector environment, no functional, or one that is concave.
        MissingTracker: no ``TrackOccupancy`` below.
        DuplicateName: the name is taken.
    """


class CostConstraint(DeclaresCost, ScalarLayer):
    r"""Keep :math:`\langle c,\lambda\rangle \le` ``limit``.

    Args:
        env: a stack with ``TrackOccupancy`` in it.
        cost: the key of ``info`` that carries c(s_t, a_t); or a function ``(observation, action, next_observation) ->
            float`` of what ``TrackOccupancy`` sees; or a table ``(n_states, n_actions)``. Positive means bad.
        limit: the budget: cost per step at scale ``normalized``, discounted cost per episode at ``truncated``.
        penalty: how it is enforced, for example ``penalties.Quadratic(beta=10.0)``, the paper's;
            ``AdaptiveLagrangian()`` if not given, which finds the price of the limit in whatever units the cost is.
        name: its name in ``info``.

    Raises:
        InvalidSetting: a vector environment.
        MissingTracker: no ``TrackOccupancy`` below.
        DuplicateName: the name is taken.

    >>> import gymnasium as gym
    >>> from constrained_maxent.penalties import Quadratic
    >>> from constrained_maxent.wrappers import TrackOccupancy
    >>> env = TrackOccupancy(gym.make("FrozenLake-v1"), episodes_per_batch=8)
    >>> env = CostConstraint(env, cost=lambda s, a, s_next: float(s == 5), limit=0.01, penalty=Quadratic(beta=10.0))
    >>> env.tracker.problem.term_names
    ('cost',)
    """


class ImitationConstraint(DeclaresImitation, ScalarLayer):
    r"""Keep a distance to a reference occupancy, an expert's or a path's, below ``limit``.

    It is :math:`\mathrm{KL}(\lambda\|\lambda_{\mathrm{ref}})` [nats] or :math:`\|\lambda-\lambda_{\mathrm{ref}}\|_2`.
    Between densities the latter is that of the state marginals, in closed form, and λ̂ must be a mixture of Gaussians.

    Args:
        env: a stack with ``TrackOccupancy`` in it.
        reference: λ_ref of the tracker's scale: a table ``(n_states, n_actions)``, or for densities a
            :class:`~constrained_maxent.references.Reference`, or any function that gives λ_ref at
            :class:`~constrained_maxent.types.Points` (``"kl"`` only). Where the environment's spec is to be written as
            JSON, plain data that names a function to make it:
            ``{"entry_point": "constrained_maxent.references:Reference.load", "kwargs": {"path": ...}}``.
        limit: in nats for ``"kl"``; for ``"l2"`` in units of λ, or 1 / √volume of the state.
        penalty: how it is enforced; ``AdaptiveLagrangian()`` if not given.
        divergence: ``"kl"`` or ``"l2"``.
        name: its name in ``info``.

    Raises:
        InvalidData: the reference has another size.
        UnsupportedSpace: the reference's policy acts within other bounds.
        InvalidSetting: the reference has more mass than this scale allows, ``"l2"`` to a function that is not a
            mixture, or a vector environment.
        MissingTracker: no ``TrackOccupancy`` below.
        DuplicateName: the name is taken.
    """


class PseudoReward(DeclaresReward, ScalarLayer):
    """reward := ``info["pseudo_reward"]``; the environment's own is kept as ``info["original_reward"]``.

    A third-party agent that updates when it likes wants ``TrackOccupancy(pairing="previous")``, whose rewards are live.

    Args:
        env: a stack with ``TrackOccupancy`` in it.
        normalize: whether that reward is divided by ``tracker.reward_scale``, about the standard deviation of the
            agent's discounted returns, which all its terms share and which changes only where batches end: critics and
            gradient clips want rewards of a bounded size, and the price of a constraint may grow a thousandfold.
            ``info`` keeps the pseudo-reward as it is.

    Raises:
        InvalidSetting: a vector environment, or ``normalize`` is not a truth value.
        MissingTracker: no ``TrackOccupancy`` below.
        DuplicateName: there is a ``PseudoReward`` already, as ``constrain`` puts one.
    """

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        info = with_pseudo_reward(info)
        info["original_reward"] = np.float64(0.0)
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        scale = self.tracker.reward_scale  # before the step, which may end the batch that it belongs to
        observation, reward, terminated, truncated, info = self.env.step(action)
        info = with_pseudo_reward(info)
        info["original_reward"] = np.float64(reward)
        return observation, info["pseudo_reward"] / scale, terminated, truncated, info


def as_penalty(penalty: Penalty | Mapping[str, Any] | None) -> Penalty:
    """A penalty as it is, or from its plain data; the one that needs no number, where none is given."""
    if penalty is None:
        return AdaptiveLagrangian()
    if isinstance(penalty, Penalty):
        return penalty
    if isinstance(penalty, Mapping):
        return penalty_from_config(penalty)
    raise InvalidSetting(f"penalty={penalty!r} must be a Penalty, such as penalties.Quadratic(beta=10.0).")


def penalty_config(penalty: Penalty | Mapping[str, Any] | None) -> Penalty | dict[str, Any]:
    """Plain data of the package's own penalties, so that a spec can be written as JSON; a user's own stays itself."""
    known = as_penalty(penalty)
    return known.to_config() if is_known_kind(known) else known


def imitation(reference: ImitationReference, divergence: Divergence, limit: float) -> Functional:
    """The functional of an imitation constraint.

    Raises:
        InvalidSetting: unknown divergence, or ``"l2"`` to a function that is not a mixture.
        InvalidData: a table that is not one.
    """
    if divergence not in get_args(Divergence):
        raise InvalidSetting(f"divergence={divergence!r} must be one of {', '.join(get_args(Divergence))}.")
    if isinstance(reference, Mapping):
        reference = _made(reference)
    if not callable(reference):
        return (KLDivergence if divergence == "kl" else L2Distance)(reference, limit=limit)
    if divergence == "kl":
        over: Over = getattr(reference, "over", "state-action")
        return KLDivergence(reference, limit=limit, over=over)
    states = getattr(reference, "states", None)
    if states is None:
        raise InvalidSetting("divergence='l2' needs a reference whose states are a mixture: a references.Reference.")
    return MixtureDistance(states, limit=limit)


def _made(config: Mapping[str, Any]) -> ArrayLike | Callable[[Points], FloatArray]:
    """What an entry point makes; as strings, they let layers above be named without being imported here."""
    try:
        module, _, name = str(config["entry_point"]).partition(":")
        make = pkgutil.resolve_name(f"{module}:{name or '?'}")  # which is no name: a module alone makes nothing
    except (KeyError, AttributeError, ImportError, ValueError) as error:
        raise InvalidSetting(
            f"reference={dict(config)!r} must be {{'entry_point': 'module:function', 'kwargs': {{...}}}} ({error!r})."
        ) from error
    made: ArrayLike | Callable[[Points], FloatArray] = make(**config.get("kwargs", {}))
    return made
