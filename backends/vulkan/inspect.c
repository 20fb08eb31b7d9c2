/* backends/vulkan/inspect.c -- describes an open device for reports: what the driver states, what
 * is used of it, and for each tile of matrix products its results and rate. */
#include "backends/vulkan/backend.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <json-c/json_object.h>

#include "backends/vulkan/device.h"
#include "backends/vulkan/kernels/product_plan.h"
#include "weft/memory.h"
#include "weft/ops.h"
#include "weft/random.h"

enum {
    ROWS = 200, /* of the product that is checked: no multiple of any tile */
    COLUMNS = 312,
    TERMS = 168,
    SIDE = 2048, /* of the product that is measured; on software drivers the one above */
    MOST_RUNS = 64,
};
#define LONGEST 50e-3 /* seconds of a run */
#define WARM_UP 0.2

static void put(json_object *object, const char *key, json_object *value)
{
    json_object_object_add(object, key, value);
}

static void put_text(json_object *object, const char *key, const char *text)
{
    put(object, key, json_object_new_string(text));
}

static void put_number(json_object *object, const char *key, int64_t value)
{
    put(object, key, json_object_new_int64(value));
}

static void put_bool(json_object *object, const char *key, bool value)
{
    put(object, key, json_object_new_boolean(value));
}

/* ---- What the driver states ------------------------------------------------------------------ */

static const char *type_name(VkPhysicalDeviceType type)
{
    switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
        return "discrete";
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
        return "integrated";
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
        return "virtual";
    default:
        return type == VK_PHYSICAL_DEVICE_TYPE_CPU ? "software" : "other";
    }
}

static json_object *driver_of(const weft__vulkan_physical *p)
{
    json_object *driver = json_object_new_object();
    put_number(driver, "id", p->driver.driverID);
    put_text(driver, "name", p->driver.driverName);
    put_text(driver, "info", p->driver.driverInfo);
    put_number(driver, "version", p->properties.driverVersion);
    return driver;
}

static json_object *limits_of(const weft__vulkan_physical *p)
{
    json_object *limits = json_object_new_object();
    put_number(limits, "invocations", p->facts.invocations);
    put_number(limits, "shared_bytes", p->facts.shared);
    put_number(limits, "subgroup", p->subgroup.subgroupSize);
    put_number(limits, "smallest_subgroup", p->facts.smallest);
    put_number(limits, "largest_subgroup", p->facts.largest);
    put_number(limits, "largest_allocation", (int64_t)p->largest_allocation);
    put_number(limits, "timestamp_bits", p->timestamp_bits);
    put(limits, "timestamp_ns",
        json_object_new_double((double)p->properties.limits.timestampPeriod));
    return limits;
}

static json_object *features_of(const weft__vulkan_device *d)
{
    json_object *features = json_object_new_object();
    for (int i = 0; i < WEFT__VULKAN_FEATURE_COUNT; i++) {
        put_text(features, weft__vulkan_feature_name((weft__vulkan_feature)i),
                 d->failed[i]             ? "failed the self-test"
                 : d->physical.used[i]    ? "used"
                 : d->physical.present[i] ? "off"
                                          : "absent");
    }
    return features;
}

/* ---- Matrix cores ---------------------------------------------------------------------------- */

static json_object *shape_of(const weft__vulkan_core_shape *s)
{
    if (s->m == 0) {
        return NULL;
    }
    json_object *shape = json_object_new_array();
    json_object_array_add(shape, json_object_new_int64(s->m));
    json_object_array_add(shape, json_object_new_int64(s->n));
    json_object_array_add(shape, json_object_new_int64(s->k));
    return shape;
}

static json_object *matrices_of(const weft__vulkan_core_facts *f)
{
    json_object *all = json_object_new_array();
    for (int i = 0; i < f->n_matrices; i++) {
        const weft__vulkan_core_matrix *m = &f->matrices[i];
        json_object *one = json_object_new_object();
        put_number(one, "m", m->m);
        put_number(one, "n", m->n);
        put_number(one, "k", m->k);
        put_number(one, "a", m->a);
        put_number(one, "b", m->b);
        put_number(one, "c", m->c);
        put_number(one, "result", m->result);
        put_number(one, "scope", m->scope);
        put_bool(one, "saturating", m->saturating);
        json_object_array_add(all, one);
    }
    return all;
}

static json_object *cores_of(const weft__vulkan_physical *p)
{
    json_object *cores = json_object_new_object();
    put_bool(cores, "used", p->used[WEFT__VULKAN_MATRIX]);
    put_bool(cores, "measured", p->cores.measured);
    put_text(cores, "about", p->cores.about);
    put(cores, "float16", shape_of(&p->cores.float16));
    put(cores, "bfloat16", shape_of(&p->cores.bfloat16));
    put_number(cores, "subgroup", p->cores.subgroup);
    put_number(cores, "processors", p->facts.processors);
    put_bool(cores, "features", p->facts.usable);
    put_bool(cores, "mixed_dot", p->facts.mixed_dot);
    put(cores, "matrices", matrices_of(&p->facts));
    return cores;
}

/* ---- Tiles ----------------------------------------------------------------------------------- */

typedef struct operands {
    weft_device *device;
    weft_array *a, *b; /* (M, K), and (N, K) or (K, N) */
    bool by_column;    /* the terms of neither are adjacent in memory */
} operands;

static weft_array *make(weft_device *device, int64_t rows, int64_t columns, weft_dtype dtype)
{
    weft_array *on_host =
        weft_random_uniform(weft_random_key(7), WEFT_DIMS(rows, columns), -1, 1, WEFT_FLOAT32);
    return weft_to(weft_astype(on_host, dtype), device);
}

static operands make_operands(weft_device *device, const int64_t shape[3], weft_dtype dtype,
                              bool by_column)
{
    const int64_t M = shape[0], N = shape[1], K = shape[2];
    return (operands){.device = device,
                      .a = by_column ? make(device, K, M, dtype) : make(device, M, K, dtype),
                      .b = by_column ? make(device, K, N, dtype) : make(device, N, K, dtype),
                      .by_column = by_column};
}

static weft_array *multiply(const operands *o)
{
    return o->by_column ? weft_matmul(weft_swapaxes(o->a, 0, 1), o->b)
                        : weft_matmul(o->a, weft_swapaxes(o->b, 0, 1));
}

/* The largest error relative to what rounding to the dtype and sums in float32 allow: at most 1. */
static weft_status compare(const operands *o, weft_dtype dtype, double *out)
{
    enum { SIZE = ROWS * COLUMNS };
    weft_device *host = weft_device_get("cpu");
    double *actual = weft_malloc(3 * sizeof *actual * SIZE);
    if (!actual) {
        return weft_fail(WEFT_MEMORY, "vulkan: out of memory");
    }
    double *expected = actual + SIZE, *magnitude = expected + SIZE;
    const operands wide = {.a = weft_astype(weft_to(o->a, host), WEFT_FLOAT64),
                           .b = weft_astype(weft_to(o->b, host), WEFT_FLOAT64),
                           .by_column = o->by_column},
                   positive = {
                       .a = weft_abs(wide.a), .b = weft_abs(wide.b), .by_column = o->by_column};
    const double half = dtype == WEFT_FLOAT16 ? 0x1p-11 : 0x1p-8;
    weft_status status = weft_read(multiply(o), WEFT_FLOAT64, actual, SIZE);
    status = status == WEFT_OK ? weft_read(multiply(&wide), WEFT_FLOAT64, expected, SIZE) : status;
    status =
        status == WEFT_OK ? weft_read(multiply(&positive), WEFT_FLOAT64, magnitude, SIZE) : status;
    *out = 0;
    for (int i = 0; i < SIZE && status == WEFT_OK; i++) {
        const double allowed = half * fabs(expected[i]) + TERMS * 0x1p-23 * magnitude[i];
        const double error = fabs(actual[i] - expected[i]) / allowed;
        *out = error > *out || isnan(error) ? error : *out;
    }
    weft_free(actual);
    return status;
}

/* Seconds that the device takes for n products. */
static weft_status run_products(const operands *o, int n, double *seconds)
{
    weft_array *all[MOST_RUNS];
    weft_totals totals;
    weft_op_report op;
    weft_scope_open();
    for (int i = 0; i < n; i++) {
        all[i] = multiply(o);
    }
    weft_status status = weft_device_profile(o->device, true);
    status = status == WEFT_OK ? weft_eval_n(all, n) : status;
    status = status == WEFT_OK ? weft_synchronize(o->device) : status;
    if (status == WEFT_OK) {
        weft_device_report(o->device, &op, 1, &totals);
        *seconds = 1e-9 * (double)totals.busy;
    }
    weft_scope_close(NULL);
    return status;
}

/* The first run compiles. Runs of growing length, together WARM_UP seconds, raise the clock, which
 * is low after a pause; the last one is measured. */
static weft_status measure(const operands *o, double *seconds)
{
    double took = 0, sum = 0;
    weft_status status = run_products(o, 1, &took);
    int n = 1;
    do {
        status = status == WEFT_OK ? run_products(o, n, &took) : status;
        sum += took;
        *seconds = took / n;
        const double wanted = took > 0 ? LONGEST * n / took : 1;
        n = wanted >= MOST_RUNS ? MOST_RUNS : wanted > 1 ? (int)wanted : 1;
    } while (status == WEFT_OK && sum < WARM_UP);
    return status;
}

/* Checks and measures one tile (NULL: the chosen one). */
static json_object *try_tile(weft_device *device, const core_tile *tile, weft_dtype dtype,
                             bool by_column)
{
    const weft__vulkan_device *d = weft_device_state(device);
    const bool software = d->physical.facts.software;
    const int64_t checked[3] = {ROWS, COLUMNS, TERMS}, large[3] = {SIDE, SIDE, SIDE};
    const int64_t *measured = software ? checked : large;
    double error = 0, seconds = 0;
    json_object *out = json_object_new_object();
    put_text(out, "dtype", weft_dtype_name(dtype));
    put_text(out, "form", by_column ? "TN" : "NT");
    if (tile) {
        char name[64];
        snprintf(name, sizeof name, "%dx%dx%d %dx%dx%d", tile->rows, tile->columns, tile->terms,
                 tile->down, tile->across, tile->split);
        put_text(out, "tile", name);
    }
    weft_scope_open();
    weft__product_force_core_tile(tile);
    operands o = make_operands(device, checked, dtype, by_column);
    weft_status status = compare(&o, dtype, &error);
    if (status == WEFT_OK) {
        o = make_operands(device, measured, dtype, by_column);
        status = measure(&o, &seconds);
    }
    weft__product_force_core_tile(NULL);
    weft_scope_close(NULL);
    if (weft_device_profile(device, false) != WEFT_OK || status != WEFT_OK) {
        put_text(out, "error", weft_error_message());
        return out;
    }
    put(out, "correct", json_object_new_boolean(error <= 1));
    put(out, "error_of_allowed", json_object_new_double(error));
    put(out, "gflops",
        json_object_new_double(2e-9 * (double)measured[0] * (double)measured[1] *
                               (double)measured[2] / seconds));
    return out;
}

/* Products of the device: by the tile that is chosen, and by each tile that it can run. */
static json_object *try_tiles(weft_device *device)
{
    static const weft_dtype dtypes[] = {WEFT_FLOAT16, WEFT_BFLOAT16};
    const weft__vulkan_device *d = weft_device_state(device);
    const weft__vulkan_cores *cores =
        d->physical.used[WEFT__VULKAN_MATRIX] ? &d->physical.cores : NULL;
    json_object *all = json_object_new_array();
    const core_tile *tiles = NULL;
    const int n = cores ? weft__product_core_tiles(cores->kind, &tiles) : 0;
    for (int i = 0; i < 2; i++) {
        json_object_array_add(all, try_tile(device, NULL, dtypes[i], false));
        for (int t = 0; t < n && weft__vulkan_core_shape_of(cores, dtypes[i]); t++) {
            const bool by_column = tiles[t].a_by_row || tiles[t].b_by_column;
            if (weft__product_tile_runs(&tiles[t], dtypes[i], !by_column, !by_column, cores)) {
                json_object_array_add(all, try_tile(device, &tiles[t], dtypes[i], by_column));
            }
        }
    }
    return all;
}

/* ---- The report ------------------------------------------------------------------------------ */

char *weft__vulkan_inspect(weft_device *device)
{
    const weft__vulkan_device *d = weft_device_state(device);
    const weft__vulkan_physical *p = &d->physical;
    weft_device *before = weft_default_device();
    char version[32];
    snprintf(version, sizeof version, "%u.%u.%u", VK_API_VERSION_MAJOR(p->properties.apiVersion),
             VK_API_VERSION_MINOR(p->properties.apiVersion),
             VK_API_VERSION_PATCH(p->properties.apiVersion));
    json_object *root = json_object_new_object();
    put_text(root, "device", p->properties.deviceName);
    put_text(root, "type", type_name(p->properties.deviceType));
    put_number(root, "vendor_id", p->properties.vendorID);
    put_number(root, "device_id", p->properties.deviceID);
    put_text(root, "vulkan", version);
    put(root, "driver", driver_of(p));
    put(root, "limits", limits_of(p));
    put(root, "features", features_of(d));
    put(root, "matrix_cores", cores_of(p));
    weft_set_default_device(weft_device_get("cpu"));
    put(root, "products", try_tiles(device));
    weft_set_default_device(before);
    char *text = weft_strdup(json_object_to_json_string(root));
    json_object_put(root);
    if (!text) {
        weft_fail(WEFT_MEMORY, "vulkan: out of memory");
    }
    return text;
}
