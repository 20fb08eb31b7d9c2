#!/usr/bin/env bash
# tests/run.sh [--quick | --all] -- everything that `make test` runs, in build/, build-asan/ and
# build-tsan/ (or ${WEFT_BUILD}, ${WEFT_BUILD}-asan, ...). Failures, the seconds of each part and
# the slowest tests are printed at the end. The last line is the sum of all:
#     N passed, N failed, N skipped
# --quick leaves the sanitizers out. --all (`make test-all`) adds what takes long on a software
# driver or under the sanitizers. WEFT_WERROR=1 makes warnings errors. WEFT_OPTIONS are meson
# options for every build.
set -euo pipefail
cd "$(dirname "$0")/.."

build=${WEFT_BUILD:-build}
quick=0 all=0
case ${1:-} in
--quick) quick=1 ;;
--all)
    all=1
    # The suites read it: check_exhaustive() in tests/check.h.
    export WEFT_TEST_ALL=1 WEFT_TEST_SECONDS=${WEFT_TEST_SECONDS:-7200}
    ;;
esac

WEFT_COUNTS=$(mktemp)
WEFT_FAILURES=$(mktemp)
WEFT_TIMES=$(mktemp)
export WEFT_COUNTS WEFT_FAILURES WEFT_TIMES
trap 'rm -f "$WEFT_COUNTS" "$WEFT_FAILURES" "$WEFT_TIMES"' EXIT

# tests/suppressions/ lists what the sanitizers ignore, with reasons.
suppressions=$PWD/tests/suppressions
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1:detect_stack_use_after_return=1
export LSAN_OPTIONS=suppressions=\"$suppressions/lsan.txt\":print_suppressions=0
export UBSAN_OPTIONS=print_stacktrace=1:suppressions=\"$suppressions/ubsan.txt\"
export TSAN_OPTIONS=suppressions=\"$suppressions/tsan.txt\":exitcode=66:second_deadlock_stack=1

# Shaders compiled by a software driver are kept between runs. Most time on such a driver is spent
# in LLVM, so Mesa compiles without optimization and for vectors of 4: the first run of
# test_layers_more takes 25 s instead of 160 s of CPU time (Mesa 22.3). The Vulkan backend runs
# under the validation layer if it is installed: a finding fails the evaluation.
if [ "$all" -eq 0 ]; then
    export GALLIVM_PERF=${GALLIVM_PERF:-nopt} LP_NATIVE_VECTOR_WIDTH=${LP_NATIVE_VECTOR_WIDTH:-128}
fi
export MESA_SHADER_CACHE_DIR=${MESA_SHADER_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/weft/mesa}
mkdir -p "$MESA_SHADER_CACHE_DIR"
if ls {/usr,/usr/local,/etc}/share/vulkan/explicit_layer.d/*khronos_validation.json \
    >/dev/null 2>&1; then
    export WEFT_VULKAN_VALIDATE=${WEFT_VULKAN_VALIDATE:-1}
fi

count_failure() {
    echo "0 1 0" >>"$WEFT_COUNTS"
}

# An example refuses to write over the run that it saved the last time.
rm -rf "$build"{,-asan}/examples/reader-run

# start LABEL NAME COMMAND...: one test, beside as many others as there are processors. What is put
# before it as in "A=b start ..." is set for it alone.
start() {
    while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do
        wait -n || true
    done
    tests/one.sh "$@" &
}

# run LABEL FOLDER GROUP [PREFIX...]: starts the tests of a build folder that are in GROUP ("quick"
# is every test but the fuzz targets, "sanitized" every test but the long ones of Vulkan, which take
# minutes in software with sanitizers and run there with --all), those in the group `long` first, so
# that none is left alone at the end. Without --all, a suite in a group GROUP=CASES runs these cases
# (a filter of tests/check.c). PREFIX is put before each command. Follow it by `wait`.
run() {
    local label=$1 folder=$2 group=$3 turn name groups program arguments cases
    shift 3
    for turn in long short; do
        while read -r name groups program arguments; do
            case $group,$groups in
            *",$group" | *",$group,"* | *",$group="*) ;;
            quick,fuzz) continue ;;
            sanitized,*vulkan,*long*) [ "$all" -eq 1 ] || continue ;;
            quick,* | sanitized,*) ;;
            *) continue ;;
            esac
            case ,$groups, in
            *,long,*) [ $turn = long ] || continue ;;
            *) [ $turn = short ] || continue ;;
            esac
            cases=
            case $all,,$groups, in
            0,*,"$group"=*) cases=${groups##*"$group"=} ;;
            esac
            # shellcheck disable=SC2086
            start "$label" "$name" "$@" "$folder/$program" $arguments ${cases%%,*}
        done <"$folder/tests/tests.txt"
    done
}

# on_vulkan LABEL FOLDER [CASES]: the suites that take a device, and the op table in pieces, each in
# a process of its own, on the first Vulkan device. CASES: only those of the op table that are named
# so, and a few of the suites; with --all ignored. Follow it by `wait`.
on_vulkan() {
    local label=$1 folder=$2 cases=${3:-} pieces=12 piece name
    export WEFT_TEST_DEVICE=vulkan
    if [ "$all" -eq 1 ]; then
        cases=
        run "$label" "$folder" device
        run "$label" "$folder" device_all
    elif [ -z "$cases" ]; then
        start "$label" generate "$folder/tests/test_generate" compiled
        run "$label" "$folder" device
    else
        for name in eval compile products; do
            start "$label" "$name" "$folder/tests/test_$name"
        done
    fi
    # Without optional features arrays are not mapped either, so all transfers are copies.
    for name in vulkan_runtime structure; do
        WEFT_VULKAN_DISABLE=all start "$label" "$name-bare" "$folder/tests/test_$name"
    done
    if [ -z "$cases" ]; then
        WEFT_VULKAN_DISABLE=all start "$label" trainer-bare "$folder/tests/test_trainer" \
            $([ "$all" -eq 1 ] || echo a_run_learns+compiled_updates_are)
    fi
    for ((piece = 0; piece < pieces; piece++)); do
        WEFT_TEST_PIECE=$piece/$pieces start "$label" "op_table-$piece" \
            "$folder/tests/test_op_table" $cases
    done
    unset WEFT_TEST_DEVICE
}

# build LABEL FOLDER TARGETS [MESON OPTION...]: a build that fails counts as one failed test.
build() {
    local label=$1 folder=$2 targets=$3
    shift 3
    # shellcheck disable=SC2086 # the options are words
    if ! tools/build.sh "$folder" "$targets" ${WEFT_OPTIONS:-} "$@"; then
        echo "---- $label: the build failed" | tee -a "$WEFT_FAILURES"
        count_failure
        return 1
    fi
}

if build plain "$build" "all tests"; then
    start plain install tests/install.sh "$build"
    start plain cplusplus tests/cplusplus.sh "$build"
    start plain exports tests/exports.sh "$build"
    start plain symbols tests/symbols.sh "$build"
    start plain abi tests/abi.sh "$build"
    start plain commands tests/commands.sh "$build"
    on_vulkan vulkan "$build"
    run plain "$build" quick
fi
for check in headers tree layering snippets documents options modules contracts release; do
    start source $check tests/$check.sh
done
start source arm64 tests/arm64.sh --quick
start source clang tests/clang.sh
start source site tests/site.sh
wait

if [ "$quick" -eq 0 ]; then
    if build asan "$build-asan" tests -Db_sanitize=address,undefined; then
        run asan "$build-asan" sanitized
        # A software driver is slow under the sanitizers: each kernel runs once, and whole programs.
        on_vulkan vulkan-asan "$build-asan" every_op_has_cases_and_values
        wait
    fi
    # These suites test the CPU's threads.
    if build tsan "$build-tsan" thread-tests -Db_sanitize=thread -Dvulkan=disabled \
        -Doptimization=1; then
        # ThreadSanitizer's fixed shadow addresses can collide with a randomized layout.
        prefix=
        setarch -R true 2>/dev/null && prefix="setarch -R"
        # shellcheck disable=SC2086 # the prefix is words
        run tsan "$build-tsan" thread $prefix
        wait
    fi
fi

if [ -s "$WEFT_FAILURES" ]; then
    printf '\nWhat failed, once more:\n'
    cat "$WEFT_FAILURES"
    printf '\n'
fi
printf '\nCPU seconds of each part, and of the ten slowest tests:\n'
awk '{ cpu[$3] += $1; n[$3]++ }
    END {
        for (label in cpu)
            printf "%8.1f  %s (%d)\n", cpu[label], label, n[label]
    }' "$WEFT_TIMES" | sort -rn
echo
sort -rn "$WEFT_TIMES" | awk 'NR <= 10 { printf "%8.1f  %s %s\n", $1, $3, $4 }'
awk '{ p += $1; f += $2; s += $3 }
    END {
        printf "%d passed, %d failed, %d skipped\n", p, f, s
        exit f > 0 || p == 0
    }' "$WEFT_COUNTS"
