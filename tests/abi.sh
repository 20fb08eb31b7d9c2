#!/usr/bin/env bash
# tests/abi.sh BUILD [--renew] [FILE] -- compares the binary interface of BUILD/libweft.so with the
# one that is stored in FILE, by default tests/golden/libweft.abi.gz, and fails if it differs in
# more than added functions and variables, which are only listed. With --renew it stores the
# interface in FILE instead. Needs abidw and abidiff, of Debian's abigail-tools; skipped without
# them, and for a library without debugging information.
set -euo pipefail
cd "$(dirname "$0")/.."

library=$1/libweft.so
renew=
if [ "${2:-}" = --renew ]; then
    renew=1
    shift
fi
stored=${2:-tests/golden/libweft.abi.gz}

skip() {
    echo "abi: skipped: $1"
    exit 77
}
command -v abidw >/dev/null && command -v abidiff >/dev/null || skip "no abidiff (abigail-tools)"
readelf -S "$library" | grep '\.debug_info' >/dev/null ||
    skip "$library has no debugging information"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The exported functions and the types of the public headers, without what differs between two
# builds of the same sources.
abidw --headers-dir include --drop-private-types --exported-interfaces-only --no-show-locs \
    --no-comp-dir-path --no-corpus-path --no-elf-needed --no-parameter-names \
    --drop-undefined-syms --type-id-style hash --out-file "$work/new.abi" "$library"
if [ -n "$renew" ]; then
    gzip -9n <"$work/new.abi" >"$stored"
    echo "$(grep -c '<function-decl' "$work/new.abi") functions in $stored"
    exit 0
fi

# Types of the C library, which differ between its versions.
cat >"$work/ignored" <<'EOF'
[suppress_type]
  name_regexp = ^(_IO_|__pthread_|pthread_)
EOF

# compare [OPTION...]: prints the differences.
compare() {
    abidiff --no-architecture --leaf-changes-only --no-show-locs --suppressions "$work/ignored" \
        "$@" "$work/old.abi" "$work/new.abi"
}
gzip -dc "$stored" >"$work/old.abi"
if ! compare && ! compare --no-added-syms >/dev/null; then
    echo "the binary interface is not that of $stored: if this is intended, describe it in" \
        "CHANGELOG.md and run tests/abi.sh $1 --renew"
    exit 1
fi
