/* tests/nn/test_module.c -- module trees, only with public headers: a program's own modules, paths,
 * walking, tying, loading, saving. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "weft/nn.h"
#include "weft/nn_tools.h"

/* ---- a program's own modules ---------------------------------------------------------------- */

typedef struct mlp {
    weft_module module;
    weft_module *up_proj, *down_proj;
} mlp;

static weft_array *mlp_forward(weft_module *self, weft_array *x)
{
    mlp *m = (mlp *)self;
    return weft_nn_call(m->down_proj, weft_relu(weft_nn_call(m->up_proj, x)));
}

static const weft_module_type mlp_type = {.name = "mlp", .forward = mlp_forward};

static weft_module *mlp_new(int64_t E, int64_t F)
{
    mlp *m = weft_nn_new(mlp, &mlp_type);
    if (m == NULL)
        return NULL;
    weft_nn_child(m, up_proj, weft_nn_linear_new(E, F, true));
    weft_nn_child(m, down_proj, weft_nn_linear_new(F, E, false));
    return weft_nn_finish(m);
}

typedef struct net {
    weft_module module;
    weft_module *layers, *embed, *head;
    weft_array *gain;     /* a parameter of its own */
    weft_array *constant; /* a buffer */
    int *destroyed;
} net;

static void net_destroy(weft_module *self)
{
    net *m = (net *)self;
    if (m->destroyed)
        ++*m->destroyed;
}

static const weft_module_type net_type = {.name = "net", .destroy = net_destroy};

static weft_module *blocks_new(int n)
{
    weft_module *list = weft_nn_list_new(n);
    for (int i = 0; list && i < n; i++)
        weft_nn_list_append(list, mlp_new(4, 8));
    return list ? weft_nn_finish_module(list) : NULL;
}

static weft_module *net_new(int *destroyed)
{
    net *m = weft_nn_new(net, &net_type);
    if (m == NULL)
        return NULL;
    m->destroyed = destroyed;
    weft_nn_param(m, gain, weft_ones(WEFT_DIMS(4), WEFT_FLOAT32));
    weft_nn_buffer(m, constant, weft_full(WEFT_DIMS(4), 0.5, WEFT_FLOAT32));
    weft_nn_child(m, layers, blocks_new(2));
    weft_nn_child(m, embed, weft_nn_embedding_new(10, 4));
    weft_nn_child(m, head, weft_nn_linear_new(4, 10, false));
    if (!m->module.failed && weft_nn_tie(m->head, "weight", m->embed, "weight") != WEFT_OK)
        m->module.failed = true;
    return weft_nn_finish(m);
}

/* ids (L) -> logits (L, 10) */
static weft_array *net_forward(weft_module *self, weft_array *ids)
{
    net *m = (net *)self;
    weft_nn_enter(m);
    weft_array *x = weft_nn_call(m->embed, ids); /* (L, 4) */
    for (int i = 0; i < weft_nn_list_count(m->layers); i++)
        x = weft_add(x, weft_nn_call(weft_nn_list_at(m->layers, i), x));
    x = weft_multiply(weft_add(x, m->constant), m->gain);
    return weft_nn_leave(m, weft_nn_call(m->head, x));
}

static weft_array *ids(void)
{
    static const int32_t values[] = {3, 1, 4};
    return weft_from_data(values, WEFT_INT32, WEFT_DIMS(3));
}

/* ---- cases ---------------------------------------------------------------------------------- */

static weft_status append_path(void *context, const weft_nn_item *item)
{
    char *text = context;
    snprintf(text + strlen(text), 1024 - strlen(text), "%s ", item->path);
    return WEFT_OK;
}

static weft_status stop(void *context, const weft_nn_item *item)
{
    (void)context;
    (void)item;
    return WEFT_CANCELLED;
}

static void paths_are_field_names(void)
{
    char text[1024] = "";
    weft_scope_open();
    weft_module *m = net_new(NULL);
    if (CHECK(m != NULL)) {
        CHECK_OK(weft_nn_visit(m, append_path, text));
        CHECK_STR(text, "gain layers.0.up_proj.weight layers.0.up_proj.bias "
                        "layers.0.down_proj.weight layers.1.up_proj.weight layers.1.up_proj.bias "
                        "layers.1.down_proj.weight embed.weight ");
        CHECK_STATUS(weft_nn_visit(m, stop, NULL), WEFT_CANCELLED);
        CHECK(weft_nn_find(m, "gain") == &((net *)m)->gain);
        CHECK(weft_nn_find(m, "layers.1.up_proj.bias") != NULL);
        CHECK(weft_nn_find(m, "layers.1.down_proj.bias") == NULL);
        CHECK(weft_nn_find(m, "layers.2.up_proj.bias") == NULL);
        CHECK(weft_nn_find(m, "layers.1.up_projection") == NULL);
        CHECK(weft_nn_find(m, "constant") == NULL);
        CHECK(weft_nn_find_module(m, "layers.1.up_proj") != NULL);
        CHECK(weft_nn_find_module(m, "layers.7") == NULL);
        CHECK(weft_nn_find_module(m, "layers1") == NULL);
        CHECK(weft_nn_find_module(m, "layers1.up_proj") == NULL);
        CHECK(weft_nn_find_module(m, "") == m);
    }
    weft_nn_free(m);
    weft_scope_close(NULL);
}

static void trainable_slots_are_sorted_by_path(void)
{
    weft_scope_open();
    weft_module *m = net_new(NULL);
    weft_nn_slots slots;
    if (CHECK(m != NULL)) {
        const int64_t all = 4 + 2 * (32 + 8 + 32) + 40;
        CHECK_EQ_INT(weft_nn_count(m, false), all);
        weft_nn_freeze(m);
        CHECK_EQ_INT(weft_nn_count(m, true), 0);
        CHECK_OK(weft_nn_trainable(m, &slots));
        CHECK_EQ_INT(slots.n, 0);
        weft_nn_slots_free(&slots);
        weft_nn_unfreeze(weft_nn_find_module(m, "layers"));
        CHECK_EQ_INT(weft_nn_count(m, true), all - 44);
        CHECK_OK(weft_nn_parameters(m, &slots));
        CHECK_EQ_INT(slots.n, 8);
        CHECK_STR(slots.paths[0], "embed.weight");
        CHECK_STR(slots.paths[7], "layers.1.up_proj.weight");
        for (int i = 0; i < slots.n; i++)
            CHECK(slots.slots[i] == weft_nn_find(m, slots.paths[i]));
        weft_nn_slots_free(&slots);
    }
    weft_nn_free(m);
    weft_scope_close(NULL);
}

static void a_tied_parameter_is_its_owner(void)
{
    weft_scope_open();
    weft_module *m = net_new(NULL);
    if (CHECK(m != NULL)) {
        net *n = (net *)m;
        weft_array **slot = weft_nn_find(m, "head.weight");
        CHECK(slot == weft_nn_find(m, "embed.weight"));
        CHECK(((weft_nn_linear *)n->head)->weight == NULL);
        CHECK_OK(weft_set(slot, weft_zeros(WEFT_DIMS(10, 4), WEFT_FLOAT32)));
        weft_array *y = net_forward(m, ids());
        CHECK_EQ_INT(weft_dim(y, 1), 10);
        CHECK_CLOSE(weft_item(weft_max(weft_abs(y), WEFT_ALL_AXES, false)), 0, 0);
        CHECK_OK(weft_set(slot, weft_ones(WEFT_DIMS(10, 4), WEFT_FLOAT32)));
        y = net_forward(m, ids());
        CHECK(weft_item(weft_max(weft_abs(y), WEFT_ALL_AXES, false)) > 0);
        CHECK_STATUS(weft_nn_tie(n->head, "weight", n->embed, "weight"), WEFT_INVALID);
        CHECK_STATUS(weft_nn_tie(n->head, "bias", n->embed, "weight"), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), "linear has no parameter 'bias'");
    }
    weft_nn_free(m);
    weft_scope_close(NULL);
}

static void messages_begin_with_the_path(void)
{
    weft_scope_open();
    weft_module *m = net_new(NULL);
    if (CHECK(m != NULL)) {
        weft_array **slot = weft_nn_find(m, "layers.1.down_proj.weight");
        CHECK_OK(weft_set(slot, weft_zeros(WEFT_DIMS(4, 7), WEFT_FLOAT32)));
        weft_array *y = net_forward(m, ids());
        CHECK(!weft_ok(y));
        const char *error = weft_error(y) ? weft_error(y) : "";
        CHECK(strncmp(error, "layers.1.down_proj: ", 20) == 0);
        CHECK_CONTAINS(weft_error(weft_nn_call(m, ids())), "net: has no forward of one array");
        CHECK_CONTAINS(weft_error(weft_nn_call(NULL, ids())), "no module");
        /* After a failure, messages have no module path. */
        CHECK_CONTAINS(weft_error(weft_error_array("plain")), "plain");
        CHECK_STR(weft_error(weft_error_array("plain")), "plain");
    }
    weft_nn_free(m);
    weft_scope_close(NULL);
}

static void a_failed_part_fails_the_whole(void)
{
    weft_scope_open();
    int destroyed = 0;
    net *m = weft_nn_new(net, &net_type);
    if (CHECK(m != NULL)) {
        m->destroyed = &destroyed;
        weft_nn_param(m, gain, weft_error_array("no good"));
        weft_nn_child(m, embed, weft_nn_embedding_new(4, 4));
        weft_nn_child(m, head, weft_nn_dropout_new(1.5));
        CHECK(weft_nn_finish(m) == NULL);
        CHECK_EQ_INT(destroyed, 1);
        CHECK_CONTAINS(weft_error_message(), "dropout: expected a probability in [0, 1), got 1.5");
    }
    weft_module *list = weft_nn_list_new(1);
    if (CHECK(list != NULL)) {
        weft_nn_list_append(list, weft_nn_linear_new(1, 1, false));
        weft_nn_list_append(list, weft_nn_linear_new(1, 1, false));
        CHECK(weft_nn_finish_module(list) == NULL);
    }
    weft_nn_free(NULL);
    weft_scope_close(NULL);
}

static void saved_parameters_are_loaded(void)
{
    const char *path = check_temporary("net.safetensors");
    weft_safetensors *file;
    weft_scope_open();
    weft_module *a = net_new(NULL), *b = net_new(NULL);
    if (CHECK(a && b)) {
        CHECK_OK(weft_nn_save(a, path, NULL));
        weft_array *before = weft_keep(net_forward(a, ids()));
        if (CHECK_OK(weft_safetensors_open(path, &file))) {
            CHECK_EQ_INT(weft_safetensors_count(file), 8);
            CHECK_OK(weft_nn_load(b, file, NULL));
            weft_safetensors_close(file);
        }
        weft_array *after = net_forward(b, ids());
        weft_array *difference =
            weft_max(weft_abs(weft_subtract(before, after)), WEFT_ALL_AXES, false);
        CHECK_CLOSE(weft_item(difference), 0, 0);
        weft_drop(before);
    }
    weft_nn_free(a);
    weft_nn_free(b);
    weft_scope_close(NULL);
}

/* Names with a prefix, as adapters have. */
static bool with_prefix(void *context, const char *name, char *out, size_t size)
{
    snprintf(out, size, "%s%s", (const char *)context, name);
    return true;
}

static bool without_prefix(void *context, const char *name, char *out, size_t size)
{
    const size_t n = strlen(context);
    if (strncmp(name, context, n) != 0)
        return false;
    snprintf(out, size, "%s", name + n);
    return true;
}

static void names_can_be_changed_while_loading_and_saving(void)
{
    char prefix[] = "base.";
    const char *path = check_temporary("renamed.safetensors");
    weft_safetensors *file;
    weft_scope_open();
    weft_module *m = net_new(NULL);
    if (CHECK(m != NULL)) {
        weft_nn_freeze(m);
        weft_nn_unfreeze(weft_nn_find_module(m, "embed"));
        CHECK_OK(weft_nn_save(m, path,
                              &(weft_nn_save_options){.trainable_only = true,
                                                      .rename = with_prefix,
                                                      .context = prefix}));
        if (CHECK_OK(weft_safetensors_open(path, &file))) {
            CHECK_EQ_INT(weft_safetensors_count(file), 1);
            CHECK_STR(weft_safetensors_name(file, 0), "base.embed.weight");
            const weft_nn_load_options o = {.trainable_only = true,
                                            .dtype = WEFT_BFLOAT16,
                                            .rename = without_prefix,
                                            .context = prefix};
            CHECK_OK(weft_nn_load(m, file, &o));
            CHECK_EQ_INT(weft_dtype_of(*weft_nn_find(m, "embed.weight")), WEFT_BFLOAT16);
            CHECK_EQ_INT(weft_dtype_of(*weft_nn_find(m, "gain")), WEFT_FLOAT32);
            weft_safetensors_close(file);
        }
    }
    weft_nn_free(m);
    weft_scope_close(NULL);
}

static void loading_reports_all_that_is_wrong_at_once(void)
{
    const char *path = check_temporary("wrong.safetensors");
    weft_safetensors *file;
    weft_scope_open();
    weft_module *m = net_new(NULL);
    const char *names[] = {"gain", "embed.weight", "extra.one", "extra.two",
                           "layers.0.up_proj.weight"};
    weft_array *arrays[] = {weft_zeros(WEFT_DIMS(5), WEFT_FLOAT32),
                            weft_zeros(WEFT_DIMS(10, 4), WEFT_INT32), weft_scalar(1, WEFT_FLOAT32),
                            weft_scalar(1, WEFT_FLOAT32),
                            weft_zeros(WEFT_DIMS(8, 4), WEFT_FLOAT32)};
    CHECK_OK(weft_safetensors_save(path, names, arrays, 5, NULL, 0));
    if (CHECK(m != NULL) && CHECK_OK(weft_safetensors_open(path, &file))) {
        weft_array *before = *weft_nn_find(m, "layers.0.up_proj.weight");
        CHECK_STATUS(weft_nn_load(m, file, NULL), WEFT_INVALID);
        const char *message = weft_error_message();
        CHECK_CONTAINS(message, "wrong.safetensors: the tensors are not the module's");
        CHECK_CONTAINS(message, "5 missing: layers.0.up_proj.bias, layers.0.down_proj.weight");
        CHECK_CONTAINS(message, "2 unexpected: extra.one, extra.two");
        CHECK_CONTAINS(message, "2 of another shape or dtype: gain: expected (4,) float32, found "
                                "(5,) float32, embed.weight: expected (10, 4) float32, found (10, "
                                "4) int32");
        CHECK(*weft_nn_find(m, "layers.0.up_proj.weight") == before);
        const weft_nn_load_options lenient = {.allow_missing = true, .allow_unexpected = true};
        CHECK_STATUS(weft_nn_load(m, file, &lenient), WEFT_INVALID);
        CHECK(strstr(weft_error_message(), "missing") == NULL);
        CHECK(strstr(weft_error_message(), "unexpected") == NULL);
        weft_safetensors_close(file);
    }
    weft_nn_free(m);
    weft_scope_close(NULL);
}

static void casting_and_describing(void)
{
    weft_scope_open();
    weft_module *m = net_new(NULL);
    if (CHECK(m != NULL)) {
        weft_nn_freeze(weft_nn_find_module(m, "embed"));
        CHECK_OK(weft_nn_cast(m, WEFT_BFLOAT16));
        CHECK_EQ_INT(weft_dtype_of(*weft_nn_find(m, "layers.1.up_proj.bias")), WEFT_BFLOAT16);
        CHECK_STATUS(weft_nn_cast(m, WEFT_INT8), WEFT_INVALID);
        char *text = weft_nn_describe(m);
        CHECK_CONTAINS(text, "net, gain (4,) bfloat16, 188 parameters, 148 trainable\n");
        CHECK_CONTAINS(
            text,
            "\n  layers: list of 2, 144 parameters\n    0: mlp, 72 parameters\n      up_proj: "
            "linear, weight (8, 4) bfloat16, bias (8,) bfloat16\n");
        CHECK_CONTAINS(text, "\n  embed: embedding, weight (10, 4) bfloat16 frozen\n");
        CHECK_CONTAINS(text, "\n  head: linear, weight tied\n");
        weft_free(text);
    }
    weft_nn_free(m);
    weft_scope_close(NULL);
}

/* A checkpoint of another model: the message has the first names and counts the others. */
static void long_lists_of_names_are_cut(void)
{
    enum { TENSORS = 20000 };
    static char text[TENSORS][40];
    static const char *names[TENSORS];
    static weft_array *arrays[TENSORS];
    const char *path = check_temporary("many.safetensors");
    weft_scope_open();
    weft_array *one = weft_ones(WEFT_DIMS(1), WEFT_FLOAT32);
    for (int i = 0; i < TENSORS; i++) {
        snprintf(text[i], sizeof text[i], "layers.%d.weight", i);
        names[i] = text[i];
        arrays[i] = one;
    }
    weft_module *m = mlp_new(4, 8);
    CHECK_OK(weft_safetensors_save(path, names, arrays, TENSORS, NULL, 0));
    weft_safetensors *file = NULL;
    if (CHECK_OK(weft_safetensors_open(path, &file)))
        CHECK_STATUS(weft_nn_load(m, file, NULL), WEFT_INVALID);
    weft_safetensors_close(file);
    CHECK_CONTAINS(weft_error_message(), "3 missing: up_proj.");
    CHECK_CONTAINS(weft_error_message(), "20000 unexpected: layers.0.weight, ");
    CHECK_CONTAINS(weft_error_message(), " more");
    CHECK(strlen(weft_error_message()) < 1500);
    weft_nn_free(m);
    weft_scope_close(NULL);
}

/* ---- memory --------------------------------------------------------------------------------- */

/* The most resident memory since `reset`, in bytes; 0: unknown. */
static int64_t peak_resident(bool reset)
{
    long long kib = 0;
    char line[256];
    if (reset) {
        FILE *f = fopen("/proc/self/clear_refs", "w");
        if (f == NULL || fputs("5", f) < 0 || fclose(f) != 0)
            return 0;
    }
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "VmHWM: %lld", &kib) == 1)
            break;
    }
    if (f)
        fclose(f);
    return 1024 * kib;
}

static weft_module *linears_new(int n, int64_t E)
{
    weft_module *list = weft_nn_list_new(n);
    for (int i = 0; list && i < n; i++)
        weft_nn_list_append(list, weft_nn_linear_new(E, E, false));
    return list ? weft_nn_finish_module(list) : NULL;
}

/* The peak of resident memory while the file is loaded, beyond that before, in bytes. */
static int64_t load_linears(const char *path, int n, int64_t E, const weft_nn_load_options *o)
{
    weft_safetensors *file = NULL;
    weft_module *m = linears_new(n, E);
    int64_t growth = -1;
    if (CHECK(m != NULL) && CHECK_OK(weft_safetensors_open(path, &file))) {
        const int64_t before = peak_resident(true);
        CHECK_OK(weft_nn_load(m, file, o));
        growth = before > 0 ? peak_resident(false) - before : -1;
    }
    weft_safetensors_close(file);
    weft_nn_free(m);
    return growth;
}

static void pages_of_converted_tensors_are_returned(void)
{
    enum { N = 12, E = 1024 };
    const int64_t one = (int64_t)E * E * 4; /* 4 MB of a file of 50 */
    const char *path = check_temporary("linears.safetensors");
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    check_skip("sanitizers use memory of their own");
    return;
#endif
    weft_device *before = weft_default_device();
    weft_set_default_device(weft_device_get("cpu"));
    weft_scope_open();
    weft_module *m = linears_new(N, E);
    const weft_nn_quantize_options four = {.format = {.bits = 4, .group_size = 64}};
    if (CHECK(m != NULL) && CHECK_OK(weft_nn_save(m, path, NULL))) {
        const int64_t quantized =
            load_linears(path, N, E, &(weft_nn_load_options){.quantize = &four});
        const int64_t narrow =
            load_linears(path, N, E, &(weft_nn_load_options){.dtype = WEFT_BFLOAT16});
        if (quantized < 0 || narrow < 0) {
            check_skip("the peak of resident memory cannot be read");
        } else {
            printf("  %.1f and %.1f MB\n", 1e-6 * (double)quantized, 1e-6 * (double)narrow);
            CHECK(quantized < N * one / 7 + 3 * one);
            CHECK(narrow < N * one / 2 + 3 * one);
        }
    }
    weft_nn_free(m);
    weft_scope_close(NULL);
    weft_set_default_device(before);
}

static int warnings;

static void count_warnings(void *context, weft_log_level level, const char *message)
{
    (void)context;
    warnings += level == WEFT_LOG_WARNING;
    printf("  %s\n", message);
}

/* Each conversion is an evaluation, and their results do not pile up in a scope: thousands give no
 * warning, and leave nothing in the scope of the caller. */
static void large_models_load_without_warnings(void)
{
    enum { LAYERS = 1500 };
    const char *path = check_temporary("many.safetensors");
    weft_safetensors *file;
    weft_scope_open();
    weft_module *list = weft_nn_list_new(LAYERS);
    for (int i = 0; list && i < LAYERS; i++)
        weft_nn_list_append(list, weft_nn_linear_new(2, 3, true));
    list = weft_nn_finish_module(list);
    if (CHECK(list != NULL)) {
        CHECK_OK(weft_nn_save(list, path, NULL));
        if (CHECK_OK(weft_safetensors_open(path, &file))) {
            const int64_t before = weft_scope_count();
            weft_set_log(count_warnings, NULL);
            CHECK_OK(weft_nn_load(list, file, &(weft_nn_load_options){.dtype = WEFT_BFLOAT16}));
            weft_set_log(NULL, NULL);
            CHECK_EQ_INT(weft_scope_count(), before);
            weft_safetensors_close(file);
        }
        CHECK_EQ_INT(warnings, 0);
    }
    weft_nn_free(list);
    weft_scope_close(NULL);
}

CHECK_MAIN("module", CHECK_CASE(paths_are_field_names),
           CHECK_CASE(trainable_slots_are_sorted_by_path),
           CHECK_CASE(a_tied_parameter_is_its_owner), CHECK_CASE(messages_begin_with_the_path),
           CHECK_CASE(a_failed_part_fails_the_whole), CHECK_CASE(saved_parameters_are_loaded),
           CHECK_CASE(names_can_be_changed_while_loading_and_saving),
           CHECK_CASE(loading_reports_all_that_is_wrong_at_once),
           CHECK_CASE(long_lists_of_names_are_cut), CHECK_CASE(casting_and_describing),
           CHECK_CASE(pages_of_converted_tensors_are_returned),
           CHECK_CASE(large_models_load_without_warnings))
