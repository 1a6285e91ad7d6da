"""The three autoreset modes see the same episodes, and the same as the scalar wrapper."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from constrained_maxent import wrappers
from constrained_maxent.envs import SafeFrozenLake, SafeFrozenLakeVector
from constrained_maxent.errors import ReusedObservation, UnknownAutoreset
from constrained_maxent.occupancy import GaussianMixture
from constrained_maxent.penalties import Quadratic
from constrained_maxent.wrappers import constrain, find_tracker, vector
from constrained_maxent.wrappers.vector.autoreset import Autoreset, autoreset_mode

# AsyncVectorEnv forks where that is the platform's way; newer Pythons warn of it beside PyTorch's threads.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

MODES = list(AutoresetMode)
SETTINGS = {"discount": 0.5, "horizon": 4, "scale": "truncated"}


def after(observation, action, next_observation):
    """A cost of everything that a step tells, the state it led to above all."""
    return observation + 10.0 * action + 100.0 * next_observation


def stack(env, **settings):
    kit = vector if isinstance(env, gym.vector.VectorEnv) else wrappers
    env = constrain(env, replace_reward=False, **(SETTINGS | settings))
    env = kit.CostConstraint(env, limit=0.0, penalty=Quadratic(0.01))
    return kit.CostConstraint(env, after, limit=0.0, penalty=Quadratic(1e-5), name="after")


def same(report, other, keys=("objective", "penalty", "episodes", "steps", "ready", "iteration")):
    """Reports of the same trajectories, wherever and whenever these ran."""
    for key in keys:
        assert report[key] == pytest.approx(other[key]), key
    assert report["constraints"] == pytest.approx(other["constraints"])
    assert report["multipliers"] == pytest.approx(other["multipliers"])
    for key in ("pseudo_rewards", "weights"):
        for given, expected in zip(report[key], other[key], strict=True):
            assert given == pytest.approx(expected), key


def action(i, episode, time, observation):
    return int((observation + time + i) % 2)


# The last cost of each episode is of another size than all others; it comes in `final_info` with same-step autoreset.
SCRIPTS = [
    [([0, 1, 2], [1, 300], "terminated"), ([3, 2, 1, 0], [2, 3, 500], "truncated")],
    [([0, 0, 3, 3, 1], [4, 5, 6, 700], "truncated"), ([2, 2], [900], "terminated")],
]


def start_order(mode, lengths, n_episodes):
    """(sub-environment, episode) in the order of starts, for episodes of the given lengths, played in a cycle."""
    starts = []
    for i, own in enumerate(lengths):
        call = 0
        for number in range(n_episodes):
            starts.append((call, i, number))
            call += own[number % len(own)] + (mode is AutoresetMode.NEXT_STEP)
    return [(i, number) for _, i, number in sorted(starts)][:n_episodes]


def scalar_reports(scripted, order, n_batches, **settings):
    """The same episodes one after the other through the scalar wrapper."""
    chosen = [SCRIPTS[i][number % len(SCRIPTS[i])] for i, number in order]
    env = stack(scripted.Playback(*(scripted.episode(*episode) for episode in chosen)), **settings)
    actions = [
        action(i, n, t, s) for (i, n), (path, *_) in zip(order, chosen, strict=True) for t, s in enumerate(path[:-1])
    ]
    reports = [info["batch"] for info in scripted.run(env, actions) if "batch" in info]
    assert len(reports) == n_batches
    return reports


def playbacks(scripted, kind, mode):
    fns = [lambda own=own: scripted.Playback(*(scripted.episode(*episode) for episode in own)) for own in SCRIPTS]
    return kind(fns, autoreset_mode=mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("pairing", ["same", "split", "previous"])
@pytest.mark.parametrize("kind", [SyncVectorEnv, AsyncVectorEnv])
def test_scripted_episodes(scripted, kind, mode, pairing):
    settings = {"episodes_per_batch": 4, "pairing": pairing}
    env = stack(playbacks(scripted, kind, mode), **settings)
    try:
        reports, _ = scripted.drive(env, mode, action, n_batches=3)
    finally:
        env.close()
    order = start_order(mode, [[len(costs) for _, costs, _ in own] for own in SCRIPTS], 12)
    for report, expected in zip(reports, scalar_reports(scripted, order, 3, **settings), strict=True):
        same(report, expected)
    assert [reports[k]["sub_environments"] for k in range(3)] == [
        [i for i, _ in order[4 * k : 4 * k + 4]] for k in range(3)
    ]


@pytest.mark.parametrize("mode", MODES)
def test_the_first_batch_by_hand(scripted, mode):
    """Episodes 0 1 2 and 0 0 3 3 1 start first; actions are (observation + time + sub-environment) mod 2."""
    env = stack(playbacks(scripted, SyncVectorEnv, mode), episodes_per_batch=2)
    (report,), _ = scripted.drive(env, mode, action)
    # Sub-environment 0: (0,0) (1,0). 1: (0,1) (0,0) (3,0) (3,1). Weights 1, 1/2, 1/4, 1/8; half of it each.
    assert find_tracker(env).estimator.occupancy_ == pytest.approx(
        np.array([[0.5 + 0.25, 0.5], [0.25, 0.0], [0.0, 0.0], [0.125, 0.0625]])
    )
    # 1 + 300/2, and 4 + 5/2 + 6/4 + 700/8
    assert report["constraints"]["cost"] == pytest.approx((151.0 + 95.5) / 2)
    # s + 10 a + 100 s': 100, 201/2; 10, 300/2, 303/4, 113/8
    assert report["constraints"]["after"] == pytest.approx((200.5 + 10 + 150 + 75.75 + 14.125) / 2)


@pytest.mark.parametrize("kind", [SyncVectorEnv, AsyncVectorEnv])
def test_ignored_steps_are_never_rewarded(scripted, kind):
    env = stack(playbacks(scripted, kind, AutoresetMode.NEXT_STEP), episodes_per_batch=2, pairing="previous")
    try:
        _, log = scripted.drive(env, AutoresetMode.NEXT_STEP, action, n_batches=4)
    finally:
        env.close()
    # Sub-environment 0 plays episodes of 2 and 3 steps, so its calls 2, 6, 9, 13, ... only reset it; 1 of 4 and 1.
    for i, ignored in enumerate([{2, 6, 9, 13}, {4, 6, 11, 13}]):
        for call, step in enumerate(log[:14]):
            for key in ("pseudo_reward", "pseudo_reward_ready", "pseudo_reward_cost"):
                assert step.infos[f"_{key}"][i] == (call not in ignored)
                if call in ignored:
                    assert step.infos[key][i] == 0


@pytest.mark.parametrize("mode", MODES)
def test_one_sub_environment(scripted, mode):
    """With one copy, a step that resets reports no cost at all."""
    episodes = [scripted.episode(*episode) for episode in SCRIPTS[0]]
    env = stack(SyncVectorEnv([lambda: scripted.Playback(*episodes)], autoreset_mode=mode), episodes_per_batch=2)
    reports, _ = scripted.drive(env, mode, action, n_batches=2)
    for report, expected in zip(
        reports, scalar_reports(scripted, [(0, 0), (0, 1)] * 2, 2, episodes_per_batch=2), strict=True
    ):
        same(report, expected)


class TestLake:
    """A corridor S H H G of horizon 4. Walks: straight to the goal; against the wall; there and back; late."""

    DESC = ["SHHG"]
    LEFT, RIGHT = 0, 2
    WALKS = [
        [RIGHT] * 3,
        [LEFT] * 4,
        [RIGHT, LEFT, RIGHT, RIGHT],
        [LEFT, RIGHT, RIGHT, RIGHT],
        [RIGHT, RIGHT, LEFT, LEFT],
    ]

    def walk(self, i, episode, time, observation):
        return self.WALKS[(2 * i + episode) % 5][time % 4] if time < len(self.WALKS[(2 * i + episode) % 5]) else 0

    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("pairing", ["same", "split", "previous"])
    @pytest.mark.parametrize("is_ours", [True, False])
    def test_the_same_as_the_scalar_lake(self, scripted, mode, pairing, is_ours):
        settings = {"desc": self.DESC, "horizon": 4, "hole_cost": 5.0, "base_cost": -0.25}
        if is_ours:
            env = SafeFrozenLakeVector(3, autoreset_mode=mode, **settings)
        else:
            env = SyncVectorEnv([lambda: SafeFrozenLake(**settings)] * 3, autoreset_mode=mode)
        env = stack(env, episodes_per_batch=5, pairing=pairing)
        reports, _ = scripted.drive(env, mode, self.walk, n_batches=2)

        lengths = [[len(self.WALKS[(2 * i + episode) % 5]) for episode in range(5)] for i in range(3)]
        order = start_order(mode, lengths, 10)
        scalar = stack(SafeFrozenLake(**settings), episodes_per_batch=5, pairing=pairing)
        actions = [a for i, episode in order for a in self.WALKS[(2 * i + episode) % 5]]
        expected = [info["batch"] for info in scripted.run(scalar, actions) if "batch" in info]
        assert len(expected) == 2
        for report, other in zip(reports, expected, strict=True):
            same(report, other)

    def test_the_last_cost_by_hand(self, scripted):
        # Straight to the goal: costs -0.25 of the start, 5 and 5 of the holes; the second hole's comes in final_info.
        for mode in MODES:
            env = SafeFrozenLakeVector(1, desc=self.DESC, hole_cost=5.0, base_cost=-0.25, autoreset_mode=mode)
            env = stack(env, episodes_per_batch=1)
            (report,), _ = scripted.drive(env, mode, lambda *_: self.RIGHT)
            assert report["constraints"]["cost"] == pytest.approx(-0.25 + 2.5 + 1.25)


class TestOneCall:
    """Sub-environment 0 is in an episode, 1 ends one, 2 ended one in the call before: it has none with same-step."""

    DONE = np.array([False, True, False])
    INFOS = {"final_info": {"cost": [0.0, 9.0, 0.0]}, "final_obs": [None, "last", None]}

    def of(self, mode):
        env = gym.vector.VectorEnv()
        env.metadata = {"autoreset_mode": mode}
        env.single_observation_space = gym.spaces.Discrete(4)
        return Autoreset(env), np.array([True, True, mode is AutoresetMode.SAME_STEP])

    @pytest.mark.parametrize(
        ("mode", "starting"),
        [
            (AutoresetMode.NEXT_STEP, [False, False, True]),
            (AutoresetMode.SAME_STEP, [False, True, False]),
            (AutoresetMode.DISABLED, [False, False, False]),
        ],
    )
    def test_where_the_next_episode_starts(self, mode, starting):
        autoreset, active = self.of(mode)
        assert autoreset.starting(active, self.DONE).tolist() == starting

    def test_where_the_last_step_is_reported(self):
        autoreset, active = self.of(AutoresetMode.SAME_STEP)
        (ongoing, first), (final, second) = autoreset.reports(self.INFOS, active, self.DONE)
        assert (ongoing, first.tolist()) == (self.INFOS, [True, False, True])
        assert (final, second.tolist()) == (self.INFOS["final_info"], [False, True, False])
        assert autoreset.final_observations(self.INFOS, self.DONE) == {1: "last"}
        # Where no episode ends, Gymnasium leaves these keys out.
        assert autoreset.final_reports({}) == autoreset.final_observations({}, np.zeros(3, dtype=bool)) == {}

    @pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED])
    def test_elsewhere_it_is_reported_like_the_others(self, mode):
        autoreset, active = self.of(mode)
        ((infos, mask),) = autoreset.reports(self.INFOS, active, self.DONE)
        assert (infos, mask.tolist()) == (self.INFOS, [True, True, False])
        assert autoreset.final_reports(self.INFOS) == self.INFOS
        assert autoreset.final_observations(self.INFOS, self.DONE) == {}


class TestReuse:
    """Two steps an episode, from a number to another; all in one array, or in copies."""

    class Walk(gym.Env):
        """Reports numbers of another type than its space has, beside a number alone."""

        observation_space = gym.spaces.Dict(at=gym.spaces.Box(-9.0, 9.0, (2,)), side=gym.spaces.Discrete(2))
        action_space = gym.spaces.Discrete(2)

        def __init__(self, *, copies, returns=False):
            self.state, self.copies, self.returns = np.zeros(2), copies, returns

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.state[:] = (1.0, 2.0) if self.returns else 1e-6 * self.np_random.random(2)
            self.time = 0
            return self.observation(), {}

        def step(self, action):
            self.time += 1
            self.state += 0.5 if self.time == 1 else -0.5 if self.returns else 1.0
            return self.observation(), 0.0, self.time == 2, False, {}

        def observation(self):
            return {"at": self.state.copy() if self.copies else self.state, "side": self.time % 2}

    def ends(self, mode, kind, **settings):
        env = kind([lambda: self.Walk(**settings)] * 2, autoreset_mode=mode)
        env = vector.TrackOccupancy(
            env, GaussianMixture(), state=["at"], episodes_per_batch=50, discount=1.0, horizon=2
        )
        env.reset(seed=0)
        for _ in range(12):
            env.step(np.zeros(2, dtype=np.int64))
        env.close()

    @pytest.mark.parametrize("kind", [SyncVectorEnv, AsyncVectorEnv])
    def test_one_array_is_named(self, kind):
        with pytest.warns(ReusedObservation, match="first 4 episodes ended with the very observation"):
            self.ends(AutoresetMode.SAME_STEP, kind, copies=False)

    @pytest.mark.parametrize("settings", [{"copies": True}, {"copies": False, "mode": AutoresetMode.NEXT_STEP}])
    def test_nothing_is_lost(self, settings):
        self.ends(**{"mode": AutoresetMode.SAME_STEP, "kind": SyncVectorEnv} | settings)

    def test_ends_at_the_start_look_the_same(self):
        with pytest.warns(ReusedObservation, match="really end at their start"):
            self.ends(AutoresetMode.SAME_STEP, SyncVectorEnv, copies=True, returns=True)


class TestUnknown:
    @pytest.mark.parametrize("value", [None, "NextStep", "sometimes"])
    def test_metadata_must_tell(self, value):
        env = SafeFrozenLakeVector(2)
        env.metadata = {**env.metadata, "autoreset_mode": value}
        with pytest.raises(UnknownAutoreset, match="autoreset_mode"):
            vector.TrackOccupancy(env, episodes_per_batch=2)

    def test_metadata_without_it(self):
        class Silent(gym.vector.VectorEnv):
            metadata = {}
            num_envs = 1

        with pytest.raises(UnknownAutoreset, match="AutoresetMode"):
            autoreset_mode(Silent())


class TestDisabled:
    """Finished sub-environments are reset by a mask; the others are left alone."""

    def test_a_mask_may_cut_an_episode_short(self, scripted):
        env = stack(playbacks(scripted, SyncVectorEnv, AutoresetMode.DISABLED), episodes_per_batch=2)
        env.reset()
        env.step(np.array([0, 1]))
        _, infos = env.reset(options={"reset_mask": np.array([False, True])})
        assert "batch" not in infos  # episode 1 is over, but 0 started before it
        *_, infos = env.step(np.array([0, 0]))
        # Sub-environment 0: (0,0) (1,0); 1: (0,1), cut. Its second episode (2 2) is over as well, for the next batch.
        assert infos["batch"]["sub_environments"] == [0, 1]
        assert [w.tolist() for w in infos["batch"]["weights"]] == [[1.0, 0.5], [1.0]]
        assert infos["batch"]["started_ago"] == [1, 1]

    def test_the_callers_options_are_left_alone(self, scripted):
        env = stack(playbacks(scripted, SyncVectorEnv, AutoresetMode.DISABLED), episodes_per_batch=2)
        env.reset()
        env.step(np.array([0, 1]))
        options = {"reset_mask": np.array([False, True])}
        env.reset(options=options)
        assert options["reset_mask"].tolist() == [False, True]

    def test_a_reset_may_complete_a_batch(self, scripted):
        env = stack(playbacks(scripted, SyncVectorEnv, AutoresetMode.DISABLED), episodes_per_batch=2)
        env.reset()
        for _ in range(2):
            *_, infos = env.step(np.array([0, 1]))
        assert "batch" not in infos
        _, infos = env.reset(options={"reset_mask": np.array([True, True])})
        assert [len(w) for w in infos["batch"]["weights"]] == [2, 2]
        assert infos["batch"]["started_ago"] == [1, 1]
