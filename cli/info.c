/* cli/info.c -- weft info: describes a model, or this build of Weft and the machine. */
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "cli/commands.h"
#include "cli/common.h"
#include "cli/info_report.h"
#include "cli/shared.h"

typedef struct info_values {
    const char *model, *adapter, *report;
    cli_place place;
    bool tree, tensors, devices, json;
} info_values;

#define AT(field) .offset = offsetof(info_values, field)

static const cli_argument arguments[] = {{"MODEL", offsetof(info_values, model), true}};

static const cli_option options[] = {
    CLI_ADAPTER_OPTION(info_values),
    {.name = "tree", .kind = CLI_FLAG, AT(tree), .help = "print the tree of modules"},
    {.name = "tensors",
     .kind = CLI_FLAG,
     AT(tensors),
     .help = "print every tensor with dtype and shape"},
    {.name = "devices",
     .kind = CLI_FLAG,
     AT(devices),
     .help = "list what --device can name, and why it cannot be used where that is so"},
    CLI_TEXT_OPTION(
        "report", "FILE", AT(report),
        .help =
            "with --devices: also test and measure each device, and write a JSON report to attach "
            "to an issue; takes minutes"),
    CLI_JSON_OPTION(info_values, "print one JSON object"),
    CLI_DEVICE_OPTION(info_values),
    CLI_THREADS_OPTION(info_values),
};

/* ---- Without a model ------------------------------------------------------------------------ */

static int print_machine(const info_values *v)
{
    weft_status status = cli_set_place(&v->place);
    if (status != WEFT_OK)
        return cli_status(status);
    const weft_device *device = weft_default_device();
    if (v->json) {
        printf("{\"version\": \"%s\", \"device\": \"%s\", \"hardware\": ", weft_version(),
               weft_device_name(device));
        const char *hardware = weft_device_description(device);
        cli_json_text(stdout, hardware, strlen(hardware));
        printf(", \"threads\": %d, \"ops\": %d, \"families\": [", weft_threads(), weft_op_count());
        for (int i = 0; i < weft_model_family_count(); i++)
            printf("%s\"%s\"", i > 0 ? ", " : "", weft_model_family_at(i)->model_type);
        puts("]}");
        return CLI_OK;
    }
    printf("weft      %s\n", weft_version());
    printf("device    %s: %s\n", weft_device_name(device), weft_device_description(device));
    printf("threads   %d\n", weft_threads());
    printf("ops       %d\n", weft_op_count());
    printf("families ");
    for (int i = 0; i < weft_model_family_count(); i++)
        printf(" %s", weft_model_family_at(i)->model_type);
    putchar('\n');
    return CLI_OK;
}

/* Prints a device as a line or as a JSON object. */
static void print_device(const char *name, bool json)
{
    const weft_device *device = weft_device_get(name);
    const char *about = device != NULL ? weft_device_description(device) : weft_error_message();
    if (!json) {
        if (device != NULL)
            printf("%-9s %s\n", name, about);
        else
            printf("%-9s cannot be used: %s\n", name, cli_device_complaint(name));
        return;
    }
    fputs("{\"name\": ", stdout);
    cli_json_text(stdout, name, strlen(name));
    printf(", \"usable\": %s, \"%s\": ", device != NULL ? "true" : "false",
           device != NULL ? "description" : "reason");
    cli_json_text(stdout, about, strlen(about));
    putchar('}');
}

static int print_devices(const info_values *v)
{
    char name[64];
    fputs(v->json ? "{\"devices\": [" : "", stdout);
    for (int i = 0; weft_device_at(i, name, sizeof name); i++) {
        fputs(v->json && i > 0 ? ", " : "", stdout);
        print_device(name, v->json);
    }
    fputs(v->json ? "]}\n" : "", stdout);
    return CLI_OK;
}

/* ---- A model -------------------------------------------------------------------------------- */

typedef struct census {
    int tensors;
    int64_t elements[WEFT_DTYPE_COUNT], bytes;
    bool print; /* whether to print each tensor */
} census;

static weft_status count_one(void *context, const weft_nn_item *item)
{
    census *c = context;
    const weft_array *a = *item->slot->address;
    weft_dtype dtype = weft_dtype_of(a);
    c->tensors++;
    c->elements[dtype] += weft_size(a);
    c->bytes += weft_nbytes(a);
    if (c->print) {
        printf("  %-9s (", weft_dtype_name(dtype));
        for (int i = 0; i < weft_ndim(a); i++)
            printf("%s%lld", i > 0 ? ", " : "", (long long)weft_dim(a, i));
        printf(")  %s\n", weft_printable(item->path));
    }
    return WEFT_OK;
}

/* Describes the model, including whether it has a chat template that can be rendered; *template
 * says so, or why not, until the next failure. */
static weft_engine_info describe(weft_model *model, const char *path, const char **template)
{
    weft_engine_info what = {0};
    weft_chat *chat = NULL;
    weft_engine_describe(model, &what);
    const weft_status loaded = weft_chat_load(path, &chat);
    what.chat_template = loaded == WEFT_OK && weft_chat_check(chat, NULL) == WEFT_OK;
    *template = what.chat_template           ? "has a template"
                : loaded == WEFT_UNSUPPORTED ? "no template"
                                             : weft_error_message();
    weft_chat_free(chat);
    return what;
}

static void print_json(weft_model *model, const char *path, const census *c, int64_t trainable)
{
    const char *template;
    const weft_engine_info what = describe(model, path, &template);
    const char *skipped = weft_model_skipped(model);
    const weft_model_info *info = weft_model_info_of(model);
    printf("{\"family\": \"%s\", \"layers\": %lld, \"hidden_size\": %lld, \"vocab_size\": %lld, "
           "\"max_positions\": %lld, \"tied\": %s, \"tensors\": %d, \"bytes\": %lld, "
           "\"parameters\": {",
           weft_model_family_of(model)->model_type, (long long)info->n_layers,
           (long long)info->hidden_size, (long long)info->vocab_size,
           (long long)info->max_positions, info->tied ? "true" : "false", c->tensors,
           (long long)c->bytes);
    const char *comma = "";
    for (int d = 0; d < WEFT_DTYPE_COUNT; d++) {
        if (c->elements[d] == 0)
            continue;
        printf("%s\"%s\": %lld", comma, weft_dtype_name((weft_dtype)d), (long long)c->elements[d]);
        comma = ", ";
    }
    printf("}, \"quant_bits\": %lld, \"quant_group\": %lld, \"context_length\": %lld, "
           "\"chat_template\": %s, \"skipped\": ",
           (long long)what.quant_bits, (long long)what.quant_group, (long long)what.context_length,
           what.chat_template ? "true" : "false");
    if (skipped != NULL)
        cli_json_text(stdout, skipped, strlen(skipped));
    else
        fputs("null", stdout);
    printf(", \"adapter_parameters\": %lld}\n", (long long)trainable);
}

static void print_text(weft_model *model, const char *path, const census *c, int64_t trainable)
{
    const weft_model_info *info = weft_model_info_of(model);
    const char *template;
    const weft_engine_info what = describe(model, path, &template);
    printf("model       %s\n", weft_printable(path));
    printf("family      %s\n", weft_model_family_of(model)->model_type);
    printf("layers      %s, hidden size %s, %s positions\n", cli_count(info->n_layers),
           cli_count(info->hidden_size), cli_count(info->max_positions));
    if (info->ignored_partial != 0)
        printf("rope        partial_rotary_factor %g is ignored, as transformers does for %s\n",
               info->ignored_partial, weft_model_family_of(model)->model_type);
    printf("vocabulary  %s, %s\n", cli_count(info->vocab_size),
           info->encoder ? "no output head: an encoder"
           : info->tied  ? "output head tied to the embedding"
                         : "output head of its own");
    printf("parameters ");
    for (int d = 0; d < WEFT_DTYPE_COUNT; d++) {
        if (c->elements[d] > 0)
            printf(" %s %s", cli_count(c->elements[d]), weft_dtype_name((weft_dtype)d));
    }
    printf(" in %d tensors\n", c->tensors);
    printf("memory      %s as stored; in float32 %s\n", cli_bytes(c->bytes),
           cli_bytes(4 * weft_nn_count(weft_model_module(model), false)));
    if (what.quant_bits > 0)
        printf("quantized   %s bits, groups of %s\n", cli_count(what.quant_bits),
               cli_count(what.quant_group));
    printf("chat        %s\n", weft_printable(template));
    if (weft_model_skipped(model) != NULL)
        printf("left out    %s\n", weft_printable(weft_model_skipped(model)));
    if (trainable > 0)
        printf("adapter     %s parameters in %d linears\n", cli_count(trainable),
               weft_nn_lora_count(weft_model_module(model)));
}

static weft_status print_model(const info_values *v, const char *path, weft_model *model)
{
    weft_module *module = weft_model_module(model);
    census c = {.print = v->tensors && !v->json};
    int64_t trainable = v->adapter != NULL ? weft_nn_count(module, true) : 0;
    weft_status status = weft_nn_visit(module, count_one, &c);
    if (status != WEFT_OK)
        return status;
    if (v->json)
        print_json(model, path, &c, trainable);
    else
        print_text(model, path, &c, trainable);
    if (v->tree && !v->json) {
        char *tree = weft_nn_describe(module);
        if (tree == NULL)
            return weft_fail(WEFT_MEMORY, "info: no memory");
        printf("\n%s\n", tree);
        weft_free(tree);
    }
    return WEFT_OK;
}

/* Describes a checkpoint of a family that Weft does not have, beside the nearest one. */
static void print_nearest(const info_values *v, const char *path, const char *type,
                          const weft_model_likeness *nearest)
{
    const char *family = nearest->family ? nearest->family->model_type : NULL,
               *line = nearest->differences ? nearest->differences : "";
    if (v->json) {
        printf("{\"family\": null, \"nearest\": %s%s%s, \"same\": %d, \"different\": %d, "
               "\"differences\": [",
               family ? "\"" : "", family ? family : "null", family ? "\"" : "", nearest->n_same,
               nearest->n_differences);
    } else {
        printf("model       %s\n", weft_printable(path));
        printf("family      %s is unknown\n", weft_printable(type));
        if (family)
            printf("nearest     %s: %d tensors fit, %d do not\n", family, nearest->n_same,
                   nearest->n_differences);
        else
            puts("nearest     none: no family accepts its config.json");
    }
    for (const char *comma = ""; *line != '\0'; comma = ", ") {
        const size_t n = strcspn(line, "\n");
        if (v->json) {
            fputs(comma, stdout);
            cli_json_text(stdout, line, n);
        } else {
            printf("differs     %.*s\n", (int)n, line);
        }
        line += n + (line[n] == '\n');
    }
    if (v->json)
        puts("]}");
}

static bool is_class_known(const char *name)
{
    bool known = false;
    for (int i = 0; i < weft_model_family_count() && !known; i++) {
        const char *class = weft_model_family_at(i)->architecture;
        known = class && strcmp(class, name) == 0;
    }
    return known;
}

/* The model_type of a config.json or, without one, its class, in `root`; NULL if a family has it.
 */
static const char *unknown_type(const weft_config *config, json_object *root)
{
    const char *type = weft_config_string(config, "model_type", NULL);
    json_object *classes = NULL;
    if (type || weft_config_has(config, "model_type"))
        return type && weft_model_family_find(type) == NULL ? type : NULL;
    json_object_object_get_ex(root, "architectures", &classes);
    json_object *first = json_object_is_type(classes, json_type_array)
                             ? json_object_array_get_idx(classes, 0)
                             : NULL;
    type = json_object_is_type(first, json_type_string) ? json_object_get_string(first) : NULL;
    return type && !is_class_known(type) ? type : NULL;
}

/* After a model could not be loaded: if its family is unknown, describes the nearest one. Keeps the
 * failure's message. */
static weft_status show_nearest(const info_values *v, const char *path)
{
    weft_model_likeness nearest;
    weft_config *config = NULL;
    char *message = weft_strdup(weft_error_message()), *name = weft_format("%s/config.json", path);
    const char *type = NULL;
    json_object *root = NULL;
    if (name && weft_config_load(name, &config) == WEFT_OK) {
        root = json_tokener_parse(weft_config_text(config));
        type = unknown_type(config, root);
    }
    if (type && weft_model_likeness_find(path, &nearest) == WEFT_OK) {
        print_nearest(v, path, type, &nearest);
        if (!v->json && nearest.family && nearest.n_differences == 0 &&
            !weft_config_has(config, "quantization_config"))
            printf("            \"model_type\": \"%s\" in config.json loads it; the results are "
                   "right if its formulas are the same\n",
                   nearest.family->model_type);
        weft_model_likeness_free(&nearest);
    }
    json_object_put(root);
    weft_config_free(config);
    weft_free(name);
    const weft_status status = message ? weft_fail(WEFT_UNSUPPORTED, "%s", message)
                                       : weft_fail(WEFT_MEMORY, "info: no memory");
    weft_free(message);
    return status;
}

static int run(void *context)
{
    info_values *v = context;
    v->place.gpu_layers = CLI_ABSENT;
    if (v->place.device == NULL)
        v->place.device = "cpu";
    if (v->devices && v->model != NULL)
        return cli_usage("info", "--devices is about this machine: no MODEL");
    if (v->report != NULL && !v->devices)
        return cli_usage("info", "--report needs --devices");
    if (v->report != NULL) {
        const weft_status written = cli_report_devices(v->report);
        if (written != WEFT_OK)
            return cli_status(written);
    }
    if (v->devices)
        return print_devices(v);
    if (v->model == NULL)
        return print_machine(v);
    v->place.dtype = CLI_DTYPE_AUTO;
    char path[4096];
    weft_model *model = NULL;
    weft_status status = cli_model_path(v->model, path, sizeof path);
    if (status == WEFT_OK)
        status = cli_load_model(path, &v->place, v->adapter, &model);
    if (status == WEFT_UNSUPPORTED)
        status = show_nearest(v, path);
    if (status == WEFT_OK)
        status = print_model(v, path, model);
    weft_model_free(model);
    return cli_status(status);
}

const cli_command cli_info = {
    .name = "info",
    .summary = "describe a model, or this machine",
    .description = "Describes a model. Without MODEL it describes this build of Weft and the "
                   "device that it uses, and with --devices all devices.",
    .example = "weft info\n"
               "weft info --devices\n"
               "weft info --devices --report report.json\n"
               "weft info storyteller --tree",
    CLI_TABLE(info_values, arguments, options),
    .run = run,
};
