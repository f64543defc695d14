#!/usr/bin/env python3
"""Runs the repeated tests of the Python client with their full numbers, and with --quick as often as CI does.

Kills the agent while threads and tasks watch, read and update; sells tickets in eight processes; and feeds random byte streams and
messages to the core of the protocol. contrib/python/check.sh installs pytest and hypothesis into .build/python-venv.
"""

import os
import subprocess
import sys

import larder_agent

# The tests, the variable with their number, the full number, and that of CI.
TESTS = [
    ("nothing_is_lost", "LARDER_KILLS", 1000, 20),
    ("no_ticket_is_sold_twice", "LARDER_TICKETS", 10_000, 400),
    ("random_", "LARDER_STREAMS", 100_000, 1000),
]


def main():
    parser = larder_agent.parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="the numbers of CI")
    parser.add_argument("--count", type=int, help="another number, for all tests")
    options = parser.parse_args()
    check = larder_agent.ROOT / "contrib" / "python" / "check.sh"
    program = str(options.larderd or larder_agent.newest_program())
    for name, variable, full, quick in TESTS:
        count = options.count or (quick if options.quick else full)
        environment = {**os.environ, "LARDERD": os.path.abspath(program), variable: str(count)}
        status = subprocess.run([check, "-k", name], env=environment).returncode
        larder_agent.report(f"python client: {name}", count, count if status == 0 else 0)
    return larder_agent.finish()


if __name__ == "__main__":
    sys.exit(main())
