/* examples/04_generate.c -- a model continues a text: as a stream, and by hand token by token. */
#include <stdio.h>
#include <string.h>

#include <weft/weft.h>

typedef struct text {
    char data[1024];
    size_t length;
} text;

/* Prints and collects what each token brings. */
static bool show(void *context, const weft_generated *token)
{
    text *t = context;
    fwrite(token->text, 1, token->length, stdout);
    if (t->length + token->length < sizeof t->data) {
        memcpy(t->data + t->length, token->text, token->length);
        t->length += token->length;
    }
    return true;
}

static weft_status stream(weft_model *model, const weft_tokenizer *tokenizer, const int32_t *ids,
                          size_t n, double temperature, text *out)
{
    const weft_generate_options options = {
        .sampler = {.temperature = temperature, .top_p = 0.9},
        .seed = 7,
        .max_tokens = 40,
    };
    weft_generate_stats stats;
    out->length = 0;
    weft_status status = weft_generate(model, tokenizer, ids, n, &options, show, out, &stats);
    out->data[out->length] = '\0';
    printf("\n[%lld tokens, %.0f a second]\n\n", (long long)stats.tokens, stats.decode_per_second);
    return status;
}

/* The same greedy continuation from the model's forward: the caches remember the tokens before, so
 * each step passes only the new one. */
static weft_status by_hand(weft_model *model, const int32_t *ids, size_t n, int32_t *out, int count)
{
    weft_cache **caches = weft_model_new_caches(model, NULL);
    weft_status status = caches != NULL ? WEFT_OK : WEFT_MEMORY;
    int32_t last = -1;
    for (int i = 0; i < count && status == WEFT_OK; i++) {
        weft_scope_open();
        weft_array *tokens = i == 0 ? weft_from_data(ids, WEFT_INT32, WEFT_DIMS(1, (int64_t)n))
                                    : weft_from_data(&last, WEFT_INT32, WEFT_DIMS(1, 1));
        weft_array *logits =
            weft_model_forward(model, tokens, &(weft_model_call){.caches = caches}); /* (1, L, V) */
        weft_array *newest = weft_slice_axis(logits, 1, -1, INT64_MAX);              /* (1, 1, V) */
        status = weft_read(weft_argmax(newest, -1, false), WEFT_INT32, &last, 1);
        weft_scope_close(NULL);
        out[i] = last;
    }
    weft_model_free_caches(model, caches);
    return status;
}

static weft_status run(const char *folder, int *failures)
{
    static const char prompt[] = "Once upon a time there was";
    weft_model *model = NULL;
    weft_tokenizer *tokenizer = NULL;
    int32_t *ids = NULL, greedy[8];
    size_t n = 0;
    char *decoded = NULL;
    text bold, sober;
    weft_status status =
        weft_model_load(folder, &(weft_model_options){.dtype = WEFT_FLOAT32}, &model);
    if (status == WEFT_OK)
        status = weft_tokenizer_load(folder, &tokenizer);
    if (status == WEFT_OK)
        status = weft_tokenizer_encode(tokenizer, prompt, strlen(prompt), 0, &ids, &n);
    if (status == WEFT_OK)
        status = stream(model, tokenizer, ids, n, 0.8, &bold);
    if (status == WEFT_OK)
        status = stream(model, tokenizer, ids, n, 0, &sober); /* 0: the likeliest token */
    if (status == WEFT_OK)
        status = by_hand(model, ids, n, greedy, 8);
    if (status == WEFT_OK)
        status = weft_tokenizer_decode(tokenizer, greedy, 8, 0, &decoded, NULL);
    if (status == WEFT_OK) {
        printf("by hand:%s\n", decoded);
        *failures = strncmp(sober.data, decoded, strlen(decoded)) != 0;
    }
    weft_free(decoded);
    weft_free(ids);
    weft_tokenizer_free(tokenizer);
    weft_model_free(model);
    return status;
}

int main(int argc, char **argv)
{
    int failures = 0;
    weft_status status = run(argc > 1 ? argv[1] : "examples/storyteller", &failures);
    if (status != WEFT_OK)
        printf("%s\n", weft_error_message());
    return status != WEFT_OK || failures != 0;
}
