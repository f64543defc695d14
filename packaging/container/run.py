#!/usr/bin/env python3
"""Runs all checks in the container, in the order of the imports below. Each module relies on the previous ones."""

import sys
from pathlib import Path

import harness

# isort: off
import prepared  # noqa: F401
import installed  # noqa: F401
import activated  # noqa: F401
import personal
import permitted  # noqa: F401
import configured  # noqa: F401
import monitored  # noqa: F401
import supervised  # noqa: F401
import guides  # noqa: F401
import gateway  # noqa: F401
import upgraded  # noqa: F401
import removed

# isort: on

# Move these checks of personal.py to the end. The minute until the idle agent exits then passes during the other checks.
order = [function for function, _ in harness.checks]
for late in (
    personal.the_commands_of_the_README_start_an_agent_for_one_user,
    personal.an_idle_agent_exits_after_a_minute_and_the_next_client_starts_it,
):
    entry = harness.checks.pop(order.index(late))
    order.remove(late)
    harness.checks.insert(order.index(removed.removing_the_package_keeps_state_and_settings), entry)
    order = [function for function, _ in harness.checks]

if __name__ == "__main__":
    passed = harness.perform()
    Path(harness.RESULTS, "status").write_text("0" if passed else "1", encoding="utf-8")
    sys.exit(0)
