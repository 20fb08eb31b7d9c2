/* cli/info_report.c -- weft info --devices --report: self-test, properties, products, a short
 * training run and decoding of every device, as one JSON file (docs/device-report.md). */
#include "cli/info_report.h"

#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include <json-c/json_object.h>
#include <json-c/linkhash.h>

#include "cli/common.h"
#include "core/io/json_parse.h"
#include "weft/backend.h"
#include "weft/bench.h"
#include "weft/device.h"

enum { STEPS = 4, ROWS = 2, LENGTH = 32, TOKENS = 32 };

typedef struct report {
    const char *path;
    json_object *root, *devices;
    char model[4096]; /* the path of the model that is trained and generates; "": not found */
    char *why;        /* then why */
} report;

static void put(json_object *object, const char *key, json_object *value)
{
    json_object_object_add(object, key, value);
}

static void put_text(json_object *object, const char *key, const char *text)
{
    put(object, key, json_object_new_string(text));
}

/* A number; null if it is not finite. */
static void put_real(json_object *object, const char *key, double value)
{
    put(object, key, isfinite(value) ? json_object_new_double(value) : NULL);
}

static void put_int(json_object *object, const char *key, int64_t value)
{
    put(object, key, json_object_new_int64(value));
}

static weft_status save(const report *r)
{
    const char *text =
        json_object_to_json_string_ext(r->root, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED |
                                                    JSON_C_TO_STRING_NOSLASHESCAPE);
    return text != NULL ? weft_file_write(r->path, text, strlen(text))
                        : weft_fail(WEFT_MEMORY, "info: out of memory");
}

/* ---- The machine ----------------------------------------------------------------------------- */

/* The value of a line "key : value" in a file of /proc, or "". */
static void read_line(const char *path, const char *key, char *out, size_t size)
{
    char line[512];
    FILE *file = fopen(path, "r");
    out[0] = '\0';
    while (file != NULL && out[0] == '\0' && fgets(line, sizeof line, file) != NULL) {
        const char *value = strchr(line, ':');
        if (strncmp(line, key, strlen(key)) == 0 && value != NULL) {
            value += 1 + strspn(value + 1, " \t");
            snprintf(out, size, "%.*s", (int)strcspn(value, "\n"), value);
        }
    }
    if (file != NULL)
        fclose(file);
}

static json_object *machine(void)
{
    struct utsname system;
    char processor[256], memory[64];
    json_object *m = json_object_new_object();
    read_line("/proc/cpuinfo", "model name", processor, sizeof processor);
    read_line("/proc/meminfo", "MemTotal", memory, sizeof memory);
    if (uname(&system) == 0) {
        put_text(m, "system", system.sysname);
        put_text(m, "release", system.release);
        put_text(m, "architecture", system.machine);
    }
    put_text(m, "processor", processor);
    put_int(m, "threads", weft_threads());
    put_int(m, "memory_bytes", 1024 * strtoll(memory, NULL, 10));
    return m;
}

/* ---- Parts ----------------------------------------------------------------------------------- */

typedef struct part {
    weft_device *device;
    const char *model, *why; /* of the report */
    weft_dtype dtype;
    json_object *out; /* what is measured */
} part;

static weft_status ceilings(part *p)
{
    weft_ceiling all[WEFT_CEILING_COUNT];
    const weft_status status = weft_bench_ceilings(p->device, weft_threads(), 3, all);
    for (int i = 0; i < WEFT_CEILING_COUNT && status == WEFT_OK; i++) {
        if (all[i].measured) {
            json_object *one = json_object_new_object();
            put_real(one, "rate", all[i].all);
            put_text(one, "unit", all[i].unit);
            put(p->out, all[i].name, one);
        }
    }
    return status;
}

/* What the backend says of the device. */
static weft_status details(part *p)
{
    json_object *parsed = NULL;
    char *text = weft_device_inspect(p->device);
    if (text == NULL) /* the CPU has none */
        return weft_error_status() == WEFT_UNSUPPORTED ? WEFT_OK : weft_error_status();
    const weft_status status =
        weft__json_parse_value(text, strlen(text), weft_device_name(p->device), &parsed);
    weft_free(text);
    if (status == WEFT_OK) {
        json_object_object_foreach(parsed, key, value)
        {
            put(p->out, key, json_object_get(value));
        }
    }
    json_object_put(parsed);
    return status;
}

static weft_status find_model(const part *p)
{
    return p->model[0] != '\0' ? WEFT_OK : weft_fail(WEFT_IO, "%s", p->why);
}

static weft_status train(part *p)
{
    const weft_model_options options = {.device = p->device, .dtype = p->dtype};
    weft_bench_train_options o = {.steps = 1, .warm_up = -1, .rows = ROWS, .length = LENGTH};
    weft_bench_train_report first, r;
    weft_model *model = NULL;
    put_text(p->out, "dtype", weft_dtype_name(p->dtype));
    weft_status status = find_model(p);
    if (status == WEFT_OK)
        status = weft_model_load(p->model, &options, &model);
    if (status == WEFT_OK)
        status = weft_bench_train(model, &o, &first);
    o.steps = STEPS - 1;
    if (status == WEFT_OK)
        status = weft_bench_train(model, &o, &r);
    weft_model_free(model);
    if (status != WEFT_OK)
        return status;
    put_int(p->out, "steps", first.steps + r.steps);
    put_int(p->out, "tokens", r.tokens);
    put_real(p->out, "first_loss", first.loss);
    put_real(p->out, "loss", r.loss);
    put_real(p->out, "tokens_per_sec", r.per_second);
    put_real(p->out, "cold_seconds", first.seconds);
    put_int(p->out, "peak_memory_bytes", r.peak_memory);
    return WEFT_OK;
}

static weft_status decode(part *p)
{
    const weft_engine_options options = {
        .backend = "native", .device = weft_device_name(p->device), .dtype = p->dtype};
    const weft_bench_options o = {.prompt = "Once upon a time",
                                  .max_tokens = TOKENS,
                                  .warm_up = 1,
                                  .no_probes = true,
                                  .no_cache = true,
                                  .no_restore = true,
                                  .no_bundle = true};
    weft_bench_report r;
    weft_engine *engine = NULL;
    put_text(p->out, "dtype", weft_dtype_name(p->dtype));
    weft_status status = find_model(p);
    if (status == WEFT_OK)
        status = weft_engine_load(p->model, &options, &engine);
    if (status == WEFT_OK)
        status = weft_bench(engine, &o, &r);
    if (status == WEFT_OK) {
        put_text(p->out, "text", r.samples[0].text);
        put_real(p->out, "prefill_tokens_per_sec", r.prefill_per_second);
        put_real(p->out, "decode_tokens_per_sec", r.decode_per_second);
        put_real(p->out, "memory_bytes_per_sec", r.machine_per_second);
        weft_bench_report_free(&r);
    }
    weft_engine_free(engine);
    return status;
}

/* ---- A device -------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    weft_dtype dtype; /* float32 where it does not matter */
    weft_status (*run)(part *p);
} parts[] = {
    {"details", WEFT_FLOAT32, details},         {"ceilings", WEFT_FLOAT32, ceilings},
    {"training_float32", WEFT_FLOAT32, train},  {"training_bfloat16", WEFT_BFLOAT16, train},
    {"decoding_float32", WEFT_FLOAT32, decode}, {"decoding_bfloat16", WEFT_BFLOAT16, decode},
};

static void describe(json_object *out, const char *name, const weft_device *device)
{
    weft_device_traits traits = {0};
    const char *about = device != NULL ? weft_device_description(device) : weft_error_message();
    put(out, "usable", json_object_new_boolean(device != NULL));
    put_text(out, device != NULL ? "description" : "reason", about);
    if (weft_device_traits_of(name, &traits) == WEFT_OK) {
        put(out, "discrete", json_object_new_boolean(traits.discrete));
        put(out, "fast_bfloat16", json_object_new_boolean(traits.fast_bfloat16));
        put_int(out, "free_memory_bytes", traits.free_memory);
    }
    if (device != NULL) {
        put_int(out, "memory_bytes", weft_device_memory(device));
        put_text(out, "matrix_dtype", weft_dtype_name(weft_device_matrix_dtype(device)));
        put(out, "flushes_subnormals",
            json_object_new_boolean(weft_device_flushes_subnormals(device)));
    }
}

/* Runs a part; a failure becomes its "error". */
static void run_part(const report *r, json_object *out, weft_device *device, size_t i)
{
    part p = {.device = device,
              .model = r->model,
              .why = r->why != NULL ? r->why : "out of memory",
              .dtype = parts[i].dtype,
              .out = json_object_new_object()};
    const double start = cli_seconds();
    put(out, parts[i].name, p.out);
    weft_set_default_device(device);
    weft_scope_open();
    if (parts[i].run(&p) != WEFT_OK)
        put_text(p.out, "error", weft_error_message());
    weft_scope_close(NULL);
    weft_set_default_device(weft_device_get("cpu"));
    put_real(p.out, "seconds", cli_seconds() - start);
}

static weft_status report_device(report *r, const char *name)
{
    json_object *out = json_object_new_object();
    put_text(out, "name", name);
    json_object_array_add(r->devices, out);
    put_text(r->root, "running", name);
    weft_status status = save(r);
    if (status != WEFT_OK)
        return status;
    weft_device *device = weft_device_get(name);
    describe(out, name, device);
    for (size_t i = 0; device != NULL && i < sizeof parts / sizeof *parts; i++) {
        char running[128];
        snprintf(running, sizeof running, "%s: %s", name, parts[i].name);
        fprintf(stderr, "weft: %s\n", running);
        put_text(r->root, "running", running);
        status = save(r);
        if (status != WEFT_OK)
            return status;
        run_part(r, out, device, i);
    }
    return WEFT_OK;
}

/* ---- The report ------------------------------------------------------------------------------ */

weft_status cli_report_devices(const char *path)
{
    char name[64], now[32] = "";
    const time_t seconds = time(NULL);
    struct tm utc;
    report r = {.path = path, .root = json_object_new_object(), .devices = json_object_new_array()};
    weft_status status = cli_check_file(path, "{\"weft_device_report\":", false);
    if (status != WEFT_OK)
        status =
            weft_fail(WEFT_INVALID, "%s: --report replaces only such reports: choose another file",
                      weft_printable(path));
    /* Stored results of the self-test are not enough for a report. */
    setenv("WEFT_VULKAN_SELF_TEST", "force", 0);
    if (gmtime_r(&seconds, &utc) != NULL)
        strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%SZ", &utc);
    put_int(r.root, "weft_device_report", 1);
    put_text(r.root, "version", weft_version());
    put_text(r.root, "time", now);
    put(r.root, "complete", json_object_new_boolean(false));
    put(r.root, "running", NULL);
    put(r.root, "machine", machine());
    put(r.root, "devices", r.devices);
    if (cli_model_path(NULL, r.model, sizeof r.model) != WEFT_OK) {
        r.model[0] = '\0';
        r.why = weft_strdup(weft_error_message());
    }
    for (int i = 0; status == WEFT_OK && weft_device_at(i, name, sizeof name); i++)
        status = report_device(&r, name);
    if (status == WEFT_OK) {
        put(r.root, "complete", json_object_new_boolean(true));
        put(r.root, "running", NULL);
        status = save(&r);
    }
    json_object_put(r.root);
    weft_free(r.why);
    return status;
}
