#!/usr/bin/env python3
"""Compares LarderFlagRules with openfeature-flagd-core, flagd's evaluator for Python, on random rules and contexts.

  contrib/flag-oracle/compare.py [--count N] [--seed N]    compare (default: 200,000 cases, a random seed)
  contrib/flag-oracle/compare.py --benchmark               print the time of evaluations instead

The script installs the package into .build/flag-oracle/venv, and builds LarderJSON, LarderFlagRules and main.swift there.
Where the two differ on purpose, `Corrections` replaces the function of the package, with the reason. A case in which the
package with all corrections differs from LarderFlagRules is an unexplained difference; the script prints it and exits with
status 1. It also counts the cases that each correction explains.
"""

import argparse
import collections
import hashlib
import json
import logging
import math
import os
import pathlib
import random
import re
import subprocess
import sys

from cases import NOW, Generator

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = ROOT / ".build" / "flag-oracle"
BATCH = 5_000


# --- Programs --------------------------------------------------------------------------------------------------


def enter_environment():
    """Runs this script again in a virtual environment that has the package, unless it already runs there."""
    python = BUILD / "venv" / "bin" / "python"
    key = BUILD / "venv" / "key"
    wanted = sys.version + hashlib.sha256((HERE / "requirements.txt").read_bytes()).hexdigest()
    if pathlib.Path(sys.prefix) == BUILD / "venv":
        return
    if not key.exists() or key.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--clear", BUILD / "venv"], check=True)
        subprocess.run(
            [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", HERE / "requirements.txt"],
            check=True)
        key.write_text(wanted)
    os.execv(python, [python, __file__, *sys.argv[1:]])


def build():
    """Builds the program that evaluates cases, and returns its path."""
    program = BUILD / "evaluate"
    modules = [(name, sorted((ROOT / "Sources" / name).rglob("*.swift"))) for name in ("LarderJSON", "LarderFlagRules")]
    modules.append(("Evaluate", [HERE / "main.swift"]))
    newest = max(source.stat().st_mtime for _, sources in modules for source in sources)
    if program.exists() and program.stat().st_mtime > newest:
        return program
    flags = ["-O", "-whole-module-optimization", "-parse-as-library", "-swift-version", "6", "-package-name", "larder"]
    for feature in ("NonisolatedNonsendingByDefault", "InferIsolatedConformances", "ExistentialAny",
                    "InternalImportsByDefault", "MemberImportVisibility"):
        flags += ["-enable-upcoming-feature", feature]
    for name, sources in modules:
        subprocess.run(
            ["swiftc", *flags, "-I", BUILD, "-module-name", name, "-emit-module", "-emit-module-path",
             BUILD / f"{name}.swiftmodule", "-c", "-o", BUILD / f"{name}.o", *sources], check=True)
    subprocess.run(["swiftc", "-o", program, *(BUILD / f"{name}.o" for name, _ in modules)], check=True)
    return program


# --- The package -----------------------------------------------------------------------------------------------


class Corrections:
    """Functions of the package that differ from LarderFlagRules on purpose, by the reason."""

    def __init__(self):
        from json_logic import builtins
        self.builtins = builtins

    @staticmethod
    def text(value):
        if isinstance(value, str):
            return value
        if value is None:
            return "null"
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, float):
            if math.isnan(value):
                return "NaN"
            if math.isinf(value):
                return "Infinity" if value > 0 else "-Infinity"
            return str(int(value)) if value == int(value) and abs(value) < 2**63 else repr(value)
        if isinstance(value, int):
            return str(value) if -2**63 <= value < 2**63 else Corrections.text(float(value))
        if isinstance(value, list):
            return ",".join(Corrections.text(item) for item in value)
        return "[object Object]"

    @staticmethod
    def number(value):
        """Numbers as LarderFlagRules has them: integers of 64 bits, otherwise floats."""
        if isinstance(value, bool):
            return int(value)
        if isinstance(value, int):
            return value if -2**63 <= value < 2**63 else float(value)
        if isinstance(value, float):
            return value
        if value is None:
            return 0
        if isinstance(value, list):
            return Corrections.number(value[0]) if len(value) == 1 else math.nan if value else 0
        if isinstance(value, str) and re.fullmatch(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*", value, re.ASCII):
            return Corrections.number(int(value)) if re.fullmatch(r"\s*[-+]?\d+\s*", value) else float(value)
        return math.nan

    @staticmethod
    def same(left, right):
        """`===`: by type and content."""
        numeric = (int, float)
        if isinstance(left, bool) or isinstance(right, bool):
            return left is right
        if isinstance(left, numeric) and isinstance(right, numeric):
            left, right = Corrections.number(left), Corrections.number(right)
            return float(left) == float(right) if isinstance(left, float) or isinstance(right, float) else left == right
        if isinstance(left, list) and isinstance(right, list):
            return len(left) == len(right) and all(map(Corrections.same, left, right))
        if isinstance(left, dict) and isinstance(right, dict):
            return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)
        return type(left) is type(right) and left == right

    @staticmethod
    def equal(left, right):
        numeric = (int, float)
        if left is None or right is None:
            return left is right
        if isinstance(left, numeric) or isinstance(right, numeric):
            return Corrections.same(Corrections.number(left), Corrections.number(right))
        if isinstance(left, str) != isinstance(right, str):
            return Corrections.text(left) == Corrections.text(right)
        return Corrections.same(left, right)

    @staticmethod
    def order(compare):
        def two(left, right):
            kinds = (int, float, type(None))
            if (isinstance(left, str) or isinstance(right, str)) and not isinstance(left, kinds) \
                    and not isinstance(right, kinds):
                return compare(Corrections.text(left).encode(), Corrections.text(right).encode())
            left, right = Corrections.number(left), Corrections.number(right)
            return compare(float(left), float(right)) if float in (type(left), type(right)) else compare(left, right)
        return lambda data=None, a=None, b=None, c=None, *_: two(a, b) and (c is None or two(b, c))

    @staticmethod
    def arithmetic(combine):
        def two(a, b):
            result = combine(Corrections.number(a), Corrections.number(b))
            return Corrections.number(result)
        return two

    def fold(self, combine, start):
        two = self.arithmetic(combine)

        def all_operands(data=None, *args):
            result = start
            for arg in args:
                result = Corrections.number(arg) if result is None else two(result, arg)
            return math.nan if result is None else result
        return all_operands

    @staticmethod
    def divide(a, b):
        if b == 0:
            return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1, b)
        if isinstance(a, int) and isinstance(b, int) and a % b == 0:
            return a // b
        return float(a) / float(b)

    @staticmethod
    def remainder(a, b):
        if b == 0 or math.isinf(a):
            return math.nan
        if isinstance(a, int) and isinstance(b, int):
            return int(math.copysign(1, a)) * (abs(a) % abs(b))
        return math.fmod(a, b)

    @staticmethod
    def extreme(pick):
        def two(a, b):
            if math.isnan(a) or math.isnan(b):
                return math.nan
            if isinstance(a, int) and isinstance(b, int):
                return pick(a, b)
            return pick(float(a), float(b))
        return two

    def version(self, data, *args):
        from openfeature.contrib.tools.flagd.core.targeting import custom_ops
        if len(args) == 3:
            args = (self.text(args[0]), args[1], self.text(args[2]))
        return custom_ops.sem_ver(data, *args)

    def fractional(self, data, *args):
        from openfeature.contrib.tools.flagd.core.targeting import custom_ops
        if not isinstance(data, dict):
            data = {}
        if args and not isinstance(args[0], str):
            if not isinstance(data.get("targetingKey"), str):
                return None
        args = [
            [arg[0], int(arg[1])] if isinstance(arg, list) and len(arg) == 2 and isinstance(arg[1], float)
            and math.isfinite(arg[1]) and arg[1] == int(arg[1]) else arg for arg in args]
        return custom_ops.fractional(data, *args)

    def variable(self, data=None, key=None, default=None, *_):
        """Without the characters and lengths of texts. A number is a name, and `$flagd` is not part of all data."""
        if key is None or key == "":
            if isinstance(data, dict) and "$flagd" in data:
                data = {name: value for name, value in data.items()
                        if name != "$flagd" and (name != "targetingKey" or value is not None)}
            # The package changes the data of `reduce` in place, so that the accumulator can contain itself.
            data = dict(data) if isinstance(data, dict) else data
            return data if data is not None else default
        for name in self.text(key).split("."):
            if isinstance(data, dict):
                data = data.get(name)
            elif isinstance(data, list) and name == "length":
                data = len(data)
            elif isinstance(data, list) and name.isdecimal() and str(int(name)) == name and int(name) < len(data):
                data = data[int(name)]
            else:
                return default
        return data if data is not None else default

    def missing(self, data=None, *args):
        keys = args[0] if args and isinstance(args[0], list) else args
        return [key for key in keys if self.variable(data, key) in (None, "")]

    def missing_some(self, data=None, count=0, keys=None, *_):
        if not isinstance(keys, list):
            return []
        missing = self.missing(data, keys)
        return [] if len(keys) - len(missing) >= self.number(count) else missing

    def part(self, data=None, text=None, start=None, length=None, *_):
        text, start = self.text(text), self.number(start)
        start = 0 if math.isnan(start) else int(max(-1e9, min(1e9, start)))
        start = max(0, len(text) + start) if start < 0 else min(start, len(text))
        if length is None:
            return text[start:]
        length = self.number(length)
        length = 0 if math.isnan(length) else int(max(-1e9, min(1e9, length)))
        return text[start:max(start, len(text) + length if length < 0 else start + length)]

    def inside(self, data=None, needle=None, haystack=None, *_):
        if isinstance(haystack, list):
            return any(self.same(item, needle) for item in haystack)
        return isinstance(haystack, str) and self.text(needle) in haystack

    @staticmethod
    def resolved(value, evaluators):
        """Replaces references to evaluators, of which none refers to another."""
        if isinstance(value, list):
            return [Corrections.resolved(item, evaluators) for item in value]
        if not isinstance(value, dict):
            return value
        if len(value) == 1 and value.get("$ref") in evaluators:
            return evaluators[value["$ref"]]
        return {name: Corrections.resolved(item, evaluators) for name, item in value.items()}

    # The reasons for corrections of other functions than operators.
    RESULT = "a result that is not a text is converted as cat does"
    REFERENCES = "$ref may refer to a rule with texts that are not ASCII"
    TYPES = "a boolean is not a number"
    NULLS = "a variant may not be null"
    OTHERS = "a malformed flag does not affect other flags"
    UNUSED = "an unknown reference is an error even if it is not evaluated"

    def table(self):
        """Returns the corrected operators by reason."""
        fold, order = self.fold, self.order
        return {
            "null equals only null; arrays and objects are equal if their contents are": {
                "==": lambda data=None, a=None, b=None, *_: self.equal(a, b),
                "!=": lambda data=None, a=None, b=None, *_: not self.equal(a, b)},
            "=== and in distinguish booleans from numbers": {
                "===": lambda data=None, a=None, b=None, *_: self.same(a, b),
                "!==": lambda data=None, a=None, b=None, *_: not self.same(a, b),
                "in": self.inside},
            "null is 0 when it is compared with a text; integers are compared with fractions as floats": {
                "<": order(lambda a, b: a < b), "<=": order(lambda a, b: a <= b),
                ">": order(lambda a, b: a > b), ">=": order(lambda a, b: a >= b)},
            "booleans and numbers as texts are those of JSON": {
                "cat": lambda data=None, *args: "".join(map(self.text, args)), "sem_ver": self.version},
            "substr takes any number": {"substr": self.part},
            "integers have 64 bits; division by 0 and infinite numbers are no errors; the sign of a remainder": {
                "+": fold(lambda a, b: a + b, 0), "*": fold(lambda a, b: a * b, 1),
                "-": lambda data=None, a=None, b=None, *_: self.arithmetic(lambda a, b: a - b)(
                    *((0, a) if b is None else (a, b))),
                "/": lambda data=None, a=None, b=None, *_: self.arithmetic(self.divide)(a, b),
                "%": lambda data=None, a=None, b=None, *_: self.arithmetic(self.remainder)(a, b)},
            "the minimum and maximum of NaN are NaN": {
                "min": fold(self.extreme(min), None), "max": fold(self.extreme(max), None)},
            "a weight may be computed as a float; a targetingKey that is not a text is missing": {
                "fractional": self.fractional},
            "texts have no elements; a number names a member; $flagd is not part of the context": {
                "var": self.variable, "missing": self.missing, "missing_some": self.missing_some},
            self.RESULT: {}, self.REFERENCES: {}, self.TYPES: {}, self.NULLS: {},
        }


class Oracle:
    def __init__(self):
        from openfeature.contrib.tools.flagd.core import flagd_core
        from openfeature.contrib.tools.flagd.core.targeting import targeting
        from openfeature.evaluation_context import EvaluationContext
        from openfeature.exception import OpenFeatureError
        logging.disable(logging.CRITICAL)
        self.core, self.EvaluationContext, self.OpenFeatureError = flagd_core, EvaluationContext, OpenFeatureError
        self.targeting = sys.modules[targeting.__module__]
        self.targeting.time.time = lambda: NOW
        self.original = dict(self.targeting.OPERATORS)
        self.reasons = Corrections().table()
        self.apply_rule, self.check_type = flagd_core.targeting, flagd_core.FlagdCore._check_type

    def correct(self, reasons):
        self.targeting.OPERATORS = {**self.original, **{k: v for r in reasons for k, v in self.reasons[r].items()}}

        def result(*arguments):
            value = self.apply_rule(*arguments)
            return value if value is None or isinstance(value, str) else Corrections.text(value)

        def check_type(details, kind):
            if Corrections.NULLS in reasons and details.variant is not None and details.value is None:
                raise self.core.GeneralError("null")
            is_wrong = kind == "float" and isinstance(details.value, bool)
            self.check_type(details, "string" if is_wrong and Corrections.TYPES in reasons else kind)

        self.core.targeting = result if Corrections.RESULT in reasons else self.apply_rule
        self.core.FlagdCore._check_type = staticmethod(check_type)

    def evaluate(self, case, reasons=()):
        """Returns reason, variant, value, error and metadata, with the corrections for some reasons."""
        self.correct(reasons)
        document = case["document"]
        if Corrections.REFERENCES in reasons:
            document = {**document, "flags": Corrections.resolved(document["flags"], document["$evaluators"])}
            document.pop("$evaluators")
        context = dict(case["context"])
        key = context.pop("targetingKey", None)
        core = self.core.FlagdCore()
        kind = case["type"]
        try:
            core.set_flags(json.dumps(document))
            resolve = getattr(core, f"resolve_{'float' if kind == 'double' else kind}_value")
            details = resolve(case["flag"], None, self.EvaluationContext(key, context))
        except self.OpenFeatureError as error:
            return {"reason": "ERROR", "variant": None, "value": None, "error": error.error_code.value}
        except Exception as error:  # noqa: BLE001 any exception is a result
            return {"reason": "ERROR", "variant": None, "value": None, "error": f"raised {type(error).__name__}"}
        return {"reason": str(details.reason.value), "variant": details.variant, "value": details.value, "error": None,
                "metadata": dict(details.flag_metadata)}


def outcome_text(outcome, kind):
    """Returns what is compared. The package converts integers to floats, and has no metadata after an error."""
    outcome = {key: outcome.get(key) for key in ("reason", "variant", "value", "error", "metadata")}
    if kind == "double" and isinstance(outcome["value"], int) and not isinstance(outcome["value"], bool):
        outcome["value"] = float(outcome["value"])
    if outcome["error"]:
        outcome["metadata"] = None
    return json.dumps(outcome, sort_keys=True)


def explanation(oracle, case, found):
    """Returns the reason for a difference; None if it is unexplained."""
    kind = case["type"]
    reasons = list(oracle.reasons)
    if json.loads(found)["error"] == "PARSE_ERROR" and '{"$ref": "none"}' in json.dumps(case):
        return Corrections.UNUSED
    if case["flag"] not in case["document"]["flags"] and json.loads(found)["error"] == "FLAG_NOT_FOUND":
        return Corrections.OTHERS
    if outcome_text(oracle.evaluate(case, reasons), kind) != found:
        return None
    for reason in reasons:
        if outcome_text(oracle.evaluate(case, [reason]), kind) == found:
            return reason
    return "several of these"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--benchmark", action="store_true")
    options = parser.parse_args()
    BUILD.mkdir(parents=True, exist_ok=True)
    if options.benchmark:
        return subprocess.run([build(), "--benchmark"]).returncode
    enter_environment()
    program = build()
    oracle, generator = Oracle(), Generator(options.seed)
    outcomes, reasons, unexplained = collections.Counter(), collections.Counter(), 0
    print(f"seed {options.seed}")
    for start in range(0, options.count, BATCH):
        cases = [generator.case() for _ in range(min(BATCH, options.count - start))]
        lines = "".join(json.dumps(case) + "\n" for case in cases)
        answers = subprocess.run([program], input=lines, capture_output=True, text=True, check=True).stdout.splitlines()
        for case, answer in zip(cases, answers, strict=True):
            answer = json.loads(answer)
            outcomes[answer["error"] or answer["reason"]] += 1
            found = outcome_text(answer, case["type"])
            plain = oracle.evaluate(case)
            if outcome_text(plain, case["type"]) == found:
                continue
            reason = explanation(oracle, case, found)
            if reason is None:
                unexplained += 1
                if unexplained <= 10:
                    corrected = oracle.evaluate(case, list(oracle.reasons))
                    print(f"UNEXPLAINED {json.dumps(case)}\n  found {answer}\n  package {plain}\n  corrected {corrected}")
            else:
                reasons[reason] += 1
    for table in (outcomes, reasons):
        for name, count in table.most_common():
            print(f"{count:9} {name}")
    print(f"{options.count} cases, {sum(reasons.values())} explained differences, {unexplained} unexplained")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
