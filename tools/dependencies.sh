#!/usr/bin/env bash
# tools/dependencies.sh [build|test|site|lint|deb|tarball] -- checks that the system packages for
# building (and testing, linting, packaging) are installed, and installs missing ones on Debian and
# its relatives. Elsewhere it lists the missing packages and stops. Quick when nothing is missing.
set -euo pipefail

# A package, and a command or pkg-config module that shows that another system has it.
build_packages="
gcc             command:gcc
libc6-dev       command:gcc
binutils        command:objcopy
meson           command:meson
ninja-build     command:ninja
pkg-config      command:pkg-config
libopenblas-dev module:openblas
liblapacke-dev  module:lapacke
libjson-c-dev   module:json-c
libpcre2-dev    module:libpcre2-8
libutf8proc-dev module:libutf8proc
libcunit1-dev   module:cunit
libvulkan-dev   module:vulkan
libhdf5-dev     module:hdf5
libzip-dev      module:libzip
zlib1g-dev      module:zlib
libzstd-dev     module:libzstd
libsnappy-dev   module:snappy
libcurl4-openssl-dev module:libcurl
libssl-dev      module:libcrypto
libedit-dev     module:libedit
libmicrohttpd-dev module:libmicrohttpd
libyaml-dev     module:yaml-0.1
glslc           command:glslc
"
# For the Vulkan backend: a driver in software, so that tests run on any machine; the layer that
# checks how it is called; and the validator of shaders. For training on several machines: MPI, 24
# MB to fetch. For programs that use CMake, for completion in shells, for the binary interface, for
# another compiler, and for the documentation site: these. Without them those tests are skipped.
test_packages="
g++                      command:g++
mesa-vulkan-drivers      optional:
vulkan-validationlayers  optional:
spirv-tools              optional:
libopenmpi-dev           optional:
openmpi-bin              optional:
cmake                    optional:
fish                     optional:
zsh                      optional:
abigail-tools            optional:
clang                    optional:
python3-sphinx           optional:
python3-myst-parser      optional:
furo                     optional:
"
site_packages="
python3-sphinx       command:sphinx-build
python3-myst-parser  command:sphinx-build
furo                 command:sphinx-build
"
lint_packages="
clang-format    command:clang-format
clang-tidy      command:clang-tidy
codespell       command:codespell
"
# For Debian packages, and for the folder that runs without installation, in which the libraries of
# C++ and Fortran are linked too.
deb_packages="
build-essential command:dpkg-buildpackage
debhelper       command:dh
dpkg-dev        command:dpkg-buildpackage
lintian         command:lintian
libopenmpi-dev  module:ompi-c
"
tarball_packages="
cmake           command:cmake
g++             command:g++
gfortran        command:gfortran
dpkg-dev        command:dpkg-source
make            command:make
"

wanted=$build_packages
case ${1:-build} in
build) ;;
test) wanted+=$test_packages ;;
site) wanted=$site_packages ;;
lint) wanted+=$test_packages$lint_packages ;;
deb) wanted+=$deb_packages ;;
tarball) wanted+=$tarball_packages ;;
*)
    echo "usage: tools/dependencies.sh [build|test|site|lint|deb|tarball]" >&2
    exit 2
    ;;
esac

missing=()
if command -v apt-get >/dev/null && command -v dpkg-query >/dev/null; then
    debian=1
    names=$(awk 'NF { print $1 }' <<<"$wanted")
    # shellcheck disable=SC2016,SC2086
    installed=$(dpkg-query -W -f='${Package} ${db:Status-Status}\n' $names 2>/dev/null |
        awk '$2 == "installed" { print $1 }' || true)
    mapfile -t missing < <(grep -vxF -f <(printf '%s\n' "$installed") <<<"$names" || true)
else
    debian=0
    while read -r name evidence; do
        case $evidence in
        command:*) command -v "${evidence#*:}" >/dev/null || missing+=("$name") ;;
        module:*) pkg-config --exists "${evidence#*:}" 2>/dev/null || missing+=("$name") ;;
        esac
    done < <(awk 'NF' <<<"$wanted")
fi
[ ${#missing[@]} -gt 0 ] || exit 0

if [ $debian -eq 0 ]; then
    echo "Weft needs these packages; please install what this system calls them:"
    printf '    %s\n' "${missing[@]}"
    exit 1
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "Weft needs these packages; please install them as root, there is no sudo here:"
        echo "    apt-get update && apt-get install --no-install-recommends ${missing[*]}"
        exit 1
    fi
    as_root=(sudo)
fi

echo "Installing system packages (this can take some minutes): ${missing[*]}"
apt() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@" \
        </dev/null
}
install() {
    apt install --yes --no-install-recommends "${missing[@]}"
}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# A fresh machine has no package lists yet, or old ones: fetch them when a first try fails.
if install >"$log" 2>&1; then
    exit 0
fi
if ! apt update >"$log" 2>&1 || ! install >"$log" 2>&1; then
    cat "$log"
    echo "Could not install: ${missing[*]}"
    exit 1
fi
