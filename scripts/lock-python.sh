#!/usr/bin/env bash
# Resolves pyproject.toml afresh in an environment of its own and writes python/requirements.lock.
set -euo pipefail
cd "$(dirname "$0")/.."
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
python3 -m venv "$fresh/venv"
# shellcheck disable=SC2046 # one word a requirement
"$fresh/venv/bin/pip" install --quiet $("$fresh/venv/bin/python" - <<'PYTHON'
import tomllib
with open("pyproject.toml", "rb") as file:
    project = tomllib.load(file)
wanted = project["build-system"]["requires"] + project["project"]["dependencies"]
for extra in project["project"]["optional-dependencies"].values():
    wanted += extra
print(*wanted)
PYTHON
)
{
  echo "# Every Python package of the environment, pinned. Renew with \`make lock\`."
  "$fresh/venv/bin/pip" freeze --all | grep -v '^pip=='
} > python/requirements.lock
