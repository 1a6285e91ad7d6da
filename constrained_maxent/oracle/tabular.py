r"""Finite Markov decision processes, in which the occupancy measure of a policy is calculated instead of estimated.

With :math:`T(s'|s,a)` the probability of moving on to :math:`s'`, the states of a policy :math:`\pi` follow

.. math:: \rho_0 = \mu_0, \qquad \rho_{t+1}(s') = \sum_{s,a} \rho_t(s)\,\pi(a|s)\,T(s'|s,a), \qquad
          \lambda(s,a) = \sum_{t<H} w_t\,\rho_t(s)\,\pi(a|s),

with the weights :math:`w_t` of :class:`~constrained_maxent.occupancy.weighting.Weighting`. Rows of :math:`T` that sum
to less than 1 end episodes, and :math:`\lambda` loses the mass of the steps that are never taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array, csr_array, issparse

from constrained_maxent.errors import InvalidData, InvalidMDP, InvalidSetting, MissingCost, NonFiniteValue
from constrained_maxent.functionals import OWN_REWARD, Functional, Source
from constrained_maxent.occupancy.horizon import find_horizon
from constrained_maxent.occupancy.weighting import Scale, Weighting
from constrained_maxent.oracle import exact_values
from constrained_maxent.oracle.model import (
    MODEL_TOLERANCE,
    canonical,
    read_toy_text,
    require_distributions,
    require_policy,
    require_reward,
    split_outcomes,
    states_and_actions,
)
from constrained_maxent.oracle.published import Elements, published
from constrained_maxent.spaces import Environment
from constrained_maxent.types import FloatArray, as_array, random_numbers

Cost = Callable[[Any, Any, Any], float]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TabularMDP:
    r"""A finite Markov decision process with known transition probabilities.

    Episodes end with a *transition*, as in Gymnasium, and not by being in a state: row ``s * n_actions + a`` of
    ``transition`` and of ``ending`` together are the distribution of the next state, and no action is taken in a state
    that was entered through ``ending``. An episode that starts in a "terminal" state therefore takes one action there.

    The arrays are copied, brought to float64 and made read-only. :func:`dataclasses.replace` gives a variant, for
    example with another horizon.

    Args:
        transition: probability of moving on to s', sparse ``(n_states * n_actions, n_states)``.
        ending: probability that the episode ends by entering s', sparse, of the same shape.
        initial: distribution :math:`\mu_0` of the first state, ``(n_states,)``.
        reward: expected reward, ``(n_states, n_actions)``, or ``None`` where it is not known.
        discount: :math:`\gamma \in (0, 1]`, below 1 at infinite horizon.
        horizon: longest episode [steps]; ``None`` means infinite.
        elements: observations and actions by number, for functions of them; whole numbers from 0 if not given.

    Raises:
        InvalidMDP: shapes disagree, or a distribution has a negative entry or does not sum to 1 within 1e-9.
        NonFiniteValue: a probability or reward is NaN or infinite.
        InvalidSetting: discount or horizon makes no sense.

    >>> mdp = TabularMDP.from_arrays([[[0.5, 0.5]], [[0.0, 1.0]]], [1.0, 0.0], discount=0.5, terminal=[1])
    >>> mdp
    TabularMDP(n_states=2, n_actions=1, discount=0.5, horizon=None)
    >>> mdp.occupancy([[1.0], [1.0]], scale="truncated").round(6).tolist()  # 1 + 1/4 + 1/16 + ...
    [[1.333333], [0.0]]
    """

    transition: csr_array
    ending: csr_array
    initial: FloatArray
    reward: FloatArray | None
    discount: float
    horizon: int | None = None
    elements: tuple[Elements, Elements] | None = None

    def __post_init__(self) -> None:
        Weighting(discount=self.discount, horizon=self.horizon)
        transition, ending = canonical(self.transition), canonical(self.ending)
        initial = as_array("initial", self.initial, np.float64).copy()

        shape = states_and_actions(transition, initial)
        if ending.shape != transition.shape:
            raise InvalidMDP(f"ending has shape {ending.shape}, transition {transition.shape}: they must agree.")
        reward = None if self.reward is None else require_reward(self.reward, shape).copy()
        require_distributions("initial", initial, initial.sum(keepdims=True), MODEL_TOLERANCE)
        require_distributions(
            "transition + ending",
            np.concatenate([transition.data, ending.data]),
            (transition.sum(axis=1) + ending.sum(axis=1)).reshape(shape),
            MODEL_TOLERANCE,
        )

        parts = [part for matrix in (transition, ending) for part in (matrix.data, matrix.indices, matrix.indptr)]
        for array in (initial, *parts, *(() if reward is None else (reward,))):
            array.flags.writeable = False
        horizon = None if self.horizon is None else int(self.horizon)
        fields = {"transition": transition, "ending": ending, "initial": initial, "reward": reward, "horizon": horizon}
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_env(
        cls, env: Environment, *, discount: float, horizon: int | Literal["auto"] | None = "auto"
    ) -> TabularMDP:
        """Read an environment that publishes its dynamics, as Gymnasium's toy-text environments do.

        The unwrapped environment, scalar or vector, must have ``P``, ``{s: {a: [(probability, s', reward, terminated),
        ...]}}``, and ``initial_state_distrib``. ``P`` is taken at its word, but only for the process that is stepped:
        wrappers must be known to leave it alone, and copies must be alike. Numbers of ``P`` count the elements of the
        spaces, as counts and policies do. ``env.unwrapped`` is what is published, whatever the wrappers do.

        Args:
            env: the environment; it is neither reset nor stepped.
            discount: γ of the occupancy.
            horizon: longest episode [steps], ``None`` for infinite. ``"auto"`` takes the smallest of the
                environment's time limits and its attribute ``horizon``, and ``None`` when it has neither.

        Raises:
            InvalidMDP: ``P`` or ``initial_state_distrib`` is missing or malformed.
            UnknownProcess: what is stepped may be another process: a wrapper that is not known to leave it as it is,
                copies that differ, Taxi's fickle passengers.
            InvalidSetting: no horizon was found, and the discount is 1.
        """
        found = published(env)
        source = found.copies[0]
        initial = np.asarray(source.initial_state_distrib, dtype=np.float64)
        transition, ending, reward = read_toy_text(source.P, n_states=initial.size)
        return cls(
            transition=transition,
            ending=ending,
            initial=initial,
            reward=reward if found.keeps_reward else None,
            discount=discount,
            horizon=find_horizon(env) if horizon == "auto" else horizon,
            elements=found.elements,
        )

    @classmethod
    def from_arrays(
        cls,
        transition: ArrayLike | csr_array,
        initial: ArrayLike,
        *,
        discount: float,
        horizon: int | None = None,
        terminal: Collection[int] = (),
        reward: ArrayLike | None = None,
    ) -> TabularMDP:
        """Build an MDP from its transition probabilities; what is not listed is as in the class.

        Args:
            transition: p(s'|s,a), dense ``(n_states, n_actions, n_states)`` or any SciPy sparse array
                ``(n_states * n_actions, n_states)`` with rows ``s * n_actions + a``. Every row sums to 1, also those
                of terminal states: give these a self-loop.
            initial: distribution of the first state, ``(n_states,)``; it may have mass on terminal states.
            terminal: numbers of the states whose entry ends the episode.

        Raises:
            InvalidMDP, NonFiniteValue, InvalidSetting: as the class; or a terminal state that does not exist.
        """
        if not issparse(transition):
            dense = as_array("transition", transition, np.float64)
            if dense.ndim != 3 or dense.shape[0] != dense.shape[2]:
                raise InvalidMDP(f"transition has shape {dense.shape}, expected (n_states, n_actions, n_states).")
            transition = dense.reshape(dense.shape[0] * dense.shape[1], dense.shape[2])
        matrix, start = csr_array(transition), as_array("initial", initial, np.float64)
        n_states, _ = states_and_actions(matrix, start)
        states = np.array(list(terminal))
        # A Boolean mask, one entry per state, would pass for the numbers 0 and 1.
        numbers = states.ndim == 1 and states.dtype.kind in "iu"
        if states.size and not (numbers and states.min() >= 0 and states.max() < n_states):
            raise InvalidMDP(f"terminal={terminal!r} must list numbers of states, from 0 to {n_states - 1}.")
        entries = matrix.tocoo()
        going_on, ending = split_outcomes(entries, np.isin(entries.col, states))
        return cls(
            transition=going_on,
            ending=ending,
            initial=start,
            reward=None if reward is None else as_array("reward", reward, np.float64),
            discount=discount,
            horizon=horizon,
        )

    @classmethod
    def random(
        cls,
        n_states: int,
        n_actions: int,
        *,
        seed: int | np.random.Generator,
        discount: float,
        horizon: int | None = None,
        branching: int | None = None,
    ) -> TabularMDP:
        """Draw an MDP in which nothing terminates: a Garnet problem (Archibald, McKinnon and Thomas, 1995).

        Each state-action pair leads to ``branching`` distinct states (default: all), with probabilities uniform on the
        simplex; so is the start distribution.

        Raises:
            InvalidSetting: sizes below 1, or ``branching`` above ``n_states``.
        """
        branching = n_states if branching is None else branching
        if n_states < 1 or n_actions < 1 or not 1 <= branching <= n_states:
            raise InvalidSetting(f"{n_states=}, {n_actions=}, {branching=}: need at least 1, and branching ≤ n_states.")
        rng = random_numbers(seed)
        rows = np.arange(n_states * n_actions)
        successors = rng.permuted(np.tile(np.arange(n_states), (rows.size, 1)), axis=1)[:, :branching]
        probability = rng.dirichlet(np.ones(branching), size=rows.size)
        coordinates = (rows.repeat(branching), successors.ravel())
        return cls.from_arrays(
            coo_array((probability.ravel(), coordinates), shape=(rows.size, n_states)),
            rng.dirichlet(np.ones(n_states)),
            discount=discount,
            horizon=horizon,
        )

    @property
    def n_states(self) -> int:
        """Number of states."""
        return self.initial.size

    @property
    def n_actions(self) -> int:
        """Number of actions, the same in every state."""
        return int(self.transition.shape[0]) // self.n_states

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of λ, ``(n_states, n_actions)``."""
        return self.n_states, self.n_actions

    @property
    def outcomes(self) -> csr_array:
        """p(s'|s,a) whether or not the episode goes on, sparse ``(n_states * n_actions, n_states)``."""
        return self.transition + self.ending

    @cached_property
    def reachable(self) -> NDArray[np.bool_]:
        """States in which some policy takes an action within the horizon, ``(n_states,)``."""
        mask = self.initial > 0.0
        frontier = np.flatnonzero(mask)
        # No state is further away than n_states - 1 steps, and the last step of an episode leads to no action.
        for _ in range((self.horizon or self.n_states) - 1):
            if not frontier.size:
                break
            rows = frontier[:, None] * self.n_actions + np.arange(self.n_actions)
            successors = np.unique(self.transition[rows.ravel()].indices)
            frontier = successors[~mask[successors]]
            mask[frontier] = True
        mask.flags.writeable = False
        return mask

    def weighting(self, scale: Scale = "normalized") -> Weighting:
        """The weights of the time steps at this discount and horizon."""
        return Weighting(discount=self.discount, horizon=self.horizon, scale=scale)

    def tabulate(self, cost: Cost) -> FloatArray:
        r"""Expected cost :math:`\sum_{s'} p(s'|s,a)\,\mathrm{cost}(s,a,s')`, ``(n_states, n_actions)``, in its unit.

        Args:
            cost: function of observation, action and next observation: elements of the environment's spaces, as
                functions see them on steps; whole numbers from 0 where the MDP is of no environment. It is called once
                per possible outcome, final steps included.

        Raises:
            InvalidData: the cost of a possible outcome is no number.
            NonFiniteValue: it is NaN or infinite.
        """
        observation, taken = self.elements or (int, int)
        outcomes = self.outcomes.tocoo()
        table = np.zeros(self.n_states * self.n_actions)
        for row, successor, probability in zip(outcomes.row, outcomes.col, outcomes.data, strict=True):
            state, action = divmod(int(row), self.n_actions)
            charged: Any = cost(observation(state), taken(action), observation(int(successor)))
            try:
                value = float(charged)
            except (TypeError, ValueError) as error:
                raise InvalidData(
                    f"cost({state}, {action}, {int(successor)}) must be a number, got {charged!r}."
                ) from error
            if not math.isfinite(value):
                raise NonFiniteValue(f"cost({state}, {action}, {int(successor)}) is {value}: it must be finite.")
            table[row] += probability * value
        return table.reshape(self.shape)

    def with_tables(self, functional: Functional) -> Functional:
        """A functional with tables in place of the functions and rewards that are observed on each step.

        Raises:
            MissingCost: it observes a key of ``info``, or the reward, and that is not known.
        """
        functional, sources = functional.observing("cost")
        return functional.tabulated(lambda name: self.table_of(sources[name], {}))

    def table_of(self, source: Source, tables: Mapping[str, ArrayLike]) -> FloatArray:
        """The table ``(n_states, n_actions)`` of an observed quantity; ``tables`` are those of the keys of ``info``.

        Raises:
            MissingCost: it is not known.
        """
        if source is OWN_REWARD:
            if self.reward is None:
                raise MissingCost(
                    "The reward of this MDP is not known, or a wrapper changes it: TabularMDP.from_arrays(..., "
                    "reward=table)."
                )
            return self.reward
        if callable(source):
            return self.tabulate(source)
        if source not in tables:
            raise MissingCost(
                f"{source!r} is known step by step only, as a key of info. For exact values give its table instead, or "
                f"a function. From an environment: let the bare one have cost_tables = {{{source!r}: table of shape "
                "(n_states, n_actions)}."
            )
        return as_array(f"the table of {source!r}", tables[source], np.float64)

    def occupancy(self, policy: ArrayLike, *, scale: Scale = "normalized") -> FloatArray:
        r"""Exact occupancy measure :math:`\lambda(s,a) = \sum_{t<H} w_t\,\rho_t(s)\,\pi_t(a|s)` of a policy.

        At infinite horizon :math:`d = \sum_t \gamma^t \rho_t` solves :math:`(I - \gamma P_\pi^\top) d = \mu_0`.

        Args:
            policy: :math:`\pi(a|s)`, ``(n_states, n_actions)``; at finite horizon also one per time step,
                ``(horizon, n_states, n_actions)``. Rows sum to 1 within 1e-6 and are used as they are.
            scale: ``"normalized"`` or ``"truncated"``.

        Returns:
            float64 ``(n_states, n_actions)``. Its sum is ``weighting(scale).full_mass``, less what termination cuts.

        Raises:
            InvalidMDP: the policy has another shape, a negative entry, or a row that does not sum to 1.
            NonFiniteValue: the policy has an entry that is NaN or infinite.
            InvalidSetting: unknown scale.
        """
        table = require_policy(policy, self.shape, self.horizon)
        occupancy = exact_values.occupancy(self.transition, self.initial, table, self.weighting(scale))
        # Exactly 0 where no policy goes, whatever rounding leaves there.
        return np.where(self.reachable[:, None], occupancy, 0.0) if self.horizon is None else occupancy

    def policy_gradient(self, policy: ArrayLike, reward: ArrayLike, *, scale: Scale = "normalized") -> FloatArray:
        r"""Derivative of :math:`\langle r, \lambda^\pi \rangle` in the entries of the policy.

        By the policy gradient theorem it is the visits of a state times the action's value for the reward *r*,

        .. math:: \frac{\partial \langle r, \lambda^\pi \rangle}{\partial \pi_t(a|s)} = w_t\,\rho_t(s)\,Q^r_t(s,a),
                  \qquad Q^r_t(s,a) = r(s,a) + \gamma \sum_{s'} T(s'|s,a) \sum_{a'} \pi_{t+1}(a'|s')\,Q^r_{t+1}(s',a'),

        summed over *t* for a stationary policy. Entries count as independent: the chain rule through a softmax, or
        the like, keeps rows summing to 1.

        Args:
            policy: as in :meth:`occupancy`; the derivative has its shape.
            reward: ``(n_states, n_actions)``; a pseudo-reward :math:`\partial F/\partial\lambda` gives the derivative
                of :math:`F(\lambda^\pi)`.
            scale: of λ.

        Raises:
            InvalidMDP, NonFiniteValue, InvalidSetting: as in :meth:`occupancy`, and of the reward.
        """
        pi, r = require_policy(policy, self.shape, self.horizon), require_reward(reward, self.shape)
        gradient = exact_values.policy_gradient(self.transition, self.initial, pi, r, self.weighting(scale))
        return np.where(self.reachable[:, None], gradient, 0.0) if self.horizon is None else gradient

    def __repr__(self) -> str:
        sizes = f"n_states={self.n_states}, n_actions={self.n_actions}"
        return f"TabularMDP({sizes}, discount={self.discount}, horizon={self.horizon})"
