# SPDX-License-Identifier: GPL-2.0
"""Reads KTAP, the output of KUnit suites, from the kernel log, debugfs or a user-space build."""
import re

LINE = re.compile(r"^(?P<indent> *)(?P<not>not )?ok \d+ (?:- )?(?P<name>[^#\n]*?)\s*"
                  r"(?:# (?P<more>.*))?$")
PLAN = re.compile(r"^ *1\.\.(\d+)")
SUBTEST = re.compile(r"^(?P<indent> *)# Subtest: (?P<name>.*)$")
COMPLAINTS = ("EXPECTATION FAILED", "ASSERTION FAILED", "Expected")


def cases(text):
    """[("suite.case", "ok" | "FAIL" | "SKIP", reason)] of all suites in @text.

    A case with parameters is one case; the output of its failed parameters is the reason. A suite
    that announced more cases than it reported has one more, failed.
    """
    found, suite, said, expected, seen = [], "", [], 0, 0
    for line in re.sub(r"^\[ *[\d.]+\] ", "", text, flags=re.M).splitlines():
        subtest, result, plan = SUBTEST.match(line), LINE.match(line), PLAN.match(line)
        if subtest and len(subtest["indent"]) <= 4:
            suite, said, expected, seen = subtest["name"], [], 0, 0
        elif plan and suite and not expected:
            expected = int(plan[1])
        elif result and len(result["indent"]) == 0 and suite:
            if seen != expected:
                found.append((suite, "FAIL", f"announced {expected} cases, reported {seen}"))
            suite = ""
        elif result and len(result["indent"]) == 4 and suite:
            more = result["more"] or ""
            skipped = more.startswith("SKIP")
            verdict = "FAIL" if result["not"] else "SKIP" if skipped else "ok"
            reason = " | ".join(said[-4:]) if result["not"] else ""
            found.append((f"{suite}.{result['name']}", verdict,
                          more[4:].strip() if skipped else reason))
            said, seen = [], seen + 1
        elif (result and result["not"]) or any(word in line for word in COMPLAINTS):
            said.append(line.strip(" #"))
    if suite:
        found.append((suite, "FAIL", f"ended early: announced {expected} cases, reported {seen}"))
    return found
