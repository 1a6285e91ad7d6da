"""Certificates against hand calculation on a bandit, where λ is the policy, and on small MDPs."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import numpy as np
import pytest

from constrained_maxent.errors import InfeasibleProblem, InvalidMDP, InvalidSetting
from constrained_maxent.functionals import Entropy, KLDivergence, L2Distance, LinearCost
from constrained_maxent.oracle import MixturePolicy, TabularMDP, certify, solve
from constrained_maxent.oracle.certificate import slater_margin
from constrained_maxent.oracle.solution import convex_problem
from constrained_maxent.penalties import Quadratic

LOG2, LOG3 = math.log(2.0), math.log(3.0)
BANDIT = TabularMDP.from_arrays(np.ones((1, 2, 1)), [1.0], discount=0.9)
COST = {"cost": LinearCost([[0.0, 1.0]], limit=0.25)}
OPTIMUM = -0.75 * math.log(0.75) - 0.25 * math.log(0.25)  # of (3/4, 1/4), with ν* = log 3


class TestByHand:
    @pytest.mark.parametrize(
        ("second", "residual", "violation", "gap", "epsilon"),
        [
            (0.25, 0.0, 0.0, 0.0, 0.0),
            (0.5, 0.25, 0.25, OPTIMUM - LOG2, 0.25),  # gains 0.131 by a violation of 0.25
            (0.0, -0.25, 0.0, OPTIMUM, OPTIMUM),
            (1.0, 0.75, 0.75, OPTIMUM, 0.75),
        ],
    )
    def test_bandit(self, second: float, residual: float, violation: float, gap: float, epsilon: float) -> None:
        certificate = certify(BANDIT, [[1.0 - second, second]], solve(BANDIT, None, COST))
        assert certificate.constraints == pytest.approx({"cost": residual})
        assert certificate.violation == pytest.approx(violation)
        assert certificate.gap == pytest.approx(gap, abs=1e-7)
        assert certificate.epsilon == pytest.approx(epsilon, abs=1e-7)
        assert certificate.value + certificate.gap == certificate.optimum == pytest.approx(OPTIMUM, abs=1e-7)
        assert certificate.dual_bound == pytest.approx(OPTIMUM, abs=1e-7)
        assert certificate.multipliers["cost"] == pytest.approx(LOG3, abs=1e-5)
        assert certificate.strong_duality
        assert certificate.slater
        assert certificate.slater_margin == pytest.approx(0.25, abs=1e-7)
        assert not certificate.is_time_dependent

    @pytest.mark.parametrize("shares", [[0.75, 0.25], [0.5, 0.0]])
    def test_a_mixture_of_policies(self, shares: list[float]) -> None:
        """Of the bandit's two arms, drawn 3:1; or of the optimum and an arm that is never drawn."""
        first = [[1.0, 0.0]] if shares[1] else [[0.75, 0.25]]
        mixture = MixturePolicy([first, [[0.0, 1.0]]], np.array(shares) / sum(shares))
        certificate = certify(BANDIT, mixture, solve(BANDIT, None, COST))
        assert certificate.value == pytest.approx(OPTIMUM, abs=1e-12)
        assert certificate.constraints == pytest.approx({"cost": 0.0})
        assert certificate.epsilon == pytest.approx(0.0, abs=1e-7)

    def test_a_mixture_remembers_which_policy_it_drew(self) -> None:
        # Two steps from state 0 to whatever state the action names: both policies repeat themselves, so that each has
        # half of its visits in state 0 and half in its own; memoryless actions would mix them.
        mdp = TabularMDP.from_arrays([[[1, 0], [0, 1]], [[1, 0], [0, 1]]], [1.0, 0.0], discount=1.0, horizon=2)
        stay, go = np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([[0.0, 1.0], [0.0, 1.0]])
        certificate = certify(mdp, MixturePolicy([stay, go], [0.5, 0.5]))
        # λ = (1/2, 1/4; 0, 1/4): in state 0 twice and once, in state 1 once, all over 2 steps and 2 policies.
        assert certificate.value == pytest.approx(0.5 * LOG2 + 2 * 0.25 * math.log(4.0))

    def test_a_mixture_of_other_policies(self) -> None:
        with pytest.raises(InvalidMDP):
            certify(BANDIT, MixturePolicy([np.full((2, 2), 0.5)], [1.0]))

    def test_two_states(self) -> None:
        # Action 0 stays, action 1 goes to the other state; γ = 1/2 and fair actions: 3/4 of λ in state 0.
        mdp = TabularMDP.from_arrays([[[1, 0], [0, 1]], [[0, 1], [1, 0]]], [1.0, 0.0], discount=0.5)
        certificate = certify(mdp, np.full((2, 2), 0.5))
        assert certificate.value == pytest.approx(LOG2 - 0.75 * math.log(0.75) - 0.25 * math.log(0.25))
        assert certificate.constraints == {}
        assert certificate.violation == 0.0
        assert 0.0 < certificate.gap == certificate.epsilon
        assert certificate.slater_margin == math.inf

    def test_the_problem_may_be_given_instead_of_its_optimum(self) -> None:
        best = solve(BANDIT, Entropy(over="state"), COST, scale="truncated")
        policy = [[0.9, 0.1]]
        first = certify(BANDIT, policy, best)
        second = certify(BANDIT, policy, objective=Entropy(over="state"), constraints=COST, scale="truncated")
        assert first == second
        # λ has mass 10 at scale truncated, of which a tenth costs.
        assert first.constraints["cost"] == pytest.approx(1.0 - 0.25)
        assert first.value == pytest.approx(-10.0 * math.log(10.0))

    @pytest.mark.parametrize("horizon", [None, 5])
    def test_the_optimum_itself_within_a_divergence_without_full_support(self, horizon: int | None) -> None:
        # Eight states in a row that one never leaves for good; the expert stays in the first three.
        step = np.stack([np.eye(8, k=-1), np.eye(8), np.eye(8, k=1)], axis=1)
        step[0, 0, 0] = step[7, 2, 7] = 1.0
        mdp = TabularMDP.from_arrays(step, np.eye(8)[1], discount=0.9, horizon=horizon)
        expert = np.tile([0.3, 0.4, 0.3], (8, 1))
        expert[2] = [0.5, 0.5, 0.0]
        reference = np.where(np.arange(8)[:, None] < 3, mdp.occupancy(expert), 0.0)
        best = solve(mdp, None, {"kl": KLDivergence(reference, limit=0.01)})
        certificate = certify(mdp, best.policy, best)
        assert certificate.epsilon <= 1e-8
        assert certificate.violation <= 1e-8

    def test_feasible_policies_have_gap_at_least_zero(self) -> None:
        mdp, rng = TabularMDP.random(5, 3, seed=0, discount=0.9), np.random.default_rng(0)
        policies = rng.dirichlet(np.ones(3), size=(50, 5))
        cost = rng.normal(size=(5, 3))
        # A limit that half of the policies keep.
        limit = float(np.median([np.sum(cost * mdp.occupancy(policy)) for policy in policies]))
        best = solve(mdp, None, [LinearCost(cost, limit=limit)])
        certificates = [certify(mdp, policy, best) for policy in policies]
        feasible = [certificate for certificate in certificates if certificate.violation == 0.0]
        assert len(feasible) == 25
        assert all(certificate.value <= certificate.dual_bound for certificate in feasible)
        assert all(certificate.gap >= 0.0 for certificate in feasible)
        assert certify(mdp, best.policy, best).epsilon <= 1e-7

    def test_finite_horizon(self) -> None:
        mdp = TabularMDP.random(4, 2, seed=0, discount=1.0, horizon=5)
        best = solve(mdp)
        stationary = certify(mdp, np.full((4, 2), 0.5), best)
        assert stationary.is_time_dependent
        assert stationary.gap > 0.0
        assert certify(mdp, best.policy, best).gap == 0.0

    def test_equalities_count_on_both_sides(self) -> None:
        best = solve(BANDIT, equalities={"half": LinearCost([[0.0, 1.0]], limit=0.5)})
        certificate = certify(BANDIT, [[0.7, 0.3]], best)
        assert certificate.constraints["half"] == pytest.approx(-0.2)
        assert certificate.violation == certificate.epsilon == pytest.approx(0.2)

    def test_infeasible(self) -> None:
        with pytest.raises(InfeasibleProblem, match=r"cost by 0\.5"):
            certify(BANDIT, [[1.0, 0.0]], constraints={"cost": LinearCost([[1.0, 1.0]], limit=0.5)})


class TestSlater:
    @pytest.mark.parametrize(
        ("constraints", "margin"),
        [
            ([LinearCost([[0.0, 1.0]], limit=0.25)], 0.25),
            ([LinearCost([[1.0, 3.0]], limit=1.5)], 0.5),
            # λ₁ from 0.4 to 0.7
            ([LinearCost([[0.0, 1.0]], limit=0.7), LinearCost([[0.0, -1.0]], limit=-0.4)], 0.15),
            ([L2Distance([[1.0, 0.0]], limit=0.3)], 0.3),
            ([KLDivergence([[0.8, 0.2]], limit=0.2)], 0.2),
            # Half a reference: at least log 2 of divergence
            ([KLDivergence([[0.4, 0.1]], limit=1.0)], 1.0 - LOG2),
            ([LinearCost([[0.0, 1.0]])], 0.0),
            ([LinearCost([[1.0, 2.0]], limit=0.4)], -0.6),
            ([KLDivergence([[0.0, 0.0]], limit=1.0)], -math.inf),
            ([], math.inf),
        ],
    )
    def test_margins(self, constraints: list[Any], margin: float) -> None:
        assert slater_margin(BANDIT, convex_problem(BANDIT, None, constraints)) == pytest.approx(margin, abs=1e-6)

    def test_equalities_leave_less(self) -> None:
        half = [LinearCost([[0.0, 1.0]], limit=0.5)]
        problem = convex_problem(BANDIT, None, {"c": LinearCost([[0.0, 1.0]], limit=0.6)}, half)
        assert slater_margin(BANDIT, problem) == pytest.approx(0.1)

    def test_scale_and_horizon(self) -> None:
        cost = [LinearCost([[1.0, 2.0]], limit=12.0)]
        for mdp, margin in ((BANDIT, 2.0), (dataclasses.replace(BANDIT, horizon=4, discount=1.0), 8.0)):
            problem = convex_problem(mdp, None, cost, scale="truncated")
            assert slater_margin(mdp, problem) == pytest.approx(margin, abs=1e-5)

    def test_strong_duality_can_hold_without_it(self) -> None:
        # max H s.t. λ₁ ≤ 0: the dual function is log(1 + e^−ν), whose infimum 0 is the optimum, and never attained.
        certificate = certify(BANDIT, [[1.0, 0.0]], constraints=[LinearCost([[0.0, 1.0]])])
        assert not certificate.slater
        assert certificate.strong_duality
        assert certificate.multipliers["LinearCost_0"] > 10.0
        assert certificate.epsilon <= 1e-5


class TestJson:
    def test_it_can_be_written(self) -> None:
        certificate = certify(BANDIT, [[0.5, 0.5]], constraints=COST)
        content = json.loads(json.dumps(certificate.to_json(), allow_nan=False))
        assert content["constraints"] == {"cost": pytest.approx(0.25)}
        assert content["multipliers"] == {"cost": pytest.approx(LOG3, abs=1e-5)}
        assert content["slater_margin"] == pytest.approx(0.25)
        assert (content["slater"], content["strong_duality"], content["is_time_dependent"]) == (True, True, False)
        assert set(content) == {field.name for field in dataclasses.fields(certificate)} | {"slater"}

    def test_what_is_infinite_is_none(self) -> None:
        # The policy leaves the support of the reference, so its divergence is infinite.
        certificate = certify(BANDIT, [[0.5, 0.5]], constraints={"kl": KLDivergence([[1.0, 0.0]], limit=0.5)})
        assert certificate.violation == certificate.epsilon == math.inf
        content = json.loads(json.dumps(certificate.to_json(), allow_nan=False))
        assert content["constraints"] == {"kl": None}
        assert content["violation"] is content["epsilon"] is None
        assert certify(BANDIT, [[0.5, 0.5]]).to_json()["slater_margin"] is None


class TestMismatch:
    best = solve(BANDIT, None, COST)
    policy = ((0.5, 0.5),)

    def refuse(self, message: str, best: Any = None, mdp: TabularMDP = BANDIT, **options: Any) -> None:
        with pytest.raises(InvalidSetting, match=message):
            certify(mdp, np.full((mdp.n_states, mdp.n_actions), 1.0 / mdp.n_actions), best or self.best, **options)

    @pytest.mark.parametrize("given", [{"objective": Entropy()}, {"constraints": ()}, {"scale": "normalized"}], ids=str)
    def test_optimum_and_problem(self, given: Any) -> None:
        self.refuse("either", **given)

    def test_other_mdp(self) -> None:
        self.refuse("another MDP", mdp=TabularMDP.random(2, 2, seed=0, discount=0.9))
        self.refuse("another MDP", mdp=dataclasses.replace(BANDIT, horizon=3))
        truncated = solve(BANDIT, scale="truncated")
        self.refuse("another MDP", truncated, dataclasses.replace(BANDIT, discount=0.8))

    def test_penalties(self) -> None:
        self.refuse("penalties", solve(BANDIT, None, COST, penalties={"cost": Quadratic(1.0)}))

    def test_no_policy(self) -> None:
        with pytest.raises(InvalidMDP, match="policy"):
            certify(BANDIT, [[0.5, 0.6]], self.best)


@pytest.mark.fault
def test_a_small_limit_that_is_broken_by_a_tenth() -> None:
    """A bad state reached with 1e-9 by an action of which the limit allows 0.005, and the policy takes 0.0055."""
    step = [[[1.0, 0.0], [1.0 - 1e-9, 1e-9]], [[1.0, 0.0], [1.0, 0.0]]]
    mdp = TabularMDP.from_arrays(step, [1.0, 0.0], discount=0.9)
    cost = {"c": LinearCost([[0.0, 0.0], [1.0, 1.0]], limit=0.9e-9 * 0.005)}
    found = certify(mdp, [[0.9945, 0.0055], [0.5, 0.5]], constraints=cost)
    assert found.breach == pytest.approx(0.1, rel=1e-6)
    assert found.slater
    assert found.slater_margin == pytest.approx(cost["c"].limit, rel=1e-6)
    # The optimum's entropy is that of (0.995, 0.005).
    gained = sum(sign * p * math.log(p) for sign, q in ((1, 0.0055), (-1, 0.005)) for p in (q, 1.0 - q))
    assert found.gap == pytest.approx(gained, abs=1e-6)
