"""What a stack suggests to PPO: the same numbers by other names, and rollouts of one batch."""

import cloudpickle
import pytest
from stable_baselines3 import PPO

from constrained_maxent.adapters.sb3 import VecEnv


def test_names_are_translated(make_corridor):
    suggestions = {
        "return_discount": 0.9,
        "learning_rate": 1e-2,
        "final_learning_rate": 1e-4,
        "epochs": 3,
        "minibatch_size": 8,
        "max_gradient_norm": 7.0,
        "hidden_sizes": (5, 6),
        "averaging": 0.9,  # PPO of Stable-Baselines3 has no such thing
    }
    venv = VecEnv(make_corridor(3, steps_per_batch=36, suggestions=suggestions))
    arguments = venv.suggested()
    rate = cloudpickle.loads(cloudpickle.dumps(arguments.pop("learning_rate")))  # models are saved with it
    assert [rate(left) for left in (1.0, 0.5, 0.0)] == pytest.approx([1e-2, 1e-3, 1e-4])
    assert arguments == {
        "gamma": 0.9,
        "n_epochs": 3,
        "n_steps": 12,
        "batch_size": 6,  # the largest that divides 36 and is not above 8
        "max_grad_norm": 7.0,
        "policy_kwargs": {"net_arch": [5, 6]},
    }
    model = PPO("MlpPolicy", venv, device="cpu", **venv.suggested())
    assert [layer.out_features for layer in model.policy.mlp_extractor.policy_net if hasattr(layer, "bias")] == [5, 6]


def test_a_table_takes_larger_steps_than_a_network():
    rates = {}
    for net in (None, [64], []):
        arguments = VecEnv("FrozenLake-PGP-v0", num_envs=16).suggested(net)
        assert arguments["policy_kwargs"] == {"net_arch": [64, 64] if net is None else net}
        rates[str(net)] = [arguments["learning_rate"](left) for left in (1.0, 0.0)]
    assert rates["None"] == rates["[64]"] == pytest.approx([2e-3, 2e-5])
    assert rates["[]"] == pytest.approx([3e-2, 3e-4])


def test_only_what_is_known(make_corridor):
    assert VecEnv(make_corridor(3)).suggested() == {"gamma": 0.99, "n_steps": 4, "batch_size": 12}
    assert VecEnv(make_corridor(3, discount=0.5)).suggested()["gamma"] == 0.5
    # 37 steps of one copy have no divisor near 8: one minibatch of all.
    venv = VecEnv(make_corridor(1, steps_per_batch=37, suggestions={"minibatch_size": 8}))
    assert (venv.suggested()["n_steps"], venv.suggested()["batch_size"]) == (37, 37)


def test_a_rollout_is_a_batch_of_whole_episodes():
    """16 episodes of 25 steps, and the natural gradient's learning rate is none of Adam's."""
    for copies, n_steps in ((1, 400), (16, 25)):
        arguments = VecEnv("FrozenLake-PGP-v0", num_envs=copies, preset="default").suggested()
        assert arguments == {"gamma": 0.99, "n_steps": n_steps, "batch_size": 400}
