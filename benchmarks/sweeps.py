"""What a sweep costs beside its runs: many runs against one, the driver's load, storage, joblib against Ray.

    python benchmarks/sweeps.py [--executors joblib ray] [--runs 20] [--iterations 50] [--against 8] [--length 500]

Times of the wall depend on what else the machine does; that of the driver's processor hardly does.
"""

import argparse
import hashlib
import json
import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from constrained_maxent.runs import SweepPlan, sweep
from constrained_maxent.runs.sweeps.executors import executor_named

GRID = "FrozenLake-PGP-v0"


def plan_of(seeds, iterations):
    return SweepPlan.of({"environment": GRID, "seeds": seeds, "settings": {"iterations": iterations}})


def measured(plan, folder, executor, workers):
    """Seconds of the wall, and of the driver's processor."""
    before = time.perf_counter(), time.process_time()
    result = sweep(plan, folder, executor=executor, workers=workers)
    assert all(status.state == "finished" for status in result.statuses), result.statuses
    return time.perf_counter() - before[0], time.process_time() - before[1]


def per_task(plan, folder, executor, workers, n_tasks=200):
    """Milliseconds of the driver's processor for a task that finds its run finished, once the workers are there."""
    token = json.loads((Path(folder) / "sweep.json").read_text())["token"]
    done, before = -workers, 0.0
    with executor_named(executor, Path(folder), token, workers=workers, address=None) as doing:
        left = [plan.runs[0]] * (n_tasks + workers)
        while left or doing.running:
            while left and doing.has_room:
                doing.submit(left.pop())
            done += len(doing.wait(1.0))
            if done >= 0 and not before:
                first, before = done, time.process_time()
        return 1e3 * (time.process_time() - before) / (done - first)


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
            wall, driver = measured(plan, folder, executor, given.workers)
            n_files, size = storage(folder, plan)
            print(
                f"{executor}: {given.runs} runs of {given.iterations} iterations in {wall:.1f} s; driver "
                f"{1e3 * driver / given.runs:.1f} ms of processor a run, {100 * driver / wall:.2f} % of one; "
                f"{n_files:.1f} files, {size / 1e3:.1f} kB a run; "
                f"metrics {digest(folder, plan)}",
                flush=True,
            )
            print(
                f"{executor}: {per_task(plan, folder, executor, given.workers):.2f} ms of the driver a task", flush=True
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
