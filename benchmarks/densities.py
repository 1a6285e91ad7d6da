"""How well each density tells an entropy that is known, and how long it takes, by the number of coordinates.

    python benchmarks/densities.py

Every density is fitted to one batch of 8 episodes as an iteration does it: fit, entropy, pseudo-rewards of all steps.
Of known entropy are a normal distribution with correlations (8 factors), a mixture of 8 such, far apart, and the cube,
whose rims are sharp. Each is seen in independent samples and along random walks, whose neighboring steps are alike, as
those of episodes are. Printed are the error of the entropy in nats, the slope of the rewards on the true ones, 1 where
they are exact, and the seconds of one thread.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from gymnasium.spaces import Box

from constrained_maxent.functionals import Entropy
from constrained_maxent.occupancy import ContinuousEstimator, GaussianMixture, NearestNeighbors
from constrained_maxent.types import Batch, FloatArray

DIMENSIONS = (2, 4, 8, 17, 27, 105)

DENSITIES: dict[str, Callable[[], ContinuousEstimator]] = {
    "1 full Gaussian": lambda: GaussianMixture(n_components=1),
    "16 full Gaussians": GaussianMixture,
    "16 of rank 4": lambda: GaussianMixture(covariance="low-rank"),
    "16 diagonal": lambda: GaussianMixture(covariance="diagonal"),
    "neighbors, k = 4": NearestNeighbors,
    "neighbors across episodes": lambda: NearestNeighbors(across_episodes=True),
}


@dataclass(frozen=True)
class Known:
    """Samples of a distribution, ``(n, d)``, and log of its density there."""

    rows: FloatArray
    log_density: FloatArray
    entropy: float


def _mixing(d: int, rng: np.random.Generator) -> FloatArray:
    """A factor of a covariance with 8 strong directions, all variances about 1."""
    strong = rng.normal(size=(d, min(8, d)))
    covariance = strong @ strong.T / strong.shape[1] + 0.1 * np.eye(d)
    factor: FloatArray = np.linalg.cholesky(covariance)
    return factor


def _noise(n: int, d: int, memory: float, rng: np.random.Generator) -> FloatArray:
    """Standard normal rows; with memory, of 8 walks each of which keeps that share of its last step."""
    noise = rng.normal(size=(n, d))
    for t in range(1, n // 8 if memory else 0):
        steps = slice(8 * t, 8 * t + 8)
        noise[steps] = memory * noise[8 * t - 8 : 8 * t] + np.sqrt(1.0 - memory**2) * noise[steps]
    return noise


def _log_normal(noise: FloatArray, factor: FloatArray) -> FloatArray:
    d = noise.shape[1]
    logs: FloatArray = -0.5 * (noise**2).sum(axis=1) - 0.5 * d * np.log(2.0 * np.pi) - np.log(np.diag(factor)).sum()
    return logs


def normal(n: int, d: int, memory: float, rng: np.random.Generator) -> Known:
    factor = _mixing(d, rng)
    noise = _noise(n, d, memory, rng)
    entropy = 0.5 * d * np.log(2.0 * np.pi * np.e) + float(np.log(np.diag(factor)).sum())
    return Known(noise @ factor.T, _log_normal(noise, factor), entropy)


def clusters(n: int, d: int, memory: float, rng: np.random.Generator) -> Known:
    """Eight that do not overlap: the entropy is that of the choice and of their mean."""
    factors = [_mixing(d, rng) for _ in range(8)]
    noise = _noise(n, d, memory, rng)
    rows, logs = np.empty((n, d)), np.empty(n)
    for i, factor in enumerate(factors):
        own = np.arange(n) // 8 % 8 == i  # all walks come through all of them
        rows[own] = noise[own] @ factor.T
        rows[own, 0] += 12.0 * i
        logs[own] = _log_normal(noise[own], factor) - np.log(8.0)
    mean = float(np.mean([np.log(np.diag(factor)).sum() for factor in factors]))
    return Known(rows, logs, 0.5 * d * np.log(2.0 * np.pi * np.e) + mean + np.log(8.0))


def cube(n: int, d: int, memory: float, rng: np.random.Generator) -> Known:
    """Uniform: by the normal distribution's own function of a normal number."""
    from scipy.special import ndtr

    return Known(ndtr(_noise(n, d, memory, rng)), np.zeros(n), 0.0)


KNOWN = {"normal": normal, "clusters": clusters, "cube": cube}


def measure(density: Callable[[], ContinuousEstimator], known: Known) -> tuple[float, float, float]:
    """Error of the entropy [nats], slope of the rewards (NaN where they are all alike), seconds of the processor."""
    n, d = known.rows.shape
    # Row t of walk i is row 8 t + i.
    order = np.argsort(np.arange(n) % 8, kind="stable")
    rows, lengths = known.rows[order], np.bincount(np.arange(n) % 8)
    batch = Batch(observations=rows, actions=np.zeros((n, 1)), lengths=lengths, weights=np.full(n, 8.0 / n))
    estimator = density().bind(Box(-np.inf, np.inf, (d,)), Box(-1.0, 1.0, (1,)))
    entropy = Entropy(over="state")
    begun = time.process_time()
    measured = estimator.fit(batch).measure()
    error = entropy.value(measured) - known.entropy
    rewards = entropy.derivative(measured, estimator.points_of(batch))
    seconds = time.process_time() - begun
    true = -known.log_density[order]
    slope = float(np.cov(true, rewards)[0, 1] / true.var()) if true.var() > 0.0 else np.nan
    return error, slope, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dimensions", nargs="+", type=int, default=list(DIMENSIONS))
    parser.add_argument("--densities", nargs="+", choices=list(DENSITIES), default=list(DENSITIES))
    parser.add_argument("--known", nargs="+", choices=list(KNOWN), default=list(KNOWN))
    parser.add_argument("--samples", type=int, default=8192)
    parser.add_argument("--memory", nargs="+", type=float, default=[0.0, 0.98], help="of the walks, by step")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    measure(NearestNeighbors, normal(100, 9, 0.0, np.random.default_rng(0)))  # imports are not its time
    for name in options.known:
        distribution = KNOWN[name]
        for memory in options.memory:
            print(f"\n{name}, {'independent' if not memory else 'along walks'}: error of H [nats], slope, seconds")
            print("| density | " + " | ".join(f"d = {d}" for d in options.dimensions) + " |")
            print("| --- |" + " --- |" * len(options.dimensions))
            for kind in options.densities:
                cells = []
                for d in options.dimensions:
                    known = distribution(options.samples, d, memory, np.random.default_rng(options.seed))
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        error, slope, seconds = measure(DENSITIES[kind], known)
                    shown = "" if np.isnan(slope) else f", {slope:.2f}"
                    cells.append(f"{error:+.2f}{shown}, {seconds:.2g} s")
                print(f"| {kind} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
