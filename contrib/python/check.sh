#!/usr/bin/env bash
# Checks the Python client: ruff, mypy, and the tests with a real agent.
#
#   contrib/python/check.sh [ARGUMENT OF PYTEST]...
#   contrib/python/check.sh --benchmark     instead compares its speed with redis-py; use a release build of larderd
#
# The agent is $LARDERD, or else the program that was built last. The tools are installed into .build/python-venv, in the versions
# of requirements-dev.txt. LARDER_KILLS, LARDER_TICKETS and LARDER_STREAMS are the numbers of restarts, tickets and random
# streams of the tests that repeat something.
set -euo pipefail
cd "$(dirname "$0")"

root=$(cd ../.. && pwd)
tools=$root/.build/python-venv
# A venv of another interpreter, or with other versions, is made again.
key=$({ python3 -c 'import sys; print(sys.executable, sys.version)'; cat requirements-dev.txt; } | sha256sum)
if [ "$(cat "$tools/key" 2>/dev/null)" != "$key" ]; then
  python3 -c 'import ensurepip' 2>/dev/null || "$root/contrib/install-needs.sh" python3-venv
  rm -rf "$tools"
  python3 -m venv "$tools"
  "$tools/bin/pip" install --quiet --disable-pip-version-check -r requirements-dev.txt
  printf '%s\n' "$key" >"$tools/key"
fi

export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$PWD/src HYPOTHESIS_STORAGE_DIRECTORY=$tools/hypothesis
if [ "${1:-}" = --benchmark ]; then
  "$root/contrib/install-needs.sh" redis-server
  exec "$tools/bin/python" benchmark.py
fi
"$tools/bin/ruff" check --quiet --no-cache .
"$tools/bin/ruff" format --quiet --no-cache --check .
"$tools/bin/mypy" --no-error-summary --cache-dir "$tools/mypy-cache"
"$tools/bin/pytest" -q "$@"
