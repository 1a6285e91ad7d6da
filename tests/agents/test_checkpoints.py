"""Checkpoints: a continued run equals an uninterrupted one, and what is no checkpoint is refused by name."""

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
from gymnasium.spaces import Box

import constrained_maxent as cmx
from constrained_maxent.agents import PGP, checkpoints
from constrained_maxent.errors import CheckpointMismatch, DamagedCheckpoint, InvalidSetting
from constrained_maxent.functionals import LinearCost
from constrained_maxent.occupancy import Counts
from constrained_maxent.penalties import (
    AdaptiveLagrangian,
    AugmentedLagrangian,
    Lagrangian,
    Quadratic,
    QuadraticContinuation,
)
from constrained_maxent.problem import Constraint
from constrained_maxent.tracker import find_tracker

SMALL = {"hidden_sizes": (8,), "critic_steps": 3}


def lake(**settings):
    """The grid with the paper's settings."""
    return gym.make("FrozenLake-PGP-v0", preset="paper", **settings)


def lakes(num_envs=4, **settings):
    """Several of them."""
    return gym.make_vec("FrozenLake-PGP-v0", num_envs=num_envs, preset="paper", **settings)


def scheduled():
    """The vector form of the default preset: schedules of penalty, memory and step size, natural steps."""
    return gym.make_vec("FrozenLake-PGP-v0", num_envs=16)


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


def leaves(value, path=""):
    """The numbers, texts and arrays of nested dicts and lists, by their path."""
    if not isinstance(value, (dict, list, tuple)):
        return {path: value.numpy() if isinstance(value, torch.Tensor) else value}
    entries = value.items() if isinstance(value, dict) else enumerate(value)
    return {place: leaf for key, entry in entries for place, leaf in leaves(entry, f"{path}/{key}").items()}


def assert_same(one, other):
    """Everything that further training depends on is the same."""
    one, other = (leaves([agent.state_dict(), find_tracker(agent.env).state_dict()]) for agent in (one, other))
    assert one.keys() == other.keys()
    for place in one:
        np.testing.assert_array_equal(one[place], other[place], err_msg=place)


@pytest.fixture
def make_continuous(reporter):
    """Box actions, and a PGP that has nothing but reports."""
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
            pytest.param(lambda: lakes(slippery=True), {"optimizer": "adam"}, id="vector"),
            pytest.param(
                lambda: lakes(autoreset_mode="SameStep", pairing="split"),
                {"projection_radius": 0.5},
                id="same-step, split",
            ),
            pytest.param(lakes, {"policy": "mlp", "baseline": "critic", **SMALL}, id="networks and critic"),
            pytest.param(
                lakes,
                {
                    "epochs": 2,
                    "minibatch_size": 60,
                    "clip_range": 0.1,
                    "normalize_advantages": True,
                    "optimizer": "adam",
                },
                id="table in minibatches",
            ),
            pytest.param(lake, {"averaging": 0.8}, id="average of a table"),
            pytest.param(lakes, {"policy": "mlp", "averaging": 0.8, **SMALL}, id="average of networks"),
            # The center moves before the first batch and the eighth.
            pytest.param(lake, {"proximal_weight": 2.0, "inner_iterations": 7}, id="proximal, table"),
            pytest.param(
                lakes,
                {"policy": "mlp", "proximal_weight": 2.0, "inner_iterations": 5, **SMALL},
                id="proximal, networks",
            ),
            pytest.param(lambda: lakes(memory=0.5), {"optimizer": "natural"}, id="natural steps"),
            pytest.param(lake, {"learning_rate": 0.1, "final_learning_rate": 0.001}, id="learning rate that decays"),
            pytest.param(scheduled, {}, id="default preset, vector"),
            pytest.param(
                lambda: lagrangian(vector=True, penalty=QuadraticContinuation(0.01, 1.0), pairing="previous"),
                {},
                id="scheduled beta, previous",
            ),
            pytest.param(lambda: lagrangian(), {"baseline": "batch-mean"}, id="multiplier and memory"),
            pytest.param(lambda: lagrangian(pairing="previous"), {}, id="multiplier, memory, previous"),
            pytest.param(
                lambda: lagrangian(vector=True, penalty=AugmentedLagrangian(beta=0.01)), {}, id="augmented, vector"
            ),
            pytest.param(lambda: lagrangian(penalty=AdaptiveLagrangian(0.01, 1.0)), {}, id="adaptive multiplier"),
        ],
    )
    def test_equals_an_uninterrupted_run(self, make, settings, tmp_path):
        """In three parts of one planned run, and with a file between the last two."""
        whole = PGP(make(), seed=3, **settings).learn(iterations=15)
        agent = PGP(make(), seed=3, **settings)
        agent.learn(iterations=5, planned=15).learn(iterations=5, planned=15).save(tmp_path / "agent.pt")
        continued = PGP.load(tmp_path / "agent.pt", make())
        assert continued.iteration == 10
        assert_same(continued.learn(iterations=5, planned=15), whole)
        # What was saved goes on as well. The file knows the plan.
        assert_same(agent.learn(iterations=5), whole)

    def test_planned_in_steps(self, tmp_path):
        """Batches of 16 episodes of at most 25 steps."""
        whole = PGP(scheduled(), seed=3).learn(total_timesteps=4_000)
        agent = PGP(scheduled(), seed=3).learn(total_timesteps=1_600, planned=4_000)
        agent.save(tmp_path / "agent.pt")
        continued = PGP.load(tmp_path / "agent.pt", scheduled())
        assert_same(continued.learn(iterations=whole.iteration - agent.iteration), whole)
        assert find_tracker(continued.env).progress == 1.0

    def test_continuous_actions(self, make_continuous, tmp_path):
        """With all that is usual for networks: normalized observations, several epochs of minibatches."""
        settings = SMALL | {"minibatch_size": 4}
        whole = PGP(make_continuous(), seed=3, **settings).learn(iterations=20)
        agent = PGP(make_continuous(), seed=3, **settings).learn(iterations=10, planned=20)
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
        agent = PGP(env, seed=3).learn(iterations=2, planned=4)
        agent.save(tmp_path / "agent.pt")
        agent.learn(iterations=5)
        env.reset()
        env.step(0)  # an episode is under way
        assert_same(PGP.load(tmp_path / "agent.pt", env).learn(iterations=2), whole)

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
            find_tracker(env).suggestions = suggestions
            return env

        then = {"learning_rate": 0.05, "baseline": "critic", "hidden_sizes": (8, 4), "critic_steps": 2}
        now = {
            "learning_rate": 0.5,
            "final_learning_rate": 0.1,
            "return_discount": 0.5,
            "optimizer": "adam",
            "projection_radius": 0.01,
            "baseline": "none",
        }
        whole = PGP(make(**then), seed=3).learn(iterations=6)
        PGP(make(**then), seed=3).learn(iterations=3, planned=6).save(tmp_path / "agent.pt")
        loaded = PGP.load(tmp_path / "agent.pt", make(**now))
        assert loaded.hyperparameters == whole.hyperparameters
        assert loaded.settings == whole.settings
        assert_same(loaded.learn(iterations=3), whole)
        # and so does a checkpoint of what was loaded
        loaded.save(tmp_path / "again.pt")
        assert PGP.load(tmp_path / "again.pt", make(**now)).hyperparameters == whole.hyperparameters

    def test_the_environment_is_where_it_was(self, tmp_path):
        """Multiplier and memory; and a scheduled β, here at half of its way from 0.5 to 8 in geometric steps."""
        agent = PGP(lagrangian()).learn(iterations=5)
        agent.save(tmp_path / "agent.pt")
        env = lagrangian()
        PGP.load(tmp_path / "agent.pt", env)
        tracker, original = find_tracker(env), find_tracker(agent.env)
        multiplier = tracker.problem.constraints["cost"].penalty.multiplier
        assert multiplier == original.problem.constraints["cost"].penalty.multiplier != 0.3
        np.testing.assert_array_equal(tracker.estimator.occupancy_, original.estimator.occupancy_)

        rising = QuadraticContinuation(0.5, 8.0)
        PGP(lagrangian(penalty=rising)).learn(iterations=2, planned=4).save(tmp_path / "agent.pt")
        env = lagrangian(penalty=rising)
        PGP.load(tmp_path / "agent.pt", env)
        assert find_tracker(env).problem.constraints["cost"].penalty.beta == pytest.approx(2.0, rel=1e-12)


class TestFunctions:
    """``save``, ``read`` and ``restore`` for any agent that has ``env``, ``state_dict`` and ``load_state_dict``."""

    class Keeper:
        def __init__(self, env, state=None):
            self.env, self.state = env, state

        def state_dict(self):
            return self.state

        def load_state_dict(self, state):
            self.state = state

    def test_what_was_saved_comes_back(self, tmp_path):
        state = {
            "array": np.arange(6, dtype=np.int32).reshape(2, 3),
            "tensor": torch.ones(2),
            "nested": {1: [np.zeros(0), "text", None, 0.5, True]},
        }
        path = tmp_path / "keeper.pt"
        checkpoints.save(path, self.Keeper(lake(), state), arguments={"size": 3})
        again = self.Keeper(lake())
        content = checkpoints.read(path, again.env, "Keeper")
        assert content["arguments"] == {"size": 3}
        checkpoints.restore(path, content, again)
        assert type(again.state["array"]) is np.ndarray
        assert again.state["array"].dtype == np.int32
        assert type(again.state["tensor"]) is torch.Tensor
        before, after = leaves(state), leaves(again.state)
        assert before.keys() == after.keys()
        for place in before:
            np.testing.assert_array_equal(before[place], after[place], err_msg=place)

    def test_another_kind(self, tmp_path):
        path = tmp_path / "keeper.pt"
        checkpoints.save(path, self.Keeper(lake(), {}))
        with pytest.raises(CheckpointMismatch, match="Keeper"):
            PGP.load(path, lake())

    def test_an_agent_that_trips_over_its_own_state(self, tmp_path):
        path, agent = tmp_path / "agent.pt", PGP(lake()).learn(iterations=1)
        checkpoints.save(path, self.Keeper(agent.env, {"theta": 1}))
        content = checkpoints.read(path, agent.env, "Keeper")
        before = leaves(find_tracker(agent.env).state_dict())
        with pytest.raises(DamagedCheckpoint, match="learner"):
            checkpoints.restore(path, content, agent)
        np.testing.assert_equal(leaves(find_tracker(agent.env).state_dict()), before)


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
            import os, signal, gymnasium as gym
            from constrained_maxent.agents import PGP

            os.fsync = lambda file: os.kill(os.getpid(), signal.SIGKILL)
            PGP(gym.make("FrozenLake-PGP-v0")).save({str(path)!r})
        """
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=False)
        assert done.returncode == -signal.SIGKILL
        assert len(list(tmp_path.iterdir())) == 2, "what was written of the new one lies beside the old one"
        assert path.read_bytes() == before
        agent = PGP.load(path, lake())
        agent.save(path)
        assert PGP.load(path, lake()).iteration == 1
        assert list(tmp_path.iterdir()) == [path], "the next one that writes tidies up"


class Bomb:
    def __init__(self, victim):
        self.victim = victim

    def __reduce__(self):
        return os.mkdir, (self.victim,)


class TestRefused:
    def check(self, path, error, match, make=lake, kind=PGP):
        """Loading fails by name, and neither file nor environment nor the run on it notices."""
        env = make()
        agent = PGP(env, seed=4, **SMALL).learn(iterations=1, planned=2)
        before = path.read_bytes() if path.is_file() else None
        with pytest.raises(error, match=match):
            kind.load(path, env)
        assert before is None or path.read_bytes() == before
        assert_same(agent.learn(iterations=1), PGP(make(), seed=4, **SMALL).learn(iterations=2))

    def test_truncated(self, saved):
        content = saved.read_bytes()
        for length in (0, 1, 10, 100, len(content) // 2, len(content) - 1):
            saved.write_bytes(content[:length])
            with pytest.raises(DamagedCheckpoint, match=r"agent\.pt"):
                PGP.load(saved, lake())
        self.check(saved, DamagedCheckpoint, r"agent\.pt")

    def test_garbage(self, saved):
        rng = np.random.default_rng(0)
        for content in (rng.bytes(5_000), b"hello, world", b"\x80\x04.", b"PK\x03\x04" + rng.bytes(500), b"\0" * 512):
            saved.write_bytes(content)
            with pytest.raises(DamagedCheckpoint, match=r"agent\.pt"):
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
        content = {"format": 5, "state": Bomb(str(victim))}
        if how == "torch":
            torch.save(content, path)
        else:
            path.write_bytes(pickle.dumps(content))
        self.check(path, DamagedCheckpoint, r"agent\.pt")
        assert not victim.exists()

    def test_no_file(self, tmp_path):
        self.check(tmp_path / "missing.pt", FileNotFoundError, "missing")
        with pytest.raises(IsADirectoryError):
            PGP.load(tmp_path, lake())

    @pytest.mark.parametrize("content", [{}, [1, 2], torch.zeros(3), {"model": 1}])
    def test_another_torch_file(self, saved, content):
        torch.save(content, saved)
        self.check(saved, DamagedCheckpoint, r"agent\.pt")

    def edit(self, path, *place, to=...):
        """Change what lies at a place of the file, or take it out."""
        content = torch.load(path, weights_only=True)
        inner = content
        for key in place[:-1]:
            inner = inner[key]
        if to is Ellipsis:
            del inner[place[-1]]
        else:
            inner[place[-1]] = to
        torch.save(content, path)

    def test_another_format(self, saved):
        for other in (1, 2, 3, 4, 5, 7):
            self.edit(saved, "format", to=other)
            self.check(saved, CheckpointMismatch, f"format {other}")

    def test_another_agent(self, saved):
        class Other(PGP):
            pass

        self.check(saved, CheckpointMismatch, "Other", kind=Other)
        self.edit(saved, "agent", to="Other")
        self.check(saved, CheckpointMismatch, "Other")

    def test_another_environment(self, saved):
        self.check(saved, CheckpointMismatch, "id FrozenLake-PGP-v0", lagrangian)
        self.check(saved, CheckpointMismatch, r"observation space Discrete\(36\)", partial(lake, map_name="4x4"))

    @pytest.mark.parametrize("other", [{"discount": 0.9}, {"scale": "normalized"}], ids=str)
    def test_an_occupancy_in_other_units(self, saved, other):
        """λ̂ with memory would stay in those of the file."""
        self.check(saved, CheckpointMismatch, next(iter(other)), partial(lake, pairing="previous", **other))

    @pytest.mark.parametrize(
        "other", [{"limit": 5.0}, {"beta": 0.1}, {"hole_cost": 2.0}, {"horizon": 50}, {"memory": 0.5}], ids=str
    )
    def test_another_limit_price_or_length_is_no_other_environment(self, saved, other):
        settings = {"preset": "paper", "pairing": "previous"} | other
        for env in (gym.make("FrozenLake-PGP-v0", **settings), gym.make_vec("FrozenLake-PGP-v0", 8, **settings)):
            assert PGP.load(saved, env).iteration == 2

    @pytest.mark.parametrize(
        ("other", "named"),
        [
            ({"constraints": ("other",)}, "terms"),
            ({"penalty": Quadratic(0.1)}, "multiplier"),
            ({"penalty": QuadraticContinuation(0.1, 1.0)}, "progress"),
            ({"penalty": Lagrangian(0.01, largest=0.1)}, "multiplier"),
        ],
        ids=str,
    )
    def test_other_terms_or_penalties(self, tmp_path, other, named):
        path = tmp_path / "agent.pt"
        PGP(lagrangian()).learn(iterations=1).save(path)
        self.check(path, CheckpointMismatch, named, partial(lagrangian, **other))

    @pytest.mark.parametrize(
        "place",
        [
            *[(part,) for part in ("agent", "environment", "arguments", "state", "tracker")],
            *[("arguments", part) for part in ("settings", "hyperparameters", "seed")],
            *[("state", part) for part in ("iteration", "timesteps", "updates", "learner", "optimizer", "random")],
            *[("tracker", part) for part in ("estimator", "penalties", "terms", "iteration", "timesteps", "plan")],
        ],
        ids="/".join,
    )
    def test_a_missing_part(self, saved, place):
        self.edit(saved, *place)
        self.check(saved, DamagedCheckpoint, place[-1])

    @pytest.mark.parametrize(
        ("place", "to"),
        [
            (("environment",), {"moon": "full"}),
            (("arguments", "settings"), "{"),
            (("arguments", "settings"), '{"lr": 1}'),
            (("arguments", "hyperparameters"), "{}"),
            (("arguments", "hyperparameters"), '{"lr": 1}'),
            (("state",), None),
            (("state", "random"), "{}"),
            (("state", "learner"), {"theta": torch.zeros(3)}),
            (("state", "learner"), None),
            (("state", "iteration"), "many"),
            (("state", "center"), {0: torch.zeros(3)}),
            (("tracker",), {"terms": ["objective", "cost"]}),
            (("tracker", "plan"), {}),
            (("tracker", "plan"), {"moons": 3}),
            (("tracker", "plan"), {"iterations": 0}),
        ],
        ids=str,
    )
    def test_a_part_that_does_not_fit(self, saved, place, to):
        self.edit(saved, *place, to=to)
        self.check(saved, DamagedCheckpoint, r"agent\.pt")

    def test_an_impossible_occupancy(self, saved):
        """It is found out when the environment's part is put back: that is undone."""
        values = torch.load(saved, weights_only=True)["tracker"]["estimator"]["values"]
        next(iter(values.values()))[0] = -1.0
        self.edit(saved, "tracker", "estimator", "values", to=values)
        self.check(saved, DamagedCheckpoint, "negative", partial(lake, pairing="previous"))

    def test_a_device_that_is_not_here(self, saved):
        with pytest.raises(InvalidSetting, match="device"):
            PGP.load(saved, lake(), device="cuda:99")
        assert PGP.load(saved, lake()).iteration == 2

    def test_no_environment(self, saved):
        with pytest.raises(InvalidSetting, match="env="):
            PGP.load(saved, "FrozenLake-PGP-v0")
