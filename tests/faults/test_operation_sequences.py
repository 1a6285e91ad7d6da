"""Random sequences of operations: scalar, Sync and Async stacks do what is counted by hand, and agree with each other.

In the suite a part of them, always the same; ``make fuzz`` runs ten thousand.
"""

import importlib.util
import os
import pickle
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from constrained_maxent.penalties import Lagrangian
from constrained_maxent.tracker import find_tracker
from constrained_maxent.wrappers import (
    CostConstraint,
    EntropyObjective,
    PseudoReward,
    TrackOccupancy,
    vector,
)

# Whoever resets early now and then is told so.
pytestmark = [
    pytest.mark.fault,
    pytest.mark.filterwarnings("ignore::constrained_maxent.errors.HorizonMismatch"),
    pytest.mark.filterwarnings("ignore::constrained_maxent.errors.PartialEpisodes"),  # batches of a step too
]

_spec = importlib.util.spec_from_file_location("hand_count", Path(__file__).with_name("hand_count.py"))
hand_count = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(hand_count)

SEQUENCES = int(os.environ.get("FUZZ_SEQUENCES", "0"))
HORIZON = 5
COSTS = np.array([[0.0, 0.5], [1.0, -0.25], [0.0, 2.0], [3.0, 0.125]])


def _walk_class():
    # A local class travels to the processes of an AsyncVectorEnv by value, whatever they can import.
    table = COSTS.tolist()

    class Walk(gym.Env):
        """Without chance; each episode that takes a step begins one state further, and some end early."""

        observation_space, action_space = gym.spaces.Discrete(4), gym.spaces.Discrete(2)

        def __init__(self, number):
            self.number, self.time = number, 1

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.number, self.time = self.number + (self.time > 0), 0
            self.state = self.number % 4
            return self.state, {}

        def step(self, action):
            cost = table[self.state][int(action)]
            is_over = self.state == 3 and action == 1
            self.state, self.time = (2 * self.state + int(action) + self.number) % 4, self.time + 1
            return self.state, 0.0, is_over, False, {"cost": cost}

    return Walk


def stack(env, plan):
    """The wrappers in the order of the plan, harmless ones among them."""
    kit = vector if isinstance(env, gym.vector.VectorEnv) else gym.wrappers
    ours = vector if isinstance(env, gym.vector.VectorEnv) else None
    statistics = gym.wrappers.vector.RecordEpisodeStatistics if ours else kit.RecordEpisodeStatistics
    size = {"episodes_per_batch" if plan["whole"] else "steps_per_batch": plan["size"]}
    layers = {
        "statistics": statistics,
        "objective": (ours or _Scalar).EntropyObjective,
        "cost": lambda env: (ours or _Scalar).CostConstraint(
            env, limit=plan["limit"], penalty=Lagrangian(learning_rate=plan["rate"])
        ),
        "reward": (ours or _Scalar).PseudoReward,
    }
    below, above = plan["below"], plan["above"]
    for name in below:
        env = layers[name](env)
    env = (ours or _Scalar).TrackOccupancy(
        env, pairing=plan["pairing"], discount=plan["discount"], scale=plan["scale"], **size
    )
    for name in above:
        env = layers[name](env)
    return env


class _Scalar:
    EntropyObjective, CostConstraint = EntropyObjective, CostConstraint
    PseudoReward, TrackOccupancy = PseudoReward, TrackOccupancy


class Form:
    """One stack, driven by actions that depend on copy, episode and time alone, beside its count by hand."""

    def __init__(self, kind, mode, plan):
        make = [lambda i=i: gym.wrappers.TimeLimit(_walk_class()(i), HORIZON) for i in range(plan["copies"])]
        bare = make[0]() if kind is None else kind(make, autoreset_mode=mode)
        self.name = "scalar" if kind is None else f"{kind.__name__} {mode.name}"
        self.plan, self.mode, self.is_scalar = plan, mode, kind is None
        self.env = stack(bare, plan)
        self.tracker = find_tracker(self.env)
        self.count = hand_count.HandCount(
            size=plan["size"], whole_episodes=plan["whole"], horizon=HORIZON,
            **{name: plan[name] for name in ("pairing", "discount", "scale", "limit", "rate")},
        )  # fmt: skip
        n = plan["copies"]
        self.episode, self.time, self.waiting = np.zeros(n, int), np.zeros(n, int), np.zeros(n, bool)
        self.batches, self.saved = [], None
        self.reset()

    def reset(self, *, new_batch=False, mask=None):
        options = {"new_batch": True} if new_batch else {} if mask is None else {"reset_mask": mask}
        observations, info = self.env.reset(options=options)
        copies = range(self.plan["copies"]) if mask is None else np.flatnonzero(mask).tolist()
        if new_batch:
            self.count.forget()
        for i in copies:
            self.count.end(i)
        for i in copies:
            self.episode[i], self.time[i], self.waiting[i] = self.episode[i] + (self.time[i] > 0), 0, False
            self.count.start(i)
        self.observations = np.atleast_1d(observations)
        self.check(info)

    def advance(self, *, is_scored=True):
        plan, n = self.plan, self.plan["copies"]
        times = np.minimum(self.time, HORIZON - 1)  # a copy that waits takes no step
        actions = np.array([plan["policy"][i, self.episode[i] % 7, times[i]] for i in range(n)])
        observations, _, terminated, truncated, info = self.env.step(actions.item() if self.is_scalar else actions)
        done = np.atleast_1d(terminated | truncated) & ~self.waiting
        rewards = np.atleast_1d(info["pseudo_reward"])
        assert np.isfinite(rewards).all()
        np.testing.assert_allclose(rewards, info["pseudo_reward_objective"] + info["pseudo_reward_cost"], atol=1e-12)
        active = np.flatnonzero(~self.waiting).tolist()
        for i in active:
            state, action = int(self.observations[i]), int(actions[i])
            if is_scored and plan["pairing"] == "previous":
                expected = self.count.live_reward(state, action, COSTS[state, action])
                np.testing.assert_allclose(rewards[i], expected, atol=1e-9, err_msg=self.name)
            self.count.step(i, state, action, COSTS[state, action])
            self.time[i] += 1
        for i in np.flatnonzero(done).tolist():
            self.count.end(i)
        starting = self.waiting if self.mode is AutoresetMode.NEXT_STEP else done
        if self.mode is not AutoresetMode.DISABLED and not self.is_scalar:
            for i in np.flatnonzero(starting).tolist():
                self.episode[i], self.time[i] = self.episode[i] + 1, 0
                self.count.start(i)
        self.waiting = done if self.mode is AutoresetMode.NEXT_STEP else self.waiting
        self.observations = np.atleast_1d(observations)
        self.check(info, is_scored=is_scored)
        if self.is_scalar and done.any():
            self.reset()
        elif self.mode is AutoresetMode.DISABLED and done.any():
            self.reset(mask=done)

    def check(self, info, *, is_scored=True):
        found = info.get("batch")
        if not is_scored:
            if found is not None:
                assert all(np.isfinite(rewards).all() for rewards in found["pseudo_rewards"])
            return
        expected = self.count.call_is_over(None if found is None else found["episode_count"])
        assert (found is None) == (expected is None), self.name
        if found is None:
            return
        assert (found["iteration"], found["sub_environments"]) == (expected["iteration"], expected["copies"]), self.name
        mass = sum(map(sum, expected["weights"]))
        np.testing.assert_allclose(np.concatenate(found["weights"]).sum(), mass, rtol=1e-9, err_msg=self.name)
        rewards = np.concatenate(found["pseudo_rewards"])
        assert np.isfinite(rewards).all()
        assert np.isfinite(found["episode_count"])
        assert found["episode_count"] > 0.0
        if expected["is_counted"]:
            np.testing.assert_allclose(self.tracker.estimator.measure().weights, expected["table"], atol=1e-9)
            np.testing.assert_allclose(found["objective"], expected["objective"], atol=1e-9, err_msg=self.name)
            np.testing.assert_allclose(found["constraints"]["cost"], expected["violation"], atol=1e-9)
            np.testing.assert_allclose(found["multipliers"]["cost"], expected["price"], atol=1e-9)
            np.testing.assert_allclose(rewards, np.concatenate(expected["rewards"]), atol=1e-9, err_msg=self.name)
        self.batches.append((found["objective"], found["constraints"]["cost"], rewards))

    def save(self):
        self.saved = pickle.dumps(self.tracker.state_dict()), self.count.saved()

    def load(self):
        if self.saved is not None:
            self.tracker.load_state_dict(pickle.loads(self.saved[0]))
            self.count.restore(self.saved[1])
            self.batches.append("loaded")
            self.reset()

    def score(self, n_calls):
        """Batches that nothing is learnt from, and none of which counts."""
        with self.tracker.frozen():
            self.count.forget()
            quiet, self.check = self.check, lambda info, **_: quiet(info, is_scored=False)
            self.reset()
            for _ in range(n_calls):
                self.advance(is_scored=False)
            self.check = quiet
        self.count.forget()
        self.batches.append("scored")
        self.reset()


def agree(forms):
    """What was learnt is the same, as far as both have come."""
    first, *others = forms
    for other in others:
        for ours, theirs in zip(first.batches, other.batches, strict=False):
            if isinstance(ours, str) or isinstance(theirs, str):
                break  # between saving, loading and scoring some have come further than others
            for a, b in zip(ours, theirs, strict=True):
                np.testing.assert_allclose(a, b, atol=1e-12, err_msg=f"{first.name}, {other.name}")


@st.composite
def plans(draw):
    copies, whole = draw(st.sampled_from([1, 1, 2, 3])), draw(st.booleans())
    above = draw(st.permutations(["objective", "cost", "statistics", "reward"]))
    above = [name for name in above if name != "reward" or draw(st.booleans())]
    pairing = draw(st.sampled_from(["same", "previous", "split"]))
    least = max(copies, 2 if pairing == "split" else 1)
    return {
        "copies": copies,
        "whole": whole,
        "pairing": pairing,
        "size": draw(st.integers(least, least + (3 if whole else 12))),
        "discount": draw(st.sampled_from([0.5, 0.9, 1.0])),
        "scale": draw(st.sampled_from(["normalized", "truncated"])),
        "limit": draw(st.sampled_from([0.0, 0.3, -0.1])),
        "rate": draw(st.sampled_from([0.0, 0.25])),
        "below": ["statistics"] if (place := draw(st.sampled_from(["below", "above", "nowhere"]))) == "below" else [],
        "above": [name for name in above if name != "statistics" or place == "above"],
        "policy": np.random.default_rng(draw(st.integers(0, 2**16))).integers(0, 2, (copies, 7, HORIZON)),
    }


class Operations(RuleBasedStateMachine):
    """All forms of one plan, through one sequence."""

    @initialize(plan=plans())
    def begin(self, plan):
        modes = (AutoresetMode.SAME_STEP, AutoresetMode.DISABLED, AutoresetMode.NEXT_STEP)
        self.forms = [Form(SyncVectorEnv, mode, plan) for mode in modes]
        if plan["copies"] == 1:
            self.forms.append(Form(None, None, plan))

    @rule(n=st.integers(1, 8))
    def advance(self, n):
        for form in self.forms:
            for _ in range(n):
                form.advance()

    @rule()
    def reset_early(self):
        for form in self.forms:
            form.reset()

    @rule()
    def new_batch(self):
        for form in self.forms:
            form.reset(new_batch=True)

    @rule()
    def save(self):
        for form in self.forms:
            form.save()

    @rule()
    def load(self):
        for form in self.forms:
            form.load()

    @rule(n=st.integers(4, 16))
    def go_back(self, n):
        self.save()
        self.advance(n)
        self.load()
        self.advance(n)

    @rule(n=st.integers(0, 5))
    def score(self, n):
        for form in self.forms:
            form.score(n)

    def teardown(self):
        forms = getattr(self, "forms", [])
        if forms:
            # Copies that wait a call for their next episode begin it later than others: their order may be another.
            agree(forms[:2])
        for form in forms:
            form.env.close()


TestSequences = Operations.TestCase
TestSequences.settings = settings(
    max_examples=SEQUENCES or 40,
    stateful_step_count=12,
    derandomize=not SEQUENCES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    database=None,
)


@pytest.mark.parametrize("seed", range(2 + SEQUENCES // 500))
def test_processes_do_what_copies_do(seed):
    """The same for copies in processes of their own, which are too slow for many."""
    rng = np.random.default_rng(seed)
    pairing, whole = rng.choice(["same", "previous", "split"]), bool(seed % 2)
    plan = {
        "copies": 2, "whole": whole, "pairing": str(pairing), "size": int(rng.integers(2, 5 if whole else 9)),
        "discount": 0.9, "scale": "normalized", "limit": 0.3, "rate": 0.25, "below": [],
        "above": ["cost", "objective", "statistics"], "policy": rng.integers(0, 2, (2, 7, HORIZON)),
    }  # fmt: skip
    mode = [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP][seed // 2 % 2]
    forms = [Form(kind, mode, plan) for kind in (SyncVectorEnv, AsyncVectorEnv)]
    for operation in rng.choice(["advance"] * 6 + ["reset", "save", "load", "score"], size=40):
        arguments = (2,) if operation == "score" else ()
        for form in forms:
            getattr(form, operation)(*arguments)
    agree(forms)
    assert len(forms[0].batches) == len(forms[1].batches)
    for form in forms:
        form.env.close()
