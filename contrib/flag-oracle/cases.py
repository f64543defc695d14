"""Random flags, rules and contexts."""

import json
import random

NOW = 1_700_000_000
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
