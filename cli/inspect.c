/* cli/inspect.c -- weft inspect: shows the attention's shapes, and saves the keys and queries of a
 * text by layer. */
#include <string.h>

#include "cli/commands.h"
#include "cli/common.h"
#include "cli/profile.h"
#include "cli/shared.h"

typedef struct inspect_values {
    const char *model, *prompt, *file, *adapter, *backend, *out;
    cli_place place;
    bool no_special, force, json;
} inspect_values;

static const cli_argument arguments[] = {
    {"MODEL", offsetof(inspect_values, model), false},
};

static const cli_option options[] = {
    CLI_PROMPT_OPTION(inspect_values, NULL, "the text; - reads standard input"),
    CLI_FILE_OPTION(inspect_values, "read the text from a file"),
    CLI_OUT_OPTION(inspect_values, "the safetensors file to write"),
    CLI_FORCE_OPTION(inspect_values, "replace the file of --out"),
    CLI_NO_SPECIAL_OPTION(inspect_values),
    CLI_ADAPTER_OPTION(inspect_values),
    CLI_BACKEND_OPTION(inspect_values),
    CLI_JSON_OPTION(inspect_values,
                    "print what was found as one JSON object, without the numbers themselves"),
    CLI_PLACE_OPTIONS(inspect_values),
};

static void print_json(const weft_inspection *x)
{
    fputs("{\"architecture\": ", stdout);
    cli_json_text(stdout, x->architecture, strlen(x->architecture));
    printf(", \"tokens\": %lld, \"layers\": [", (long long)x->length);
    for (int64_t i = 0; i < x->n_layers; i++) {
        const weft_inspected_layer *layer = &x->layers[i];
        printf("%s{\"source\": %lld, \"heads\": %lld, \"kv_heads\": %lld, \"head_dim\": %lld}",
               i > 0 ? ", " : "", (long long)layer->source, (long long)layer->n_heads,
               (long long)layer->n_kv_heads, (long long)layer->head_dim);
    }
    puts("]}");
}

static void print_plain(const weft_inspection *x)
{
    printf("%s, %s tokens, %s layers\n", weft_printable(x->architecture), cli_count(x->length),
           cli_count(x->n_layers));
    for (int64_t i = 0; i < x->n_layers; i++) {
        const weft_inspected_layer *layer = &x->layers[i];
        printf("layer %lld: %lld heads on %lld of %lld", (long long)i, (long long)layer->n_heads,
               (long long)layer->n_kv_heads, (long long)layer->head_dim);
        if (layer->source != i)
            printf(", keys of layer %lld", (long long)layer->source);
        putchar('\n');
    }
}

static weft_status inspect(const inspect_values *v, const char *path, const char *text,
                           size_t length)
{
    weft_engine *engine = NULL;
    weft_inspection *x = NULL;
    const weft_engine_request request = {
        .prompt = text, .length = length, .no_special = v->no_special};
    weft_status status = cli_load_engine(path, &v->place, v->adapter, v->backend, 0, &engine);
    if (status == WEFT_OK)
        status = cli_profile_start(&v->place);
    if (status == WEFT_OK)
        status = weft_engine_inspect(engine, &request, &x);
    if (status == WEFT_OK && v->out != NULL)
        status = weft_inspection_save(x, v->out);
    if (status == WEFT_OK && v->json)
        print_json(x);
    else if (status == WEFT_OK)
        print_plain(x);
    if (status == WEFT_OK)
        cli_profile_print();
    weft_inspection_free(x);
    weft_engine_free(engine);
    return status;
}

static int run(void *values)
{
    const inspect_values *v = values;
    const char *complaint = cli_text_complaint(v->prompt, v->file);
    if (complaint == NULL)
        complaint = cli_place_complaint(&v->place);
    if (complaint != NULL)
        return cli_usage("inspect", "%s", complaint);
    char path[4096], *text = NULL;
    size_t length = 0;
    weft_status status = cli_check_file(v->out, "\"sources\":\"", v->force);
    if (status == WEFT_OK)
        status = cli_check_input(v->out, v->file);
    if (status == WEFT_OK)
        status = cli_read_text(v->prompt, v->file, &text, &length);
    const bool empty = status == WEFT_OK && length == 0 && v->prompt == NULL;
    if (status == WEFT_OK && !empty)
        status = cli_find_model(&v->place, v->model, path, sizeof path);
    if (status == WEFT_OK && !empty)
        status = inspect(v, path, text, length);
    weft_free(text);
    return empty ? cli_usage("inspect", "the text is empty") : cli_status(status);
}

const cli_command cli_inspect = {
    .name = "inspect",
    .summary = "save the attention's keys and queries of a text",
    .description =
        "Runs a text through a model once and prints the shapes of each layer's attention. "
        "With --out it writes the rotated keys and queries, float32, to a safetensors file: "
        "layers.N.keys (key heads, tokens, head size) and layers.N.queries. Its metadata has "
        "the architecture, the tokens, and the layer that each key tensor comes from. "
        "--backend transformers shows the same.",
    .example = "weft inspect MODEL -p \"Once upon a time\" -o attention.safetensors",
    CLI_TABLE(inspect_values, arguments, options),
    .run = run,
};
