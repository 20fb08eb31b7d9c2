#!/usr/bin/env bash
# tests/modules.sh -- compiled shader modules belong to their sources; where WEFT_GLSLC (or glslc)
# is the compiler of the manifest, it makes the same bytes of them again.
set -euo pipefail
exec "$(dirname "$0")/../tools/modules.sh" check
