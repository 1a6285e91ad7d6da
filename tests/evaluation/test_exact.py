"""Exact evaluation: against hand calculation, against all paths, and the same for every form of an environment.

Optima are those of the convex-program table of the experiments.
"""

from math import log

import gymnasium as gym
import numpy as np
import pytest

import constrained_maxent as cmx
from constrained_maxent.envs import SafeFrozenLake
from constrained_maxent.errors import InvalidMDP, MissingCost, MissingTracker
from constrained_maxent.evaluation import ExactProblem, exact_problem
from constrained_maxent.functionals import Entropy, KLDivergence, L2Distance, LinearCost, Reward
from constrained_maxent.oracle import MixturePolicy
from constrained_maxent.penalties import Quadratic
from constrained_maxent.problem import Constraint
from constrained_maxent.wrappers import CostConstraint, TrackOccupancy

RIGHT = 2
ALWAYS_RIGHT = np.eye(4)[[RIGHT, RIGHT, RIGHT]]
FORMS = ("scalar", "sync", "vector")


class TestByHand:
    """Start, hole, goal in a row, γ = 1/2: two steps to the right, weighing 1 and 1/2, the second from the hole."""

    @pytest.mark.parametrize("kind", FORMS)
    def test_truncated(self, lake, kind):
        env = lake(kind, desc=["SHG"], horizon=3, stack={"discount": 0.5})
        evaluation = ExactProblem.from_env(env).evaluate(ALWAYS_RIGHT)
        assert evaluation.occupancy.tolist() == [[0, 0, 1, 0], [0, 0, 0.5, 0], [0, 0, 0, 0]]
        assert evaluation.mass == 1.5
        assert evaluation.objective == pytest.approx(0.5 * log(2.0), abs=1e-12)
        assert evaluation.constraints["cost"] == pytest.approx(-0.001 + 0.5 * 50.0 - 2.0, abs=1e-12)

    def test_a_mixture_of_policies(self, lake):
        """Right in a quarter of the episodes; in the others left for all three steps, 1 + 1/2 + 1/4 in one cell."""
        env = lake(desc=["SHG"], horizon=3, stack={"discount": 0.5})
        always_left = np.eye(4)[[0, 0, 0]]
        evaluation = ExactProblem.from_env(env).evaluate(MixturePolicy([ALWAYS_RIGHT, always_left], [0.25, 0.75]))
        assert evaluation.occupancy.tolist() == [[0.75 * 1.75, 0, 0.25, 0], [0, 0, 0.125, 0], [0, 0, 0, 0]]
        assert evaluation.mass == 1.6875
        cost = 0.25 * (-0.001 + 0.5 * 50.0) - 0.75 * 1.75 * 0.001 - 2.0
        assert evaluation.constraints["cost"] == pytest.approx(cost, abs=1e-12)

    def test_normalized(self, lake):
        # A full episode of three steps would weigh 1 + 1/2 + 1/4 = 7/4; the mass is 6/7 as it ends after two.
        env = lake(desc=["SHG"], horizon=3, limit=0.0, stack={"discount": 0.5, "scale": "normalized"})
        evaluation = ExactProblem.from_env(env).evaluate(ALWAYS_RIGHT)
        assert evaluation.mass == pytest.approx(6 / 7)
        assert evaluation.objective == pytest.approx(-4 / 7 * log(4 / 7) - 2 / 7 * log(2 / 7))
        assert evaluation.constraints["cost"] == pytest.approx((-0.001 + 25.0) * 4 / 7)

    def test_at_infinite_horizon(self, lake):
        # Left for ever: 1 + 1/2 + 1/4 + ... = 2, all in one cell.
        env = lake(desc=["SHG"], horizon=None, limit=0.0, stack={"discount": 0.5})
        evaluation = ExactProblem.from_env(env).evaluate(np.eye(4)[[0, 0, 0]])
        assert evaluation.occupancy[0, 0] == pytest.approx(2.0)
        assert evaluation.objective == pytest.approx(-2.0 * log(2.0))
        assert evaluation.constraints["cost"] == pytest.approx(-0.002)

    def test_entropy_of_the_states(self, lake):
        # In one state all actions alike: no entropy over states, log 4 over pairs.
        env = lake(desc=["SF"], horizon=1, stack={"discount": 0.5, "objective": Entropy(over="state")})
        assert ExactProblem.from_env(env).evaluate_uniform().objective == pytest.approx(0.0, abs=1e-15)
        env = lake(desc=["SF"], horizon=1, stack={"discount": 0.5})
        assert ExactProblem.from_env(env).evaluate_uniform().objective == pytest.approx(log(4.0))


class TestAgainstAllPaths:
    @pytest.mark.parametrize("kind", FORMS)
    @pytest.mark.parametrize("slippery", [False, True])
    def test_cost_of_the_environments_table(self, lake, follow_paths, random_policy, kind, slippery):
        arguments = {"desc": ["SFH", "SHG"], "slippery": slippery, "horizon": 4}
        bare, policy = SafeFrozenLake(**arguments), random_policy[:6]
        charged = bare.tables.costs
        occupancy, cost = follow_paths(bare, policy, discount=0.9, horizon=4, cost=lambda s, a, s_next: charged[s])
        evaluation = ExactProblem.from_env(lake(kind, stack={"discount": 0.9}, **arguments)).evaluate(policy)
        np.testing.assert_allclose(evaluation.occupancy, occupancy, atol=1e-14)
        assert evaluation.constraints["cost"] == pytest.approx(cost - 2.0)
        visited = occupancy[occupancy > 0.0]
        assert evaluation.objective == pytest.approx(-(visited * np.log(visited)).sum())

    @pytest.mark.parametrize("num_envs", [None, 3])
    def test_cost_that_is_a_function_of_the_next_state(self, constrained, follow_paths, random_policy, num_envs):
        def enters_hole(state, action, next_state):
            return float(next_state in (5, 7, 11, 12))

        arguments = {"max_episode_steps": 4}
        bare = gym.make("FrozenLake-v1").unwrapped
        env = (
            gym.make("FrozenLake-v1", **arguments)
            if num_envs is None
            else gym.make_vec("FrozenLake-v1", num_envs=num_envs, **arguments)
        )
        problem = ExactProblem.from_env(constrained(env, cost=enters_hole, discount=0.9))
        assert problem.mdp.horizon == 4
        evaluation = problem.evaluate(random_policy)
        occupancy, cost = follow_paths(bare, random_policy, discount=0.9, horizon=4, cost=enters_hole)
        np.testing.assert_allclose(evaluation.occupancy, occupancy, atol=1e-14)
        assert evaluation.constraints["cost"] == pytest.approx(cost - 2.0)


def test_uniform_policy_of_the_papers_grid():
    # Forward through the 6×6 grid of the paper, written out anew: walls stop, the goal ends, holes cost 50.
    rows, columns = np.divmod(np.arange(36), 6)
    cost = np.where((rows // 2 == 1) & (columns // 2 == 1), 50.0, -0.001)
    state, visits = np.eye(36)[0], np.zeros(36)
    for t in range(25):
        visits += 0.99**t * state
        successor = np.zeros(36)
        for down, right in ((0, -1), (1, 0), (0, 1), (-1, 0)):
            np.add.at(successor, (rows + down).clip(0, 5) * 6 + (columns + right).clip(0, 5), state / 4)
        state = np.where(np.arange(36) == 35, 0.0, successor)
    pairs = np.repeat(visits[visits > 0] / 4, 4)
    uniform = ExactProblem.from_env(gym.make("FrozenLake-PGP-v0", preset="paper")).evaluate_uniform()
    assert uniform.objective == pytest.approx(-(pairs * np.log(pairs)).sum(), rel=1e-12)
    assert uniform.constraints["cost"] == pytest.approx(cost @ visits, rel=1e-12)
    assert (round(uniform.objective, 4), round(uniform.constraints["cost"], 4)) == (29.2098, 83.2939)


class TestFunctionals:
    def test_are_without_smoothing(self, lake):
        reference = np.full((3, 4), 1.0 / 12)
        env = lake(
            desc=["SHG"],
            horizon=3,
            stack={
                "discount": 0.5,
                "objective": Entropy(smoothing=0.3),
                "constraints": {"kl": Constraint(KLDivergence(reference, limit=1.0, smoothing=0.3), Quadratic(1.0))},
            },
        )
        evaluation = ExactProblem.from_env(env).evaluate(ALWAYS_RIGHT)
        assert evaluation.objective == pytest.approx(0.5 * log(2.0), abs=1e-12)
        assert evaluation.constraints["kl"] == pytest.approx(log(12.0) + 0.5 * log(6.0) - 1.0)

    def test_of_any_kind(self, lake):
        reference = np.zeros((3, 4))
        reference[0, RIGHT] = 0.6
        functionals = {
            "near": L2Distance(reference, limit=0.1),
            "table": LinearCost(np.full((3, 4), 2.0), limit=1.0),
        }
        constraints = {name: Constraint(functional, Quadratic(1.0)) for name, functional in functionals.items()}
        env = lake(desc=["SHG"], horizon=3, stack={"discount": 0.5, "constraints": constraints})
        evaluation = ExactProblem.from_env(env).evaluate(ALWAYS_RIGHT)
        assert evaluation.constraints["near"] == pytest.approx(np.hypot(0.4, 0.5) - 0.1)
        assert evaluation.constraints["table"] == pytest.approx(2.0 * 1.5 - 1.0)

    def test_the_reward_of_the_environment(self):
        """Right, right, down to the goal of a lake without holes on the way: its reward of 1 on the third step."""
        env = TrackOccupancy(gym.make("FrozenLake-v1", desc=["SFF", "HHG"], is_slippery=False), discount=0.5,
                             scale="truncated", episodes_per_batch=1)  # fmt: skip
        env.tracker.set_objective(2.0 * Reward() - LinearCost(lambda state, action, after: float(after == 1)))
        policy = np.eye(4)[[2, 2, 1, 0, 0, 0]]
        # Entering state 1 costs 1 on the first step; 1/4 of 2 is earned on the third.
        assert ExactProblem.from_env(env).evaluate(policy).objective == pytest.approx(2.0 * 0.25 - 1.0)

    def test_no_objective(self):
        env = TrackOccupancy(gym.make("SafeFrozenLake-v0"), episodes_per_batch=1)
        env = CostConstraint(env, limit=0.0, penalty=Quadratic(1.0))
        assert ExactProblem.from_env(env).evaluate_uniform().objective is None


class TestWhatIsNotKnown:
    def test_a_cost_without_a_table(self, constrained):
        env = constrained(gym.make("FrozenLake-v1"), cost="prob")
        with pytest.raises(MissingCost, match=r"'prob' is known step by step only.*cost_tables"):
            ExactProblem.from_env(env)
        problem, reason = exact_problem(env)
        assert problem is None
        assert "'prob' is known step by step only" in reason

    def test_dynamics(self, constrained):
        class Blind(gym.Env):
            observation_space = action_space = gym.spaces.Discrete(2)

        env = constrained(Blind(), constraints={})
        with pytest.raises(InvalidMDP, match="no attribute P"):
            ExactProblem.from_env(env)
        assert exact_problem(env) == (None, None)

    def test_sub_environments_in_other_processes(self, lake, constrained):
        env = constrained(gym.make_vec("SafeFrozenLake-v0", num_envs=2, vectorization_mode="async"))
        problem, reason = exact_problem(env)
        assert problem is None
        assert "other processes" in reason
        env.close()

    @pytest.mark.parametrize("ask", [ExactProblem.from_env, exact_problem])
    def test_an_environment_without_wrappers_is_a_mistake(self, ask):
        with pytest.raises(MissingTracker):
            ask(gym.make("SafeFrozenLake-v0"))


@pytest.fixture(scope="module")
def grid():
    return ExactProblem.from_env(gym.make("FrozenLake-PGP-v0"))


def test_optimum_with_and_without_constraints(grid):
    assert grid.optimum().value == pytest.approx(36.720, rel=1e-4)
    assert grid.optimum(constrained=False).value == pytest.approx(40.188, rel=1e-4)


def test_optimum_with_a_penalty(grid):
    penalized = grid.optimum(beta=0.1)
    assert penalized.value == pytest.approx(36.811, rel=1e-4)
    assert penalized.constraints["cost"] == pytest.approx(0.633, rel=1e-3)


def test_certificate_of_the_uniform_policy(grid):
    uniform = np.full((36, 4), 0.25)
    found = grid.certify(uniform)
    assert found.value == pytest.approx(grid.evaluate(uniform).objective)
    assert found.optimum == pytest.approx(36.720, rel=1e-4)
    assert found.epsilon == max(abs(found.gap), found.violation)


def test_variables_of_the_program(grid):
    # 35 tiles without the goal, 4 actions, 25 time steps.
    assert grid.n_variables == 35 * 4 * 25


def test_a_functional_without_convex_formulation_is_refused():
    env = cmx.wrappers.constrain(
        gym.make("SafeFrozenLake-v0"),
        constraints={
            "sum": cmx.problem.Constraint(
                cmx.functionals.Autograd(lambda occupancy: occupancy.sum(), limit=2.0), cmx.penalties.Quadratic(1.0)
            )
        },
        episodes_per_batch=1,
    )
    with pytest.raises(cmx.errors.UnsupportedFunctional, match="Autograd has no curvature 'convex'"):
        ExactProblem.from_env(env).optimum()
