#!/usr/bin/env bash
# tests/modules.sh -- checks that compiled shader modules match their sources; if WEFT_GLSLC (or
# glslc) is the compiler of the manifest, compiling again must give the same bytes.
set -euo pipefail
exec "$(dirname "$0")/../tools/modules.sh" check
