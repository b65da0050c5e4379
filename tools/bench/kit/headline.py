# SPDX-License-Identifier: GPL-2.0
"""The headline cases of a benchmark, which further seeds repeat.

A whole benchmark takes up to an hour and a half. What a reader quotes of it is in the table at the
head of the results, which Documentation/results/targets.toml asks for. So seed 1 is the whole
benchmark, and the others measure only the steps that this table needs: those of its cases, under
our scheduler, the rivals that it names, and none. Without names, all rivals are needed.

A step is of a case if its "case" says so. A benchmark that needs other steps for a figure, such as
those alone, has a function needs(step, cases).

A guest of a further seed has run fewer steps before a case than that of seed 1, so that the state
of its kernel differs, too. The band has both: what the random numbers change, and this.
"""
import json
import os
import shutil
import subprocess
import tomllib

from . import catalog, lab
from .say import BenchError

TARGETS = os.path.join(lab.CHECKOUT, "Documentation/results/targets.toml")
# These make figures of all their steps together, or count windows; --seeds repeats them.
WHOLE = ("cost", "scale", "octokv", "peers", "turns")


def targets():
    """What targets.toml asks."""
    with open(TARGETS, "rb") as handle:
        return tomllib.load(handle)["answer"]


def names_of(target):
    """The schedulers that a target compares, None if these are all."""
    if "rivals" not in target:
        return None
    return {"none", target.get("base", "none"), target["ours"], *target["rivals"]}


def of_case(step, cases):
    """Whether a step belongs to one of @cases."""
    return step.get("case") in cases


def chooser(name, asked):
    """A function that says whether the headline figures of benchmark @name need a step."""
    mine = [target for target in asked if target["result"] == name]
    if not mine or name in WHOLE:
        raise BenchError(f"targets.toml names no case of {name}" if not mine else
                         f"{name} has no steps to choose from; use --seeds")
    needs = getattr(catalog.module(name), "needs", of_case)

    def wanted(step):
        for target in mine:
            cases = {target["case"], target.get("alone", target["case"])}
            names = names_of(target)
            if needs(step, cases) and (names is None or step["name"] in names):
                return True
        return False
    return wanted


def git_says(*argv):
    """Whether git ends with status 0."""
    if not shutil.which("git"):
        raise BenchError("there is no git to compare the code with")
    return subprocess.run(["git", *argv], cwd=lab.CHECKOUT, stdin=subprocess.DEVNULL,
                          capture_output=True, check=False).returncode == 0


def stored(path, name, kernel, is_lost=False):
    """The result in the file @path, of this code; BenchError if it is none that can be used.

    It stands for a run with seed 1 or, with @is_lost, for what a run has not lost.
    """
    try:
        with open(path, encoding="utf-8") as handle:
            found = json.load(handle)
    except (OSError, ValueError) as error:
        raise BenchError(f"{path} is no result: {error}") from error
    commit = found.get("code", "")
    code = [f"{folder}/*.[ch]" for folder in (*catalog.MEASURED[name], "tools/ssdsim")]
    if found.get("benchmark") != name:
        why = f"is not a result of {name}"
    elif not found["kernel"].startswith(f"{kernel}."):
        why = f"is of Linux {found['kernel']}"
    elif is_lost and "lost" not in found:
        why = "has lost nothing"
    elif not is_lost and ("lost" in found or "seeds" in found["parameters"]):
        why = "is not a whole result of one seed"
    elif not commit or commit.endswith("-dirty"):
        why = "names no commit that it measured"
    elif not git_says("cat-file", "-e", commit):
        why = f"names the commit {commit}, which is not in this history"
    elif not git_says("diff", "--quiet", commit, "--", *code):
        why = f"is of other code: git diff {commit} -- {' '.join(code)}"
    else:
        return found
    raise BenchError(f"{path} {why}")
