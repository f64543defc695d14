#!/usr/bin/env python3
"""Performs all checks inside the container, in the order of the imports below: each part builds on those before it."""

import sys
from pathlib import Path

import harness

# isort: off
import prepared  # noqa: F401
import installed  # noqa: F401
import activated  # noqa: F401

# isort: on

if __name__ == "__main__":
    passed = harness.perform()
    Path(harness.RESULTS, "status").write_text("0" if passed else "1", encoding="utf-8")
    sys.exit(0)
