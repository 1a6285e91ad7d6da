"""``cmaxent reference``: a short training, what its file tells, and what it refuses."""

import json
import re

import gymnasium as gym
import numpy as np
import pytest

from constrained_maxent.references import SHIPPED, Reference, shipped

SHORT = ("--timesteps", 400, "--episodes", 2, "--hidden-sizes", 8, "--env-kwargs", '{"time_limit": 1.0}')


@pytest.fixture
def short(monkeypatch):
    """Trainings of a few steps, in which nothing is learnt."""
    pytest.importorskip("stable_baselines3")
    monkeypatch.setattr("constrained_maxent.adapters.sb3.expert.LEARNING_STARTS", 0)


@pytest.mark.usefixtures("short")
def test_train_and_show(cmaxent):
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
    assert (code, shown.strip()) == (0, out.strip())  # a progress bar may leave an empty line
    # The command that is printed makes it again.
    command = re.search(r"^cmaxent (reference train .*)$", out, flags=re.MULTILINE).group(1)
    assert "--timesteps 400 --seed 3 --episodes 2" in command
    assert json.loads(re.search(r"--env-kwargs '(.*?)'", command).group(1)) == {"time_limit": 1.0}


@pytest.mark.usefixtures("short")
def test_a_file_of_ones_own_by_default(cmaxent):
    code, out, _ = cmaxent("reference", "train", "Pendulum-v1", "--timesteps", 16, "--episodes", 1, "--state",
                           "observation", "--hidden-sizes", 4)  # fmt: skip
    assert code == 0
    assert "16 steps, mean reward" in out
    assert Reference.load("references/Pendulum-v1-seed0.npz").about["training_kwargs"] == {}


def train(cmaxent, env_id, *options):
    return cmaxent("reference", "train", env_id, "--timesteps", 16, "--episodes", 1, "--hidden-sizes", 4, *options)


@pytest.mark.usefixtures("short")
class TestAngles:
    SHORT = ("--env-kwargs", '{"time_limit": 0.2}', "--out", "mine.npz")

    def test_those_of_the_environment_by_default(self, cmaxent):
        code, out, _ = train(cmaxent, "SafeCartpole-v0", *self.SHORT)
        reference = Reference.load("mine.npz")
        assert (code, reference.states.periodic) == (0, (2,))
        assert "--periodic" not in reference.about["command"]
        assert "4 coordinates, angles 2" in out
        # All of the mass lies on the circle.
        angles = reference.sample(500, np.random.default_rng(0))[:, 2]
        assert np.abs(angles).max() <= np.pi

    @pytest.mark.parametrize(
        ("options", "expected"),
        [(("--periodic", 0, 2), (0, 2)), (("--state", "observation"), ())],
    )
    def test_those_given(self, cmaxent, options, expected):
        assert train(cmaxent, "SafeCartpole-v0", *self.SHORT, *options)[0] == 0
        reference = Reference.load("mine.npz")
        assert reference.states.periodic == expected
        assert " ".join(map(str, options)) in reference.about["command"]


class TestBeforeTraining:
    """What would be found wrong after a training is found before it."""

    @pytest.fixture(autouse=True)
    def no_training(self, monkeypatch):
        sb3 = pytest.importorskip("stable_baselines3")
        monkeypatch.setattr(sb3.SAC, "learn", lambda *_, **__: pytest.fail("It trained."))

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--episodes", 0), "episodes=0 must be a whole number of at least 1"),
            (("--state", "foo"), "info has no 'foo' (it has: state)"),
            (("--periodic", 4), "the state has only 4 coordinates"),
            (("--periodic", -1), "periodic=-1"),
            (("--periodic", 1, 1), "periodic=(1, 1)"),
            (("--hidden-sizes", 0), "hidden_sizes=0 must be"),
            (("--hidden-sizes", 8, -8), "hidden_sizes=-8 must be"),
            (("--hidden-sizes",), "one layer or more"),
            (("--learning-rate", -1), "learning_rate=-1.0 must be a positive number"),
            (("--learning-rate", "nan"), "learning_rate=nan must be a positive number"),
            (("--updates-per-step", "inf"), "updates_per_step=inf"),
            (("--discount", 2), "discount=2.0 must lie in [0, 1]"),
            (("--discount", "nan"), "discount=nan"),
            (("--timesteps", 0), "timesteps=0"),
            pytest.param(("--timesteps", 4000), "timesteps=4000: the first 4000 steps", marks=pytest.mark.fault),
            (("--seed", -1), "seed=-1"),
            (("--seed", 2**32), "seed=4294967296"),
            (("--env-kwargs", '{"time_limit": null}'), "give it a time limit"),
            (("--training-kwargs", '{"wheels": 3}'), "wheels"),
            (("--training-kwargs", "[]"), "JSON object"),
            (("--out", "."), "give --out another file"),
            (("--out", "file/mine.npz"), "give --out another file"),
        ],
    )
    def test_options(self, cmaxent, tmp_path, options, message):
        (tmp_path / "file").write_text("not a folder")
        code, _, err = cmaxent("reference", "train", "PointMass-v0", *options)
        text = " ".join(err.split())
        assert code == 2
        assert message in text
        assert "Traceback" not in err

    @pytest.mark.parametrize(
        ("env_id", "message"),
        [
            ("NoSuch-v0", "There is no environment 'NoSuch-v0'"),
            ("Foo Bar", "There is no environment 'Foo Bar'"),
            ("nothing_here:Foo-v0", "cannot be imported"),
            ("PointMass-PGP-v0", "as the -PGP- ids do"),
            ("FrozenLake-v1", "observations in a Box"),
            ("Nested-v0", "observations in a Box"),
            ("CartPole-v1", "actions in a Box"),
            ("Boundless-v0", "bounds of the actions"),
            ("Square-v0", "not in a Box of one dimension"),
        ],
    )
    def test_environments(self, cmaxent, env_id, message, monkeypatch):
        line, square = gym.spaces.Box(-1.0, 1.0, (2,)), gym.spaces.Box(-1.0, 1.0, (2, 2))
        boundless = gym.spaces.Box(-np.inf, np.inf, (2,))
        own = {
            "Nested-v0": (gym.spaces.Dict(place=line), line),
            "Boundless-v0": (line, boundless),
            "Square-v0": (line, square),
        }
        for name, spaces in own.items():
            spec = gym.envs.registration.EnvSpec(
                name, lambda spaces=spaces: Anything(*spaces), max_episode_steps=5, disable_env_checker=True
            )
            monkeypatch.setitem(gym.registry, name, spec)
        code, _, err = cmaxent("reference", "train", env_id, "--state", "observation")
        assert code == 2
        assert message in " ".join(err.split())
        assert "Traceback" not in err


class Anything(gym.Env):
    """Of any spaces."""

    def __init__(self, observation_space, action_space):
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 0.0, False, False, {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("train", "NoSuch-v0"), "NoSuch"),
        (("train", "PointMass-v0", "--env-kwargs", "{"), "JSON object"),
        (("train", "PointMass-v0", "--env-kwargs", "[]"), "JSON object"),
        (("train", "PointMass-v0", "--env-kwargs", '{"wheels": 3}'), "wheels"),
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
