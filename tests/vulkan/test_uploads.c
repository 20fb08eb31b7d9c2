/* tests/vulkan/test_uploads.c -- weights that are copied to the device for each use: every kernel
 * reads its own data, however many copies are under way, and training has the same bits as with
 * weights on the device. The device's memory counts as unreachable for the host, as on a card, and
 * no upload as too small to run beside kernels. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/vulkan/device.h"
#include "core/graph.h"
#include "tests/check.h"
#include "tests/train/recipes.h"
#include "weft/train.h"

static weft_device *vulkan, *cpu;
static weft__vulkan_device *internals;

static bool prepare(void)
{
    setenv("WEFT_VULKAN_DISABLE", "host", 1);
    cpu = weft_device_get("cpu");
    vulkan = weft_device_get("vulkan");
    if (!vulkan) {
        check_skip("%s", weft_error_message());
        return false;
    }
    internals = weft_device_state(vulkan);
    return CHECK(!internals->memory.host_reads);
}

/* Arrays of one and a half pieces, several times; one of them is in memory that the device reads.
 * Sums of all elements, each multiplied by its round, are exact in wrapping integers. */
static void every_kernel_reads_its_own_data(void)
{
    enum { ARRAYS = 3, ROUNDS = 16, N = WEFT__VULKAN_PIECE / 4 * 3 / 2 };
    if (!prepare()) {
        return;
    }
    uint32_t wanted = 0, got = 0, *data = malloc(sizeof *data * N * ARRAYS);
    weft_array *hosts[ARRAYS];
    weft_scope_open();
    for (int a = 0; a < ARRAYS; a++) {
        uint32_t sum = 0, *own = data + (size_t)a * N;
        for (uint32_t i = 0; i < N; i++) {
            own[i] = (i + 7 * (uint32_t)a) * 2654435761u >> 5;
            sum += own[i];
        }
        for (uint32_t r = 1; r <= ROUNDS; r++) {
            wanted += r * sum;
        }
        hosts[a] = weft_from_memory(own, WEFT_UINT32, WEFT_DIMS(N), NULL, NULL);
    }
    weft_array *pinned = weft__pinned(hosts[0], vulkan);
    CHECK(pinned != hosts[0]);
    hosts[0] = pinned;
    weft_set_default_device(vulkan);
    weft_array *total = weft_zeros(WEFT_DIMS(1), WEFT_UINT32);
    for (uint32_t r = 1; r <= ROUNDS; r++) {
        for (int a = 0; a < ARRAYS; a++) {
            weft_array *turn = weft_from_data(&r, WEFT_UINT32, WEFT_DIMS(1));
            weft_array *x = weft_multiply(weft_to(hosts[a], vulkan), turn);
            total = weft_add(total, weft_sum(x, WEFT_ALL_AXES, true));
        }
    }
    CHECK_OK(weft_read(total, WEFT_UINT32, &got, 1));
    CHECK_EQ_INT(got, wanted);
    CHECK(internals->uploads.submitted >= (1 + 2 * (ARRAYS - 1)) * ROUNDS);
    weft_scope_close(NULL);
    weft_set_default_device(cpu);
    free(data);
}

/* ---- training ------------------------------------------------------------------------------- */

enum { STEPS = 4 };

static bool remember(void *context, const weft_train_report *report)
{
    double(*at)[2] = context;
    at[report->step - 1][0] = report->loss;
    at[report->step - 1][1] = report->grad_norm;
    return true;
}

static void train(bool stream, bool compile, int64_t quantize, double out[STEPS][2])
{
    const recipe *r = &recipes[0];
    char path[256];
    weft_model *model = NULL;
    weft_batches *batches = NULL;
    weft_trainer *trainer = NULL;
    snprintf(path, sizeof path, "models/%s", r->model);
    weft_set_default_device(vulkan);
    const weft_model_options m = {.device = vulkan, .stream = stream, .quantize = quantize};
    weft_trainer_options o = recipe_options(r);
    o.steps = STEPS;
    o.checkpoint = !stream; /* streaming implies it */
    o.compile = compile;
    o.callback = remember;
    o.context = out;
    memset(out, 0, sizeof(double[STEPS][2]));
    if (CHECK_OK(weft_model_load(check_fixture(path), &m, &model)) &&
        CHECK_OK(weft_adapter_load(model, recipe_path(r, "initial"), NULL)) &&
        CHECK_OK(weft_batches_open(recipe_path(r, "trajectory.safetensors"), &batches)) &&
        CHECK_OK(weft_trainer_new(model, &o, &trainer))) {
        CHECK_OK(weft_trainer_run(trainer, batches, NULL, NULL));
    }
    weft_trainer_free(trainer);
    weft_batches_free(batches);
    weft_model_free(model);
    weft_set_default_device(cpu);
}

static void training_is_the_same_to_the_bit(void)
{
    if (!prepare()) {
        return;
    }
    weft__vulkan_least_upload = 1;
    for (int i = 0; i < 4; i++) {
        const bool compile = i % 2;
        const int64_t bits = i < 2 ? 0 : 8;
        double resident[STEPS][2], streamed[STEPS][2];
        const uint64_t start = internals->uploads.submitted;
        train(false, compile, bits, resident);
        const uint64_t middle = internals->uploads.submitted;
        train(true, compile, bits, streamed);
        CHECK(internals->uploads.submitted - middle > 10 * (middle - start));
        CHECK(resident[0][0] > 0 && resident[STEPS - 1][0] > 0);
        CHECK_BYTES(streamed, resident, sizeof resident);
    }
}

CHECK_MAIN("vulkan_uploads", CHECK_CASE(every_kernel_reads_its_own_data),
           CHECK_CASE(training_is_the_same_to_the_bit))
