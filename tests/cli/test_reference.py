"""``cmaxent reference``: a short training, what its file tells, and what it refuses."""

import json
import re

import numpy as np
import pytest

from constrained_maxent.references import SHIPPED, Reference, shipped

SHORT = ("--timesteps", 400, "--episodes", 2, "--hidden-sizes", 8, "--env-kwargs", '{"time_limit": 1.0}')


def test_train_and_show(cmaxent):
    pytest.importorskip("stable_baselines3")
    code, out, err = cmaxent("reference", "train", "PointMass-v0", *SHORT, "--seed", 3, "--out", "mine.npz", "--quiet")
    assert (code, err) == (0, "")
    reference = Reference.load("mine.npz")
    assert (reference.about["episodes"], reference.about["steps"]) == (2, 100)
    assert reference.about["environment"] == "PointMass-v0"
    assert reference.about["training"]["hidden_sizes"] == [8]
    assert reference.about["training_kwargs"] == {"frame_skip": 5, "time_limit": 4.0}
    assert (reference.policy.n_inputs, reference.states.n_states) == (4, 4)
    assert "PointMass-v0" in out
    assert "mean return" in out
    code, shown, _ = cmaxent("reference", "show", "mine.npz")
    assert (code, shown) == (0, out)
    # The command that is printed makes it again.
    command = re.search(r"^cmaxent (reference train .*)$", out, flags=re.MULTILINE).group(1)
    assert "--timesteps 400 --seed 3 --episodes 2" in command
    assert json.loads(re.search(r"--env-kwargs '(.*?)'", command).group(1)) == {"time_limit": 1.0}


def test_a_file_of_ones_own_by_default(cmaxent):
    pytest.importorskip("stable_baselines3")
    code, out, _ = cmaxent("reference", "train", "Pendulum-v1", "--timesteps", 16, "--episodes", 1, "--state",
                           "observation", "--hidden-sizes", 4)  # fmt: skip
    assert code == 0
    assert "16 steps, mean reward" in out
    assert Reference.load("references/Pendulum-v1-seed0.npz").about["training_kwargs"] == {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("train", "NoSuch-v0"), "NoSuch"),
        (("train", "PointMass-v0", "--env-kwargs", "{"), "JSON object"),
        (("train", "PointMass-v0", "--env-kwargs", "[]"), "JSON object"),
        (("train", "PointMass-v0", "--env-kwargs", '{"wheels": 3}'), "wheels"),
        (("train", "PointMass-v0", "--timesteps", 0), "timesteps"),
        (("train", "PointMass-v0", "--seed", -1), "seed"),
        (("train", "FrozenLake-v1", "--timesteps", 8), "Box"),
        (("show", "nothing.npz"), "nothing.npz"),
    ],
)
def test_refuses(cmaxent, arguments, message):
    pytest.importorskip("stable_baselines3")
    code, _, err = cmaxent("reference", *arguments)
    assert code == 2
    assert message in err
    assert "Traceback" not in err


@pytest.mark.usefixtures("without_stable_baselines")
def test_says_what_to_install(cmaxent):
    code, _, err = cmaxent("reference", "train", "PointMass-v0")
    assert code == 2
    assert 'pip install "constrained-maxent[sb3]"' in err


@pytest.mark.parametrize("env_id", SHIPPED)
def test_those_that_come_with_the_package_tell_their_origin(env_id):
    about = shipped(env_id).about
    assert about["environment"] == env_id
    assert about["command"].startswith(f"cmaxent reference train {env_id} ")
    assert about["mean_return"] > 10.0 * max(about["mean_return_of_random_actions"], 1.0)
    assert np.isfinite(shipped(env_id).sample(10, np.random.default_rng(0))).all()
