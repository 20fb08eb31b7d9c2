/* cli/inspect.c -- weft inspect: shows the attention's shapes and saves the keys and queries of a
 * text, or shows and draws what heads attend to, what an adapter changed, and the loss of tokens.
 */
#include "cli/inspect.h"

#include <string.h>

#include "cli/commands.h"
#include "cli/profile.h"
#include "cli/shared.h"

#define AT(field) .offset = offsetof(inspect_values, field)

static const cli_argument arguments[] = {
    {"MODEL", offsetof(inspect_values, model), false},
};

static const cli_option options[] = {
    CLI_PROMPT_OPTION(inspect_values, NULL, "the text; - reads standard input"),
    CLI_FILE_OPTION(inspect_values, "read the text from a file"),
    {.name = "show",
     .kind = CLI_CHOICE,
     .value = "shapes|attention|adapter|loss",
     AT(show),
     .help = "the shapes of each layer's attention; what each head attends to; what the adapter "
             "changed in each matrix; or the loss of each token; default: shapes, with --svg "
             "attention"},
    CLI_TEXT_OPTION("svg", "FILE", AT(svg),
                    .help = "draw attention, adapter or loss as an SVG picture"),
    CLI_TEXT_OPTION(
        "layers", "N|FROM-TO", AT(layers),
        .help =
            "with --show attention: only these layers, counted from 0; one alone is drawn larger"),
    CLI_OUT_OPTION(inspect_values, "write keys and queries to this safetensors file"),
    CLI_FORCE_OPTION(inspect_values, "replace the file of --out or --svg"),
    CLI_NO_SPECIAL_OPTION(inspect_values),
    CLI_ADAPTER_OPTION(inspect_values),
    CLI_BACKEND_OPTION(inspect_values),
    CLI_JSON_OPTION(inspect_values, "print what --show names as one JSON object"),
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
        if (layer->keys == NULL) {
            printf("layer %lld: no attention\n", (long long)i);
            continue;
        }
        printf("layer %lld: %lld heads on %lld of %lld", (long long)i, (long long)layer->n_heads,
               (long long)layer->n_kv_heads, (long long)layer->head_dim);
        if (layer->source != i)
            printf(", keys of layer %lld", (long long)layer->source);
        putchar('\n');
    }
}

static weft_status inspect_shapes(const inspect_values *v, const char *path, const char *text,
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

static inspect_what what_of(const inspect_values *v)
{
    return v->show >= 0     ? (inspect_what)v->show
           : v->svg != NULL ? INSPECT_ATTENTION
                            : INSPECT_SHAPES;
}

static const char *complaint(const inspect_values *v)
{
    const inspect_what what = what_of(v);
    const bool text = v->prompt != NULL || v->file != NULL;
    if (v->svg != NULL && what == INSPECT_SHAPES)
        return "--svg draws attention, adapter or loss: name one by --show";
    if (v->out != NULL && what != INSPECT_SHAPES)
        return "--out writes keys and queries, without --show and --svg";
    if (v->layers != NULL && what != INSPECT_ATTENTION)
        return "--layers needs --show attention";
    if (what != INSPECT_SHAPES && cli_is_other_backend(v->backend))
        return "--show attention, adapter and loss need the native backend";
    if (what == INSPECT_ADAPTER && v->adapter == NULL)
        return "--show adapter needs --adapter DIR";
    if (what == INSPECT_ADAPTER && text)
        return "--show adapter reads no text";
    const char *wrong = what != INSPECT_ADAPTER ? cli_text_complaint(v->prompt, v->file) : NULL;
    return wrong != NULL ? wrong : cli_place_complaint(&v->place);
}

static weft_status inspect_text(const inspect_values *v, const char *path, const char *text,
                                size_t length)
{
    if (what_of(v) == INSPECT_SHAPES)
        return inspect_shapes(v, path, text, length);
    inspect_tokens tokens;
    weft_status status = inspect_tokens_read(v, path, text, length, &tokens);
    if (status == WEFT_OK)
        status = what_of(v) == INSPECT_ATTENTION ? inspect_attention(v, path, &tokens)
                                                 : inspect_loss(v, path, &tokens);
    inspect_tokens_free(&tokens);
    return status;
}

static int run(void *values)
{
    const inspect_values *v = values;
    const bool reads = what_of(v) != INSPECT_ADAPTER;
    if (complaint(v) != NULL)
        return cli_usage("inspect", "%s", complaint(v));
    char path[4096], *text = NULL;
    size_t length = 0;
    weft_status status = cli_check_file(v->out, "\"sources\":\"", v->force);
    if (status == WEFT_OK)
        status = cli_check_file(v->svg, CLI_SVG_MARKER, v->force);
    if (status == WEFT_OK)
        status = cli_check_input(v->out != NULL ? v->out : v->svg, v->file);
    if (status == WEFT_OK && reads)
        status = cli_read_text(v->prompt, v->file, &text, &length);
    const bool empty = reads && status == WEFT_OK && length == 0 && v->prompt == NULL;
    if (status == WEFT_OK && !empty)
        status = cli_find_model(&v->place, v->model, path, sizeof path);
    if (status == WEFT_OK && !empty)
        status = cli_check_input(v->svg, path);
    if (status == WEFT_OK && !empty)
        status = cli_check_input(v->svg, v->adapter);
    if (status == WEFT_OK && !empty)
        status = reads ? inspect_text(v, path, text, length) : inspect_adapter(v, path);
    weft_free(text);
    return empty ? cli_usage("inspect", "the text is empty") : cli_status(status);
}

const cli_command cli_inspect = {
    .name = "inspect",
    .summary = "show attention, the loss of tokens, and what an adapter changed",
    .description =
        "Runs a text through a model once and prints the shapes of each layer's attention. "
        "With --out it writes the rotated keys and queries, float32, to a safetensors file: "
        "layers.N.keys (key heads, tokens, head size) and layers.N.queries. Its metadata has "
        "the architecture, the tokens, and the layer that each key tensor comes from. "
        "--backend transformers shows the same.\n\n"
        "--show attention: the share of each token in what each head reads. --show adapter, for "
        "the norm of the adapter's change in each matrix, and how much of its rank it uses. --show "
        "loss: the loss of each token; with --adapter without and with it. --svg FILE draws these "
        "as a picture that browsers show, and --json prints the numbers.",
    .example = "weft inspect MODEL -p \"Once upon a time\" -o attention.safetensors\n"
               "weft inspect MODEL -p \"Once upon a time\" --svg attention.svg\n"
               "weft inspect MODEL --adapter DIR --show adapter --svg adapter.svg\n"
               "weft inspect MODEL --adapter DIR --show loss -f text.txt --svg loss.svg",
    CLI_TABLE(inspect_values, arguments, options),
    .run = run,
};
