"""The engine's twin in NumPy: one run, written down from the equations, for checking the compiled code.

It takes the same random numbers. Functionals and penalties are the package's own, not their compiled forms; schedules
run over ``planned`` batches.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import log_softmax, softmax

from constrained_maxent.engine import RunSettings
from constrained_maxent.engine.sampling import END, FiniteMDP, stream_key
from constrained_maxent.occupancy import Scale, fresh_share
from constrained_maxent.schedules import value_at
from constrained_maxent.types import FloatArray, IntArray


@dataclass
class NumpyTwin:
    """One run of the engine, slowly.

    Args:
        mdp: as for the engine.
        settings: of the run.
        planned: number of batches over which schedules run.
        scale: of λ̂.

    Attributes:
        theta: θ, ``(n_states, n_actions)``.
        occupancy: λ̂, ``(n_states, n_actions)``.
        diverged: the batch in which gradient or step were no longer finite, -1 where they always were; then it stops.
        penalties: as they are for the next batch, by constraint.
        objective, constraints, slopes: F(λ̂), R(λ̂) and ℒ'(R) of every batch so far, the latter two by name.
    """

    mdp: FiniteMDP
    settings: RunSettings
    planned: int
    scale: Scale = "normalized"
    diverged: int = field(init=False, default=-1)
    objective: list[float | None] = field(init=False, default_factory=list)
    constraints: dict[str, list[float]] = field(init=False)
    slopes: dict[str, list[float]] = field(init=False)

    def __post_init__(self) -> None:
        self.theta: FloatArray = np.zeros((self.mdp.n_states, self.mdp.n_actions))
        self.occupancy: FloatArray = np.zeros_like(self.theta)
        self.penalties = {name: constraint.penalty for name, constraint in self.settings.constraints.items()}
        self.constraints = {name: [] for name in self.penalties}
        self.slopes = {name: [] for name in self.penalties}
        self._weights = self.mdp.weighting(self.scale).weights(np.arange(self.mdp.horizon))
        self._key = stream_key(self.settings.seed)
        self._moments = np.zeros((2, *self.theta.shape))
        self._updates = 0
        self._previous_theta = self._previous_reward = self._direction = self._center = self.theta
        self._sampled_theta = self.theta
        # One column more than states: the ways of ending, together.
        ending = np.asarray(self.mdp.ending.sum(axis=1)).reshape(-1, 1)
        self._outcomes = np.cumsum(np.hstack([self.mdp.transition.toarray(), ending]), axis=1)
        self._starts = np.cumsum(self.mdp.initial)

    @property
    def multipliers(self) -> dict[str, float]:
        """μ of the penalties that have one, by name."""
        return {name: penalty.multiplier for name, penalty in self.penalties.items() if hasattr(penalty, "multiplier")}

    def run(self, iterations: int) -> NumpyTwin:
        """Do so many further batches."""
        for _ in range(iterations):
            if self.diverged < 0:
                with np.errstate(over="ignore", invalid="ignore"):  # told by ``diverged``
                    self._iterate(len(self.objective))
        return self

    def _iterate(self, k: int) -> None:
        settings = self.settings
        self._progress = min(k / self.planned, 1.0)
        if settings.beta is not None:
            beta = value_at(settings.beta, self._progress)
            self.penalties = {name: replace(penalty, beta=beta) for name, penalty in self.penalties.items()}
        cells = self.sample(k)
        self._sampled_theta = self.theta
        half = settings.episodes_per_batch // 2 if settings.pairing == "split" else 0
        if settings.pairing == "previous":
            if k > 0:
                self._ascend(cells, k)
            self._estimate(cells, k)
        else:
            self._estimate(cells[:, : half or None], k)
            self._ascend(cells[:, half:], k)
        if self.diverged >= 0:
            return
        self._previous_theta = self._sampled_theta
        self.objective.append(None if settings.objective is None else settings.objective(self.occupancy))
        for name, violation in self._violations().items():
            self.constraints[name].append(violation)
            self.slopes[name].append(self.penalties[name].slope(violation))
            after = min((k + 1) / self.planned, 1.0)
            self.penalties[name] = self.penalties[name].updated(violation, after)

    def _violations(self) -> dict[str, float]:
        functionals = {name: constraint.functional for name, constraint in self.settings.constraints.items()}
        return {name: functional(self.occupancy) - functional.limit for name, functional in functionals.items()}

    def _reward(self) -> FloatArray:
        """∂F/∂λ - Σ ℒ'(R) ∂R/∂λ at λ̂, ``(n_cells,)``."""
        objective = self.settings.objective
        reward = np.zeros(self.theta.shape) if objective is None else objective.gradient(self.occupancy)
        for name, violation in self._violations().items():
            gradient = self.settings.constraints[name].functional.gradient(self.occupancy)
            reward = reward - self.penalties[name].slope(violation) * gradient
        return reward.reshape(-1)

    def sample(self, k: int) -> IntArray:
        """The cell of each step, ``END`` after an episode's last, ``(horizon, n_episodes)``."""
        n_states, n_actions = self.theta.shape
        n = self.settings.episodes_per_batch
        horizon = len(self._weights)
        u = uniforms(self._key, k * n * (2 * horizon + 1) + np.arange(n * (2 * horizon + 1))).reshape(-1, n)
        policy_sums = np.cumsum(softmax(self.theta, axis=1), axis=1)[:, :-1]
        cells = np.full((horizon, n), END)
        states = _first_above(np.broadcast_to(self._starts, (n, n_states)), u[0])
        for t in range(horizon):
            runs = states < n_states
            actions = (policy_sums[states[runs]] <= u[1 + 2 * t, runs, None]).sum(axis=1)
            cells[t, runs] = states[runs] * n_actions + actions
            states[runs] = _first_above(self._outcomes[cells[t, runs]], u[2 + 2 * t, runs])
        return cells

    def _estimate(self, cells: IntArray, k: int) -> None:
        fresh = self._count(cells, np.ones(cells.shape[1]))
        if self.settings.uses_momentum and k > 0:
            alpha = value_at(self.settings.momentum, self._progress)
            old = self.occupancy - self._count(cells, self._importance(cells))
            self.occupancy = np.maximum(fresh + (1.0 - alpha) * old, 0.0)
        else:
            share = value_at(fresh_share(self.settings.memory), self._progress) if k > 0 else 1.0
            self.occupancy = (1.0 - share) * self.occupancy + share * fresh
        for name, penalty in self.penalties.items():
            if penalty.asks_for_spread:
                gradient = self.settings.constraints[name].functional.gradient(self.occupancy)
                self.penalties[name] = penalty.with_spread(_deviation(gradient, fresh) * fresh.sum())

    def _count(self, cells: IntArray, episode_weights: FloatArray) -> FloatArray:
        visits: FloatArray = np.zeros(self.theta.size)
        t, b = np.nonzero(cells != END)
        np.add.at(visits, cells[t, b], self._weights[t] * episode_weights[b])
        mean: FloatArray = visits.reshape(self.theta.shape) / cells.shape[1]
        return mean

    def _importance(self, cells: IntArray) -> FloatArray:
        """π'(τ) / π(τ) of every episode, cut at the bound."""
        ratios = log_softmax(self._previous_theta, axis=1) - log_softmax(self._sampled_theta, axis=1)
        logs = np.where(cells != END, ratios.reshape(-1)[cells], 0.0).sum(axis=0)
        weights: FloatArray = np.minimum(np.exp(np.minimum(logs, 700.0)), self.settings.importance_bound)
        return weights

    def _ascend(self, cells: IntArray, k: int) -> None:
        settings = self.settings
        reward = self._reward()
        gradient = self._gradient(cells, self.theta, reward, np.ones(cells.shape[1]))
        if settings.uses_momentum:
            if self._updates > 0:
                alpha, weights = value_at(settings.momentum, self._progress), self._importance(cells)
                old = self._gradient(cells, self._previous_theta, self._previous_reward, weights)
                gradient = gradient + (1.0 - alpha) * (self._direction - old)
            self._direction, self._previous_reward = gradient, reward
        if settings.proximal_weight is not None:
            if self._updates % settings.inner_iterations == 0:
                self._center = self.theta
            gradient = gradient - settings.proximal_weight * (self.theta - self._center)
        theta = self._step(gradient, value_at(settings.learning_rate, self._progress))
        if np.isfinite(gradient).all() and np.isfinite(theta).all():
            self.theta = theta
        else:
            self.diverged = k

    def _gradient(
        self, cells: IntArray, theta: FloatArray, reward: FloatArray, episode_weights: FloatArray
    ) -> FloatArray:
        n_actions, took = self.mdp.n_actions, cells != END
        returns = np.cumsum(np.where(took, self._weights[:, None] * reward[cells], 0.0)[::-1], axis=0)[::-1]
        if self.settings.baseline == "batch-mean":
            means = np.where(took, returns, 0.0).sum(axis=1) / np.maximum(took.sum(axis=1), 1)
            returns = returns - means[:, None]
        policy, gradient = softmax(theta, axis=1), np.zeros_like(theta)
        states, actions = np.divmod(cells[took], n_actions)
        score = np.eye(n_actions)[actions] - policy[states]
        np.add.at(gradient, states, (returns * episode_weights)[took][:, None] * score / cells.shape[1])
        return gradient

    def _step(self, gradient: FloatArray, learning_rate: float) -> FloatArray:
        """Where θ goes."""
        direction = gradient
        self._updates += 1
        match self.settings.optimizer:
            case "adam":
                decays = np.array([0.9, 0.999])[:, None, None]
                self._moments = decays * self._moments + (1.0 - decays) * np.array([gradient, gradient**2])
                mean, square = self._moments / (1.0 - decays**self._updates)
                direction = mean / (np.sqrt(square) + 1e-8)
            case "normalized":
                direction = gradient / (float(np.linalg.norm(gradient)) or 1.0)
            case "natural":
                direction = np.array([self._natural(s, row) for s, row in enumerate(gradient)])
        radius = self.settings.projection_radius or np.inf
        theta: FloatArray = np.clip(self.theta + learning_rate * direction, -radius, radius)
        return theta

    def _natural(self, state: int, gradient: FloatArray) -> FloatArray:
        """(F + δ)⁻¹ g in one state, by solving the linear system."""
        policy, damping = softmax(self.theta[state]), self.settings.damping * self._weights.sum()
        fisher = self.occupancy[state].sum() * (np.diag(policy) - np.outer(policy, policy))
        direction: FloatArray = np.linalg.solve(fisher + damping * np.eye(len(policy)), gradient)
        return direction


def _first_above(sums: FloatArray, u: FloatArray) -> IntArray:
    """In each row the first column whose sum exceeds u; where rounding left the last below it, the last that grew."""
    found: IntArray = np.minimum((sums <= u[:, None]).sum(axis=1), (sums < sums[:, -1:]).sum(axis=1))
    return found


def uniforms(key: np.uint64, positions: IntArray) -> FloatArray:
    """The numbers at many positions of the stream with a key, in [0, 1): SplitMix64, with Vigna's constants."""
    z = key + (positions.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    numbers: FloatArray = (z >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return numbers


def _deviation(values: FloatArray, weights: FloatArray) -> float:
    """Standard deviation; 0 where it is rounding."""
    mean = np.average(values, weights=weights)
    deviation = float(np.sqrt(np.average((values - mean) ** 2, weights=weights)))
    return deviation if deviation > 1e-9 else 0.0
