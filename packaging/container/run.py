#!/usr/bin/env python3
"""Performs all checks inside the container, in the order of the imports below: each part builds on those before it."""

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
import supervised  # noqa: F401
import upgraded  # noqa: F401
import removed

# isort: on

# These belong together and to different times: the idle minute passes while the other checks run.
order = [function for function, _ in harness.checks]
for late in (
    personal.the_commands_of_the_README_give_a_user_an_agent_of_their_own,
    personal.after_a_minute_without_clients_it_has_ended_and_the_next_client_starts_it,
):
    entry = harness.checks.pop(order.index(late))
    order.remove(late)
    harness.checks.insert(order.index(removed.removing_the_package_keeps_state_and_settings), entry)
    order = [function for function, _ in harness.checks]

if __name__ == "__main__":
    passed = harness.perform()
    Path(harness.RESULTS, "status").write_text("0" if passed else "1", encoding="utf-8")
    sys.exit(0)
