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

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = ROOT / ".build" / "flag-oracle"
NOW = 1_700_000_000
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


# --- Cases -----------------------------------------------------------------------------------------------------

TEXTS = ["", "a", "b", "on", "off", "abc", "ab", "CH", "1", "0", "2.5", " 7 ", "-3", "1e3", "x1", "é", "e\u0301", "🙂",
         "premium", "user@example.org", "@example.org", "true", "null", "0.1", "inf", "nan", "9007199254740993"]
VERSIONS = ["1.0.0", "v1.2", "1.2.3-alpha.1", "1.2.3-alpha.beta", "1.2.3-2", "1.2.3-11", "2", "1.2.3+b.1", "01.2.3",
            "1.2.3.4", "V2.0.0", "1.2.3-", "1..2", "1.0.0-rc.1+x", "99999999999999999999.1.0", "x", "1.2-alpha", "1.2+b-c"]
NUMBERS = [0, 1, 2, 3, 18, 42, 100, -1, -5, 0.5, 1.0, 2.5, -0.25, 1e3, 1e15, 2**31, 2**53 + 1, 2**63 - 1, -2**63, 2**70]
PATHS = ["country", "age", "email", "version", "user.name", "user.tags", "user.tags.0", "tags", "tags.1", "tags.9",
         "numbers", "targetingKey", "$flagd.flagKey", "$flagd.timestamp", "missing", "a.b.c", "beta", "nothing", "user",
         "items", "items.0.qty", "numbers.length", "1", "$flagd.other", "$flagd.flagKey.x"]
BINARY = ["==", "!=", "===", "!==", "<", "<=", ">", ">="]
VARIANTS = ["on", "off", "a", "b", "1", "2.5", "true", "false", "0", "é"]
VALUES = {"boolean": [True, False], "string": ["text", ""], "integer": [1, 0, -7, 2**53 + 1], "double": [2.5, 0.0, 3, 1e30],
          "object": [{"x": 1}, [], [1.0]]}


class Generator:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def scalar(self):
        pick = self.random.random()
        if pick < 0.4:
            return self.random.choice(TEXTS)
        if pick < 0.5:
            return self.random.choice(VERSIONS)
        if pick < 0.85:
            return self.random.choice(NUMBERS)
        return self.random.choice([True, False, None])

    def context(self):
        context = {"numbers": [self.random.choice(NUMBERS) for _ in range(self.random.randrange(5))]}
        for name in ("country", "age", "email", "version", "beta", "nothing", "1"):
            if self.random.random() < 0.7:
                context[name] = self.scalar()
        if self.random.random() < 0.7:
            context["user"] = {"name": self.scalar(), "tags": [self.scalar() for _ in range(self.random.randrange(4))]}
        if self.random.random() < 0.7:
            context["tags"] = [self.scalar() for _ in range(self.random.randrange(4))]
        if self.random.random() < 0.5:
            context["items"] = [{"qty": self.scalar()} for _ in range(self.random.randrange(3))]
        if self.random.random() < 0.8:
            context["targetingKey"] = self.random.choice(TEXTS)
        return context

    def operands(self, low, high, depth):
        return [self.rule(depth - 1) for _ in range(self.random.randint(low, high))]

    def variable(self, depth):
        path = self.random.choice(PATHS)
        pick = self.random.random()
        if pick < 0.6:
            return {"var": path}
        if pick < 0.75:
            return {"var": [path]}
        if pick < 0.9:
            return {"var": [path, self.rule(depth - 1)]}
        return {"var": self.random.choice(["", None, [], 1, [1], ["", 5]])}

    def array(self, depth):
        pick = self.random.random()
        if pick < 0.4:
            return {"var": self.random.choice(["numbers", "tags", "user.tags", "items"])}
        if pick < 0.8:
            return [self.rule(depth - 1) for _ in range(self.random.randrange(5))]
        return self.rule(depth - 1)

    def inner(self, depth):
        """A rule for the elements of an array."""
        element = self.random.choice([{"var": ""}, {"var": "qty"}, {"var": "current"}, {"var": "accumulator"}])
        pick = self.random.random()
        if pick < 0.7:
            operator = self.random.choice(BINARY + ["+", "-", "*", "cat", "in", "max"])
            return {operator: [element, self.rule(0)]}
        return element if pick < 0.85 else self.rule(depth - 1)

    def fractional(self, depth):
        operands = []
        pick = self.random.random()
        if pick < 0.4:
            operands.append({"cat": [{"var": "$flagd.flagKey"}, self.rule(0)]})
        elif pick < 0.6:
            operands.append(self.rule(depth - 1))
        for _ in range(self.random.randrange(1, 5)):
            bucket = [self.random.choice(VARIANTS) if self.random.random() < 0.8 else self.rule(depth - 1)]
            pick = self.random.random()
            if pick < 0.75:
                bucket.append(self.random.choice([1, 10, 25, 50, 0, -5, 2**30]))
            elif pick < 0.85:
                bucket.append(self.rule(depth - 1))
            elif pick < 0.87:
                bucket.append(1)
                bucket.append(1)
            operands.append(bucket)
        return {"fractional": operands}

    def rule(self, depth):
        pick = self.random.random()
        if depth <= 0 or pick < 0.15:
            return self.scalar() if self.random.random() < 0.5 else self.variable(0) if depth > -2 else 1
        kind = self.random.randrange(16)
        if kind < 2:
            return {"if": self.operands(0, 5, depth)}
        if kind < 4:
            return {self.random.choice(BINARY): self.operands(2, 2 if self.random.random() < 0.7 else 3, depth)}
        if kind == 4:
            return {self.random.choice(["and", "or"]): self.operands(0, 3, depth)}
        if kind == 5:
            return {self.random.choice(["!", "!!"]): self.rule(depth - 1) if self.random.random() < 0.5
                    else self.operands(0, 2, depth)}
        if kind == 6:
            return {self.random.choice(["+", "*", "min", "max", "cat", "merge"]): self.operands(0, 4, depth)}
        if kind == 7:
            return {self.random.choice(["-", "/", "%"]): self.operands(1, 2, depth)}
        if kind == 8:
            return {"in": [self.rule(depth - 1), self.array(depth)]}
        if kind == 9:
            return {"substr": [self.rule(depth - 1), *self.operands(0, 2, depth)]}
        if kind == 10:
            return {self.random.choice(["starts_with", "ends_with"]): self.operands(1 + (self.random.random() < 0.9), 2, depth)}
        if kind == 11:
            return {"sem_ver": [self.random.choice(VERSIONS + [self.rule(depth - 1)]),
                                self.random.choice(["=", "!=", "<", "<=", ">", ">=", "^", "~", "=="]),
                                self.random.choice(VERSIONS + [{"var": "version"}])]}
        if kind == 12:
            return self.fractional(depth)
        if kind == 13:
            operator = self.random.choice(["map", "filter", "all", "some", "none", "reduce"])
            operands = [self.array(depth), self.inner(depth)]
            # The package does not evaluate the third operand of `reduce`, unlike the tables of JSONLogic.
            return {operator: operands + [self.scalar()] if operator == "reduce" else operands}
        if kind == 14:
            if self.random.random() < 0.5:
                return {"missing": [self.random.choice(PATHS) for _ in range(self.random.randrange(4))]}
            return {"missing_some": [self.random.randrange(3), [self.random.choice(PATHS) for _ in range(3)]]}
        return {"$ref": self.random.choice(["one", "two", "two", "none" if self.random.random() < 0.02 else "one"])}

    def case(self):
        kind = self.random.choice(list(VALUES))
        variants = {name: self.random.choice(VALUES[kind]) for name in VARIANTS}
        if self.random.random() < 0.1:
            variants[self.random.choice(VARIANTS)] = self.random.choice([None, True, "x", 1, 2.5, {}])
        flag = {"state": "ENABLED", "variants": variants, "defaultVariant": self.random.choice(["on", "a", "b", "1"])}
        pick = self.random.random()
        if pick < 0.02:
            flag["state"] = self.random.choice(["DISABLED", "disabled", None])
        if self.random.random() < 0.05:
            flag["defaultVariant"] = self.random.choice([None, "", "x", "0", True, False])
        targeting = self.rule(5)
        if self.random.random() < 0.6:
            # Most results of random rules are not variants.
            targeting = {"if": [targeting, self.random.choice(VARIANTS), self.random.choice(["off", None, "x"])]}
        if not isinstance(targeting, dict):
            targeting = {"cat": [targeting]}
        if self.random.random() < 0.97:
            flag["targeting"] = targeting
        if self.random.random() < 0.1:
            flag["metadata"] = {"version": self.random.choice([1, "x", True])}
        document = {"flags": {"flag": flag}, "$evaluators": {"one": self.evaluator(), "two": self.evaluator()}}
        if self.random.random() < 0.1:
            document["metadata"] = {"set": 1, "version": 2}
        return {
            "document": document, "context": self.context(), "now": NOW,
            "flag": "flag" if self.random.random() < 0.99 else "other",
            "type": kind if self.random.random() < 0.95 else self.random.choice(list(VALUES))}

    def evaluator(self):
        while True:
            rule = self.rule(3)
            if isinstance(rule, dict) and "$ref" not in json.dumps(rule):
                return rule


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
