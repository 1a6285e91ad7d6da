"""``cmaxent``: train, sweep, evaluate, compare, certify, plot, film, report, solve exactly, reproduce the studies.

A command is a dataclass of options with a method ``run``, which takes the names of the options on the command line and
returns the exit code. Its module is imported when it is called, so that help waits for no PyTorch and no solver.
"""

from __future__ import annotations

import difflib
import inspect
import os
import pkgutil
import re
import sys
import textwrap
from collections.abc import Sequence
from importlib.metadata import requires, version
from itertools import pairwise
from typing import Any

from constrained_maxent import startup
from constrained_maxent.cli.streams import speaking

COMMANDS = {
    "check": "Look at an environment of your own by random actions, alone and inside its stack, and say what to write.",
    "train": "Train PGP on an environment and write a run folder: config, metrics, checkpoint, summary, figures.",
    "sweep": "Do many runs side by side: lists or grids of settings, environments, agents and seeds, on one machine or "
    "on Ray.",
    "evaluate": "Evaluate the last policies of runs on fresh episodes, and exactly where the environment is finite and "
    "known.",
    "compare": "Compare methods over seeds and environments: means, interquartile means, intervals, differences, "
    "curves.",
    "collect": "Step the last policy of a run on fresh episodes, and keep what it saw as a Minari data set.",
    "plot": "Draw the figures of a run again: curves, and what the policy does on lakes, cartpole and point mass.",
    "video": "Film fresh episodes of a run's policy as MP4, with the path of the pole's tip or of the point mass.",
    "report": "Write all that a run or a sweep tells into one HTML file, with its figures and a short film inside.",
    "certify": "Hold the last policy of a run against the global optimum, and write the certificate into summary.json.",
    "solve": "Find the global optimum of a problem: without constraints, with them, and with penalties instead.",
    "plan": "Print what the paper's worst-case analysis asks for to reach an accuracy, beside what practice uses.",
    "reproduce": "Run the paper's experiments, all or in parts; write tables and figures.",
    "reference": "Make references for imitation, and look at them.",
}
"""What each does; a test holds this equal to the commands' own docstrings."""

_CLASSES = {
    "check": "check:Check",
    "train": "train:Train",
    "sweep": "sweep:Sweep",
    "evaluate": "runs:Evaluate",
    "compare": "compare:Compare",
    "collect": "collect:Collect",
    "plot": "runs:Plot",
    "video": "runs:Video",
    "report": "runs:Report",
    "certify": "runs:Certify",
    "solve": "problems:Solve",
    "plan": "problems:Plan",
    "reproduce": "reproduce:Reproduce",
    "reference": "reference:ReferenceCommand",
}


def command_class(name: str) -> Any:
    """The dataclass of a command, from its module."""
    return pkgutil.resolve_name(f"constrained_maxent.cli.{_CLASSES[name]}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of ``cmaxent``.

    Args:
        arguments: command line without the program's name; ``sys.argv`` if not given.

    Returns:
        0 if all went well, 1 if ``check`` finds something wrong or a run of a sweep fails, 2 for wrong input, a missing
        package or a file that cannot be written, 130 after Ctrl-C or SIGTERM.

    Raises:
        SystemExit: with code 0 after help of a command, with 2 at options that do not exist or cannot be read.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    with speaking(sys.stdout), speaking(sys.stderr):
        try:
            return _main(arguments)
        except KeyboardInterrupt:
            print("cmaxent: interrupted.", file=sys.stderr)
            return startup.INTERRUPTED
        except OSError as error:
            if not isinstance(error, BrokenPipeError):
                print(f"cmaxent: {error}", file=sys.stderr)
                return 2
            # Nobody reads on, as with "| head".
            with open(os.devnull, "w", encoding="utf-8") as nowhere:
                os.dup2(nowhere.fileno(), sys.stdout.fileno())
            return 1


def _main(arguments: list[str]) -> int:
    if arguments == ["--version"]:
        print(f"cmaxent {version('constrained-maxent')}")
        return 0
    if arguments and arguments[0] in ("-h", "--help"):
        print(_help())
        return 0
    if not arguments or arguments[0] not in COMMANDS:
        print(f"cmaxent: {_no_command(arguments)}", file=sys.stderr)
        return 2
    if (option := _empty(arguments)) is not None:
        print(f"cmaxent: {option} '' is empty: give a value, or leave it out.".replace("  ", " "), file=sys.stderr)
        return 2
    return _run(arguments[0], arguments[1:])


def _run(command: str, arguments: list[str]) -> int:
    # Imported late, as this module says.
    import tyro
    from gymnasium.error import DependencyNotInstalled

    from constrained_maxent.cli.console import errors, plain_warnings, terminating_as_interrupt
    from constrained_maxent.cli.options import Pending, registry
    from constrained_maxent.errors import ConstrainedMaxentError

    try:
        kind = command_class(command)
        called: Any = tyro.cli(
            kind,
            prog=f"cmaxent {command}",
            description=inspect.getdoc(kind),
            args=arguments,
            config=(tyro.conf.DisallowNone, tyro.conf.FlagCreatePairsOff, tyro.conf.OmitArgPrefixes),
            registry=registry,
        )
        if isinstance(called, Pending):
            called = called.build(called.values)
        startup.over()
        with terminating_as_interrupt(), plain_warnings():
            try:
                code: int = called.run(_options(arguments))
            except SystemExit as error:  # nothing of this package raises it
                if isinstance(error.__context__, BrokenPipeError):  # Rich's way of saying so
                    raise error.__context__ from None
                ended = f"The environment, or its library, ended the program: SystemExit({error.code!r})."
                raise ConstrainedMaxentError("\n".join([ended, *getattr(error, "__notes__", ())])) from error
            return code
    except (ConstrainedMaxentError, OSError, DependencyNotInstalled) as error:
        if isinstance(error, BrokenPipeError) and _nobody_reads():
            raise
        message = "\n".join([str(error) or repr(error), *getattr(error, "__notes__", ())])
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "constrained_maxent":
            raise
        message = "\n".join([missing(error), *getattr(error, "__notes__", ())])
    errors.print(f"cmaxent: {message}", style="red", highlight=False, soft_wrap=True)
    return 2


def _nobody_reads() -> bool:
    """Whether it is the output that nobody reads: an environment may have pipes of its own."""
    try:
        print(end="", flush=True)
    except BrokenPipeError:  # what was to be written is still there
        return True
    return False


def missing(error: ImportError) -> str:
    """What to do where a package cannot be imported."""
    package = (error.name or "").partition(".")[0]
    extra = {"polars": "[studies]", "stable_baselines3": "[sb3]", "minari": "[minari]", "h5py": "[minari]"}.get(
        package, ""
    )
    ours = {*map(_import_name, requires("constrained-maxent") or ())}
    remedy = f'run `pip install "constrained-maxent{extra}"`' if extra or package in ours else "install it"
    return f"{package or 'A package'} is needed, and cannot be imported ({error}): {remedy}."


def _import_name(requirement: str) -> str:
    name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0].lower()
    return {"scikit-learn": "sklearn"}.get(name, name.replace("-", "_"))


def _empty(arguments: Sequence[str]) -> str | None:
    """The option whose value is empty, or nothing for an argument without one; ``None`` where there is none."""
    for before, argument in pairwise(["", *arguments]):
        name, is_given, value = argument.partition("=")
        if argument.startswith("--") and is_given and not value.strip():
            return name
        if not argument.strip():
            return before if before.startswith("--") else ""
    return None


def _help() -> str:
    lines = [f"usage: cmaxent [-h] {{{','.join(COMMANDS)}}}", ""]
    lines += ["Constrained maximum-entropy exploration. cmaxent --version prints the version.", ""]
    for name, summary in COMMANDS.items():
        lines += textwrap.wrap(summary, width=88, initial_indent=f"  {name:<11}", subsequent_indent=" " * 13)
    return "\n".join([*lines, "", "cmaxent COMMAND --help lists its options."])


def _no_command(arguments: Sequence[str]) -> str:
    if not arguments:
        return f"Which command? One of {', '.join(COMMANDS)}; cmaxent --help says what they do."
    similar = difflib.get_close_matches(arguments[0], COMMANDS, n=1)
    hint = f" Did you mean {similar[0]}?" if similar else ""
    return f"There is no command {arguments[0]!r}.{hint} Available are {', '.join(COMMANDS)}."


def _options(arguments: Sequence[str]) -> frozenset[str]:
    """Names of the options among arguments, as help spells them."""
    options = (argument.split("=", 1)[0] for argument in arguments if argument.startswith("--"))
    return frozenset(option.removeprefix("--").replace("_", "-") for option in options)
