"""Evaluation environments: whole episodes from their true start, whatever the training had."""

import warnings

import gymnasium as gym
import pytest

from constrained_maxent import cli
from constrained_maxent.envs import SafeFrozenLake
from constrained_maxent.errors import ContradictedDynamics, InvalidRun, InvalidSetting
from constrained_maxent.evaluation import Grid, StateMeasures
from constrained_maxent.runs.evaluation import evaluate, make_evaluation_environment
from constrained_maxent.runs.run_folder import RunFolder
from constrained_maxent.runs.settings import TrainSettings
from constrained_maxent.wrappers import constrain


@pytest.mark.parametrize(
    ("n_episodes", "num_envs", "copies"), [(20, 8, 20), (100, 8, 25), (33, 8, 17), (1, 8, 1), (100, 64, 50)]
)
def test_equal_batches_of_not_too_many_copies(n_episodes, num_envs, copies):
    env = make_evaluation_environment("FrozenLake-PGP-v0", TrainSettings(num_envs=num_envs), n_episodes)
    assert env.num_envs == copies
    env.close()


@pytest.mark.filterwarnings("ignore::constrained_maxent.errors.UnplannedRun")
@pytest.mark.parametrize("env_id", ["SafeCartpole-PGP-v0", "PointMass-PGP-v0"])
@pytest.mark.parametrize("kwargs", ['{"time_limit": 0.2}', '{"time_limit": 0.2, "staggered_starts": true}'])
def test_all_episodes_are_whole(env_id, kwargs):
    settings = TrainSettings(num_envs=4, steps_per_batch=64, pairing="split", env_kwargs=kwargs)
    env = make_evaluation_environment(env_id, settings, 4)
    env.reset(seed=0)
    n_steps = 10 if env_id.startswith("Point") else 20
    for t in range(n_steps):
        _, _, _, truncated, infos = env.step(env.action_space.sample())
        assert truncated.all() == truncated.any() == (t == n_steps - 1)
    assert infos["batch"]["whole_episodes"]
    assert infos["batch"]["episodes"] == 4
    env.close()


class TestEnvironmentsWithWrappersOfTheirOwn:
    @pytest.fixture
    def register(self):
        made = []

        def make(env_id, **batches):
            def make_vec(num_envs=1, **_):
                bare = gym.make_vec("FrozenLake-v1", num_envs=num_envs, max_episode_steps=5)
                return constrain(bare, **batches)

            gym.register(env_id, vector_entry_point=make_vec)
            made.append(env_id)
            return env_id

        yield make
        for env_id in made:
            del gym.registry[env_id]

    def test_keep_their_batches(self, register, run):
        env_id = register("Whole-v0", episodes_per_batch=6)
        result = run(env_id=env_id, num_envs=3)
        assert evaluate(result.folder, n_episodes=4).rollouts.n_episodes == 6

    def test_of_fragments_are_evaluated_on_whole_episodes(self, register, run):
        result = run(env_id=register("Parts-v0", steps_per_batch=30), num_envs=3)
        found = evaluate(result.folder, n_episodes=4).rollouts
        assert found.n_episodes == 4
        assert found.length.high <= 5.0  # the time limit; a fragment of each copy would have 10 steps

    def test_that_do_not_exist(self):
        with pytest.raises(InvalidSetting, match="no environment"):
            make_evaluation_environment("Nowhere-v0", TrainSettings(), 4)


def test_measures_of_ones_own(run):
    result = run(
        env_id="PointMass-PGP-v0", iterations=1, num_envs=4, steps_per_batch=64, env_kwargs='{"time_limit": 1}'
    )
    half = StateMeasures(
        grid=Grid((-0.3,) * 4, (0.3,) * 4, (2, 1, 1, 1)), events={"right": lambda states: states[:, 0] > 0.0}
    )
    found = evaluate(result.folder, n_episodes=30, measures=half).rollouts
    assert found.states.coverage.share == 1.0
    # Starts are uniform over the table, and in one second nobody goes far: half of 30, ± 4 standard errors.
    assert found.states.events["right"].mean == pytest.approx(0.5, abs=4 * 0.5 / 30**0.5)
    assert found.length.mean == 50.0


@pytest.mark.parametrize("n_episodes", [0, -3])
def test_no_episodes(run, n_episodes):
    with pytest.raises(InvalidSetting, match="at least 1"):
        evaluate(run().folder, n_episodes=n_episodes)


def test_no_run(tmp_path):
    with pytest.raises(InvalidRun, match="is not a run folder"):
        evaluate(RunFolder(tmp_path))


class Drifting(SafeFrozenLake):
    """In one step of ten another action is taken than the one that is given; ``P`` says nothing of it."""

    def step(self, action):
        if self.np_random.random() < 0.1:
            action = int(self.np_random.integers(4))
        return super().step(action)


class Watched(gym.Wrapper):
    """A layer of somebody's own."""


@pytest.mark.fault
class TestWhatIsNotAsPublished:
    @pytest.fixture
    def register(self):
        made = []

        def make(env_id, entry_point):
            gym.register(env_id, entry_point=entry_point)
            made.append(env_id)
            return env_id

        yield make
        for env_id in made:
            del gym.registry[env_id]

    def test_steps_that_contradict_it(self, register, run, capsys):
        """Found while training, on fresh episodes and before a certificate: no exact value is left anywhere."""
        env_id = register("Drifting-v0", Drifting)
        with pytest.warns(ContradictedDynamics, match="came next in state"):
            result = run(env_id=env_id)
        assert result.summary["exact"] is result.summary["uniform_policy"] is result.certificate is None
        assert "came next in state" in result.summary["no_exact"]
        assert "Nor are there exact values" in result.no_certificate
        with pytest.warns(ContradictedDynamics):
            evaluation = evaluate(result.folder, n_episodes=100)
        assert evaluation.exact is None
        assert evaluation.to_json()["no_exact"] == evaluation.rollouts.contradiction
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert cli.main(["certify", str(result.folder.path)]) != 0
        assert "does something else than it publishes" in " ".join(capsys.readouterr().err.split())

    def test_layers_that_may_change_it(self, register, run, capsys):
        env_id = register("Watched-v0", lambda **arguments: Watched(SafeFrozenLake(**arguments)))
        result = run(env_id=env_id)
        assert result.summary["exact"] is None
        assert "Watched may change the process" in result.summary["no_exact"]
        assert cli.main(["evaluate", str(result.folder.path), "--episodes", "8"]) == 0
        assert "no exact values. Watched may change" in " ".join(capsys.readouterr().out.split())
        assert cli.main(["certify", str(result.folder.path)]) != 0
        assert "Watched may change" in " ".join(capsys.readouterr().err.split())
