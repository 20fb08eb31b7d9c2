/* examples/06_custom_model.c -- a custom model family: register it, train it, generate, and train
 * an adapter. The model reads bytes: one layer of attention and an MLP. */
#include <stdio.h>
#include <string.h>

#include <weft/weft.h>

/* ---- The family ----------------------------------------------------------------------------- */

typedef struct reader {
    weft_module module;
    weft_module *embed, *q_proj, *k_proj, *v_proj, *o_proj, *up_proj, *down_proj, *norm, *head;
} reader;

static const weft_module_type reader_type = {.name = "reader"};

enum { BYTES = 128 };

static weft_module *build(const weft_model_family *family, const weft_config *config, bool has_head,
                          weft_model_info *info)
{
    (void)family;
    (void)has_head; /* it always has one of its own */
    int64_t E = weft_config_int(config, "hidden_size", 32);
    reader *m = weft_nn_new(reader, &reader_type);
    if (m == NULL)
        return NULL;
    weft_nn_child(m, embed, weft_nn_embedding_new(BYTES, E));
    weft_nn_child(m, q_proj, weft_nn_linear_new(E, E, false));
    weft_nn_child(m, k_proj, weft_nn_linear_new(E, E, false));
    weft_nn_child(m, v_proj, weft_nn_linear_new(E, E, false));
    weft_nn_child(m, o_proj, weft_nn_linear_new(E, E, false));
    weft_nn_child(m, up_proj, weft_nn_linear_new(E, 2 * E, false));
    weft_nn_child(m, down_proj, weft_nn_linear_new(2 * E, E, false));
    weft_nn_child(m, norm, weft_nn_rms_norm_new(E, 1e-6));
    weft_nn_child(m, head, weft_nn_linear_new(E, BYTES, false));
    *info = (weft_model_info){.n_layers = 1, .vocab_size = BYTES, .hidden_size = E};
    return weft_nn_finish(m);
}

/* x (B, L, E) -> (B, L, 1, E): one head, with rotary position embeddings. */
static weft_array *head_of(weft_module *proj, weft_array *x, weft_array *positions)
{
    double amplitude;
    const weft_rope_options rope = {.head_dim = weft_dim(x, -1)};
    weft_array *frequencies = weft_rope_frequencies(&rope, &amplitude);
    weft_array *y = weft_expand_dims(weft_nn_call(proj, x), 2);
    return weft_rope(y, positions, frequencies, false, amplitude);
}

/* tokens (B, L) -> (B, L, E) */
static weft_array *hidden(weft_module *module, weft_array *tokens, const weft_model_call *call)
{
    reader *m = (reader *)module;
    weft_cache *cache = call->caches != NULL ? call->caches[0] : NULL;
    weft_nn_enter(m);
    int64_t first = cache != NULL ? weft_cache_offset(cache) : 0, L = weft_dim(tokens, 1);
    weft_array *positions = weft_arange((double)first, (double)(first + L), 1, WEFT_INT32);
    weft_array *x = weft_nn_call(m->embed, tokens);   /* (B, L, E) */
    weft_array *q = head_of(m->q_proj, x, positions); /* (B, L, 1, E) */
    weft_array *k = head_of(m->k_proj, x, positions);
    weft_array *v = weft_expand_dims(weft_nn_call(m->v_proj, x), 2);
    weft_cache_view view = {.keys = k, .values = v};
    if (cache != NULL)
        view = weft_cache_update(cache, k, v);
    weft_array *a = weft_cache_attention(q, &view, &(weft_attention_options){.causal = true});
    x = weft_add(x, weft_nn_call(m->o_proj, weft_squeeze(a, 2)));
    x = weft_add(x, weft_nn_call(m->down_proj, weft_gelu(weft_nn_call(m->up_proj, x))));
    return weft_nn_leave(m, weft_nn_call(m->norm, x));
}

static weft_array *head(weft_module *module, weft_array *x)
{
    return weft_nn_call(((reader *)module)->head, x);
}

static const weft_model_family family = {
    .model_type = "reader", .build = build, .hidden = hidden, .head = head};

/* ---- Using it: training, generation and adapters work as for Weft's families ---------------- */

static const char song[] = "round and round the wheel goes, over and under the thread goes, ";

static weft_status train(weft_model *model, weft_batches *batches, const char *folder,
                         int64_t steps)
{
    weft_trainer *trainer;
    weft_train_result result = {0};
    const weft_trainer_options o = {.steps = steps, .lr = 1e-2, .folder = folder};
    weft_status status = weft_trainer_new(model, &o, &trainer);
    if (status == WEFT_OK)
        status = weft_trainer_run(trainer, batches, NULL, &result);
    weft_trainer_free(trainer);
    printf("loss after %lld updates: %.4f\n", (long long)result.steps, result.loss);
    return status;
}

static bool collect(void *context, const weft_generated *token)
{
    strcat(context, (char[]){(char)token->id, '\0'});
    return true;
}

static weft_status use(weft_model *model, weft_batches *batches, const int32_t *ids,
                       const char *folder)
{
    char text[80] = "";
    const weft_generate_options o = {.max_tokens = 24};
    weft_status status = train(model, batches, NULL, 60);
    if (status == WEFT_OK)
        status = weft_generate(model, NULL, ids, 10, &o, collect, text, NULL);
    if (status != WEFT_OK)
        return status;
    printf("after \"%.10s\" comes \"%s\"\n", song, text);
    if (strncmp(text, song + 10, 20) != 0)
        return weft_fail(WEFT_INVALID, "expected the song to continue");
    status = weft_nn_lora_inject(weft_model_module(model), NULL); /* q_proj and v_proj */
    return status == WEFT_OK ? train(model, batches, folder, 5) : status;
}

int main(int argc, char **argv)
{
    int32_t ids[2 * sizeof song];
    int n = 0;
    for (; n < 2 * (int)strlen(song); n++)
        ids[n] = song[(size_t)n % strlen(song)];
    weft_config *config = NULL;
    weft_model *model = NULL;
    weft_dataset *data = NULL;
    weft_batches *batches = NULL;
    weft_status status = weft_model_register(&family);
    if (status == WEFT_OK)
        status = weft_config_parse("{\"model_type\": \"reader\"}", "reader", &config);
    if (status == WEFT_OK)
        status = weft_model_new(config, &model);
    if (status == WEFT_OK)
        status = weft_dataset_new(n, &data);
    if (status == WEFT_OK)
        status = weft_dataset_add(data, ids, n, 0);
    if (status == WEFT_OK)
        status = weft_batches_new(data, 1, 0, &batches);
    const char *folder = argc > 1 ? argv[1] : "reader-run";
    if (status == WEFT_OK)
        status = use(model, batches, ids, folder);
    if (status == WEFT_OK)
        printf("the adapter is in %s/last\n", folder);
    else
        printf("%s\n", weft_error_message());
    weft_batches_free(batches);
    weft_dataset_free(data);
    weft_model_free(model);
    weft_config_free(config);
    return status != WEFT_OK;
}
