#!/usr/bin/env bash
# tools/update_loader.sh -- runs ldconfig after an installation by root, so that programs find the
# installed library. meson calls it, but not with DESTDIR.
set -euo pipefail

PATH=$PATH:/usr/sbin:/sbin
if [ "$(id -u)" -eq 0 ] && command -v ldconfig >/dev/null; then
    ldconfig
fi
