/* cli/convert.c -- weft convert: a model from one form of file to another. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/common.h"

typedef struct convert_values {
    const char *model, *out;
    int type;
    bool json;
} convert_values;

#define AT(field) .offset = offsetof(convert_values, field)
#define TYPES "f32|f16|bf16|q8_0|q4_0|q4_k"

static const cli_argument arguments[] = {{"MODEL", offsetof(convert_values, model), false},
                                         {"OUT", offsetof(convert_values, out), false}};

static const cli_option options[] = {
    {.name = "type",
     .letter = 't',
     .kind = CLI_CHOICE,
     .value = TYPES,
     AT(type),
     .help = "how matrices are stored; default: as they are, f32 for a GGUF file. The q types are "
             "GGUF's"},
    {.name = "json", .kind = CLI_FLAG, AT(json), .help = "print the result as one JSON object"},
};

static bool is_gguf(const char *path)
{
    const size_t n = strlen(path);
    return n > 5 && strcmp(path + n - 5, ".gguf") == 0;
}

/* The dtype of a choice; 0: one of GGUF's own, or none. */
static weft_dtype dtype_of(int type)
{
    static const weft_dtype dtypes[] = {WEFT_FLOAT32, WEFT_FLOAT16, WEFT_BFLOAT16};
    return type >= 0 && type < 3 ? dtypes[type] : (weft_dtype)0;
}

static weft_status convert(const convert_values *v, const char *path)
{
    static const char *const types[] = {"F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_K"};
    const bool gguf = is_gguf(v->out);
    if (!gguf && v->type > 2)
        return weft_fail(WEFT_UNSUPPORTED,
                         "convert: %s: types q8_0, q4_0 and q4_k are for GGUF files: expected an "
                         "OUT that ends with .gguf",
                         v->out);
    weft_model *model;
    const weft_model_options load = {.dtype = gguf ? (weft_dtype)0 : dtype_of(v->type)};
    weft_status status = weft_model_load(path, &load, &model);
    if (status != WEFT_OK)
        return status;
    char tokenizer[4200];
    snprintf(tokenizer, sizeof tokenizer, "%s/tokenizer.json", path);
    const weft_gguf_model_options save = {
        .type = types[v->type < 0 ? 0 : v->type],
        .text = access(tokenizer, F_OK) == 0 || is_gguf(path) ? path : NULL};
    status = gguf ? weft_model_save_gguf(model, v->out, &save) : weft_model_save(model, v->out);
    weft_model_free(model);
    return status;
}

static int run(void *context)
{
    const convert_values *v = context;
    char path[4096];
    weft_status status = cli_model_path(v->model, path, sizeof path);
    if (status == WEFT_OK)
        status = convert(v, path);
    if (status == WEFT_OK && v->json) {
        fputs("{\"model\": ", stdout);
        cli_json_text(stdout, v->model, strlen(v->model));
        fputs(", \"out\": ", stdout);
        cli_json_text(stdout, v->out, strlen(v->out));
        puts("}");
    }
    return cli_status(status);
}

const cli_command cli_convert = {
    .name = "convert",
    .summary = "write a model as another kind of file",
    .description =
        "Writes MODEL, a folder or a GGUF file, as OUT: a GGUF file when its name ends with .gguf, "
        "else a folder with config.json and model.safetensors. In a GGUF file of a q type the "
        "matrix that gives the logits has 8 bits at least, and so has one whose rows are not "
        "whole blocks. Tokenizer and chat templates go into it too.",
    .example = "weft convert MODEL model.gguf --type q4_k\n"
               "weft convert model.gguf FOLDER --type bf16",
    CLI_TABLE(convert_values, arguments, options),
    .run = run,
};
