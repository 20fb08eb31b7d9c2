#!/usr/bin/env bash
# tests/arm64.sh [--quick] [SUITE...] -- cross-builds for AArch64 and runs the suites of the CPU's
# kernels, or the named suites, under qemu: on emulated processors with and without optional
# instructions, so that each instruction set of backends/cpu/isa.h is chosen and tested. The last
# line is the sum of all:
#     N passed, N failed, N skipped
# --quick compiles and runs the kernels of bytes alone, which takes seconds.
#
# tests/arm64.sh --sysroot -- makes the folder of arm64 libraries that the build links, 230 MB, with
# Debian's mmdebstrap. It is $WEFT_ARM64_SYSROOT, or else ~/.cache/weft/arm64. --quick needs none.
#
# Needs Debian's gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and qemu-user-static; without one of
# them, or the folder, it says what is missing and ends with status 77 (skipped). $WEFT_ARM64_BUILD
# is the build folder, build-arm64 by default.
set -euo pipefail
cd "$(dirname "$0")/.."

sysroot=${WEFT_ARM64_SYSROOT:-${XDG_CACHE_HOME:-$HOME/.cache}/weft/arm64}
build=${WEFT_ARM64_BUILD:-build-arm64}
triple=aarch64-linux-gnu
packages=libc6-dev,libopenblas-dev,liblapacke-dev,libjson-c-dev,libpcre2-dev
packages+=,libutf8proc-dev,libcunit1-dev

suites="kernels gemm attention attention_codes top programs dtype elementwise
    elementwise_layouts quantize gguf products reduce conv fft random structure indexing nn_ops
    losses optimizers linalg pool json_parse schema_keywords tokenizer jinja"

make_sysroot() {
    local lib=$sysroot/usr/lib/$triple file
    if ! command -v mmdebstrap >/dev/null; then
        echo "tests/arm64.sh: mmdebstrap is missing: apt-get install mmdebstrap" >&2
        exit 1
    fi
    if [ -e "$sysroot" ]; then
        echo "tests/arm64.sh: $sysroot exists" >&2
        exit 1
    fi
    # shellcheck disable=SC1091
    mmdebstrap --variant=extract --architectures=arm64 --include="$packages" \
        "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$sysroot"
    # The links that Debian's alternatives make when packages are configured.
    for file in libopenblas.so.0 libblas.so.3 liblapack.so.3; do
        ln -sf "openblas-pthread/$file" "$lib/$file"
    done
    for file in openblas lapack blas; do
        ln -sf ../openblas-pthread/pkgconfig/$file*.pc "$lib/pkgconfig/$file.pc"
    done
}

skip() {
    echo "tests/arm64.sh: skipped: $1"
    exit 77
}

if [ "${1:-}" = --sysroot ]; then
    make_sysroot
    exit
fi
quick=0
if [ "${1:-}" = --quick ]; then
    quick=1
    shift
fi
for command in $triple-gcc qemu-aarch64-static; do
    command -v $command >/dev/null || skip "no $command"
done
[ -e /usr/$triple/include/stdlib.h ] || skip "no libc6-dev-arm64-cross"
[ $quick -eq 1 ] || [ -e "$sysroot/usr/include/lapacke.h" ] ||
    skip "no arm64 libraries in $sysroot: tests/arm64.sh --sysroot makes them"

WEFT_COUNTS=$(mktemp)
export WEFT_COUNTS
own=$(mktemp -d)
trap 'rm -rf "$WEFT_COUNTS" "$own"' EXIT

# on CPU NAME PROGRAM [ARGUMENT]: emulation is slow, hence more seconds.
on() {
    local cpu=$1 name=$2
    shift 2
    WEFT_TEST_SECONDS=${WEFT_TEST_SECONDS:-3600} tests/one.sh arm64 "$name" \
        qemu-aarch64-static -cpu "$cpu" -L "$sysroot" "$@"
}

# The flags are those of backends/cpu/meson.build.
bytes() {
    local flags="-std=c11 -D_GNU_SOURCE -O2 -Wall -Werror -I. -Iinclude" isa
    local kernel="-O3 -fno-math-errno -fno-trapping-math -ffp-contract=fast"
    for isa in neon:armv8-a dotprod:armv8.2-a+dotprod i8mm:armv8.2-a+dotprod+i8mm; do
        # shellcheck disable=SC2086 # the flags are words
        $triple-gcc $flags $kernel -march=${isa#*:} -DCPU_ISA=${isa%:*} \
            -c backends/cpu/isa/int8.c -o "$own/${isa%:*}.o"
    done
    # shellcheck disable=SC2086
    $triple-gcc $flags -static -o "$own/bytes" tests/cpu/arm64_bytes.c \
        tests/cpu/int8_integers.c backends/cpu/isa.c "$own"/*.o -lm
    on cortex-a53 neon "$own/bytes" neon
    on cortex-a76 dotprod "$own/bytes" dotprod
    on max i8mm "$own/bytes" i8mm
    for isa in neon dotprod; do
        WEFT_CPU_ISA=$isa on max forced-$isa "$own/bytes" $isa
    done
}

whole() {
    mkdir -p "$build"
    cat >"$own/cross.ini" <<END
[binaries]
c = '$triple-gcc'
ar = '$triple-gcc-ar'
strip = '$triple-strip'
objcopy = '$triple-objcopy'
pkgconfig = 'pkg-config'
exe_wrapper = ['qemu-aarch64-static', '-L', '$sysroot']

[built-in options]
c_args = ['--sysroot=$sysroot']
c_link_args = ['--sysroot=$sysroot']

[properties]
sys_root = '$sysroot'
pkg_config_libdir = ['$sysroot/usr/lib/$triple/pkgconfig', '$sysroot/usr/share/pkgconfig']

[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
END
    # A file with a new date configures the folder again.
    cmp -s "$own/cross.ini" "$build/cross.ini" || cp "$own/cross.ini" "$build/cross.ini"
    local suite targets="tests/test_int8"
    for suite in $suites; do
        targets+=" tests/test_$suite"
    done
    tools/build.sh "$build" "$targets" --cross-file="$build/cross.ini" -Ddebug=false \
        -Dvulkan=disabled
    # Only the kernels of bytes differ between the instruction sets; `int8` tries each.
    for suite in $suites; do
        on cortex-a53 "$suite" "$build/tests/test_$suite"
    done
    on max int8 "$build/tests/test_int8"
}

if [ $# -gt 0 ]; then
    suites=$*
fi
bytes
[ $quick -eq 1 ] || whole
awk '{ p += $1; f += $2; s += $3 }
    END {
        printf "arm64: %d passed, %d failed, %d skipped\n", p, f, s
        exit f > 0 || p == 0
    }' "$WEFT_COUNTS"
