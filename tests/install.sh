#!/usr/bin/env bash
# tests/install.sh BUILD -- installs into a scratch folder and builds one small program against what
# is there with pkg-config: with the shared library, and with the static one.
set -euo pipefail
cd "$(dirname "$0")/.."

build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

DESTDIR=$work PATH=/usr/bin:$PATH meson install -C "$build" --no-rebuild --quiet
pc=$(find "$work" -name weft.pc)
lib=$(dirname "$(dirname "$pc")")
export PKG_CONFIG_PATH=${pc%/*}
flags() {
    pkg-config "--define-variable=prefix=$work$(pkg-config --variable=prefix weft)" "$@" weft
}

cat >"$work/program.c" <<'END'
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>
int main(void)
{
    puts(weft_version());
    return strcmp(weft_version(), WEFT_VERSION) != 0;
}
END
# shellcheck disable=SC2046
"${CC:-cc}" -std=c11 -Wall -Werror "$work/program.c" -o "$work/shared" $(flags --cflags --libs)
LD_LIBRARY_PATH=$lib "$work/shared"

# The archive by name, and the shared libraries that it needs.
# shellcheck disable=SC2046
"${CC:-cc}" -std=c11 -Wall -Werror $(flags --cflags) "$work/program.c" "$lib/libweft.a" \
    -o "$work/static" $(pkg-config --libs $(pkg-config --print-requires-private weft)) -lm -pthread
"$work/static"
