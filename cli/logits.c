/* cli/logits.c -- weft logits: computes a model's logits for given tokens, for comparison with
 * other frameworks. */
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/profile.h"
#include "cli/shared.h"

typedef struct logits_values {
    const char *model, *adapter, *ids, *out;
    cli_place place;
    bool force;
} logits_values;

#define AT(field) .offset = offsetof(logits_values, field)

static const cli_argument arguments[] = {{"MODEL", offsetof(logits_values, model), false}};

static const cli_option options[] = {
    CLI_TEXT_OPTION("ids", "FILE", AT(ids), .help = "safetensors file with int32 input_ids (B, L)"),
    CLI_OUT_OPTION(logits_values, "where to write float32 logits (B, L, V)"),
    CLI_FORCE_OPTION(logits_values, "replace the file of --out"),
    CLI_ADAPTER_OPTION(logits_values),
    CLI_PLACE_OPTIONS(logits_values),
    CLI_ACTIVATIONS_OPTION(logits_values),
};

static weft_status write_logits(weft_model *model, const char *ids_path, const char *out)
{
    weft_safetensors *file;
    weft_status status = weft_safetensors_open(ids_path, &file);
    if (status != WEFT_OK)
        return status;
    weft_scope_open_lean();
    weft_array *ids = weft_safetensors_get(file, "input_ids");
    if (weft_ok(ids) && (weft_dtype_of(ids) != WEFT_INT32 || weft_ndim(ids) != 2))
        ids = weft_error_array("%s: input_ids: expected int32 (B, L), got %s of rank %d", ids_path,
                               weft_dtype_name(weft_dtype_of(ids)), weft_ndim(ids));
    weft_array *logits = weft_astype(weft_model_forward(model, ids, NULL), WEFT_FLOAT32);
    weft_array *bad = weft_sum(weft_isnan(logits), WEFT_ALL_AXES, false);
    status = weft_eval_n((weft_array *[]){logits, bad}, 2);
    if (status == WEFT_OK)
        status = weft_safetensors_save(out, &(const char *){"logits"}, &logits, 1,
                                       CLI_LOGITS_METADATA, 1);
    if (status == WEFT_OK && weft_item_int(bad) > 0)
        status = weft_fail(WEFT_INVALID,
                           "%s: %lld of %lld logits are NaN: the model's weights are damaged, or "
                           "the computation overflows in its dtype (try float32)",
                           out, (long long)weft_item_int(bad), (long long)weft_size(logits));
    weft_scope_close(NULL);
    weft_safetensors_close(file);
    return status;
}

static int run(void *context)
{
    const logits_values *v = context;
    if (v->ids == NULL || v->out == NULL)
        return cli_usage("logits", "--ids FILE and --out FILE are needed");
    if (cli_place_complaint(&v->place) != NULL)
        return cli_usage("logits", "%s", cli_place_complaint(&v->place));
    char path[4096];
    weft_model *model = NULL;
    weft_status status = cli_check_file(v->out, CLI_LOGITS_MARKER, v->force);
    if (status == WEFT_OK)
        status = cli_check_input(v->out, v->ids);
    if (status == WEFT_OK)
        status = cli_find_model(&v->place, v->model, path, sizeof path);
    if (status == WEFT_OK)
        status = cli_load_model(path, &v->place, v->adapter, &model);
    if (status == WEFT_OK)
        status = cli_profile_start(&v->place);
    if (status == WEFT_OK)
        status = write_logits(model, v->ids, v->out);
    if (status == WEFT_OK)
        cli_profile_print();
    weft_model_free(model);
    return cli_status(status);
}

const cli_command cli_logits = {
    .name = "logits",
    .summary = "write the logits for given tokens to a file",
    .description = "Reads int32 input_ids (B, L) from a safetensors file and writes float32 logits "
                   "(B, L, V) to another. Made for checking against other frameworks.",
    .example = "weft logits MODEL --ids reference.safetensors --out logits.safetensors",
    CLI_TABLE(logits_values, arguments, options),
    .run = run,
};
