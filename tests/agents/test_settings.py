"""Hyperparameters: defaults, refusals, and the way through JSON."""

import json
import math
from dataclasses import asdict

import gymnasium as gym
import numpy as np
import pytest
import torch

from constrained_maxent.agents import PGP, PGPSettings
from constrained_maxent.agents.settings import complete
from constrained_maxent.errors import InvalidSetting
from constrained_maxent.tracker import find_tracker

NAN, INF = math.nan, math.inf


def lake(**settings):
    """The grid with the paper's settings."""
    return gym.make("FrozenLake-PGP-v0", preset="paper", **settings)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("policy", "table"),
        ("policy", None),
        ("optimizer", "rmsprop"),
        ("baseline", "mean"),
        *[
            (name, value)
            for name in ("learning_rate", "final_learning_rate", "critic_learning_rate")
            for value in (0.0, -1.0, NAN, INF, "0.1", True)
        ],
        *[
            (name, value)
            for name in ("projection_radius", "max_gradient_norm", "clip_range")
            for value in (0.0, -1.0, NAN, -INF, "0.1", True)
        ],
        *[("damping", value) for value in (0.0, -1.0, NAN, INF, "0.1", True)],
        *[("proximal_weight", value) for value in (-1.0, NAN, INF, "1", True)],
        *[("averaging", value) for value in (-0.1, 1.0, NAN, "0.9", True)],
        *[("return_discount", value) for value in (0.0, -0.5, 1.1, NAN, "1", True)],
        *[("gae_lambda", value) for value in (-0.1, 1.1, NAN, INF, "1", True)],
        *[
            (name, value)
            for name in ("critic_steps", "critic_batch_size", "epochs", "inner_iterations")
            for value in (0, -1, 1.5, "2", True)
        ],
        *[("minibatch_size", value) for value in (-1, 1.5, 0.0, "2", False, True)],
        *[(name, value) for name in ("normalize_advantages", "normalize_observations") for value in (0, 1, "yes", NAN)],
        *[("hidden_sizes", value) for value in ((0,), (64, -1), (2.5,), 64, "64", (True,))],
    ],
)
def test_refused(name, value):
    with pytest.raises(InvalidSetting, match=name):
        PGPSettings(**{name: value})
    with pytest.raises(InvalidSetting, match=name):
        PGP(lake(), **{name: value})


def test_accepted_at_the_edges():
    PGPSettings(return_discount=1.0, hidden_sizes=(), critic_steps=1, learning_rate=1, projection_radius=1e-9)
    PGPSettings(gae_lambda=0.0, epochs=1, minibatch_size=0, proximal_weight=0.0, averaging=0.0)
    PGPSettings(gae_lambda=1, projection_radius=INF, max_gradient_norm=INF, clip_range=INF)


def test_json_round_trip():
    settings = PGPSettings(policy="mlp", hidden_sizes=(8, 4), learning_rate=0.1, return_discount=0.9)
    again = PGPSettings(**json.loads(json.dumps(asdict(settings))))
    assert again == settings
    assert again.hidden_sizes == (8, 4)


def test_json_round_trip_of_what_is_left_out_and_of_no_limit():
    settings = PGPSettings(clip_range=INF, normalize_advantages=False, minibatch_size=0)
    again = PGPSettings(**json.loads(json.dumps(asdict(settings))))
    assert again == settings
    assert again.given() == {
        "policy": "auto",
        "clip_range": INF,
        "normalize_advantages": False,
        "minibatch_size": 0,
        "device": "cpu",
    }


class TestComplete:
    """Given before suggested before usual."""

    def test_usual_for_a_table(self):
        """Algorithm 1 of the paper: one plain step up the gradient, η = 0.01."""
        chosen = complete(PGPSettings(), {}, is_table=True)
        assert (chosen.optimizer, chosen.learning_rate, chosen.baseline) == ("sgd", 0.01, "none")
        assert (chosen.epochs, chosen.minibatch_size) == (1, 0)
        assert chosen.clip_range == chosen.max_gradient_norm == chosen.projection_radius == INF
        assert not chosen.normalize_advantages
        assert not chosen.normalize_observations
        assert chosen.return_discount is None
        assert chosen.final_learning_rate == chosen.learning_rate

    def test_usual_for_networks(self):
        chosen = complete(PGPSettings(), {}, is_table=False)
        assert (chosen.optimizer, chosen.learning_rate, chosen.baseline) == ("adam", 3e-4, "critic")
        assert (chosen.epochs, chosen.minibatch_size, chosen.clip_range) == (4, 1024, 0.2)
        assert (chosen.gae_lambda, chosen.max_gradient_norm, chosen.hidden_sizes) == (0.95, 1.0, (256, 256))
        assert chosen.normalize_advantages
        assert chosen.normalize_observations

    @pytest.mark.parametrize("is_table", [True, False])
    def test_precedence(self, is_table):
        suggestions = {"learning_rate": 0.5, "epochs": 7, "normalize_advantages": False, "clip_range": INF}
        chosen = complete(PGPSettings(learning_rate=0.25, minibatch_size=0), suggestions, is_table=is_table)
        assert chosen.learning_rate == 0.25  # given, and suggested otherwise
        assert chosen.minibatch_size == 0  # given, though it is false
        assert chosen.epochs == 7  # suggested
        assert chosen.normalize_advantages is False  # suggested, though it is false
        assert chosen.clip_range == INF
        assert chosen.critic_steps == 40  # usual

    def test_what_is_suggested_is_checked(self):
        with pytest.raises(InvalidSetting, match=r"suggestions.* alpha, lr\."):
            complete(PGPSettings(), {"alpha": 0.9, "lr": 0.1, "epochs": 2}, is_table=True)
        with pytest.raises(InvalidSetting, match="epochs"):
            complete(PGPSettings(), {"epochs": 0}, is_table=True)

    @pytest.mark.parametrize("name", ["policy", "device"])
    def test_no_environment_chooses_the_kind_of_policy(self, name):
        """It would be ignored: the kind decides which choices are usual, the machine where to compute."""
        with pytest.raises(InvalidSetting, match=name):
            complete(PGPSettings(), {name: "mlp"}, is_table=True)

    def test_a_list_of_sizes_is_suggested(self):
        """As JSON has it."""
        assert complete(PGPSettings(), {"hidden_sizes": [8, 4]}, is_table=False).hidden_sizes == (8, 4)

    def test_from_the_environment(self):
        env = lake()
        find_tracker(env).suggestions = {"learning_rate": 0.5, "optimizer": "adam", "epochs": 2}
        agent = PGP(env, epochs=3)
        assert (agent.hyperparameters.epochs, agent.hyperparameters.learning_rate) == (3, 0.5)
        assert type(agent.optimizer) is torch.optim.Adam
        assert agent.settings == PGPSettings(epochs=3)
        # What suits a table need not suit networks.
        assert PGP(env, policy="tabular").hyperparameters.learning_rate == 0.5
        assert PGP(env, policy="mlp", hidden_sizes=(4,)).hyperparameters.learning_rate == 3e-4

    def test_an_unknown_suggestion_of_the_environment(self):
        env = lake()
        find_tracker(env).suggestions = {"lr": 0.5}
        with pytest.raises(InvalidSetting, match="lr"):
            PGP(env)


def test_frozen():
    with pytest.raises(AttributeError):
        PGPSettings().learning_rate = 0.5


class TestPGP:
    """How PGP resolves and refuses settings."""

    def test_defaults_of_a_table(self):
        agent = PGP(lake())
        assert type(agent.optimizer) is torch.optim.SGD
        assert agent.optimizer.param_groups[0]["lr"] == 0.01
        assert agent.is_tabular
        assert agent.critic is None

    def test_defaults_of_networks(self):
        agent = PGP(lake(), policy="mlp", hidden_sizes=(4,))
        assert type(agent.optimizer) is torch.optim.Adam
        assert agent.optimizer.param_groups[0]["lr"] == 3e-4
        assert not agent.is_tabular
        assert agent.critic is not None

    def test_optimizer_of_choice(self):
        env = lake()
        assert type(PGP(env, optimizer="adam", learning_rate=0.5).optimizer) is torch.optim.Adam
        agent = PGP(env, policy="mlp", optimizer="sgd", hidden_sizes=(4,))
        assert type(agent.optimizer) is torch.optim.SGD

    def test_unknown_hyperparameter(self):
        with pytest.raises(InvalidSetting, match=r"\blr\b"):
            PGP(lake(), lr=0.1)

    def test_settings_or_keywords(self):
        with pytest.raises(InvalidSetting, match="settings="):
            PGP(lake(), PGPSettings(), learning_rate=0.1)

    @pytest.mark.parametrize("setting", [{"projection_radius": 1.0}, {"optimizer": "natural"}], ids=str)
    def test_what_is_for_tables_only(self, setting):
        with pytest.raises(InvalidSetting, match=next(iter(setting))):
            PGP(lake(), policy="mlp", hidden_sizes=(4,), **setting)

    @pytest.mark.parametrize("device", ["gpu", "cuda:99", "cpu:x"])
    def test_unknown_device(self, device):
        with pytest.raises(InvalidSetting, match="device"):
            PGP(lake(), device=device)

    @pytest.mark.parametrize("seed", [-1, 1.5, None, "0", True])
    def test_seed(self, seed):
        with pytest.raises(InvalidSetting, match="seed"):
            PGP(lake(), seed=seed)

    def test_numpy_seed(self):
        assert PGP(lake(), seed=np.int64(3)).seed == 3

    @pytest.mark.parametrize("env", ["FrozenLake-PGP-v0", None])
    def test_no_environment(self, env):
        with pytest.raises(InvalidSetting, match="env="):
            PGP(env)
