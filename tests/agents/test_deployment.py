"""Policies as programs of PyTorch: a fresh process, which cannot import this package, acts as ``predict`` does."""

import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from constrained_maxent.agents import PGP, deployment
from constrained_maxent.agents.policies import GaussianMLP, Squashing, TabularSoftmax, make_policy
from constrained_maxent.errors import UnsupportedPolicy, UnsupportedSpace
from constrained_maxent.spaces import as_rows, from_rows

RUN = """
import sys
sys.modules["constrained_maxent"] = None  # any import of it fails
import torch
for name in sys.argv[1:]:
    program = torch.export.load(name + ".pt2").module()
    torch.manual_seed(0)
    torch.save(program(torch.load(name + ".in")), name + ".out")
"""

BOX = spaces.Box(-1.0, 1.0, (3,), np.float32)
PARTS = spaces.Dict(
    place=spaces.Box(-5.0, 5.0, (2, 2)), mode=spaces.Discrete(3, start=-1), inner=spaces.Tuple((spaces.MultiBinary(2),))
)
PICTURE = spaces.Box(0, 255, (20, 16, 3), np.uint8)
RAYS = spaces.Box(np.array([-3.0, 0.0, -np.inf, -np.inf]), np.array([5.0, np.inf, 2.0, np.inf]), dtype=np.float64)
CASES = {
    "box": (BOX, spaces.Box(-2.0, 2.0, (1,), np.float32)),
    "parts": (PARTS, spaces.Discrete(4, start=2)),
    "components": (BOX, spaces.MultiDiscrete([2, 3])),
    "pictures": (PICTURE, spaces.Box(-1.0, 1.0, (2,), np.float32)),
    "table": (spaces.MultiDiscrete([3, 4], start=[1, -2]), spaces.Discrete(3, start=1)),
}


def trained(name: str):
    """A policy with parameters and statistics that no longer are those of the beginning, and observations."""
    observation_space, action_space = CASES[name]
    observation_space.seed(1)
    torch.manual_seed(1)
    policy = make_policy(observation_space, action_space, hidden_sizes=(16,), normalize=True)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    policy.changed()
    batch = gym.vector.utils.create_empty_array(observation_space, n=40)
    gym.vector.utils.concatenate(observation_space, [observation_space.sample() for _ in range(40)], batch)
    rows = as_rows(observation_space, batch)
    policy.observe(rows * 1.5)
    return policy, batch, rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs, what they are given, and what they return in a process of their own, by case."""
    folder = tmp_path_factory.mktemp("programs")
    for name, (observation_space, action_space) in CASES.items():
        policy, batch, _ = trained(name)
        deployment.export(policy, observation_space, action_space, folder / f"{name}.pt2")
        torch.save(deployment._tensors(observation_space, batch), folder / f"{name}.in")
    subprocess.run([sys.executable, "-c", RUN, *CASES], cwd=folder, check=True, env={"PATH": "/usr/bin"}, timeout=300)
    return folder


@pytest.mark.parametrize("name", CASES)
def test_a_fresh_process_acts_as_the_policy(name: str, folder: Path) -> None:
    policy, _, rows = trained(name)
    action_space = CASES[name][1]
    output = torch.load(folder / f"{name}.out")
    expected = from_rows(action_space, policy.to_env(policy.mode(rows)))
    action = output["action"].numpy()
    assert action.dtype == action_space.dtype
    assert action.shape == (40, *(action_space.shape or ()))
    if isinstance(action_space, spaces.Box):
        np.testing.assert_allclose(action, expected, rtol=1e-6, atol=1e-6)
        assert len(np.unique(action.reshape(40, -1)[:, 0])) > 30  # they depend on the observation
    else:
        np.testing.assert_array_equal(action, expected)
        assert len(np.unique(action)) > 1
    assert all(element in action_space for element in output["sample"].numpy())


@pytest.mark.parametrize("name", ["parts", "components", "table"])
def test_probabilities_are_those_of_the_policy(name: str, folder: Path) -> None:
    """As log π, which training is made of, has them."""
    policy, _, rows = trained(name)
    found = torch.load(folder / f"{name}.out")["probabilities"]
    for i, own in enumerate(found if isinstance(found, (list, tuple)) else [found]):
        for value in range(own.shape[1]):
            raw = np.zeros((40, 2), int) if name == "components" else np.full(40, value)
            if name == "components":
                raw[:, i] = value
            log_prob = policy.log_prob(rows, raw).detach().double().exp().numpy()
            if name == "components":  # of the other component, the value 0
                log_prob = log_prob / found[1 - i][:, 0].numpy()
            np.testing.assert_allclose(own[:, value].numpy(), log_prob, rtol=1e-5)


def test_samples_are_drawn_from_the_policy(folder: Path) -> None:
    """Of one observation, 20,000 times: mean and deviation of u, and the share of each action of a table."""
    policy, batch, rows = trained("box")
    assert isinstance(policy, GaussianMLP)
    torch.manual_seed(0)
    program = torch.export.load(folder / "box.pt2").module()
    drawn = program(torch.as_tensor(np.repeat(batch[:1], 20_000, axis=0)))["sample"].numpy()
    u = np.arctanh(np.clip(drawn / 2.0, -1.0 + 1e-7, 1.0 - 1e-7))
    mean, log_std = (float(values.detach()) for values in policy.moments(torch.as_tensor(rows[:1])))
    # Medians and quartiles: some actions lie on the bounds, where u is not known. 0.6745 is the normal quartile.
    assert np.median(u) == pytest.approx(mean, abs=0.05 * np.exp(log_std))
    quartiles = np.quantile(u, [0.25, 0.75])
    assert quartiles[1] - quartiles[0] == pytest.approx(2 * 0.6745 * np.exp(log_std), rel=0.05)

    table, batch, rows = trained("table")
    assert isinstance(table, TabularSoftmax)
    program = torch.export.load(folder / "table.pt2").module()
    drawn = program(torch.as_tensor(np.repeat(batch[:1], 20_000, axis=0)))["sample"].numpy()
    shares = np.bincount(drawn - 1, minlength=3) / 20_000
    np.testing.assert_allclose(shares, table.table()[table.state_numbers(rows[:1])[0]], atol=0.02)
    for bad in ([0, -2], [1, 2], [4, 0]):  # each outside in one component, and inside as a number of the table
        with pytest.raises((IndexError, RuntimeError), match="out of range"):
            program(torch.tensor([bad]))


def test_tensors_are_squashed_as_arrays_are() -> None:
    u = np.array([[-30.0, -40.0, 40.0, 7.0], [0.5, 0.5, -0.5, -2.0], [30.0, 40.0, -40.0, 0.0]])
    squashing = Squashing(RAYS)
    np.testing.assert_allclose(squashing.tensor_to_box(torch.as_tensor(u)).numpy(), squashing.to_box(u), rtol=1e-15)


def test_an_agent_is_exported_and_what_it_sees_of_a_nan_is_an_error(tmp_path: Path) -> None:
    agent = PGP(gym.make("PointMass-PGP-v0", limit=None), seed=0, hidden_sizes=(8,))
    agent.export(tmp_path / "made" / "policy.pt2")
    files = {deployment.DESCRIPTION: ""}
    program = torch.export.load(tmp_path / "made" / "policy.pt2", extra_files=files).module()
    assert '"action": "Box(-1.0, 1.0, (2,), float32)"' in files[deployment.DESCRIPTION]
    observation, _ = agent.env.reset(seed=0)
    action, _ = agent.predict(observation, deterministic=True)
    np.testing.assert_allclose(program(torch.as_tensor(observation)[None])["action"][0], action, rtol=1e-6)
    with pytest.raises(RuntimeError, match="not a finite number"):
        program(torch.full((1, 4), torch.nan))


def test_what_has_no_program_is_refused_by_name(tmp_path: Path) -> None:
    actions = spaces.Tuple((spaces.Discrete(2), spaces.Discrete(2)))
    policy = make_policy(BOX, actions, hidden_sizes=(4,))
    with pytest.raises(UnsupportedSpace, match="is of parts"):
        deployment.export(policy, BOX, actions, tmp_path / "policy.pt2")

    class Branches(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if x.sum() > 0.0 else -x

    policy = make_policy(BOX, spaces.Discrete(2), hidden_sizes=(4,))
    policy.logits = torch.nn.Sequential(Branches(), policy.logits)
    with pytest.raises(UnsupportedPolicy, match="branches"):
        deployment.export(policy, BOX, spaces.Discrete(2), tmp_path / "policy.pt2")
    assert list(tmp_path.iterdir()) == []
