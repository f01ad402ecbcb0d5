#!/usr/bin/env bash
# Tells Spark the NVIDIA GPUs of this machine, by their indices:
#   {"name": "gpu", "addresses": ["0", "1"]}
# For spark.worker.resource.gpu.discoveryScript and spark.executor.resource.gpu.discoveryScript.
set -euo pipefail

if ! command -v nvidia-smi >/dev/null; then
  echo "discover_gpus.sh: no nvidia-smi on $(uname -n): install the NVIDIA driver, or set no spark.*.resource.gpu.* there" >&2
  exit 1
fi
if ! found=$(nvidia-smi --query-gpu=index --format=csv,noheader 2>&1); then
  echo "discover_gpus.sh: nvidia-smi failed on $(uname -n): $found" >&2
  exit 1
fi
indices=$(grep -oE '^[0-9]+' <<<"$found" || true)
if [ -z "$indices" ]; then
  echo "discover_gpus.sh: nvidia-smi sees no GPU on $(uname -n): $found" >&2
  exit 1
fi
# Lines to a list in quotes: "0", "1".
list=$(sed 's/.*/"&"/' <<<"$indices" | paste -sd, - | sed 's/,/, /g')
echo "{\"name\": \"gpu\", \"addresses\": [$list]}"
