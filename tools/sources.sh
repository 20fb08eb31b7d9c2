#!/bin/sh
# tools/sources.sh -- prints the C sources and headers of the tree, one a line.
cd "$(dirname "$0")/.." || exit 1
find include core ops nn optim models train hub engine cli backends tests examples \
    -name '*.[ch]' | sort
