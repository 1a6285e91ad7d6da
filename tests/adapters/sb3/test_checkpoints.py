"""A saved training goes on as it would have, and what does not belong together is refused by name."""

import numpy as np
import pytest
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecNormalize

from constrained_maxent.adapters.sb3 import VecEnv, load, save
from constrained_maxent.errors import CheckpointMismatch, DamagedCheckpoint


def ppo(venv):
    kwargs = {"net_arch": [4]}
    return PPO("MlpPolicy", venv, n_steps=10, batch_size=20, n_epochs=1, policy_kwargs=kwargs, seed=0, device="cpu")


def go_on(model, venv):
    """One batch more, from a reset of a given seed."""
    venv.seed(5)
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002  # by which Stable-Baselines3 shuffles
    model._last_obs = None
    model.learn(20, reset_num_timesteps=False)
    return np.concatenate([parameter.detach().numpy().ravel() for parameter in model.policy.parameters()])


def flat(state):
    """Everything in a state, in order."""
    if isinstance(state, dict):
        return [item for key in sorted(state) for item in (key, *flat(state[key]))]
    if isinstance(state, (list, tuple)):
        return [item for part in state for item in flat(part)]
    return [state.tobytes() if isinstance(state, np.ndarray) else state]


@pytest.mark.parametrize("normalizes", [False, True])
def test_goes_on_exactly(make_corridor, tmp_path, normalizes):
    wrap = VecNormalize if normalizes else lambda venv: venv
    venv = wrap(VecEnv(make_corridor(2, steps_per_batch=20)))
    model = ppo(venv).learn(40)
    tracker = venv.unwrapped.tracker
    assert save(model, tmp_path / "runs" / "model") == tmp_path / "runs" / "model.zip"
    other = wrap(VecEnv(make_corridor(2, steps_per_batch=20)))
    loaded = load(PPO, tmp_path / "runs" / "model", other, device="cpu")
    there = other.unwrapped.tracker
    assert flat(there.state_dict()) == flat(tracker.state_dict())
    assert (there.iteration, there.timesteps, loaded.num_timesteps) == (2, 40, 40)
    if normalizes:
        assert np.array_equal(other.obs_rms.mean, venv.obs_rms.mean)
        assert other.ret_rms.var == venv.ret_rms.var
    assert np.array_equal(go_on(model, venv), go_on(loaded, other))
    assert flat(there.state_dict()) == flat(tracker.state_dict())
    alone = PPO.load(tmp_path / "runs" / "model.zip", device="cpu")  # Stable-Baselines3 reads it as well
    assert alone.num_timesteps == 40


def test_refuses_what_does_not_belong_together(make_corridor, tmp_path):
    def venv(**settings):
        return VecEnv(make_corridor(2, steps_per_batch=20, **settings))

    model = ppo(venv()).learn(20)
    path = save(model, tmp_path / "model")
    with pytest.raises(CheckpointMismatch, match="without VecNormalize"):
        load(PPO, path, VecNormalize(venv()))
    other = venv(discount=0.9)
    with pytest.raises(CheckpointMismatch, match="discount"):
        load(PPO, path, other)
    assert other.tracker.iteration == 0
    model.save(tmp_path / "alone")
    with pytest.raises(DamagedCheckpoint, match="without λ̂"):
        load(PPO, tmp_path / "alone", venv())
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(DamagedCheckpoint, match="truncated"):
        load(PPO, path, venv())
    with pytest.raises(FileNotFoundError):
        load(PPO, tmp_path / "nothing", venv())
