#!/bin/sh
# tools/format.sh -i | --check -- formats the sources in place, or fails if any is not formatted.
set -eu
cd "$(dirname "$0")/.."
case ${1:-} in
-i) tools/sources.sh | xargs clang-format -i ;;
--check) tools/sources.sh | xargs clang-format --dry-run -Werror ;;
*)
    echo "usage: tools/format.sh -i | --check" >&2
    exit 2
    ;;
esac
