"""Batches, masses and pseudo-rewards counted by hand, from what a driver sees of an environment.

Nothing here comes from the package: the rules are those of its documentation.
"""

import copy

import numpy as np

N_STATES, N_ACTIONS, SIGMA = 4, 2, 1e-6


class HandCount:
    """What ``info["batch"]`` must say: λ̂ is counted over finite spaces, H(λ) is maximized, one cost has a multiplier.

    A driver tells it of every start, step and end of an episode, in each copy, and at the end of every call of the
    environment asks by ``call_is_over`` for the batch that must be there. Episodes belong to batches in the order in
    which they started.
    """

    def __init__(self, *, size, whole_episodes, pairing, discount, scale, horizon, limit, rate):
        self.size, self.whole, self.pairing = size, whole_episodes, pairing
        self.discount, self.limit, self.rate = discount, limit, rate
        total = sum(discount**t for t in range(horizon))
        self.constant = 1.0 if scale == "truncated" else 1.0 / total
        self.table, self.price, self.batches = None, 0.0, 0
        self.forget()

    def forget(self):
        """The batch under way is forgotten, and so are the episodes under way."""
        self.queue, self.running, self.half = [], {}, None

    def start(self, copy_number):
        episode = {"copy": copy_number, "steps": [], "given": 0, "over": False}
        self.queue.append(episode)
        self.running[copy_number] = episode

    def step(self, copy_number, state, action, cost):
        self.running[copy_number]["steps"].append((state, action, cost))

    def end(self, copy_number):
        """The episode under way ends, whatever the reason; one without a step is none."""
        episode = self.running.pop(copy_number, None)
        if episode is None:
            return
        episode["over"] = True
        if not episode["steps"]:
            self.queue = [other for other in self.queue if other is not episode]

    def live_reward(self, state, action, cost):
        """Pairing ``previous``: of the last estimate; 0 before the first."""
        if self.table is None:
            return 0.0
        mass = self.table[state, action]
        return -np.log(mass + SIGMA) - mass / (mass + SIGMA) - self.price * cost

    def call_is_over(self, episode_count=None):
        """The batch that ends with this call, or ``None``; a batch of fragments is told how many episodes it is."""
        if self.whole:
            found = self._whole_episodes()
        else:
            found = self._fragments()
        return None if found is None else self._close(*found, episode_count)

    def _take(self, count):
        taken, self.queue = self.queue[:count], self.queue[count:]
        return [(episode["copy"], 0, episode["steps"]) for episode in taken]

    def _ended(self, count):
        return len(self.queue) >= count and all(episode["over"] for episode in self.queue[:count])

    def _whole_episodes(self):
        n_half = self.size // 2 if self.pairing == "split" else 0
        if n_half and self.half is None and self._ended(n_half):
            self.half = self._take(n_half)
        n_left = self.size - (0 if self.half is None else n_half)
        if (n_half and self.half is None) or not self._ended(n_left):
            return None
        first, self.half = self.half or [], None
        return first, self._take(n_left)

    def _fragments(self):
        fresh = sum(len(episode["steps"]) - episode["given"] for episode in self.queue)
        if self.pairing == "split" and self.half is None:
            if fresh >= self.size // 2:
                self.half = self._hand_out()
            return None
        before = 0 if self.half is None else sum(len(steps) for *_, steps in self.half)
        if not fresh or before + fresh < self.size:
            return None
        first, self.half = self.half or [], None
        return first, self._hand_out()

    def _hand_out(self):
        fragments = []
        for episode in self.queue:
            if len(episode["steps"]) > episode["given"]:
                fragments.append((episode["copy"], episode["given"], episode["steps"][episode["given"] :]))
            episode["given"] = len(episode["steps"])
        self.queue = [episode for episode in self.queue if not episode["over"]]
        return fragments

    def weights(self, fragment):
        _, start, steps = fragment
        return [self.constant * self.discount ** (start + t) for t in range(len(steps))]

    def _count(self, fragments, n_episodes):
        table, cost = np.zeros((N_STATES, N_ACTIONS)), 0.0
        for fragment in fragments:
            for weight, (state, action, price) in zip(self.weights(fragment), fragment[2], strict=True):
                table[state, action] += weight / n_episodes
                cost += weight * price / n_episodes
        return table, cost - self.limit

    def _close(self, first, second, episode_count):
        fragments = first + second
        fitted = first if self.pairing == "split" else fragments
        is_counted = self.whole or self.pairing != "split"  # else nobody tells how many episodes the half is
        before = None if self.table is None else self.table.copy()
        expected = {
            "iteration": self.batches,
            "copies": [number for number, *_ in fragments],
            "weights": [self.weights(fragment) for fragment in fragments],
            "is_counted": is_counted,
            "price": self.price,
        }
        self.batches += 1
        if not is_counted:
            return expected
        self.table, violation = self._count(fitted, len(fitted) if self.whole else episode_count)
        used = before if self.pairing == "previous" else self.table
        rewards = [
            [
                0.0
                if used is None
                else -np.log(used[s, a] + SIGMA) - used[s, a] / (used[s, a] + SIGMA) - self.price * cost
                for s, a, cost in steps
            ]
            for *_, steps in fragments
        ]
        expected |= {
            "table": self.table,
            "objective": -float((self.table * np.log(self.table + SIGMA)).sum()),
            "violation": violation,
            "rewards": rewards,
        }
        self.price = max(self.price + self.rate * violation, 0.0)
        return expected

    def saved(self):
        return copy.deepcopy((self.table, self.price, self.batches))

    def restore(self, saved):
        self.table, self.price, self.batches = copy.deepcopy(saved)
        self.forget()
