/* tests/vulkan/test_self_test.c -- the self-test of Vulkan devices: modules are changed before the
 * driver compiles them, which simulates a driver that computes wrong numbers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/vulkan/backend.h"
#include "backends/vulkan/pipeline.h"
#include "backends/vulkan/spirv/opcodes.h"
#include "core/device.h"
#include "tests/check.h"

enum { F_ADD = 129, F_SUB = 131, ROUND_EVEN = 2, TRUNC = 3, EXT = 12 };

/* In shaders of that name, one instruction (or one of GLSL's functions) becomes another. Only float
 * instructions: wrong integers would become addresses, with which a real device hangs. */
static const struct fault {
    const char *shader;
    bool function;
    uint32_t from, to;
    const char *wrong; /* what the message names */
} * fault;
static int compiled;

static void spoil(const char *shader, uint32_t *words, size_t n)
{
    compiled++;
    for (size_t at = SPIRV_HEADER_WORDS; fault && at < n; at += words[at] >> 16) {
        uint32_t opcode = words[at] & 0xffffu;
        if (strcmp(shader, fault->shader) != 0) {
            continue;
        }
        if (fault->function && opcode == EXT && words[at + 4] == fault->from) {
            words[at + 4] = fault->to;
        } else if (!fault->function && opcode == fault->from) {
            words[at] = (words[at] & 0xffff0000u) | fault->to;
        }
    }
}

/* Opens the first device as the registry does, with a cache folder of its own. */
static weft_status open_device(weft_device *device, const char *self_test)
{
    *device = (weft_device){.backend = &weft__vulkan_backend, .name = "vulkan"};
    self_test ? setenv("WEFT_VULKAN_SELF_TEST", self_test, 1) : unsetenv("WEFT_VULKAN_SELF_TEST");
    compiled = 0;
    weft_status status = weft__vulkan_backend.open(0, &device->state);
    if (status == WEFT_OK && (status = weft__vulkan_backend.check(device)) != WEFT_OK) {
        weft__vulkan_backend.close(device->state);
        device->state = NULL;
    }
    unsetenv("WEFT_VULKAN_SELF_TEST");
    return status;
}

static void close_device(weft_device *device)
{
    if (device->state) {
        weft__vulkan_backend.close(device->state);
    }
}

static const char *about(const weft_device *device)
{
    return device->state ? weft__vulkan_backend.describe(device->state) : "";
}

static bool prepare(void)
{
    if (weft__vulkan_backend.count() == 0) {
        check_skip("no Vulkan device");
        return false;
    }
    setenv("XDG_CACHE_HOME", check_temporary("cache"), 1);
    weft__vulkan_compiling = spoil;
    fault = NULL;
    return true;
}

static void a_device_that_computes_correctly_passes_once(void)
{
    weft_device device;
    if (!prepare()) {
        return;
    }
    CHECK_OK(open_device(&device, "force"));
    CHECK(compiled > 10);
    CHECK_CONTAINS(about(&device), "; self-test passed");
    close_device(&device);
    CHECK_OK(open_device(&device, NULL));
    CHECK_EQ_INT(compiled, 0); /* the result is kept */
    CHECK_CONTAINS(about(&device), "; self-test passed");
    close_device(&device);
}

static void wrong_numbers_are_refused(void)
{
    static const struct fault faults[] = {
        {"elementwise", true, ROUND_EVEN, TRUNC, "rint(a) of a = -0.69"},
        {"elementwise", false, F_SUB, F_ADD, "exp(a) of a = 0.3"},
        {"reduce_sum", false, F_ADD, F_SUB, "sum, element 0"},
        {"softmax", false, F_SUB, F_ADD, "softmax, element 0"},
        {"matmul", false, F_ADD, F_SUB, "matmul of float32 (33, 33) x (33, 20), element"},
        {"vecmat", false, F_ADD, F_SUB, "matmul of float16 (1, 33) x (33, 20), element"},
        {"codes_rows", false, F_ADD, F_SUB, "decoding of a Q4_K block, element"},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults && prepare(); i++) {
        weft_device device;
        fault = &faults[i];
        CHECK_STATUS(open_device(&device, "force"), WEFT_DEVICE);
        CHECK_CONTAINS(weft_error_message(), "computes wrong numbers: ");
        CHECK_CONTAINS(weft_error_message(), fault->wrong);
        CHECK_CONTAINS(weft_error_message(), ": expected ");
        CHECK_CONTAINS(weft_error_message(), ", got ");
        close_device(&device);
    }
}

static void a_feature_that_fails_is_not_used(void)
{
    static const struct fault wide = {"matmul_f64", false, F_ADD, F_SUB, "matmul of float64"};
    weft_device device;
    if (!prepare()) {
        return;
    }
    CHECK_OK(open_device(&device, "skip"));
    bool there = strstr(about(&device), "uses float64") != NULL;
    close_device(&device);
    if (!there) {
        check_skip("the device has no float64");
        return;
    }
    fault = &wide;
    for (int turn = 0; turn < 2; turn++) { /* the second time from the kept result */
        CHECK_OK(open_device(&device, turn == 0 ? "force" : NULL));
        CHECK_CONTAINS(about(&device), "; switched off float64");
        CHECK_CONTAINS(about(&device), "; self-test passed without what failed: matmul of float64");
        CHECK(turn == 0 ? compiled > 0 : compiled == 0);
        close_device(&device);
    }
}

static void a_refusal_is_kept_until_it_is_tried_again(void)
{
    static const struct fault wrong = {"reduce_sum", false, F_ADD, F_SUB, "sum"};
    weft_device device;
    if (!prepare()) {
        return;
    }
    fault = &wrong;
    CHECK_STATUS(open_device(&device, "force"), WEFT_DEVICE);
    fault = NULL;
    CHECK_STATUS(open_device(&device, NULL), WEFT_DEVICE);
    CHECK_CONTAINS(weft_error_message(), "computes wrong numbers: sum, element 0: expected ");
    CHECK_EQ_INT(compiled, 0);

    /* The command finds the same file. */
    char command[2048], line[1024] = "";
    snprintf(command, sizeof command, "'%s' info --devices 2>&1 | grep '^vulkan '",
             check_built("cli/weft"));
    FILE *pipe = popen(command, "r");
    CHECK(pipe && fgets(line, sizeof line, pipe));
    CHECK_CONTAINS(line, "cannot be used: ");
    CHECK_CONTAINS(line, "computes wrong numbers: sum, element 0");
    pclose(pipe);

    CHECK_OK(open_device(&device, "force"));
    close_device(&device);
    CHECK_OK(open_device(&device, NULL));
    CHECK_EQ_INT(compiled, 0);
    close_device(&device);
}

static void the_self_test_can_be_skipped(void)
{
    static const struct fault wrong = {"elementwise", true, ROUND_EVEN, TRUNC, "rint"};
    weft_device device;
    if (!prepare()) {
        return;
    }
    fault = &wrong;
    CHECK_OK(open_device(&device, "skip"));
    CHECK_EQ_INT(compiled, 0);
    CHECK_CONTAINS(about(&device), "; self-test skipped");
    close_device(&device);
    CHECK_STATUS(open_device(&device, "maybe"), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "expected skip or force, got 'maybe'");
}

/* For any content of the file, the ops are tested. */
static void a_damaged_file_is_not_a_result(void)
{
    weft_device device;
    if (!prepare()) {
        return;
    }
    CHECK_OK(open_device(&device, "force"));
    close_device(&device);
    char command[1024];
    snprintf(command, sizeof command,
             "for f in '%s'/weft/*.test; do head -c 40 \"$f\" >\"$f.new\" && "
             "tr 'a-f0-9' 'b-f0-9a' <\"$f.new\" >\"$f\"; done",
             getenv("XDG_CACHE_HOME"));
    CHECK_EQ_INT(system(command), 0);
    CHECK_OK(open_device(&device, NULL));
    CHECK(compiled > 10);
    close_device(&device);
    /* FIFOs without a writer; the alarm ends a reader that waits. */
    snprintf(command, sizeof command,
             "cd '%s/weft' && for f in *.test *.bin; do rm -f \"$f\" && mkfifo \"$f\"; done",
             getenv("XDG_CACHE_HOME"));
    CHECK_EQ_INT(system(command), 0);
    alarm(120);
    CHECK_OK(open_device(&device, NULL));
    CHECK(compiled > 10);
    close_device(&device);
    alarm(0);
}

CHECK_MAIN("vulkan_self_test", CHECK_CASE(a_device_that_computes_correctly_passes_once),
           CHECK_CASE(wrong_numbers_are_refused), CHECK_CASE(a_feature_that_fails_is_not_used),
           CHECK_CASE(a_refusal_is_kept_until_it_is_tried_again),
           CHECK_CASE(the_self_test_can_be_skipped), CHECK_CASE(a_damaged_file_is_not_a_result))
