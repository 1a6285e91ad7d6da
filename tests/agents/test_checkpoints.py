"""Checkpoints: a continued run equals an uninterrupted one, and what is no checkpoint is refused by name."""

import json
import os
import pickle
import signal
import stat
import subprocess
import sys
import textwrap
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

import constrained_maxent as cmx
from constrained_maxent.agents import PGP
from constrained_maxent.errors import CheckpointMismatch, DamagedCheckpoint, InvalidSetting
from constrained_maxent.functionals import LinearCost
from constrained_maxent.occupancy import Counts
from constrained_maxent.penalties import (
    AdaptiveQuadratic,
    AugmentedLagrangian,
    Lagrangian,
    Quadratic,
    QuadraticContinuation,
)
from constrained_maxent.problem import Constraint

SMALL = {"hidden_sizes": (8,), "critic_steps": 3}


def lake(**settings):
    """The grid with the paper's settings."""
    return gym.make("FrozenLake-PGP-v0", preset="paper", **settings)


def lakes(num_envs, **settings):
    """Several of them."""
    return gym.make_vec("FrozenLake-PGP-v0", num_envs=num_envs, preset="paper", **settings)


def lagrangian(vector=False, constraints=("cost",), penalty=None, memory=0.9, **settings):
    env = gym.make_vec("SafeFrozenLake-v0", num_envs=4) if vector else gym.make("SafeFrozenLake-v0")
    penalty = Lagrangian(learning_rate=0.01, multiplier=0.3) if penalty is None else penalty
    return cmx.wrappers.constrain(
        env,
        constraints={name: Constraint(LinearCost("cost", limit=1.0), penalty) for name in constraints},
        estimator=Counts(memory=memory),
        episodes_per_batch=4,
        **settings,
    )


def state_of(agent):
    """Everything that further training depends on, as plain arrays."""
    parts = {f"policy {name}": value.numpy() for name, value in agent.policy.state_dict().items()}
    if agent.critic is not None:
        parts |= {f"critic {name}": value.numpy() for name, value in agent.critic.state_dict().items()}
    tracker = cmx.wrappers.find_tracker(agent.env) if not hasattr(agent.env.unwrapped, "batches") else None
    if tracker is not None:
        state = tracker.state_dict()
        parts["occupancy"] = state["estimator"]["values"]
        parts["rest"] = np.array([state["iteration"], state["estimator"]["mass"]])
        parts["penalties"] = np.array([list(entry.values()) for entry in state["penalties"].values()])
    parts["counters"] = np.array([agent.iteration, agent.timesteps])
    parts["random"] = np.array(agent._rng.random())
    return parts


def assert_same(one, other):
    one, other = state_of(one), state_of(other)
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


@pytest.fixture
def make_continuous(reporter):
    """Box actions, and a PGP that has nothing but ``info``."""
    return lambda: reporter(
        Box(-1.0, 1.0, (3,)), Box(-1.0, 1.0, (2,)), reward=lambda s, a: float(a @ s[:2]), episodes=3, horizon=5
    )


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "agent.pt"
    PGP(lake(), seed=1).learn(iterations=2).save(path)
    return path


class TestContinuing:
    @pytest.mark.parametrize(
        ("make", "settings"),
        [
            pytest.param(lambda: lake(slippery=True), {}, id="scalar"),
            pytest.param(
                lambda: lakes(num_envs=4, slippery=True),
                {"optimizer": "adam"},
                id="vector",
            ),
            pytest.param(
                lambda: gym.make_vec(
                    "FrozenLake-PGP-v0", preset="paper", num_envs=4, autoreset_mode="SameStep", pairing="split"
                ),
                {"projection_radius": 0.5},
                id="same-step, split",
            ),
            pytest.param(
                lambda: lakes(num_envs=4),
                {"policy": "mlp", "baseline": "critic", **SMALL},
                id="networks and critic",
            ),
            pytest.param(
                lambda: lakes(num_envs=4),
                {
                    "epochs": 2,
                    "minibatch_size": 60,
                    "clip_range": 0.1,
                    "normalize_advantages": True,
                    "optimizer": "adam",
                },
                id="table in minibatches",
            ),
            pytest.param(
                lambda: lake(),
                {"learning_rate": 0.1, "final_learning_rate": 0.001, "decay_iterations": 30},
                id="learning rate that decays",
            ),
            pytest.param(
                lambda: lagrangian(penalty=AdaptiveQuadratic(0.1, beta=0.01, growth=1.1)), {}, id="adaptive beta"
            ),
            pytest.param(
                lambda: lagrangian(vector=True, penalty=QuadraticContinuation(0.01, 1.0, 30), pairing="previous"),
                {},
                id="scheduled beta, previous",
            ),
            pytest.param(lambda: lagrangian(), {"baseline": "batch-mean"}, id="multiplier and memory"),
            pytest.param(lambda: lagrangian(pairing="previous"), {}, id="multiplier, memory, previous"),
            pytest.param(
                lambda: lagrangian(vector=True, penalty=AugmentedLagrangian(beta=0.01)), {}, id="augmented, vector"
            ),
        ],
    )
    def test_equals_an_uninterrupted_run(self, make, settings, tmp_path):
        whole = PGP(make(), seed=3, **settings).learn(iterations=40)
        PGP(make(), seed=3, **settings).learn(iterations=20).save(tmp_path / "agent.pt")
        continued = PGP.load(tmp_path / "agent.pt", make())
        assert continued.iteration == 20
        assert_same(continued.learn(iterations=20), whole)

    def test_continuous_actions(self, make_continuous, tmp_path):
        """With all that is usual for networks: normalized observations, several epochs of minibatches."""
        settings = SMALL | {"minibatch_size": 4}
        whole = PGP(make_continuous(), seed=3, **settings).learn(iterations=20)
        agent = PGP(make_continuous(), seed=3, **settings).learn(iterations=10)
        agent.save(tmp_path / "agent.pt")
        continued = PGP.load(tmp_path / "agent.pt", make_continuous())
        rows = np.random.default_rng(0).uniform(-1.0, 1.0, (50, 3))
        np.testing.assert_array_equal(
            continued.predict(rows, deterministic=True)[0], agent.predict(rows, deterministic=True)[0]
        )
        assert continued.policy.features.count == 10 * 3 * 5
        assert continued.policy.features.mean.abs().max() > 0.0
        assert_same(continued.learn(iterations=10), whole)

    def test_on_the_environment_that_was_used_already(self, tmp_path):
        env = lake(slippery=True)
        whole = PGP(lake(slippery=True), seed=3).learn(iterations=4)
        agent = PGP(env, seed=3).learn(iterations=2)
        agent.save(tmp_path / "agent.pt")
        agent.learn(iterations=5)
        env.reset()
        env.step(0)  # an episode is under way
        assert_same(PGP.load(tmp_path / "agent.pt", env).learn(iterations=2), whole)

    def test_saving_changes_nothing(self, tmp_path):
        agent = PGP(lake(), seed=3).learn(iterations=2)
        agent.save(tmp_path / "agent.pt")
        assert_same(agent.learn(iterations=2), PGP(lake(), seed=3).learn(iterations=4))

    def test_before_any_training(self, tmp_path):
        PGP(lake(), seed=3).save(tmp_path / "agent.pt")
        agent = PGP.load(tmp_path / "agent.pt", lake())
        assert_same(agent.learn(iterations=2), PGP(lake(), seed=3).learn(iterations=2))

    def test_settings_and_seed_come_along(self, tmp_path):
        agent = PGP(lake(), seed=5, learning_rate=0.07, projection_radius=3.0)
        agent.save(tmp_path / "agent.pt")
        loaded = PGP.load(tmp_path / "agent.pt", lake(), device="cpu")
        assert (loaded.settings, loaded.seed) == (agent.settings, 5)
        assert loaded.hyperparameters == agent.hyperparameters

    def test_other_suggestions_change_nothing(self, tmp_path):
        """A run goes on as it began, also with what was left out then and is suggested now."""

        def make(**suggestions):
            env = lake()
            cmx.wrappers.find_tracker(env).agent_defaults = suggestions
            return env

        then = {"learning_rate": 0.05, "baseline": "critic", "hidden_sizes": (8, 4), "critic_steps": 2}
        now = {
            "learning_rate": 0.5,
            "final_learning_rate": 0.1,
            "decay_iterations": 2,
            "return_discount": 0.5,
            "optimizer": "adam",
            "projection_radius": 0.01,
            "baseline": "none",
        }
        whole = PGP(make(**then), seed=3).learn(iterations=6)
        PGP(make(**then), seed=3).learn(iterations=3).save(tmp_path / "agent.pt")
        loaded = PGP.load(tmp_path / "agent.pt", make(**now))
        assert loaded.hyperparameters == whole.hyperparameters
        assert loaded.settings == whole.settings
        assert_same(loaded.learn(iterations=3), whole)
        # and so does a checkpoint of what was loaded
        loaded.save(tmp_path / "again.pt")
        assert PGP.load(tmp_path / "again.pt", make(**now)).hyperparameters == whole.hyperparameters

    @pytest.mark.parametrize(
        "penalty", [AdaptiveQuadratic(0.1, beta=0.5, growth=2.0), QuadraticContinuation(0.5, 8.0, 4)]
    )
    def test_beta_goes_on_where_it_was(self, penalty, tmp_path):
        """Doubled after each of three batches: R is far above the tolerance, and 8 / 0.5 is 2 to the 4th."""
        PGP(lagrangian(penalty=penalty)).learn(iterations=3).save(tmp_path / "agent.pt")
        env = lagrangian(penalty=penalty)
        PGP.load(tmp_path / "agent.pt", env)
        beta = cmx.wrappers.find_tracker(env).problem.constraints["cost"].penalty.beta
        assert beta == pytest.approx(4.0, rel=1e-12)

    def test_multiplier_and_memory(self, tmp_path):
        agent = PGP(lagrangian()).learn(iterations=5)
        agent.save(tmp_path / "agent.pt")
        env = lagrangian()
        PGP.load(tmp_path / "agent.pt", env)
        tracker, original = cmx.wrappers.find_tracker(env), cmx.wrappers.find_tracker(agent.env)
        multiplier = tracker.problem.constraints["cost"].penalty.multiplier
        assert multiplier == original.problem.constraints["cost"].penalty.multiplier != 0.3
        np.testing.assert_array_equal(tracker.estimator.occupancy_, original.estimator.occupancy_)


class TestFile:
    def test_folder_is_made_and_file_can_be_read_by_others(self, tmp_path):
        path = tmp_path / "runs" / "a" / "agent.pt"
        before = os.umask(0o022)
        try:
            PGP(lake()).save(path)
        finally:
            os.umask(before)
        assert [entry.name for entry in path.parent.iterdir()] == ["agent.pt"]
        assert stat.S_IMODE(path.stat().st_mode) == 0o644

    def test_path_as_text(self, tmp_path):
        PGP(lake()).save(f"{tmp_path}/agent.pt")
        PGP.load(f"{tmp_path}/agent.pt", lake())

    def test_the_new_file_takes_the_place_of_the_old_one(self, saved):
        """It is not written over it: who reads the old one reads it to its end."""
        before = saved.read_bytes()
        with saved.open("rb") as old:
            PGP(lake()).save(saved)
            assert old.read() == before != saved.read_bytes()

    def test_an_error_while_writing_leaves_the_old_file(self, tmp_path, monkeypatch):
        path = tmp_path / "agent.pt"
        agent = PGP(lake())
        agent.save(path)
        before = path.read_bytes()

        def full_disk(content, file):
            file.write(b"half")
            raise OSError("No space left on device")

        monkeypatch.setattr(torch, "save", full_disk)
        with pytest.raises(OSError, match="No space"):
            agent.save(path)
        assert path.read_bytes() == before
        assert [entry.name for entry in tmp_path.iterdir()] == ["agent.pt"]

    def test_a_kill_while_writing_leaves_the_old_file(self, tmp_path):
        path = tmp_path / "agent.pt"
        PGP(lake(), seed=1).learn(iterations=1).save(path)
        before = path.read_bytes()
        script = f"""
            import os, signal, gymnasium as gym, torch
            from constrained_maxent.agents import PGP

            def killed(content, file):
                file.write(b"half")
                file.flush()
                os.kill(os.getpid(), signal.SIGKILL)

            torch.save = killed
            PGP(gym.make("FrozenLake-PGP-v0")).save({str(path)!r})
        """
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=False)
        assert done.returncode == -signal.SIGKILL
        assert len(list(tmp_path.iterdir())) == 2, "what was written of the new one lies beside the old one"
        assert path.read_bytes() == before
        agent = PGP.load(path, lake())
        agent.save(path)
        assert PGP.load(path, lake()).iteration == 1


class Bomb:
    def __init__(self, victim):
        self.victim = victim

    def __reduce__(self):
        return os.mkdir, (self.victim,)


class TestRefused:
    def check(self, path, error, match, make=lambda: lake(), kind=PGP):
        """Loading fails by name, and neither file nor environment nor the run on it notices."""
        env = make()
        agent = PGP(env, seed=4, **SMALL).learn(iterations=1)
        before = path.read_bytes() if path.is_file() else None
        with pytest.raises(error, match=match) as caught:
            kind.load(path, env)
        assert before is None or path.read_bytes() == before
        assert_same(agent.learn(iterations=1), PGP(make(), seed=4, **SMALL).learn(iterations=2))
        return str(caught.value)

    def test_truncated(self, saved):
        content = saved.read_bytes()
        for length in (0, 1, 10, 100, len(content) // 2, len(content) - 1):
            saved.write_bytes(content[:length])
            with pytest.raises(DamagedCheckpoint, match=r"agent\.pt"):
                PGP.load(saved, lake())
        self.check(saved, DamagedCheckpoint, "truncated")

    def test_garbage(self, saved):
        rng = np.random.default_rng(0)
        for content in (rng.bytes(5_000), b"hello, world", b"\x80\x04.", b"PK\x03\x04" + rng.bytes(500), b"\0" * 512):
            saved.write_bytes(content)
            with pytest.raises(DamagedCheckpoint, match="not a checkpoint"):
                PGP.load(saved, lake())

    def test_overwritten_bytes(self, saved):
        """Wherever the damage is, it is named, unless it is in bytes that do not matter."""
        original, content = PGP.load(saved, lake()), saved.read_bytes()
        env, rng, n_refused = lake(), np.random.default_rng(0), 0
        for _ in range(200):
            damaged = bytearray(content)
            start = int(rng.integers(len(content)))
            damaged[start : start + 8] = rng.bytes(len(damaged[start : start + 8]))
            saved.write_bytes(damaged)
            try:
                agent = PGP.load(saved, env)
            except DamagedCheckpoint:
                n_refused += 1
            else:
                np.testing.assert_array_equal(agent.policy_table(), original.policy_table())
        assert n_refused > 50

    @pytest.mark.parametrize("how", ["torch", "pickle"])
    def test_code_is_not_executed(self, tmp_path, how):
        path, victim = tmp_path / "agent.pt", tmp_path / "victim"
        content = {"format": 4, "learner": Bomb(str(victim))}
        if how == "torch":
            torch.save(content, path)
        else:
            path.write_bytes(pickle.dumps(content))
        self.check(path, DamagedCheckpoint, "not a checkpoint")
        assert not victim.exists()

    def test_no_file(self, tmp_path):
        self.check(tmp_path / "missing.pt", FileNotFoundError, "missing")
        with pytest.raises(IsADirectoryError):
            PGP.load(tmp_path, lake())

    @pytest.mark.parametrize("content", [{}, [1, 2], torch.zeros(3), {"model": 1}])
    def test_another_torch_file(self, saved, content):
        torch.save(content, saved)
        self.check(saved, DamagedCheckpoint, "not a checkpoint of this package")

    def edit(self, path, **changes):
        content = torch.load(path, weights_only=True) | changes
        torch.save({key: value for key, value in content.items() if value is not Ellipsis}, path)

    def test_another_format(self, saved):
        for other in (1, 2, 3, 5):
            self.edit(saved, format=other)
            message = self.check(saved, CheckpointMismatch, f"format {other}")
            assert "reads 4" in message

    def test_another_agent(self, saved):
        class Other(PGP):
            pass

        self.check(saved, CheckpointMismatch, "holds an agent PGP, not Other", kind=Other)
        self.edit(saved, agent="Other")
        self.check(saved, CheckpointMismatch, "holds an agent Other, not PGP")

    def test_another_environment(self, saved):
        self.check(saved, CheckpointMismatch, "id FrozenLake-PGP-v0", lagrangian)

    def test_another_map_size(self, saved):
        self.check(
            saved,
            CheckpointMismatch,
            r"observation space Discrete\(36\); this one has Discrete\(16\)",
            lambda: lake(map_name="4x4"),
        )

    def test_other_terms(self, tmp_path):
        path = tmp_path / "agent.pt"
        PGP(lagrangian()).learn(iterations=1).save(path)
        self.check(path, CheckpointMismatch, "terms objective, cost;", lambda: lagrangian(constraints=("other",)))
        self.check(
            path,
            CheckpointMismatch,
            "penalty of 'cost' changes its multiplier, this environment's its nothing",
            lambda: lagrangian(penalty=Quadratic(0.1)),
        )
        self.check(
            path,
            CheckpointMismatch,
            "changes its multiplier, this environment's its beta",
            lambda: lagrangian(penalty=AdaptiveQuadratic(0.1)),
        )

    def test_a_penalty_out_of_range_here(self, tmp_path):
        path = tmp_path / "agent.pt"
        PGP(lagrangian(penalty=AdaptiveQuadratic(0.1, beta=1.0, growth=2.0))).learn(iterations=2).save(path)
        self.check(
            path,
            CheckpointMismatch,
            r"largest=1.5 must be a number of at least beta=4.0",
            lambda: lagrangian(penalty=AdaptiveQuadratic(0.1, growth=1.1, largest=1.5)),
        )

    def test_with_and_without_a_tracker(self, reporter, tmp_path):
        def bare():
            return reporter(Discrete(36), Discrete(4), reward=lambda s, a: 0.0)

        def tracked():
            inner = gym.make("SafeFrozenLake-v0").unwrapped
            inner.spec = None  # as unregistered as the other, and of the same spaces
            return cmx.wrappers.constrain(inner, episodes_per_batch=2, discount=0.5)

        path = tmp_path / "agent.pt"
        PGP(tracked()).save(path)
        self.check(path, CheckpointMismatch, "without a tracker", bare)
        PGP(bare()).save(path)
        self.check(path, CheckpointMismatch, "with a tracker", tracked)

    @pytest.mark.parametrize(
        "part",
        [
            "agent",
            "environment",
            "settings",
            "hyperparameters",
            "seed",
            "iteration",
            "learner",
            "optimizer",
            "random",
            "wrappers",
        ],
    )
    def test_a_missing_part(self, saved, part):
        self.edit(saved, **{part: ...})
        self.check(saved, DamagedCheckpoint, "lacks a part")

    @pytest.mark.parametrize("other", [{"discount": 0.9}, {"scale": "normalized"}], ids=str)
    def test_an_occupancy_in_other_units(self, saved, other):
        """λ̂ with memory would stay in those of the file. Older files do not tell: they are taken as they are."""
        ((name, value),) = other.items()
        make = partial(lake, pairing="previous", **other)
        self.check(saved, CheckpointMismatch, f"with {name} .*; this one has {value}. Build it", make)
        environment = torch.load(saved, weights_only=True)["environment"]
        self.edit(
            saved, environment={key: told for key, told in environment.items() if key not in ("discount", "scale")}
        )
        assert PGP.load(saved, make()).iteration == 2

    @pytest.mark.parametrize(
        "other", [{"limit": 5.0}, {"beta": 0.1}, {"hole_cost": 2.0}, {"horizon": 50}, {"memory": 0.5}], ids=str
    )
    def test_another_limit_price_or_length_is_no_other_environment(self, saved, other):
        settings = {"preset": "paper", "pairing": "previous"} | other
        for env in (gym.make("FrozenLake-PGP-v0", **settings), gym.make_vec("FrozenLake-PGP-v0", 8, **settings)):
            assert PGP.load(saved, env).iteration == 2

    def test_a_hyperparameter_that_is_younger_than_the_file(self, saved):
        chosen = json.loads(torch.load(saved, weights_only=True)["hyperparameters"])
        older = {name: value for name, value in chosen.items() if name not in ("momentum", "importance_bound")}
        self.edit(saved, hyperparameters=json.dumps(older))
        loaded = PGP.load(saved, lake(pairing="previous"))
        assert loaded.hyperparameters.momentum == 1.0

    def test_an_impossible_occupancy(self, saved):
        """It is found out when the environment's part is put back: that is undone."""
        wrappers = torch.load(saved, weights_only=True)["wrappers"]
        wrappers["estimator"]["values"][0] = -1.0
        self.edit(saved, wrappers=wrappers)
        self.check(saved, DamagedCheckpoint, "negative")
        env = lake(pairing="previous")
        PGP(env, seed=4).learn(iterations=1)
        before = cmx.wrappers.find_tracker(env).state_dict()
        with pytest.raises(DamagedCheckpoint):
            PGP.load(saved, env)
        after = cmx.wrappers.find_tracker(env).state_dict()
        np.testing.assert_array_equal(after["estimator"]["values"], before["estimator"]["values"])

    @pytest.mark.parametrize(
        "change",
        [
            {"settings": "{"},
            {"settings": '{"lr": 1}'},
            {"hyperparameters": "{}"},
            {"hyperparameters": '{"lr": 1}'},
            {"random": "{}"},
            {"learner": {"theta": torch.zeros(3)}},
            {"learner": None},
            {"environment": {"moon": "full"}},
            {"iteration": "many"},
            {"wrappers": {"terms": ["objective", "cost"]}},
        ],
        ids=str,
    )
    def test_a_part_that_does_not_fit(self, saved, change):
        self.edit(saved, **change)
        self.check(saved, DamagedCheckpoint, "does not fit")

    def test_a_device_that_is_not_here(self, saved):
        with pytest.raises(InvalidSetting, match="take 'cpu'"):
            PGP.load(saved, lake(), device="cuda:99")
        assert PGP.load(saved, lake()).iteration == 2

    def test_no_environment(self, saved):
        with pytest.raises(InvalidSetting, match=r"gym\.make"):
            PGP.load(saved, "FrozenLake-PGP-v0")
