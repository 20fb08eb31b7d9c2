/* cli/fuse.c -- weft fuse: merges an adapter into its base model. */
#include <string.h>

#include "cli/commands.h"
#include "cli/common.h"
#include "cli/fuse.h"
#include "cli/progress.h"
#include "cli/shared.h"

#define AT(field) .offset = offsetof(fuse_values, field)

static const cli_argument arguments[] = {{"MODEL", offsetof(fuse_values, model), false},
                                         {"ADAPTER", offsetof(fuse_values, adapter), false},
                                         {"OUT", offsetof(fuse_values, out), false}};

static const cli_option options[] = {
    {.name = "type",
     .letter = 't',
     .kind = CLI_CHOICE,
     .value = "f32|f16|bf16|q8_0|q4_0|q4_k|q5_k|q6_k",
     AT(type),
     .help = "how matrices are stored; default: as in MODEL, but blocks of GGUF become bf16 in a "
             "folder. The q types are GGUF's"},
    {.name = "quantize",
     .kind = CLI_INT,
     .value = "BITS",
     .low = 2,
     .high = 8,
     AT(quantize),
     .help = "for a folder: quantize to 2, 3, 4, 5, 6 or 8 bits, as MLX stores them"},
    {.name = "adapted-bits",
     .kind = CLI_INT,
     .value = "N",
     .low = 0,
     .high = 8,
     AT(adapted_bits),
     .help = "for a quantized OUT: bits of adapted matrices: 2, 3, 4, 5, 6 or 8, 0: not "
             "quantized; default: 6, or what the others have, if that is more"},
    CLI_TEXT_ONLY_OPTION(fuse_values),
    CLI_DATA_PATHS_OPTION(fuse_values),
    CLI_DATA_READING_OPTIONS(fuse_values),
    CLI_FORCE_OPTION(fuse_values, "replace what is at OUT already"),
    CLI_JSON_OPTION(fuse_values, "print the result as one JSON object"),
};

static void show(void *context, int64_t bytes, int64_t total)
{
    cli_progress_show(context, total > 0 ? (double)bytes / (double)total : 1, false, "%s of %s",
                      cli_bytes(bytes), cli_bytes(total));
}

static void print_result(const fuse_values *v, const weft_convert_report *r,
                         const fuse_losses *losses)
{
    if (!v->json) {
        cli_print_conversion(v->out, r);
        if (v->source.paths.n > 0)
            fuse_print_losses(losses);
        return;
    }
    fputs("{\"model\": ", stdout);
    cli_json_text(stdout, v->model, strlen(v->model));
    fputs(", \"adapter\": ", stdout);
    cli_json_text(stdout, v->adapter, strlen(v->adapter));
    fputs(", \"out\": ", stdout);
    cli_json_text(stdout, v->out, strlen(v->out));
    printf(", \"parameters\": %lld, \"bytes\": %lld, \"bits_per_parameter\": %.6g, \"files\": "
           "%d, \"types\": \"%s\"",
           (long long)r->parameters, (long long)r->bytes, cli_bits_per_parameter(r), r->files,
           r->types);
    if (v->source.paths.n > 0)
        fuse_losses_json(losses);
    puts("}");
}

/* Losses of labels are those of weft eval. */
static weft_status check_data(const fuse_values *v, const char *path)
{
    weft_labels labels = {.open = false};
    weft_status status = v->source.paths.n > 0 ? cli_labels_of(path, v->adapter, &labels) : WEFT_OK;
    if (status == WEFT_OK && labels.n > 0)
        status = weft_fail(WEFT_UNSUPPORTED,
                           "fuse: --data: %s is of a classifier, which weft eval measures",
                           weft_printable(v->adapter));
    weft_labels_free(&labels);
    return status;
}

static int run(void *context)
{
    static const char *const types[] = {"f32",  "f16",  "bf16", "q8_0",
                                        "q4_0", "q4_k", "q5_k", "q6_k"};
    const fuse_values *v = context;
    char path[4096];
    weft_convert_report report;
    fuse_losses losses;
    cli_progress progress;
    cli_progress_start(&progress);
    const weft_convert_options o = {
        .type = v->type < 0 ? NULL : types[v->type],
        .quantize = v->quantize > 0,
        .format = {.bits = v->quantize > 0 ? v->quantize : 0},
        .adapted_bits = v->adapted_bits == CLI_ABSENT ? 0
                        : v->adapted_bits == 0        ? -1
                                                      : v->adapted_bits,
        .text_only = v->text_only,
        .replace = v->force,
        .progress = {.report = show, .context = &progress},
    };
    weft_status status = cli_check_out(v->out, v->force);
    if (status == WEFT_OK)
        status = cli_model_path(v->model, path, sizeof path);
    if (status == WEFT_OK)
        status = check_data(v, path);
    if (status == WEFT_OK)
        status = weft_adapter_fuse(path, v->adapter, v->out, &o, &report);
    if (status == WEFT_OK && v->source.paths.n > 0)
        status = fuse_measure(v, path, &progress, &losses);
    cli_progress_clear(&progress);
    if (status == WEFT_OK)
        print_result(v, &report, &losses);
    return cli_status(status);
}

const cli_command cli_fuse = {
    .name = "fuse",
    .summary = "merge a LoRA adapter into its base model",
    .description =
        "Merges the adapter in the folder ADAPTER into the weights of MODEL and writes the "
        "merged model, which needs no adapter, to OUT. If the name ends with .gguf, OUT is a "
        "GGUF file. Otherwise it is a folder with weights, config.json, generation config, "
        "tokenizer, chat templates and a model card.\n\n"
        "A folder from a quantized GGUF file has bfloat16 matrices, and one from a model in MLX's "
        "format stays in that format, which transformers and vLLM do not load, unless --type is "
        "given. A GGUF file from a GGUF file keeps its types: tensors that the adapter does not "
        "change are copied.\n\n"
        "In a quantized OUT adapted matrices get at least 6 bits, since rounding to fewer can "
        "remove the adapter; --data measures the loss before and after. OUT is complete or "
        "absent.",
    .example = "weft fuse MODEL weft-run/best FOLDER\n"
               "weft fuse MODEL weft-run/best model.gguf --type q4_k\n"
               "weft fuse MODEL-4bit weft-run/best FOLDER --data valid.jsonl",
    CLI_TABLE(fuse_values, arguments, options),
    .run = run,
};
