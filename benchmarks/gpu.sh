#!/usr/bin/env bash
# Exactness and speed of the engine on one GPU in under 8 minutes; --small on any CPU in under one.
# Needs torch, transformers and this checkout, nothing installed. Results: $OUT, else benchmarks/results.
set -euo pipefail

if [[ -n "${OUT:-}" ]]; then
    OUT="$(mkdir -p "$OUT" && cd "$OUT" && pwd)"  # before the folder changes
fi
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [[ -z "${PYTHON:-}" ]]; then
    PYTHON=python3
    [[ -x .venv/bin/python ]] && PYTHON=.venv/bin/python
fi
for package in torch transformers; do
    if ! "$PYTHON" -c "import importlib.util, sys; sys.exit(importlib.util.find_spec('$package') is None)"; then
        echo "$PYTHON has no $package; run: $PYTHON -m pip install 'torch>=2.6' 'transformers>=5.17'" >&2
        exit 2
    fi
done

export HF_HUB_OFFLINE=1 OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-passive}"
command=("$PYTHON" -m benchmarks.gpu --out "${OUT:-benchmarks/results}" "$@")
if command -v timeout > /dev/null; then  # should the device hang; what was measured is on disk by then
    command=(timeout --kill-after=5 475 "${command[@]}")
fi
exec "${command[@]}"
