"""What it costs that many runners of RLlib share one λ̂: bytes and seconds of a batch, for 2, 4 and 8 of them.

Each follower is a process of Ray with a share of one processor, as a runner of RLlib is, and steps eight copies at
random: what it hands in and is told is what a runner hands in and is told. The last table is of one leader, in this
process, that takes the shares of 1,000 followers, a whole batch. Packing, unpacking and the last table are in seconds
of a processor, whatever else the machine does; the others in seconds that pass.

    python benchmarks/rllib_exchange.py
"""

from __future__ import annotations

import argparse
import pickle
import time
import warnings
from dataclasses import replace
from statistics import median
from typing import Any

import gymnasium as gym
import numpy as np
import ray

import constrained_maxent as cmx
from constrained_maxent.adapters.leader import Leader
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
        start = time.process_time()  # whatever else the machine does
        data = pickle.dumps(what, protocol=5)
        middle = time.process_time()
        pickle.loads(data)
        self.packing += middle - start
        self.unpacking += time.process_time() - middle
        return len(data)


@ray.remote(num_cpus=0.1)
class Follower:
    """Steps copies at random, and follows the leader."""

    def begin(self, kind: str, leader: str, number: int, followers: int) -> None:
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


def start(kind: str, followers: int, actors: list[Any]) -> Any:
    """A leader, and some of its followers."""
    name = f"{kind}-{followers}-{time.time()}"
    tracker = cmx.tracker.find_tracker(make(kind, followers))
    leader = ray.remote(LeaderActor).options(name=name, num_cpus=0).remote(tracker)
    ray.get([actor.begin.remote(kind, name, number, followers) for number, actor in enumerate(actors)])
    return leader


def measure(kind: str, actors: list[Any], batches: int) -> None:
    followers = len(actors)
    leader = start(kind, followers, actors)
    ray.get([actor.collect.remote() for actor in actors])  # compilations, a first fit
    ray.get([actor.catch_up.remote() for actor in actors])
    before = np.array(ray.get([actor.figures.remote() for actor in actors])).sum(axis=0)
    stepping, waiting = [], []
    for _ in range(batches):
        stepping.append(max(ray.get([actor.collect.remote() for actor in actors])))
        waiting.append(max(ray.get([actor.catch_up.remote() for actor in actors])))
    after = np.array(ray.get([actor.figures.remote() for actor in actors])).sum(axis=0)
    handed, told, packing, unpacking = (after - before) / batches
    steps = COPIES * KINDS[kind][2] * followers
    print(
        f"| {kind} | {followers} | {steps} | {handed:,.0f} ({handed / steps:.1f} a step) | {told:,.0f} "
        f"({told / followers:,.0f} each) | {1e3 * packing:.2f} | {1e3 * unpacking:.2f} | {1e3 * median(waiting):.1f} "
        f"| {1e3 * median(stepping):.0f} |",
        flush=True,
    )
    ray.kill(leader)


def measure_many(kind: str) -> None:
    """The shares of 1,000 followers, and one answer."""
    shares: list[Fragment] = []
    teller = Leader(cmx.tracker.find_tracker(make(kind, 1)))
    teller.hand_in = shares.append  # type: ignore[method-assign]
    env = make(kind, 1)
    cmx.tracker.find_tracker(env).follow(teller)
    env.reset(seed=0)
    while len(shares) < 5:
        env.step(env.action_space.sample())
    data = [pickle.dumps(replace(shares[i % 5], follower=i), protocol=5) for i in range(MANY)]
    leader = Leader(cmx.tracker.find_tracker(make(kind, MANY)))
    times = [time.process_time()]
    unpacked = [pickle.loads(share) for share in data]
    times.append(time.process_time())
    for share in unpacked:
        leader.hand_in(share)
    times.append(time.process_time())
    told = pickle.dumps(leader.newest(-1), protocol=5)
    assert leader.tracker.iteration == 1
    n_bytes = sum(map(len, data))
    unpacking, learning = np.diff(times)
    print(
        f"| {kind} | {MANY} | {COPIES * KINDS[kind][2] * MANY:,} | {n_bytes / 1e6:.1f} MB | {unpacking:.2f} | "
        f"{learning:.2f} | {len(told):,} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=50)
    batches = parser.parse_args().batches
    warnings.simplefilter("ignore")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    actors = [Follower.remote() for _ in range(8)]
    columns = "steps | bytes handed in | bytes told | packing (ms) | unpacking (ms) | until all have caught up (ms)"
    print(f"| λ̂ | runners | {columns} | stepping (ms) |\n|{' --- |' * 9}")
    for kind in KINDS:
        for followers in (2, 4, 8):
            measure(kind, actors[:followers], batches)
    columns = "steps | handed in | unpacking (s) | taking and fitting (s) | bytes told"
    print(f"\n| λ̂ | runners | {columns} |\n|{' --- |' * 7}")
    for kind in KINDS:
        measure_many(kind)


if __name__ == "__main__":
    main()
