/* examples/10_own_kernel.c -- custom kernels: an op with a row for the CPU and one for Vulkan. */
#include <math.h>
#include <stdio.h>

#include <weft/vulkan.h>
#include <weft/weft.h>

/* ---- The op: y[t] = x[t] + decay y[t-1] along the last axis, from either end ---------------- */

typedef struct leak_params {
    double decay;
    bool backward;
} leak_params;

static const weft_field leak_fields[] = {WEFT_FIELD(DOUBLE, leak_params, decay),
                                         WEFT_FIELD(BOOL, leak_params, backward), WEFT_FIELDS_END};

static bool leak_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_array *x = weft_node_input(node, 0);
    if (weft_ndim(x) < 1)
        return weft_because(why, "leak: expected at least one axis, got a 0-d array");
    *out = (weft_spec){.dtype = weft_dtype_of(x), .shape = weft_shape(x)};
    return true;
}

static int64_t columns_of(const weft_tensor *x)
{
    return x->shape.at[x->shape.n - 1];
}

/* The definition, for any dtype, strides and device. */
static weft_status leak_reference(const weft_call *call)
{
    const leak_params *p = call->params;
    int64_t size = weft_tensor_size(&call->in[0]), T = columns_of(&call->in[0]);
    double y = 0;
    for (int64_t i = 0; i < size; i++) {
        int64_t row = i / T * T, t = p->backward ? T - 1 - i % T : i % T;
        y = weft_tensor_get(&call->in[0], row + t) + (i % T ? p->decay * y : 0);
        weft_tensor_set(&call->out[0], row + t, y);
    }
    return WEFT_OK;
}

static weft_array *leak(weft_array *x, double decay, bool backward);

/* What flows back leaks the other way. */
static void leak_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                     weft_array **grads)
{
    const leak_params *p = weft_node_params(node);
    if (wanted[0])
        grads[0] = leak(cts[0], p->decay, !p->backward);
}

static const weft_op leak_op = {
    .name = "example_leak",
    .family = WEFT_CORE_RANK,
    .arity = 1,
    .params_size = sizeof(leak_params),
    .params_fields = leak_fields,
    .infer = leak_infer,
    .vjp = leak_vjp,
    .linear = true,
    .takes_leading_axis = true,
    .reference = leak_reference,
};

static weft_array *leak(weft_array *x, double decay, bool backward)
{
    return weft_apply(&leak_op, &x, 1, &(leak_params){.decay = decay, .backward = backward});
}

/* ---- A kernel for the CPU: float32, rows without gaps --------------------------------------- */

static int cpu_calls, vulkan_calls; /* to show who computed */

static weft_status leak_cpu(const weft_call *call)
{
    const leak_params *p = call->params;
    int64_t size = weft_tensor_size(&call->in[0]), T = columns_of(&call->in[0]);
    const float decay = (float)p->decay;
    for (int64_t row = 0; row < size; row += T) {
        const float *x = (const float *)call->in[0].data + row;
        float *y = (float *)call->out[0].data + row, last = 0;
        for (int64_t i = 0; i < T; i++) {
            int64_t t = p->backward ? T - 1 - i : i;
            y[t] = last = x[t] + decay * last;
        }
    }
    cpu_calls++;
    return WEFT_OK;
}

static const weft_kernel_row leak_cpu_row = {
    .op = "example_leak",
    .signature = "f",
    .layout = WEFT_CONTIGUOUS,
    .in_place = {1},
    .kernel = leak_cpu,
};

/* ---- A kernel for Vulkan: the shader, and how it is launched -------------------------------- */

/* glslc --target-env=vulkan1.2 -O -mfmt=c 10_own_kernel.comp */
static const uint32_t leak_words[] = {
    0x07230203, 0x00010500, 0x000d000b, 0x0000007e, 0x00000000, 0x00020011, 0x00000001, 0x00020011,
    0x000014e3, 0x0006000b, 0x00000001, 0x4c534c47, 0x6474732e, 0x3035342e, 0x00000000, 0x0003000e,
    0x000014e4, 0x00000001, 0x0009000f, 0x00000005, 0x00000004, 0x6e69616d, 0x00000000, 0x0000000b,
    0x00000010, 0x00000023, 0x0000002e, 0x00060010, 0x00000004, 0x00000011, 0x00000040, 0x00000001,
    0x00000001, 0x00040047, 0x0000000b, 0x0000000b, 0x0000001a, 0x00040047, 0x00000010, 0x0000000b,
    0x00000018, 0x00040047, 0x00000023, 0x0000000b, 0x0000001b, 0x00050048, 0x0000002a, 0x00000000,
    0x00000023, 0x00000000, 0x00050048, 0x0000002a, 0x00000001, 0x00000023, 0x00000008, 0x00050048,
    0x0000002a, 0x00000002, 0x00000023, 0x00000010, 0x00050048, 0x0000002a, 0x00000003, 0x00000023,
    0x00000014, 0x00050048, 0x0000002a, 0x00000004, 0x00000023, 0x00000018, 0x00050048, 0x0000002a,
    0x00000005, 0x00000023, 0x0000001c, 0x00030047, 0x0000002a, 0x00000002, 0x00040047, 0x0000002b,
    0x00000006, 0x00000004, 0x00050048, 0x0000002c, 0x00000000, 0x00000023, 0x00000000, 0x00030047,
    0x0000002c, 0x00000002, 0x00040047, 0x00000073, 0x0000000b, 0x00000019, 0x00020013, 0x00000002,
    0x00030021, 0x00000003, 0x00000002, 0x00040015, 0x00000006, 0x00000020, 0x00000000, 0x00040017,
    0x00000009, 0x00000006, 0x00000003, 0x00040020, 0x0000000a, 0x00000001, 0x00000009, 0x0004003b,
    0x0000000a, 0x0000000b, 0x00000001, 0x0004002b, 0x00000006, 0x0000000c, 0x00000000, 0x00040020,
    0x0000000d, 0x00000001, 0x00000006, 0x0004003b, 0x0000000a, 0x00000010, 0x00000001, 0x0004002b,
    0x00000006, 0x00000013, 0x00000001, 0x0004002b, 0x00000006, 0x00000018, 0x00000002, 0x0004002b,
    0x00000006, 0x00000021, 0x00000040, 0x0004003b, 0x0000000a, 0x00000023, 0x00000001, 0x00030027,
    0x00000028, 0x000014e5, 0x00030016, 0x00000029, 0x00000020, 0x0008001e, 0x0000002a, 0x00000028,
    0x00000028, 0x00000006, 0x00000006, 0x00000029, 0x00000006, 0x0003001d, 0x0000002b, 0x00000029,
    0x0003001e, 0x0000002c, 0x0000002b, 0x00040020, 0x00000028, 0x000014e5, 0x0000002c, 0x00040020,
    0x0000002d, 0x00000009, 0x0000002a, 0x0004003b, 0x0000002d, 0x0000002e, 0x00000009, 0x00040015,
    0x0000002f, 0x00000020, 0x00000001, 0x0004002b, 0x0000002f, 0x00000030, 0x00000002, 0x00040020,
    0x00000031, 0x00000009, 0x00000006, 0x00020014, 0x00000034, 0x0004002b, 0x00000029, 0x0000003b,
    0x00000000, 0x0004002b, 0x0000002f, 0x00000043, 0x00000003, 0x0004002b, 0x0000002f, 0x0000004c,
    0x00000005, 0x0004002b, 0x0000002f, 0x0000005c, 0x00000000, 0x00040020, 0x0000005d, 0x00000009,
    0x00000028, 0x00040020, 0x00000061, 0x000014e5, 0x00000029, 0x0004002b, 0x0000002f, 0x00000064,
    0x00000004, 0x00040020, 0x00000065, 0x00000009, 0x00000029, 0x0004002b, 0x0000002f, 0x0000006b,
    0x00000001, 0x0006002c, 0x00000009, 0x00000073, 0x00000021, 0x00000013, 0x00000013, 0x00050036,
    0x00000002, 0x00000004, 0x00000000, 0x00000003, 0x000200f8, 0x00000005, 0x000300f7, 0x00000074,
    0x00000000, 0x000300fb, 0x0000000c, 0x00000075, 0x000200f8, 0x00000075, 0x00050041, 0x0000000d,
    0x0000000e, 0x0000000b, 0x0000000c, 0x0004003d, 0x00000006, 0x0000000f, 0x0000000e, 0x00050041,
    0x0000000d, 0x00000011, 0x00000010, 0x0000000c, 0x0004003d, 0x00000006, 0x00000012, 0x00000011,
    0x00050041, 0x0000000d, 0x00000014, 0x0000000b, 0x00000013, 0x0004003d, 0x00000006, 0x00000015,
    0x00000014, 0x00050041, 0x0000000d, 0x00000016, 0x00000010, 0x00000013, 0x0004003d, 0x00000006,
    0x00000017, 0x00000016, 0x00050041, 0x0000000d, 0x00000019, 0x0000000b, 0x00000018, 0x0004003d,
    0x00000006, 0x0000001a, 0x00000019, 0x00050084, 0x00000006, 0x0000001b, 0x00000017, 0x0000001a,
    0x00050080, 0x00000006, 0x0000001c, 0x00000015, 0x0000001b, 0x00050084, 0x00000006, 0x0000001d,
    0x00000012, 0x0000001c, 0x00050080, 0x00000006, 0x0000001e, 0x0000000f, 0x0000001d, 0x00050084,
    0x00000006, 0x00000022, 0x0000001e, 0x00000021, 0x00050041, 0x0000000d, 0x00000024, 0x00000023,
    0x0000000c, 0x0004003d, 0x00000006, 0x00000025, 0x00000024, 0x00050080, 0x00000006, 0x00000026,
    0x00000022, 0x00000025, 0x00050041, 0x00000031, 0x00000032, 0x0000002e, 0x00000030, 0x0004003d,
    0x00000006, 0x00000033, 0x00000032, 0x000500ae, 0x00000034, 0x00000035, 0x00000026, 0x00000033,
    0x000300f7, 0x00000037, 0x00000000, 0x000400fa, 0x00000035, 0x00000036, 0x00000037, 0x000200f8,
    0x00000036, 0x000200f9, 0x00000074, 0x000200f8, 0x00000037, 0x000200f9, 0x0000003d, 0x000200f8,
    0x0000003d, 0x000700f5, 0x00000029, 0x0000007d, 0x0000003b, 0x00000037, 0x0000006a, 0x00000040,
    0x000700f5, 0x00000006, 0x0000007a, 0x0000000c, 0x00000037, 0x00000072, 0x00000040, 0x00050041,
    0x00000031, 0x00000044, 0x0000002e, 0x00000043, 0x0004003d, 0x00000006, 0x00000045, 0x00000044,
    0x000500b0, 0x00000034, 0x00000046, 0x0000007a, 0x00000045, 0x000400f6, 0x0000003f, 0x00000040,
    0x00000000, 0x000400fa, 0x00000046, 0x0000003e, 0x0000003f, 0x000200f8, 0x0000003e, 0x00050084,
    0x00000006, 0x0000004b, 0x00000026, 0x00000045, 0x00050041, 0x00000031, 0x0000004d, 0x0000002e,
    0x0000004c, 0x0004003d, 0x00000006, 0x0000004e, 0x0000004d, 0x000500ab, 0x00000034, 0x0000004f,
    0x0000004e, 0x0000000c, 0x000300f7, 0x00000052, 0x00000000, 0x000400fa, 0x0000004f, 0x00000051,
    0x00000058, 0x000200f8, 0x00000051, 0x00050082, 0x00000006, 0x00000055, 0x00000045, 0x00000013,
    0x00050082, 0x00000006, 0x00000057, 0x00000055, 0x0000007a, 0x000200f9, 0x00000052, 0x000200f8,
    0x00000058, 0x000200f9, 0x00000052, 0x000200f8, 0x00000052, 0x000700f5, 0x00000006, 0x0000007b,
    0x00000057, 0x00000051, 0x0000007a, 0x00000058, 0x00050080, 0x00000006, 0x0000005b, 0x0000004b,
    0x0000007b, 0x00050041, 0x0000005d, 0x0000005e, 0x0000002e, 0x0000005c, 0x0004003d, 0x00000028,
    0x0000005f, 0x0000005e, 0x00060041, 0x00000061, 0x00000062, 0x0000005f, 0x0000005c, 0x0000005b,
    0x0006003d, 0x00000029, 0x00000063, 0x00000062, 0x00000002, 0x00000004, 0x00050041, 0x00000065,
    0x00000066, 0x0000002e, 0x00000064, 0x0004003d, 0x00000029, 0x00000067, 0x00000066, 0x0008000c,
    0x00000029, 0x0000006a, 0x00000001, 0x00000032, 0x00000067, 0x0000007d, 0x00000063, 0x00050041,
    0x0000005d, 0x0000006c, 0x0000002e, 0x0000006b, 0x0004003d, 0x00000028, 0x0000006d, 0x0000006c,
    0x00060041, 0x00000061, 0x00000070, 0x0000006d, 0x0000005c, 0x0000005b, 0x0005003e, 0x00000070,
    0x0000006a, 0x00000002, 0x00000004, 0x000200f9, 0x00000040, 0x000200f8, 0x00000040, 0x00050080,
    0x00000006, 0x00000072, 0x0000007a, 0x0000006b, 0x000200f9, 0x0000003d, 0x000200f8, 0x0000003f,
    0x000200f9, 0x00000074, 0x000200f8, 0x00000074, 0x000100fd, 0x00010038,
};

static const weft_vulkan_shader leak_shader = {
    .name = "example_leak",
    .words = leak_words,
    .n_words = sizeof leak_words / sizeof leak_words[0],
};

/* As the shader has them. */
typedef struct leak_push {
    uint64_t x, y; /* addresses */
    uint32_t rows, columns;
    float decay;
    uint32_t backward;
} leak_push;

static weft_status leak_vulkan(const weft_call *call)
{
    const leak_params *p = call->params;
    const int64_t size = weft_tensor_size(&call->in[0]), T = columns_of(&call->in[0]);
    const leak_push push = {
        .x = weft_vulkan_address(&call->in[0]),
        .y = weft_vulkan_address(&call->out[0]),
        .rows = (uint32_t)(size / T), /* an op without elements calls no kernel */
        .columns = (uint32_t)T,
        .decay = (float)p->decay,
        .backward = p->backward,
    };
    vulkan_calls++;
    return weft_vulkan_dispatch(call, &(weft_vulkan_launch){.shader = &leak_shader,
                                                            .push = &push,
                                                            .push_bytes = sizeof push,
                                                            .groups = (push.rows + 63) / 64});
}

static const weft_kernel_row leak_vulkan_row = {
    .op = "example_leak",
    .signature = "f",
    .layout = WEFT_CONTIGUOUS,
    .in_place = {1},
    .fits = weft_vulkan_fits,
    .kernel = leak_vulkan,
};

/* ---- Trying them ---------------------------------------------------------------------------- */

enum { ROWS = 100, COLUMNS = 7 };

/* The device's float32 against the definition in float64, forward and backward. */
static weft_status compare(weft_device *device, int *failures)
{
    static double wanted[ROWS * COLUMNS], got[ROWS * COLUMNS];
    weft_dims shape = WEFT_DIMS(ROWS, COLUMNS);
    weft_array *x = weft_random_normal(weft_random_key(1), shape, 0, 1, WEFT_FLOAT32);
    weft_status status = weft_eval(x);
    for (int backward = 0; backward < 2 && status == WEFT_OK; backward++) {
        weft_array *exact = leak(weft_astype(x, WEFT_FLOAT64), 0.9, backward);
        status = weft_read(exact, WEFT_FLOAT64, wanted, ROWS * COLUMNS);
        if (status == WEFT_OK)
            status = weft_read(leak(weft_to(x, device), 0.9, backward), WEFT_FLOAT64, got,
                               ROWS * COLUMNS);
        double worst = 0;
        for (int i = 0; i < ROWS * COLUMNS && status == WEFT_OK; i++)
            worst = fmax(worst, fabs(got[i] - wanted[i]));
        printf("%s: off by %.1e at most\n", weft_device_name(device), worst);
        *failures += !(worst < 1e-5);
    }
    return status;
}

static int function(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context, (void)n_in, (void)room;
    out[0] = weft_square(leak(in[0], 0.5, false));
    return 1;
}

static weft_status try_kernels(int *failures)
{
    weft_status status = weft_op_register(&leak_op);
    if (status == WEFT_OK)
        status = weft_backend_add_rows("cpu", &leak_cpu_row, 1);
    if (status == WEFT_OK)
        status = compare(weft_device_get("cpu"), failures);
    *failures += cpu_calls != 2; /* float64 goes to the definition */
    if (status != WEFT_OK)
        return status;

    weft_device *card = weft_device_get("vulkan");
    if (card) {
        status = weft_backend_add_rows("vulkan", &leak_vulkan_row, 1);
        if (status == WEFT_OK)
            status = compare(card, failures);
        *failures += vulkan_calls != 2;
    } else {
        printf("no Vulkan here: %s\n", weft_error_message());
    }
    weft_array *in = weft_random_normal(weft_random_key(2), WEFT_DIMS(3, 5), 0, 1, WEFT_FLOAT64);
    return status == WEFT_OK ? weft_gradcheck(function, NULL, &in, 1, NULL) : status;
}

int main(void)
{
    int failures = 0;
    weft_scope_open();
    weft_status status = try_kernels(&failures);
    weft_scope_close(NULL);
    if (status != WEFT_OK)
        printf("%s\n", weft_error_message());
    return status != WEFT_OK || failures != 0;
}
