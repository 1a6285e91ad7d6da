"""The occupancy in torch's graph against finite differences and torch's own dense solver."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from constrained_maxent.errors import InvalidMDP, InvalidSetting
from constrained_maxent.oracle import TabularMDP

# From state 0, action 0 stays with probability 1/2 and goes to state 1 otherwise; action 1 and state 1 lead to state 1.
CHAIN = np.array([[[0.5, 0.5], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]])


def chain(**options: Any) -> TabularMDP:
    return TabularMDP.from_arrays(CHAIN, [1.0, 0.0], **{"discount": 0.5, **options})


class TestTorch:
    @pytest.mark.parametrize("scale", ["normalized", "truncated"])
    @pytest.mark.parametrize(
        "mdp",
        [
            TabularMDP.random(3, 2, seed=10, discount=0.9, horizon=3),
            TabularMDP.random(4, 3, seed=10, discount=0.9),
            chain(terminal=[1]),
            chain(terminal=[1], horizon=4),
        ],
        ids=repr,
    )
    def test_gradcheck(self, mdp: TabularMDP, scale: Any) -> None:
        def occupancy(logits: torch.Tensor) -> torch.Tensor:
            return mdp.occupancy_torch(torch.softmax(logits, dim=-1), scale=scale)

        torch.manual_seed(0)
        logits = torch.randn(mdp.n_states, mdp.n_actions, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(occupancy, logits)
        if mdp.horizon is not None:
            over_time = torch.randn(mdp.horizon, *logits.shape, dtype=torch.float64, requires_grad=True)
            assert torch.autograd.gradcheck(occupancy, over_time)

    def test_gradient_through_torchs_own_dense_solve(self) -> None:
        mdp = TabularMDP.random(5, 2, seed=11, discount=0.95)
        logits = torch.randn(5, 2, dtype=torch.float64, generator=torch.manual_seed(1), requires_grad=True)
        policy = torch.softmax(logits, dim=-1)
        dense = torch.from_numpy(mdp.transition.toarray()).reshape(5, 2, 5)
        moves = torch.einsum("sa,sax->xs", policy, dense)
        visits = torch.linalg.solve(torch.eye(5, dtype=torch.float64) - 0.95 * moves, torch.tensor(mdp.initial.copy()))
        entropies = [
            -(occupancy * occupancy.log()).sum()
            for occupancy in (0.05 * visits[:, None] * policy, mdp.occupancy_torch(policy))
        ]
        expected, actual = (torch.autograd.grad(value, logits, retain_graph=True)[0] for value in entropies)
        torch.testing.assert_close(entropies[1], entropies[0], rtol=1e-12, atol=0)
        torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-12)

    def test_single_precision_policy(self) -> None:
        mdp = TabularMDP.random(5, 4, seed=12, discount=0.9)
        logits = torch.randn(5, 4, generator=torch.manual_seed(2), requires_grad=True)
        occupancy = mdp.occupancy_torch(torch.softmax(logits, dim=-1))
        assert occupancy.dtype == torch.float64
        assert occupancy.sum().item() == pytest.approx(1.0, abs=1e-5)
        occupancy[0, 0].backward()
        assert logits.grad is not None
        assert logits.grad.dtype == torch.float32

    def test_second_derivatives_are_refused(self) -> None:
        policy = torch.full((2, 2), 0.5, dtype=torch.float64, requires_grad=True)
        with pytest.raises(InvalidSetting, match="second derivative"):
            torch.autograd.grad(chain().occupancy_torch(policy)[0, 0], policy, create_graph=True)

    def test_bad_policy(self) -> None:
        with pytest.raises(InvalidMDP, match="policy"):
            chain().occupancy_torch(torch.ones(2, 2))
