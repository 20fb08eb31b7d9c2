/* cli/inspect.c -- weft inspect: keys and queries of a text, layer by layer, to a file. */
#include "cli/commands.h"
#include "cli/common.h"

#include <string.h>

typedef struct inspect_values {
    const char *model, *prompt, *file, *adapter, *out;
    cli_place place;
    bool no_special, json;
} inspect_values;

#define AT(field) .offset = offsetof(inspect_values, field)

static const cli_argument arguments[] = {
    {"MODEL", offsetof(inspect_values, model), false},
};

static const cli_option options[] = {
    {.name = "prompt",
     .letter = 'p',
     .kind = CLI_TEXT,
     .value = "TEXT",
     AT(prompt),
     .help = "the text"},
    {.name = "file",
     .letter = 'f',
     .kind = CLI_TEXT,
     .value = "FILE",
     AT(file),
     .help = "read the text from a file"},
    {.name = "out",
     .letter = 'o',
     .kind = CLI_TEXT,
     .value = "FILE",
     AT(out),
     .help = "the safetensors file to write"},
    CLI_ADAPTER_OPTION(inspect_values),
    {.name = "no-special",
     .kind = CLI_FLAG,
     AT(no_special),
     .help = "do not put the tokenizer's special tokens around the text"},
    {.name = "json",
     .kind = CLI_FLAG,
     AT(json),
     .help = "print what was found as one JSON object, without the numbers themselves"},
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
    printf("%s, %s tokens, %s layers\n", x->architecture, cli_count(x->length),
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
    weft_tokenizer *tokenizer = NULL;
    weft_model *model = NULL;
    weft_inspection *x = NULL;
    int32_t *ids = NULL;
    size_t n = 0;
    weft_status status = weft_tokenizer_load(path, &tokenizer);
    if (status == WEFT_OK)
        status = weft_tokenizer_encode(tokenizer, text, length,
                                       v->no_special ? 0 : WEFT_TOKENIZER_ADD_SPECIAL, &ids, &n);
    if (status == WEFT_OK)
        status = cli_load_model(path, &v->place, v->adapter, &model);
    if (status == WEFT_OK)
        status = weft_inspect(model, ids, n, &x);
    if (status == WEFT_OK && v->out != NULL)
        status = weft_inspection_save(x, v->out);
    if (status == WEFT_OK && v->json)
        print_json(x);
    else if (status == WEFT_OK)
        print_plain(x);
    weft_inspection_free(x);
    weft_free(ids);
    weft_model_free(model);
    weft_tokenizer_free(tokenizer);
    return status;
}

static int run(void *values)
{
    const inspect_values *v = values;
    if ((v->prompt == NULL) == (v->file == NULL))
        return cli_usage("inspect", "needs --prompt TEXT or --file FILE");
    if (cli_place_complaint(&v->place) != NULL)
        return cli_usage("inspect", "%s", cli_place_complaint(&v->place));
    char path[4096], *from_file = NULL;
    size_t length = v->prompt != NULL ? strlen(v->prompt) : 0;
    weft_status status = cli_model_path(v->model, path, sizeof path);
    if (status == WEFT_OK && v->file != NULL)
        status = weft_file_read(v->file, 0, &from_file, &length);
    if (status == WEFT_OK)
        status = inspect(v, path, from_file != NULL ? from_file : v->prompt, length);
    weft_free(from_file);
    return cli_status(status);
}

const cli_command cli_inspect = {
    .name = "inspect",
    .summary = "the attention's keys and queries of a text",
    .description = "Runs a text through a model once and tells what each layer's attention works "
                   "on; with --out it writes the rotated keys and queries, float32, to a "
                   "safetensors file: layers.N.keys (key heads, tokens, head size), "
                   "layers.N.queries, and in the metadata the architecture, the tokens, and of "
                   "which layer the keys of each are.",
    .example = "weft inspect MODEL -p \"Once upon a time\" -o attention.safetensors",
    CLI_TABLE(inspect_values, arguments, options),
    .run = run,
};
