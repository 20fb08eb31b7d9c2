/* examples/05_lora.c -- LoRA: teach the storyteller a sentence, save the adapter, load it again,
 * merge it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weft/weft.h>

static const char lesson[] =
    "The weaver of Leith had a loom of silver, and every night the moon came to thread it. She "
    "sang "
    "of the sea, and the cloth that she wove was as blue as the sea and as long as the night.";

typedef struct run {
    weft_model *model, *fresh;
    weft_tokenizer *tokenizer;
    weft_dataset *data;
    weft_batches *batches;
    weft_trainer *trainer;
} run;

static bool show(void *context, const weft_train_report *report)
{
    (void)context;
    if (report->step % 10 == 0)
        printf("step %2lld  loss %.4f  %.0f tokens/s\n", (long long)report->step, report->loss,
               report->tokens_per_second);
    return true;
}

/* One sample; a file would be weft_dataset_load. */
static weft_status make_data(run *r)
{
    int32_t *ids = NULL;
    size_t n = 0;
    weft_status status = weft_tokenizer_encode(r->tokenizer, lesson, strlen(lesson), 0, &ids, &n);
    if (status == WEFT_OK)
        status = weft_dataset_new(128, &r->data);
    if (status == WEFT_OK)
        status = weft_dataset_add(r->data, ids, (int64_t)n, 0);
    weft_free(ids);
    return status == WEFT_OK ? weft_batches_new(r->data, 1, 0, &r->batches) : status;
}

static weft_status train(run *r)
{
    weft_random_seed(1);
    const weft_nn_lora_options lora = {
        .rank = 8,
        .alpha = 16,
        .targets = (const char *const[]){WEFT_LORA_ALL_LINEAR},
        .n_targets = 1,
    };
    weft_status status = weft_nn_lora_inject(weft_model_module(r->model), &lora);
    if (status != WEFT_OK)
        return status;
    printf("%lld parameters are trained\n",
           (long long)weft_nn_count(weft_model_module(r->model), true));
    const weft_trainer_options options = {
        .steps = 30,
        .lr = 5e-3,
        .schedule = "cosine",
        .warmup = 3,
        .clip = 1,
        .callback = show,
    };
    status = weft_trainer_new(r->model, &options, &r->trainer);
    return status == WEFT_OK ? weft_trainer_run(r->trainer, r->batches, NULL, NULL) : status;
}

/* The adapter through a folder in PEFT's format around a model that never saw the lesson. */
static weft_status reload(run *r, const char *base, weft_evaluation *out)
{
    char folder[] = "/tmp/weft-05-XXXXXX", path[64];
    if (mkdtemp(folder) == NULL)
        return weft_fail(WEFT_IO, "/tmp: no folder could be made");
    weft_status status = weft_adapter_save(r->model, folder, base);
    if (status == WEFT_OK)
        status = weft_model_load(base, &(weft_model_options){.dtype = WEFT_FLOAT32}, &r->fresh);
    if (status == WEFT_OK)
        status = weft_adapter_load(r->fresh, folder, NULL);
    if (status == WEFT_OK) /* from here on it is an ordinary model */
        status = weft_nn_lora_merge(weft_model_module(r->fresh));
    if (status == WEFT_OK)
        weft_nn_lora_remove(weft_model_module(r->fresh));
    if (status == WEFT_OK)
        status = weft_evaluate(r->fresh, r->data, NULL, out);
    static const char *const files[] = {"adapter_config.json", "adapter_model.safetensors"};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        remove(path);
    }
    rmdir(folder);
    return status;
}

static weft_status lesson_of(run *r, const char *base, int *failures)
{
    weft_evaluation before, after, loaded;
    weft_status status =
        weft_model_load(base, &(weft_model_options){.dtype = WEFT_FLOAT32}, &r->model);
    if (status == WEFT_OK)
        status = weft_tokenizer_load(base, &r->tokenizer);
    if (status == WEFT_OK)
        status = make_data(r);
    if (status == WEFT_OK)
        status = weft_evaluate(r->model, r->data, NULL, &before);
    if (status == WEFT_OK)
        status = train(r);
    if (status == WEFT_OK)
        status = weft_evaluate(r->model, r->data, NULL, &after);
    if (status == WEFT_OK)
        status = reload(r, base, &loaded);
    if (status != WEFT_OK)
        return status;
    printf("loss %.4f before, %.4f after, %.4f loaded and merged\n", before.loss, after.loss,
           loaded.loss);
    *failures = !(after.loss < 0.3 * before.loss) || !(fabs(loaded.loss - after.loss) < 1e-2);
    return WEFT_OK;
}

int main(int argc, char **argv)
{
    run r = {0};
    int failures = 0;
    weft_status status = lesson_of(&r, argc > 1 ? argv[1] : "examples/storyteller", &failures);
    if (status != WEFT_OK)
        printf("%s\n", weft_error_message());
    weft_trainer_free(r.trainer);
    weft_batches_free(r.batches);
    weft_dataset_free(r.data);
    weft_tokenizer_free(r.tokenizer);
    weft_model_free(r.fresh);
    weft_model_free(r.model);
    return status != WEFT_OK || failures != 0;
}
