"""A functional that the package does not have, defined here: every part of the package takes it, or says what it lacks.

``Collision`` is the negative collision probability, −Σ λ² (minus the exponential of Rényi's entropy of order 2), which
is largest where λ is spread evenly. It is concave; as a constraint stands its negative, Σ λ² ≤ limit.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from scipy.optimize import minimize

from constrained_maxent import wrappers
from constrained_maxent.agents import PGP
from constrained_maxent.cli import main
from constrained_maxent.engine import RunSettings, TabularEngine
from constrained_maxent.errors import InvalidSetting, UnsupportedFunctional
from constrained_maxent.evaluation import ExactProblem, evaluate_rollouts
from constrained_maxent.functionals import (
    ConicOccupancy,
    Curvature,
    EngineTerm,
    Entropy,
    Functional,
    KLDivergence,
    L2Distance,
    LinearCost,
    Reward,
)
from constrained_maxent.oracle import SoftmaxProblem, TabularMDP, best_stationary, certify, frank_wolfe, solve
from constrained_maxent.penalties import Quadratic
from constrained_maxent.problem import Constraint
from constrained_maxent.testing import check_functional
from constrained_maxent.types import FloatArray, Measure, Points
from constrained_maxent.wrappers import constrain


class Bare(Functional):
    """−Σ λ² without any capability."""

    def value(self, measure: Measure) -> float:
        return -float(np.sum(measure.weights * measure.points.density))

    def derivative(self, measure: Measure, points: Points) -> FloatArray:
        return -2.0 * points.density


@dataclass(frozen=True, eq=False)
class Collision(Bare):
    """−Σ λ² with what the oracle, the engine and evaluation ask for."""

    @property
    def curvature(self) -> Curvature:
        return "concave"

    def conic(self, occupancy: ConicOccupancy) -> Any:
        import cvxpy as cp

        return -(occupancy.unit**2) * cp.sum_squares(occupancy.scaled)

    def integrand(self, measure: Measure, points: Points) -> FloatArray:
        return -points.density

    def engine_terms(self, n_states: int, n_actions: int) -> Sequence[EngineTerm]:
        return [EngineTerm(kind="elementwise", value=minus_square, slope=slope_of_minus_square)]


def minus_square(mass: float, entry: float) -> float:
    return -mass * mass


def slope_of_minus_square(mass: float, entry: float) -> float:
    return -2.0 * mass


class WithoutConic(Bare):
    """Concave, and nothing else."""

    @property
    def curvature(self) -> Curvature:
        return "concave"


MDP = TabularMDP.random(4, 3, seed=2, discount=0.8)
RNG = np.random.default_rng(0)
TABLE = RNG.dirichlet(np.ones(12)).reshape(4, 3)
COST = RNG.normal(size=(4, 3))


def by_slsqp(objective: Functional, constraints: Sequence[Functional] = ()) -> float:
    """The optimum over policies π ∝ x², by a solver that shares nothing with the oracle but the exact occupancy."""

    def occupancy(x: np.ndarray) -> np.ndarray:
        weights = x.reshape(4, 3) ** 2 + 1e-12
        return MDP.occupancy(weights / weights.sum(axis=1, keepdims=True))

    rules = [{"type": "ineq", "fun": lambda x, f=f: f.limit - f(occupancy(x))} for f in constraints]
    values = []
    for seed in range(2):
        start = 0.3 + np.random.default_rng(seed).random(12)
        found = minimize(lambda x: -objective(occupancy(x)), start, method="SLSQP", constraints=rules, tol=1e-12)
        if all(rule["fun"](found.x) >= -1e-7 for rule in rules):
            values.append(-found.fun)
    return max(values)


class TestContract:
    @pytest.mark.parametrize(
        "functional",
        [
            Bare(),
            Collision(),
            -Collision(),
            0.5 * Collision() + 2.0 * Entropy(),
            Entropy() + Reward() - LinearCost("heat") + LinearCost(lambda s, a, n: 1.0) + Reward(lambda s, a, n: 2.0),
            Collision() - 0.3 * KLDivergence(TABLE) - L2Distance(TABLE),
            L2Distance(TABLE) + KLDivergence(TABLE) - Entropy(over="state"),
            Entropy() - Collision(),
        ],
        ids=[
            "bare", "own", "its negative", "a sum", "of observed quantities", "a concave sum", "a convex sum",
            "neither",
        ],
    )  # fmt: skip
    def test_holds(self, functional: Functional) -> None:
        check_functional(functional, RNG.dirichlet(np.ones(12)).reshape(4, 3))

    def test_by_hand(self) -> None:
        own = Collision(limit=-0.3)
        assert own([[0.5, 0.5]]) == -0.5
        assert own.gradient([[0.75, 0.25]]).tolist() == [[-1.5, -0.5]]
        assert pickle.loads(pickle.dumps(own)).limit == own.with_limit(-0.3).limit == -0.3


class TestInSums:
    def test_by_hand(self) -> None:
        # 2·(−1/2) + log 2 − (1/2)·3
        total = 2.0 * Collision() + Entropy(smoothing=0.0) - LinearCost([[3.0, 0.0]])
        assert total([[0.5, 0.5]]) == pytest.approx(-1.0 + np.log(2.0) - 1.5)
        slope = 2.0 * -1.0 + np.log(2.0) - 1.0
        np.testing.assert_allclose(total.gradient([[0.5, 0.5]]), [[slope - 3.0, slope]])
        assert total.curvature == "concave"
        assert (total + Bare()).curvature == "unknown"


class TestOracle:
    def test_objective(self) -> None:
        best = solve(MDP, Collision())
        assert best.status == "optimal"
        assert best.value == pytest.approx(by_slsqp(Collision()), abs=1e-6)
        assert -1e-9 <= best.gap <= 1e-6

    def test_by_hand_on_a_bandit(self) -> None:
        # −x² − (1−x)² with x ≤ 1/4 for the second action: (3/4, 1/4) and −2·3/4 = −2·1/4 − ν.
        bandit = TabularMDP.from_arrays(np.ones((1, 2, 1)), [1.0], discount=0.9)
        best = solve(bandit, Collision(), {"c": LinearCost([[0.0, 1.0]], limit=0.25)})
        assert best.value == pytest.approx(-10 / 16)
        assert best.multipliers["c"] == pytest.approx(1.0, abs=1e-5)

    def test_constraint(self) -> None:
        spread = (-Collision()).with_limit(0.11)
        objective = Reward(COST)
        best = solve(MDP, objective, {"spread": spread})
        assert best.constraints["spread"] == pytest.approx(0.0, abs=1e-6)
        assert best.value == pytest.approx(by_slsqp(objective, [spread]), abs=1e-5)
        # The certificate is a tangent: it misses what the solver does, to first order.
        assert -1e-9 <= best.gap <= 1e-5
        # The price of the limit: the optimum rises at the multiplier's rate.
        wider = solve(MDP, objective, {"spread": spread.with_limit(0.11 + 1e-4)})
        assert (wider.value - best.value) / 1e-4 == pytest.approx(best.multipliers["spread"], rel=0.02)

    @pytest.mark.parametrize(
        "objective",
        [
            0.1 * Entropy() + Reward(COST),
            Collision() + 0.2 * Entropy(over="state") - 0.1 * L2Distance(TABLE),
            -1.0 * KLDivergence(MDP.occupancy(np.full((4, 3), 1 / 3))) + Reward(COST),
        ],
        ids=["entropy and reward", "own, entropy, distance", "divergence and reward"],
    )
    def test_sums_as_objectives(self, objective: Functional) -> None:
        best = solve(MDP, objective, {"c": LinearCost(COST, limit=0.5)})
        assert best.status == "optimal"
        assert best.value == pytest.approx(by_slsqp(objective.exact(), [LinearCost(COST, limit=0.5)]), abs=2e-5)
        assert abs(best.gap) <= 1e-6

    def test_a_kink_at_the_optimum(self) -> None:
        # The distance of an occupancy from itself is 0, and has no derivative there.
        best = solve(MDP, -1.0 * L2Distance(MDP.occupancy(np.full((4, 3), 1 / 3))))
        assert best.value == pytest.approx(0.0, abs=1e-7)
        assert abs(best.gap) <= 1e-6

    def test_the_reward_of_an_environment(self) -> None:
        mdp = TabularMDP.from_env(gym.make("FrozenLake-v1", is_slippery=False), discount=0.9, horizon=None)
        best = solve(mdp, Reward(), scale="truncated")
        # Six steps to the goal, whose reward of 1 comes with the sixth: γ⁵.
        assert best.value == pytest.approx(0.9**5, abs=1e-7)
        assert solve(mdp, 0.001 * Entropy() + Reward(), scale="truncated").constraints == {}

    def test_certificate(self) -> None:
        uniform = np.full((4, 3), 1 / 3)
        spread = (-Collision()).with_limit(0.2)
        certificate = certify(MDP, uniform, objective=Collision(), constraints={"spread": spread})
        assert certificate.value == pytest.approx(-np.sum(MDP.occupancy(uniform) ** 2))
        assert certificate.gap == pytest.approx(by_slsqp(Collision()) - certificate.value, abs=1e-6)
        assert certificate.slater_margin == pytest.approx(0.2 + by_slsqp(Collision()), abs=1e-6)

    def test_exact_gradients_and_mixtures(self) -> None:
        best = solve(MDP, Collision()).value
        assert best_stationary(MDP, Collision(), starts=1)[0].value == pytest.approx(best, abs=1e-6)
        found = frank_wolfe(MDP, Collision(), iterations=300)
        assert best - found.gaps[-1] - 1e-9 <= found.objective <= best + 1e-9
        assert SoftmaxProblem(MDP, Bare()).evaluate(np.zeros((4, 3))).objective < best


class TestEvaluation:
    def test_exact(self) -> None:
        env = constrain(
            gym.make("FrozenLake-v1", is_slippery=False, max_episode_steps=3),
            objective=Entropy(),
            constraints={"spread": Constraint((-Bare()).with_limit(0.1), Quadratic(1.0))},
            episodes_per_batch=1,
            discount=1.0,
        )
        left = np.eye(4)[np.zeros(16, dtype=int)]
        # All mass in one cell.
        assert ExactProblem.from_env(env).evaluate(left).constraints["spread"] == pytest.approx(1.0 - 0.1)


class TestWrappers:
    """One step from the start to the right, then back, by hand: each of two cells has mass 1/2 at discount 1."""

    @staticmethod
    def info_of(vector: bool, make: Any) -> tuple[dict[str, Any], Any]:
        kwargs = {"is_slippery": False, "max_episode_steps": 2}
        bare = gym.make_vec("FrozenLake-v1", num_envs=1, **kwargs) if vector else gym.make("FrozenLake-v1", **kwargs)
        env = make(bare)
        env.reset(seed=0)
        for action in (2, 0):
            *_, info = env.step(np.array([action]) if vector else action)
        return info, env

    @pytest.mark.parametrize("vector", [False, True])
    def test_as_objective(self, vector: bool) -> None:
        kit = wrappers.vector if vector else wrappers
        info, _ = self.info_of(
            vector, lambda bare: kit.Objective(kit.TrackOccupancy(bare, episodes_per_batch=1, discount=1.0), Bare())
        )
        assert info["batch"]["objective"] == pytest.approx(-0.5)
        np.testing.assert_allclose(info["batch"]["pseudo_rewards"][0], [-1.0, -1.0])

    @pytest.mark.parametrize("vector", [False, True])
    def test_as_constraint(self, vector: bool) -> None:
        kit = wrappers.vector if vector else wrappers
        info, _ = self.info_of(
            vector,
            lambda bare: kit.ConvexConstraint(
                kit.TrackOccupancy(bare, episodes_per_batch=1, discount=1.0),
                -Bare(),
                limit=0.25,
                penalty=Quadratic(3.0),
                name="spread",
            ),
        )
        # R = 1/2 − 1/4; ℒ' = 2 β R = 1.5; ∂R/∂λ = 2 λ = 1.
        assert info["batch"]["constraints"] == {"spread": pytest.approx(0.25)}
        np.testing.assert_allclose(info["batch"]["pseudo_rewards"][0], [-1.5, -1.5])

    def test_the_wrong_way_round(self) -> None:
        tracked = wrappers.TrackOccupancy(gym.make("FrozenLake-v1"), episodes_per_batch=1)
        with pytest.raises(InvalidSetting, match="objective"):
            wrappers.Objective(tracked, -Collision())
        with pytest.raises(InvalidSetting, match="spread"):
            wrappers.ConvexConstraint(tracked, Collision(), penalty=Quadratic(1.0), name="spread")


class TestPGP:
    def test_climbs_to_the_optimum(self) -> None:
        """The best stationary policy by exact gradients says how far there is to go: PGP goes three quarters of it."""
        env = constrain(
            gym.make_vec("FrozenLake-v1", num_envs=8, is_slippery=False, max_episode_steps=6),
            Collision(),
            episodes_per_batch=64,
            discount=1.0,
        )
        agent = PGP(env, seed=0, learning_rate=3.0, baseline="batch-mean").learn(iterations=150)
        problem = ExactProblem.from_env(env)
        start, end = problem.evaluate_uniform().objective, problem.evaluate(agent.policy_table()).objective
        best = best_stationary(problem.mdp, Collision(), scale=problem.scale, starts=2)[0].value
        assert start < end <= best + 1e-9
        assert best - end < 0.25 * (best - start)
        rollouts = evaluate_rollouts(env, agent, n_episodes=2000, seed=1)
        assert rollouts.objective is not None
        # Plug-in estimates of a collision probability are high by at most 1/n; episodes are of 6 steps.
        assert rollouts.objective.mean == pytest.approx(end, abs=0.01)


class TestEngine:
    @pytest.mark.parametrize("kind", ["objective", "constraint"])
    def test_records_its_values(self, kind: str) -> None:
        """Its values are possible ones of −Σ λ², and training begins at the uniform policy's."""
        mdp = replace(MDP, horizon=4)
        own = {
            "objective": RunSettings(objective=Collision(), learning_rate=0.5),
            "constraint": RunSettings(
                objective=None,
                constraints={"spread": Constraint((-Collision()).with_limit(0.01), Quadratic(2.0))},
                learning_rate=0.5,
            ),
        }[kind]
        result = TabularEngine(mdp, [own], record_every=1, snapshot_every=1).run(3)
        values = result.objective[0] if kind == "objective" else -(result.constraints["spread"][0] + 0.01)
        # −1 is all mass in one cell, −1/12 an even spread.
        assert ((values > -1.0) & (values <= -1 / 12)).all()
        exact = [Collision()(mdp.occupancy(policy)) for policy in result.snapshot_policies[0]]
        assert exact[0] == pytest.approx(Collision()(mdp.occupancy(np.full((4, 3), 1 / 3))))

    def test_rises(self) -> None:
        mdp = replace(MDP, horizon=4)
        for functional in (Collision(), Collision() + 0.1 * Entropy()):
            settings = RunSettings(objective=functional, learning_rate=1.0, episodes_per_batch=64)
            policy = TabularEngine(mdp, [settings]).run(200).policies[0]
            before, after = (functional(mdp.occupancy(p)) for p in (np.full((4, 3), 1 / 3), policy))
            assert after > before

    def test_without_terms(self) -> None:
        with pytest.raises(UnsupportedFunctional, match="Bare has no engine_terms"):
            TabularEngine(replace(MDP, horizon=4), [RunSettings(objective=Bare())])


class TestCommandLine:
    """``--objective`` and ``--constraint module:Name`` take a functional from a file of the user's."""

    def test_trains_solves_and_certifies(self, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
        (tmp_path / "mine.py").write_text(
            "from importlib import util\n"
            f"spec = util.spec_from_file_location('own_functional', {__file__!r})\n"
            "module = util.module_from_spec(spec)\n"
            "import sys; sys.modules['own_functional'] = module\n"
            "spec.loader.exec_module(module)\n"
            "Collision = module.Collision\n"
            "def spread():\n"
            "    return (-Collision()).with_limit(0.05)\n"
        )
        monkeypatch.chdir(tmp_path)
        monkeypatch.syspath_prepend(str(tmp_path))
        run = ["--iterations", "2", "--out", "run", "--num-envs", "8"]
        lake = ["train", "SafeFrozenLake-v0", "--objective", "mine:Collision", "--constraint", "mine:spread"]
        assert main([*lake, "--beta", "1.0", *run]) == 0
        summary = json.loads((tmp_path / "run" / "summary.json").read_text())
        assert summary["exact"]["objective"] < 0.0
        assert "spread" in summary["exact"]["constraints"]
        capsys.readouterr()
        assert main(["certify", "run"]) == 0
        assert "gap" in capsys.readouterr().out

    @pytest.mark.parametrize("place", ["nowhere:Collision", "math:nothing", "math:pi", "Collision"])
    def test_refused(self, place: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
        monkeypatch.chdir(tmp_path)
        assert main(["train", "SafeFrozenLake-v0", "--objective", place, "--iterations", "1"]) != 0
        assert "objective" in capsys.readouterr().err
        assert not (tmp_path / "runs").exists()


class TestWithoutACapability:
    """Who needs one that is missing names the functional and the capability."""

    @pytest.mark.parametrize(
        ("use", "name", "capability"),
        [
            (lambda: solve(MDP, Bare()), "Bare", "curvature 'concave'"),
            (lambda: solve(MDP, constraints=[-Bare()]), "Combination", "curvature 'convex'"),
            (lambda: solve(MDP, equalities=[Collision()]), "Collision", "curvature 'affine'"),
            (lambda: solve(MDP, WithoutConic()), "WithoutConic", "conic"),
            (lambda: solve(MDP, Entropy() + WithoutConic()), "WithoutConic", "conic"),
            (lambda: certify(MDP, np.full((4, 3), 1 / 3), objective=WithoutConic()), "WithoutConic", "conic"),
            (lambda: Bare().engine_terms(4, 3), "Bare", "engine_terms"),
            (lambda: (Entropy() - Bare()).engine_terms(4, 3), "Bare", "engine_terms"),
            (lambda: Reward().engine_terms(4, 3), "Reward", "engine_terms"),
            (lambda: Bare().coefficients(4, 3), "Bare", "coefficients"),
        ],
    )
    def test_is_told(self, use: Any, name: str, capability: str) -> None:
        with pytest.raises(UnsupportedFunctional, match=f"{name} has no {capability}") as caught:
            use()
        assert (caught.value.functional, caught.value.capability) == (name, capability)
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
