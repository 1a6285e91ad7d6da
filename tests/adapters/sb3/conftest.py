"""Small environments under the adapter, and the stacks around them."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import constrained_maxent as cmx

pytest.importorskip("stable_baselines3")


class Corridor(gym.Env):
    """Positions 0 to 4; the upper end terminates. Each observation, reward and cost is worked out by hand."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 7}
    action_space = gym.spaces.Discrete(2)

    def __init__(self, *, is_dict=False, render_mode=None):
        self.render_mode, self.is_dict = render_mode, is_dict
        box = gym.spaces.Box(-1.0, 5.0, (1,), np.float32)
        self.observation_space = gym.spaces.Dict({"at": box, "goal": box}) if is_dict else box
        self.gain = 1.0

    def _seen(self):
        at = np.array([self.at], np.float32)
        return {"at": at, "goal": np.array([4.0], np.float32)} if self.is_dict else at

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = int((options or {}).get("at", self.np_random.integers(3)))
        return self._seen(), {"begun": float(self.at)}

    def step(self, action):
        cost = float(self.at == 0)
        self.at = max(0, self.at + (1 if action == 1 else -1))
        return self._seen(), self.gain * self.at, self.at >= 4, False, {"cost": cost, "row": np.full(2, self.at)}

    def render(self):
        return np.full((4, 6, 3), 50, np.uint8)

    def double(self, number):
        return 2.0 * number * self.gain


class AsDict(gym.vector.VectorWrapper):
    """Observations as dictionaries, above everything else: λ̂ is of rows of numbers."""

    def __init__(self, env):
        super().__init__(env)
        part = env.single_observation_space
        self.single_observation_space = gym.spaces.Dict({"at": part, "goal": part})
        self.observation_space = gym.vector.utils.batch_space(self.single_observation_space, env.num_envs)

    def _seen(self, at):
        return {"at": at, "goal": np.full_like(at, 4.0)}

    def reset(self, *, seed=None, options=None):
        observations, infos = self.env.reset(seed=seed, options=options)
        return self._seen(observations), infos

    def step(self, actions):
        observations, *reply, infos = self.env.step(actions)
        finals = infos.get("final_obs", ())
        for i in range(len(finals)):
            finals[i] = None if finals[i] is None else self._seen(finals[i])
        return self._seen(observations), *reply, infos


@pytest.fixture
def make_corridor():
    """Makes ``(n, stack around n copies)``, limited to 5 steps an episode."""

    def make(n=3, *, mode=AutoresetMode.SAME_STEP, pairing="previous", is_dict=False, tracks=True, **settings):
        def one():
            return gym.wrappers.TimeLimit(Corridor(render_mode=settings.get("render_mode")), 5)

        vector = gym.vector.SyncVectorEnv([one] * n, autoreset_mode=mode)
        if not tracks:
            return vector
        stack = cmx.wrappers.constrain(
            vector,
            constraints={
                "cost": cmx.problem.Constraint(cmx.functionals.LinearCost(limit=0.1), cmx.penalties.Exact(1.0))
            },
            estimator=cmx.occupancy.GaussianMixture(n_components=1, counted=()),
            state=lambda seen: seen,
            steps_per_batch=settings.get("steps_per_batch", 4 * n),
            discount=settings.get("discount", 1.0),
            pairing=pairing,
            replace_reward=settings.get("replace_reward", True),
            suggestions=settings.get("suggestions"),
        )
        return AsDict(stack) if is_dict else stack

    make.one = lambda **settings: gym.wrappers.TimeLimit(Corridor(**settings), 5)
    return make


@pytest.fixture
def pendulum():
    """Makes a VecEnv around so many pendulums, λ̂ of their angle and its speed."""

    def make(n, **settings):
        from constrained_maxent.adapters.sb3 import VecEnv

        env = gym.make_vec("Pendulum-v1", num_envs=n, vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP})
        estimator = cmx.occupancy.GaussianMixture(n_components=2, periodic=(0,))
        settings = {"steps_per_batch": 32 * n, "discount": 1.0} | settings
        angle = lambda seen: (np.arctan2(seen[1], seen[0]), seen[2])  # noqa: E731
        return VecEnv(cmx.wrappers.constrain(env, estimator=estimator, state=angle, pairing="previous", **settings))

    return make
