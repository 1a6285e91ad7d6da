"""What agents need to know of a finite MDP; :class:`~constrained_maxent.oracle.TabularMDP` has all of it."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from scipy.sparse import csr_array

from constrained_maxent.occupancy import Scale, Weighting
from constrained_maxent.types import FloatArray


@runtime_checkable
class FiniteMDP(Protocol):
    """Dynamics, start and horizon: enough to sample episodes."""

    @property
    def transition(self) -> csr_array: ...
    @property
    def ending(self) -> csr_array: ...
    @property
    def initial(self) -> FloatArray: ...
    @property
    def n_states(self) -> int: ...
    @property
    def n_actions(self) -> int: ...
    @property
    def horizon(self) -> int | None: ...
    def weighting(self, scale: Scale = "normalized") -> Weighting: ...


@runtime_checkable
class PlanningMDP(FiniteMDP, Protocol):
    """With exact occupancies and values: enough to plan."""

    @property
    def discount(self) -> float: ...
    def occupancy(self, policy: FloatArray, *, scale: Scale = "normalized") -> FloatArray: ...
    def state_values(self, policy: FloatArray, reward: FloatArray) -> FloatArray: ...


def no_mdp(given: object) -> str:
    """What to say of something that is none."""
    return (
        f"mdp is a {type(given).__name__}, not a finite MDP. From an environment that publishes its dynamics: "
        "TabularMDP.from_env(env, discount=0.99, horizon=100)."
    )
