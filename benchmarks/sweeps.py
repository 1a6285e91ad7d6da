"""What a sweep costs beside its runs: many runs against one, the driver's load, storage, joblib against Ray.

    python benchmarks/sweeps.py [--executors joblib ray] [--runs 20] [--iterations 50] [--against 8] [--length 500]

Times of the wall depend on what else the machine does; times of processors hardly do.
"""

import argparse
import hashlib
import os
import resource
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from constrained_maxent.runs import SweepPlan, sweep

GRID = "FrozenLake-PGP-v0"


def plan_of(seeds, iterations):
    return SweepPlan.of({"environment": GRID, "seeds": seeds, "settings": {"iterations": iterations}})


def measured(plan, folder, executor, workers):
    """Seconds of the wall, of the driver's processor, and of the processors of its ended workers."""
    before = time.perf_counter(), time.process_time(), children()
    result = sweep(plan, folder, executor=executor, workers=workers)
    assert all(status.state == "finished" for status in result.statuses), result.statuses
    return time.perf_counter() - before[0], time.process_time() - before[1], children() - before[2]


def children():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def digest(folder, plan):
    """Of what all runs measured."""
    content = b"".join((Path(folder) / run.name / "metrics.csv").read_bytes() for run in plan.runs)
    return hashlib.sha256(content).hexdigest()[:16]


def storage(folder, plan):
    files = [path for run in plan.runs for path in (Path(folder) / run.name).iterdir()]
    return len(files) / len(plan.runs), sum(path.stat().st_size for path in files) / len(plan.runs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--executors", nargs="*", default=["joblib"])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--iterations", type=int, default=50)
    parser.add_argument("--against", type=int, default=8, help="runs that are held against one; 0 for none")
    parser.add_argument("--length", type=int, default=500, help="their iterations")
    given = parser.parse_args()
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}, {given.workers} workers")
    for executor in given.executors:
        plan = plan_of(given.runs, given.iterations)
        with TemporaryDirectory() as folder:
            wall, driver, workers = measured(plan, folder, executor, given.workers)
            n_files, size = storage(folder, plan)
            print(
                f"{executor}: {given.runs} runs of {given.iterations} iterations in {wall:.1f} s; driver "
                f"{1e3 * driver / given.runs:.1f} ms of processor a run, {100 * driver / wall:.2f} % of one; "
                f"workers {workers:.1f} s of processor; {n_files:.1f} files, {size / 1e3:.1f} kB a run; "
                f"metrics {digest(folder, plan)}",
                flush=True,
            )
            again = measured(plan, folder, "joblib", given.workers)
            print(f"{executor}: where all is finished the same call takes {again[0]:.2f} s", flush=True)
    if given.against:
        found = {}
        for n in (1, given.against):
            with TemporaryDirectory() as folder:
                found[n] = measured(plan_of(n, given.length), folder, "joblib", given.workers)
            wall, _, workers = found[n]
            print(
                f"joblib: {n} runs of {given.length} iterations in {wall:.1f} s, {workers:.1f} s of processor",
                flush=True,
            )
        ratio = found[given.against][0] / found[1][0]
        print(f"{given.against} runs take {ratio:.2f} times the wall time of one")


if __name__ == "__main__":
    main()
