#!/usr/bin/env bash
# Validates random values with random schemas, and compares the results with those of Python's jsonschema.
#
#   contrib/fuzz/compare-schemas.sh          100,000 pairs for each draft; takes some minutes
#   contrib/fuzz/compare-schemas.sh 5000     5,000 pairs for each draft
set -euo pipefail
cd "$(dirname "$0")/../.."

contrib/install-needs.sh libpcre2-dev python3-jsonschema
LARDER_SCHEMA_PAIRS=${1:-100000} swift test --filter PythonComparisonTests
