/* cli/fuse_losses.c -- measures how much of an adapter's gain a fused model keeps. */
#include <math.h>
#include <stdio.h>

#include "cli/common.h"
#include "cli/fuse.h"

typedef struct meter {
    const char *what;
    cli_progress *progress;
} meter;

static bool show(void *context, int64_t targets, int64_t total)
{
    const meter *m = context;
    cli_progress_show(m->progress, (double)targets / (double)total, false, "%s: %s of %s tokens",
                      m->what, cli_count(targets), cli_count(total));
    return true;
}

static weft_status measure(const char *path, const char *adapter, const weft_dataset *data, meter m,
                           double *out)
{
    weft_model *model = NULL;
    weft_evaluation result = {0};
    weft_status status = weft_model_load(path, NULL, &model);
    if (status == WEFT_OK && adapter != NULL)
        status = weft_adapter_load(model, adapter, NULL);
    if (status == WEFT_OK) {
        const weft_evaluate_options o = {.callback = show, .context = &m};
        status = weft_evaluate(model, data, &o, &result);
    }
    *out = result.loss;
    weft_model_free(model);
    return status;
}

/* Loads the data. *more: the adapter's tokenizer has tokens that the base model lacks. */
static weft_status load_data(const fuse_values *v, const char *path, weft_dataset **out, bool *more)
{
    weft_tokenizer *tokenizer = NULL, *own = NULL;
    weft_chat *chat = NULL;
    *out = NULL;
    weft_status status = weft_adapter_tokenizer(path, v->adapter, &tokenizer);
    if (status == WEFT_OK)
        status = weft_tokenizer_load(path, &own);
    if (status == WEFT_OK)
        *more = weft_tokenizer_vocab_size(tokenizer) > weft_tokenizer_vocab_size(own);
    weft_tokenizer_free(own);
    if (status == WEFT_OK)
        status = cli_load_template(path, v->adapter, &chat);
    if (status == WEFT_OK) {
        const weft_dataset_options o = {.chat = chat};
        status = cli_data_load(&v->source, tokenizer, &o, 0, out, NULL);
    }
    weft_tokenizer_free(tokenizer);
    weft_chat_free(chat);
    return status;
}

weft_status fuse_measure(const fuse_values *v, const char *path, cli_progress *progress,
                         fuse_losses *out)
{
    weft_dataset *data;
    bool more = false;
    weft_status status = load_data(v, path, &data, &more);
    out->base = (double)NAN;
    if (status == WEFT_OK && !more)
        status = measure(path, NULL, data, (meter){"base", progress}, &out->base);
    if (status == WEFT_OK)
        status = measure(path, v->adapter, data, (meter){"with adapter", progress}, &out->adapted);
    if (status == WEFT_OK)
        status = measure(v->out, NULL, data, (meter){"fused", progress}, &out->fused);
    weft_dataset_free(data);
    return status;
}

/* The share of the adapter's gain that the fused model keeps; NaN if there is no gain on this data.
 */
static double gain_kept(const fuse_losses *l)
{
    return l->adapted < l->base ? (l->base - l->fused) / (l->base - l->adapted) : (double)NAN;
}

void fuse_print_losses(const fuse_losses *losses)
{
    const double kept = gain_kept(losses);
    if (isnan(losses->base)) {
        printf("loss %.4f with the adapter, %.4f fused; the base lacks tokens of the data\n",
               losses->adapted, losses->fused);
        return;
    }
    printf("loss %.4f base, %.4f with the adapter, %.4f fused: ", losses->base, losses->adapted,
           losses->fused);
    if (isnan(kept))
        puts("the adapter has no gain on this data");
    else
        printf("%.1f%% of the gain is kept\n", 100 * kept);
}

void fuse_losses_json(const fuse_losses *losses)
{
    cli_json_member("base_loss", losses->base);
    cli_json_member("adapted_loss", losses->adapted);
    cli_json_member("fused_loss", losses->fused);
    cli_json_member("gain_kept", gain_kept(losses));
}
