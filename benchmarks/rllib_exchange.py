"""What it costs that many runners of RLlib share one λ̂: bytes and seconds of a batch, for 2, 4 and 8 of them.

Each follower is a process of Ray with a share of one processor, as a runner of RLlib is, and steps eight copies at
random: what it hands in and is told is what a runner hands in and is told. The last table lets 1,000 shares of a batch
arrive at one leader, from as many processes as there are.

    python benchmarks/rllib_exchange.py
"""

from __future__ import annotations

import argparse
import pickle
import time
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import ray

import constrained_maxent as cmx
from constrained_maxent.adapters.rllib.runners import LeaderActor, RemoteLeader
from constrained_maxent.records import Fragment

COPIES = 8
MANY = 1000

# By name: the stack, and the steps that each copy adds to a batch.
KINDS: dict[str, tuple[str, dict[str, Any], int]] = {
    "table (grid)": ("FrozenLake-PGP-v0", {}, 25),
    "mixture (cartpole)": ("SafeCartpole-PGP-v0", {"staggered_starts": True}, 128),
}


def make(kind: str, followers: int) -> Any:
    env_id, settings, steps = KINDS[kind]
    return gym.make_vec(
        env_id,
        num_envs=COPIES,
        pairing="previous",
        iterations=1000,
        steps_per_batch=COPIES * steps * followers,
        **settings,
    )


class Watched(RemoteLeader):
    """Measures what travels."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.told = self.handed = 0
        self.packing = self.unpacking = 0.0
        self.latest: Fragment | None = None

    def hand_in(self, fragment: Fragment) -> None:
        self.latest = fragment
        self.handed += self._weigh(fragment)
        super().hand_in(fragment)

    def newest(self, version: int) -> Any:
        news = super().newest(version)
        if news is not None:
            self.told += self._weigh(news[1])
        return news

    def _weigh(self, what: Any) -> int:
        start = time.perf_counter()
        data = pickle.dumps(what, protocol=5)
        middle = time.perf_counter()
        pickle.loads(data)
        self.packing += middle - start
        self.unpacking += time.perf_counter() - middle
        return len(data)


@ray.remote(num_cpus=0.1)
class Follower:
    """Steps copies at random, and follows the leader."""

    def __init__(self, kind: str, leader: str, number: int, followers: int) -> None:
        warnings.simplefilter("ignore")
        self.env, self.leader = make(kind, followers), Watched(leader)
        self.tracker = cmx.tracker.find_tracker(self.env)
        self.tracker.follow(self.leader, number=number, followers=followers)
        self.env.action_space.seed(number)
        self.env.reset(seed=number)

    def collect(self) -> float:
        """Seconds in which a share was stepped and handed in."""
        handed, start = self.leader.handed, time.perf_counter()
        while self.leader.handed == handed:
            self.env.step(self.env.action_space.sample())
        return time.perf_counter() - start

    def catch_up(self) -> float:
        """Seconds in which the newest λ̂ was asked for and taken over."""
        start = time.perf_counter()
        self.tracker.catch_up()
        return time.perf_counter() - start

    def figures(self) -> tuple[int, int, float, float]:
        return self.leader.handed, self.leader.told, self.leader.packing, self.leader.unpacking

    def hand_in_again(self, times: int) -> None:
        """The latest share, so often, and then its answer, as often."""
        actor, share = self.leader._actor, self.leader.latest
        ray.get([actor.hand_in.remote(share) for _ in range(times)])
        ray.get([ray.get(told)[1][0] for told in [actor.newest.remote(-1) for _ in range(times)]])


def start(kind: str, followers: int, processes: int) -> tuple[Any, list[Any]]:
    """A leader, and some of its followers."""
    name = f"{kind}-{followers}-{time.time()}"
    tracker = cmx.tracker.find_tracker(make(kind, followers))
    leader = ray.remote(LeaderActor).options(name=name, num_cpus=0).remote(tracker)
    return leader, [Follower.remote(kind, name, number, followers) for number in range(processes)]


def measure(kind: str, followers: int, batches: int) -> None:
    leader, actors = start(kind, followers, followers)
    ray.get([actor.collect.remote() for actor in actors])  # imports, compilations, a first fit
    ray.get([actor.catch_up.remote() for actor in actors])
    before = np.array(ray.get([actor.figures.remote() for actor in actors])).sum(axis=0)
    stepping = waiting = 0.0
    for _ in range(batches):
        stepping += max(ray.get([actor.collect.remote() for actor in actors]))
        waiting += max(ray.get([actor.catch_up.remote() for actor in actors]))
    handed, told, packing, unpacking = (
        np.array(ray.get([actor.figures.remote() for actor in actors])).sum(axis=0) - before
    ) / batches
    steps = COPIES * KINDS[kind][2] * followers
    print(
        f"| {kind} | {followers} | {steps} | {handed:,.0f} ({handed / steps:.1f} a step) | {told:,.0f} "
        f"({told / followers:,.0f} each) | {1e3 * packing:.2f} | {1e3 * unpacking:.2f} | {1e3 * waiting / batches:.1f} "
        f"| {1e3 * stepping / batches:.0f} |",
        flush=True,
    )
    for actor in [*actors, leader]:
        ray.kill(actor)


def measure_many(kind: str, processes: int) -> None:
    """The shares of 1,000 followers, one batch, all at once; and as many answers."""
    leader, actors = start(kind, MANY, processes)
    ray.get([actor.collect.remote() for actor in actors])
    begun = time.perf_counter()
    ray.get([actor.hand_in_again.remote(MANY // processes) for actor in actors])
    seconds = time.perf_counter() - begun
    print(f"| {kind} | {MANY} | {COPIES * KINDS[kind][2] * MANY:,} | {seconds:.2f} |", flush=True)
    for actor in [*actors, leader]:
        ray.kill(actor)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=50)
    batches = parser.parse_args().batches
    warnings.simplefilter("ignore")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    columns = "steps | bytes handed in | bytes told | packing (ms) | unpacking (ms) | until all have caught up (ms)"
    print(f"| λ̂ | runners | {columns} | stepping (ms) |\n|{' --- |' * 9}")
    for kind in KINDS:
        for followers in (2, 4, 8):
            measure(kind, followers, batches)
    print(f"\n| λ̂ | shares at one leader | steps | until the last answer (s) |\n|{' --- |' * 4}")
    for kind in KINDS:
        measure_many(kind, 4)


if __name__ == "__main__":
    main()
