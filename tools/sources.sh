#!/bin/sh
# tools/sources.sh -- prints the C sources and headers of the tree, one a line.
cd "$(dirname "$0")/.." || exit 1
# shellcheck disable=SC2046 # folder names are words
find $(cat tools/folders.txt) -name '*.[ch]' | sort
