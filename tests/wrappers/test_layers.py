"""What both kinds of layers share: wrappers know their kind, and an episode that is void enters no estimate."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from constrained_maxent import wrappers
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.functionals import Entropy, L2Distance
from constrained_maxent.penalties import Quadratic
from constrained_maxent.wrappers import constrain, find_tracker, vector

TABLE = np.full((16, 4), 1 / 64)
ARGUMENTS = {
    "BooleanCosts": {},
    "TrackOccupancy": {"episodes_per_batch": 2},
    "Objective": {"functional": Entropy()},
    "EntropyObjective": {},
    "CostConstraint": {"limit": 0.5, "penalty": Quadratic(2.0)},
    "ImitationConstraint": {"reference": TABLE, "limit": 0.5, "penalty": Quadratic(2.0)},
    "ConvexConstraint": {"functional": L2Distance(TABLE), "penalty": Quadratic(2.0)},
    "PseudoReward": {},
}


def test_every_wrapper_is_here():
    assert sorted(ARGUMENTS) == sorted(vector.__all__)


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_vector_environment_in_a_scalar_wrapper(name):
    env = gym.make_vec("FrozenLake-v1", num_envs=2, vectorization_mode="sync")
    with pytest.raises(InvalidSetting, match=rf"wrappers\.vector\.{name}"):
        getattr(wrappers, name)(env, **ARGUMENTS[name])


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_scalar_environment_in_a_vector_wrapper(name):
    with pytest.raises(InvalidSetting, match=rf"wrappers\.{name}"):
        getattr(vector, name)(gym.make("FrozenLake-v1"), **ARGUMENTS[name])


@pytest.mark.parametrize("kit", [wrappers, vector])
def test_no_environment_at_all(kit):
    with pytest.raises(InvalidSetting, match="TrackOccupancy"):
        kit.TrackOccupancy("FrozenLake-v1", episodes_per_batch=2)


MODES = list(AutoresetMode)


def failing(costs):
    """The costs of an episode whose last step reports a physics error."""
    return [*costs[:-1], {"cost": costs[-1], "physics_error": True}]


def sound(costs):
    return [{"cost": cost, "physics_error": False} for cost in costs]


GOOD = ([0, 1, 2], sound([1, 2]), "truncated"), ([3, 2, 1, 0], [3, 4, 5], "truncated")
VOID = ([1, 1, 1], failing([6, 7]), "truncated")


def tracked(env, **settings):
    kit = vector if isinstance(env, SyncVectorEnv) else wrappers
    env = constrain(env, replace_reward=False, **({"horizon": 4, "discount": 1.0, "scale": "truncated"} | settings))
    return kit.CostConstraint(env, limit=0.0, penalty={"kind": "Quadratic", "beta": 1.0})


def trajectories(env):
    batch = find_tracker(env).last_batch
    return [(one.observations.tolist(), one.costs["cost"].tolist()) for one in batch]


class TestVoidInScalar:
    @pytest.mark.parametrize("pairing", ["same", "split", "previous"])
    @pytest.mark.parametrize("size", [{"episodes_per_batch": 2}, {"steps_per_batch": 5}])
    def test_as_if_it_had_not_been(self, scripted, pairing, size):
        runs = []
        for episodes in ([GOOD[0], VOID, GOOD[1]], [GOOD[0], GOOD[1]]):
            env = tracked(
                scripted.Playback(*(scripted.episode(*episode) for episode in episodes)), pairing=pairing, **size
            )
            n_steps = sum(len(costs) for _, costs, _ in episodes)
            infos = scripted.run(env, [0] * n_steps)
            report = infos[-1]["batch"]
            runs.append((trajectories(env), report["objective"], report["constraints"]))
        assert runs[0] == runs[1]

    def test_its_last_step_is_in_no_gradient(self, scripted):
        env = tracked(scripted.Playback(*(scripted.episode(*episode) for episode in (GOOD[0], VOID))),
                      episodes_per_batch=1, pairing="previous")  # fmt: skip
        infos = scripted.run(env, [0] * 4)
        assert [info["pseudo_reward_ready"] for info in infos] == [False, False, True, False]
        assert np.isfinite(infos[-1]["pseudo_reward"])

    def test_only_the_end_of_an_episode_voids_it(self, scripted):
        episode = ([0, 1, 2], [{"cost": 1.0, "physics_error": True}, 2.0], "truncated")
        env = tracked(scripted.Playback(scripted.episode(*episode)), episodes_per_batch=1)
        scripted.run(env, [0] * 2)
        assert trajectories(env) == [([0, 1], [1.0, 2.0])]


class TestVoidInVectors:
    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("pairing", ["same", "split", "previous"])
    def test_as_if_it_had_not_been(self, scripted, mode, pairing):
        """The other sub-environment's episode, which ends in the same call, stays."""
        scripts = [[VOID, GOOD[0]], [GOOD[0], GOOD[1]]]
        fns = [lambda own=own: scripted.Playback(*(scripted.episode(*one) for one in own)) for own in scripts]
        env = tracked(SyncVectorEnv(fns, autoreset_mode=mode), episodes_per_batch=3, pairing=pairing)
        (report,), log = scripted.drive(env, mode, lambda *_: 0)
        first, second = ([0, 1], [1.0, 2.0]), ([3, 2, 1], [3.0, 4.0, 5.0])
        assert trajectories(env) == [first, first, second]
        assert report["sub_environments"] == [1, 0, 1]
        assert log[1].infos["pseudo_reward_ready"].tolist()[0] is False

    @pytest.mark.filterwarnings("ignore::constrained_maxent.errors.HorizonMismatch")
    @pytest.mark.parametrize("mode", MODES)
    def test_batches_of_steps(self, scripted, mode):
        fns = [lambda own=own: scripted.Playback(scripted.episode(*own)) for own in (VOID, GOOD[0])]
        env = tracked(SyncVectorEnv(fns, autoreset_mode=mode), steps_per_batch=8)
        scripted.drive(env, mode, lambda *_: 0, n_batches=2)
        assert {tuple(costs) for _, costs in trajectories(env)} <= {(1.0, 2.0), (1.0,), (2.0,), (6.0,)}
        assert 7.0 not in find_tracker(env).last_batch.costs["cost"]
