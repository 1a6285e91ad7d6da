"""The random numbers: published values of SplitMix64, and their statistics."""

import numpy as np
from scipy.stats import kstest

from constrained_maxent.engine.sampling import stream_key, uniform

# The first outputs of SplitMix64 from state 0, as in Vigna's reference implementation.
PUBLISHED = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


def test_published_values(numpy_twin):
    expected = [(number >> 11) / 2**53 for number in PUBLISHED]
    assert [uniform(np.uint64(0), n) for n in range(3)] == expected
    assert numpy_twin.uniforms(np.uint64(0), np.arange(3)).tolist() == expected


def test_neighboring_seeds_are_unrelated(numpy_twin):
    columns = np.array([numpy_twin.uniforms(stream_key(seed), np.arange(4000)) for seed in range(20)])
    assert kstest(columns.ravel(), "uniform").pvalue > 1e-4
    correlations = np.corrcoef(columns)[np.triu_indices(20, 1)]
    # 190 correlations of standard deviation 1 / sqrt(4000); 5 of these are passed once in 10,000 tests.
    assert np.abs(correlations).max() < 5.0 / np.sqrt(4000)
    assert columns.min() >= 0.0
    assert columns.max() < 1.0
