/* cli/convert.c -- weft convert: converts a model between file formats. */
#include <string.h>

#include "cli/commands.h"
#include "cli/common.h"
#include "cli/progress.h"
#include "cli/shared.h"

typedef struct convert_values {
    const char *model, *out, *overrides, *adapter, *base;
    int type, mode, recipe, adapter_format;
    int64_t bits, group_size;
    double shard_size;
    bool no_tokenizer, text_only, force, json;
} convert_values;

#define AT(field) .offset = offsetof(convert_values, field)
#define TYPES "f32|f16|bf16|q8_0|q4_0|q4_k|q5_k|q6_k"

static const cli_argument arguments[] = {{"MODEL", offsetof(convert_values, model), false},
                                         {"OUT", offsetof(convert_values, out), false}};

static const cli_option options[] = {
    {.name = "type",
     .letter = 't',
     .kind = CLI_CHOICE,
     .value = TYPES,
     AT(type),
     .help = "how matrices are stored; default: as in MODEL, but blocks of GGUF become bf16 in a "
             "folder. The q types are GGUF's"},
    {.name = "bits",
     .letter = 'b',
     .kind = CLI_INT,
     .value = "N",
     .low = 2,
     .high = 8,
     AT(bits),
     .help = "for a folder: quantize to 2, 3, 4, 5, 6 or 8 bits, as MLX stores them"},
    {.name = "group-size",
     .letter = 'g',
     .kind = CLI_INT,
     .value = "N",
     .low = 16,
     .high = 128,
     AT(group_size),
     .help = "elements that share a scale: 32, 64 or 128; default: the mode's"},
    {.name = "mode",
     .letter = 'm',
     .kind = CLI_CHOICE,
     .value = "affine|mxfp4|mxfp8|nvfp4",
     AT(mode),
     .help = "for a folder: quantize to that format; default: affine, if --bits or --mixed is "
             "there"},
    {.name = "mixed",
     .kind = CLI_CHOICE,
     .value = "mixed_2_6|mixed_3_4|mixed_3_6|mixed_4_6",
     AT(recipe),
     .help = "for a folder: quantize most matrices to the first number of bits, lm_head and some "
             "layers' v_proj and down_proj to the second"},
    {.name = "override",
     .letter = 'o',
     .kind = CLI_TEXT,
     .value = "RULES",
     AT(overrides),
     .help = "PATTERN=VALUE,...: for matrices with the pattern in their path, a number of bits, "
             "none, or a type of a GGUF file; the first rule that fits counts"},
    {.name = "adapter",
     .letter = 'a',
     .kind = CLI_TEXT,
     .value = "DIR",
     AT(adapter),
     .help =
         "merge a LoRA adapter in PEFT format first; where matrices are quantized, those that it "
         "changes get 6 bits or more"},
    {.name = "adapter-format",
     .kind = CLI_CHOICE,
     .value = "peft|mlx|gguf",
     AT(adapter_format),
     .help = "MODEL is an adapter, in any of these formats: write it to OUT in this one"},
    {.name = "base",
     .kind = CLI_TEXT,
     .value = "MODEL",
     AT(base),
     .help = "with --adapter-format: the model that the adapter is for; default: the one that it "
             "names"},
    {.name = "shard-size",
     .kind = CLI_REAL,
     .value = "GB",
     .fallback = "5",
     .low = CLI_ABOVE_ZERO,
     .high = CLI_ANY,
     AT(shard_size),
     .help = "the most gigabytes in one safetensors file"},
    {.name = "no-tokenizer",
     .kind = CLI_FLAG,
     AT(no_tokenizer),
     .help = "leave out tokenizer and chat templates"},
    CLI_TEXT_ONLY_OPTION(convert_values),
    CLI_FORCE_OPTION(convert_values, "replace what is at OUT already"),
    CLI_JSON_OPTION(convert_values, "print the result as one JSON object"),
};

static void show(void *context, int64_t bytes, int64_t total)
{
    cli_progress_show(context, total > 0 ? (double)bytes / (double)total : 1, false, "%s of %s",
                      cli_bytes(bytes), cli_bytes(total));
}

static void print_json(const convert_values *v, const weft_convert_report *r)
{
    fputs("{\"model\": ", stdout);
    cli_json_text(stdout, v->model, strlen(v->model));
    fputs(", \"out\": ", stdout);
    cli_json_text(stdout, v->out, strlen(v->out));
    printf(", \"parameters\": %lld, \"bytes\": %lld, \"bits_per_parameter\": %.6g, \"files\": "
           "%d, \"types\": \"%s\"}\n",
           (long long)r->parameters, (long long)r->bytes, cli_bits_per_parameter(r), r->files,
           r->types);
}

static weft_status convert(const convert_values *v, const char *path, weft_convert_report *report)
{
    static const char *const types[] = {"f32",  "f16",  "bf16", "q8_0",
                                        "q4_0", "q4_k", "q5_k", "q6_k"};
    static const char *const recipes[] = {"mixed_2_6", "mixed_3_4", "mixed_3_6", "mixed_4_6"};
    cli_progress progress;
    cli_progress_start(&progress);
    const weft_convert_options o = {
        .type = v->type < 0 ? NULL : types[v->type],
        .quantize = v->bits > 0 || v->mode >= 0,
        .format = {.mode = (weft_quantize_mode)(v->mode < 0 ? 0 : v->mode),
                   .bits = v->bits > 0 ? v->bits : 0,
                   .group_size = v->group_size > 0 ? v->group_size : 0},
        .recipe = v->recipe < 0 ? NULL : recipes[v->recipe],
        .overrides = v->overrides,
        .shard_bytes = (int64_t)(v->shard_size * 1e9),
        .no_tokenizer = v->no_tokenizer,
        .text_only = v->text_only,
        .replace = v->force,
        .progress = {.report = show, .context = &progress},
    };
    const weft_status status = v->adapter ? weft_adapter_fuse(path, v->adapter, v->out, &o, report)
                                          : weft_convert(path, v->out, &o, report);
    cli_progress_clear(&progress);
    return status;
}

/* ---- Adapters ------------------------------------------------------------------------------- */

/* Loads the adapter with its base model and saves it in the other format. */
static weft_status convert_adapter(const convert_values *v)
{
    char path[4096], *named = NULL;
    weft_model *model = NULL;
    weft_adapter_format from = WEFT_ADAPTER_PEFT;
    weft_status status = cli_check_input(v->out, v->model);
    if (status == WEFT_OK)
        status = weft_adapter_format_of(v->model, &from, &named);
    const char *base = v->base ? v->base : named;
    if (status == WEFT_OK && base == NULL)
        status = weft_fail(WEFT_INVALID, "%s: does not name its base: give --base MODEL",
                           weft_printable(v->model));
    if (status == WEFT_OK)
        status = cli_model_path(base, path, sizeof path);
    if (status == WEFT_OK)
        status = weft_model_load(path, NULL, &model);
    if (status == WEFT_OK)
        status = weft_adapter_load(model, v->model, NULL);
    if (status == WEFT_OK)
        status = weft_adapter_save_as(model, v->out, base, (weft_adapter_format)v->adapter_format);
    /* a folder may have a tokenizer and chat templates of its own */
    if (status == WEFT_OK && from != WEFT_ADAPTER_GGUF && v->adapter_format != WEFT_ADAPTER_GGUF)
        status = weft_tokenizer_copy(v->model, v->out);
    const int n = model ? weft_nn_lora_count(weft_model_module(model)) : 0;
    if (status == WEFT_OK && v->json) {
        fputs("{\"adapter\": ", stdout);
        cli_json_text(stdout, v->model, strlen(v->model));
        fputs(", \"out\": ", stdout);
        cli_json_text(stdout, v->out, strlen(v->out));
        printf(", \"modules\": %d}\n", n);
    } else if (status == WEFT_OK) {
        printf("%s: an adapter for %d modules\n", v->out, n);
    }
    weft_model_free(model);
    weft_free(named);
    return status;
}

static int run(void *context)
{
    const convert_values *v = context;
    char path[4096];
    weft_convert_report report;
    weft_status status = cli_check_out(v->out, v->force);
    if (status == WEFT_OK && v->adapter_format >= 0)
        return cli_status(convert_adapter(v));
    if (status == WEFT_OK)
        status = cli_model_path(v->model, path, sizeof path);
    if (status == WEFT_OK)
        status = convert(v, path, &report);
    if (status == WEFT_OK && v->json)
        print_json(v, &report);
    else if (status == WEFT_OK)
        cli_print_conversion(v->out, &report);
    return cli_status(status);
}

const cli_command cli_convert = {
    .name = "convert",
    .summary = "write a model as another kind of file",
    .description =
        "Writes MODEL, a folder or a GGUF file, to OUT. If the name ends with .gguf, OUT is a "
        "GGUF file, with tokenizer and chat templates in its metadata. Otherwise it is a folder "
        "with config.json, model.safetensors (or shards with an index) and the files of "
        "tokenizer and chat templates.\n\n"
        "With the q types of GGUF the output matrix, and matrices whose rows are not whole "
        "blocks, have at least 8 bits unless an override says otherwise. With "
        "--adapter-format MODEL is an adapter. OUT is complete or absent.",
    .example = "weft convert MODEL model.gguf --type q4_k\n"
               "weft convert model.gguf FOLDER --type bf16\n"
               "weft convert run/last adapter.gguf --adapter-format gguf --base MODEL\n"
               "weft convert MODEL FOLDER --bits 4 --override v_proj=6,lm_head=8",
    CLI_TABLE(convert_values, arguments, options),
    .run = run,
};
