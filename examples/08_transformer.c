/* examples/08_transformer.c -- a transformer from scratch: its modules, a training loop, the same
 * loop compiled, and text from it (docs/tutorial.md explains it). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <weft/weft.h>

enum { VOCABULARY = 128, B = 8, L = 64, E = 64, HEADS = 4, LAYERS = 2 };
enum { PLAIN_STEPS = 20, STEPS = 80 };

/* ---- A block: attention and an MLP, each added to what it reads ----------------------------- */

typedef struct block {
    weft_module module;
    weft_module *norm1, *qkv, *out, *norm2, *up, *down;
} block;

/* q, k, v of x (B, L, E), each (B, L, HEADS, E / HEADS); q and k turned by their positions. */
static weft_array *attend(block *m, weft_array *x)
{
    weft_array *parts[3];
    weft_dims heads = WEFT_DIMS(weft_dim(x, 0), weft_dim(x, 1), HEADS, E / HEADS);
    weft_array *positions = weft_arange(0, (double)weft_dim(x, 1), 1, WEFT_INT32);
    weft_rope_options options = {.head_dim = E / HEADS};
    weft_array *frequencies = weft_rope_frequencies(&options, NULL);
    weft_split(weft_nn_call(m->qkv, x), 3, -1, parts);
    for (int i = 0; i < 3; i++)
        parts[i] = weft_reshape(parts[i], heads);
    for (int i = 0; i < 2; i++)
        parts[i] = weft_rope(parts[i], positions, frequencies, false, 1);
    weft_attention_options causal = {.causal = true};
    weft_array *y = weft_attention(parts[0], parts[1], parts[2], &causal);
    return weft_nn_call(m->out, weft_flatten(y, 2, 3)); /* (B, L, E) */
}

static weft_array *block_forward(weft_module *self, weft_array *x)
{
    block *m = (block *)self;
    x = weft_add(x, attend(m, weft_nn_call(m->norm1, x)));
    weft_array *h = weft_gelu(weft_nn_call(m->up, weft_nn_call(m->norm2, x))); /* (B, L, 4 E) */
    return weft_add(x, weft_nn_call(m->down, h));
}

static const weft_module_type block_type = {.name = "block", .forward = block_forward};

static weft_module *block_new(void)
{
    block *m = weft_nn_new(block, &block_type);
    if (m == NULL)
        return NULL;
    weft_nn_child(m, norm1, weft_nn_rms_norm_new(E, 1e-5));
    weft_nn_child(m, qkv, weft_nn_linear_new(E, 3 * E, false));
    weft_nn_child(m, out, weft_nn_linear_new(E, E, false));
    weft_nn_child(m, norm2, weft_nn_rms_norm_new(E, 1e-5));
    weft_nn_child(m, up, weft_nn_linear_new(E, 4 * E, false));
    weft_nn_child(m, down, weft_nn_linear_new(4 * E, E, false));
    return weft_nn_finish(m);
}

/* ---- The model: bytes in, logits of the next byte out --------------------------------------- */

typedef struct transformer {
    weft_module module;
    weft_module *embedding, *blocks, *norm;
} transformer;

/* tokens (B, L) -> (B, L, VOCABULARY) */
static weft_array *transformer_forward(weft_module *self, weft_array *tokens)
{
    transformer *m = (transformer *)self;
    weft_array *x = weft_nn_call(m->embedding, tokens); /* (B, L, E) */
    for (int i = 0; i < LAYERS; i++)
        x = weft_nn_call(weft_nn_list_at(m->blocks, i), x);
    return weft_nn_embedding_head(m->embedding, weft_nn_call(m->norm, x));
}

static const weft_module_type transformer_type = {.name = "transformer",
                                                  .forward = transformer_forward};

static weft_module *transformer_new(void)
{
    transformer *m = weft_nn_new(transformer, &transformer_type);
    if (m == NULL)
        return NULL;
    weft_nn_child(m, embedding, weft_nn_embedding_new(VOCABULARY, E));
    weft_module *blocks = weft_nn_list_new(LAYERS);
    for (int i = 0; i < LAYERS && blocks != NULL; i++)
        weft_nn_list_append(blocks, block_new());
    weft_nn_child(m, blocks, blocks);
    weft_nn_child(m, norm, weft_nn_rms_norm_new(E, 1e-5));
    return weft_nn_finish(m);
}

/* ---- A step: draw windows of the text, take gradients, update ------------------------------- */

typedef struct training {
    weft_module *model;
    weft_array *text, *windows; /* uint8 (N), int32 (B, L + 1) */
    weft_nn_slots parameters;
    weft_optim *optimizer;
} training;

static weft_array *loss(void *context)
{
    training *t = context;
    weft_array *inputs = weft_slice_axis(t->windows, 1, 0, L);
    weft_array *targets = weft_slice_axis(t->windows, 1, 1, L + 1);
    weft_array *logits = weft_nn_call(t->model, inputs);
    return weft_mean(weft_cross_entropy_rows(logits, targets), WEFT_ALL_AXES, false);
}

/* A batch: B windows of L + 1 bytes, which begin at random positions. */
static void draw_windows(training *t, weft_array *key)
{
    weft_array *starts =
        weft_random_randint(key, WEFT_DIMS(B, 1), 0, weft_size(t->text) - L - 1, WEFT_INT32);
    weft_array *indices = weft_add(starts, weft_arange(0, L + 1, 1, WEFT_INT32)); /* (B, L + 1) */
    t->windows = weft_astype(weft_take(t->text, indices, 0), WEFT_INT32);
}

/* Each update builds its graph, which the optimizer evaluates. */
static weft_status train_plainly(training *t, double *first)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < PLAIN_STEPS && status == WEFT_OK; i++) {
        weft_array *grads[64];
        weft_optim_call call = {.lr_factor = 1};
        weft_scope_open();
        draw_windows(t, weft_random_key((uint64_t)i));
        call.loss = weft_value_and_grad_slots(loss, t, t->parameters.slots, t->parameters.n, grads);
        status = weft_optim_apply(t->optimizer, grads, &call);
        if (i == 0)
            *first = call.loss_value;
        if (i % 10 == 0)
            printf("step %3d  loss %.3f\n", i, call.loss_value);
        weft_scope_close(NULL);
    }
    return status;
}

/* An update as a function that can be compiled. in[0]: a random key; out[0]: the loss. */
static int step(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)n_in, (void)room;
    training *t = context;
    weft_array *grads[64];
    draw_windows(t, in[0]);
    out[0] = weft_value_and_grad_slots(loss, t, t->parameters.slots, t->parameters.n, grads);
    if (weft_optim_update(t->optimizer, grads) != WEFT_OK)
        out[0] = weft_error_array("%s", weft_error_message());
    return 1;
}

static weft_status train_compiled(training *t, double *last)
{
    int n_state;
    weft_array ***state = weft_optim_slots(t->optimizer, &n_state);
    weft_compiled *compiled = NULL;
    weft_status status = weft_compile(step, t, state, n_state, NULL, &compiled);
    weft_array *key = weft_keep(weft_random_key(1));
    for (int i = PLAIN_STEPS; i < STEPS && status == WEFT_OK; i++) {
        weft_scope_open();
        weft_array *keys[2], *value;
        weft_random_split_pair(key, &keys[0], &keys[1]);
        status = weft_compiled_call(compiled, &keys[0], 1, &value, 1);
        *last = weft_item(value);
        if (i % 20 == 0 || i == STEPS - 1)
            printf("step %3d  loss %.3f\n", i, *last);
        if (status == WEFT_OK)
            status = weft_set(&key, keys[1]);
        weft_scope_close(NULL);
    }
    weft_drop(key);
    weft_compiled_free(compiled);
    return status;
}

/* ---- Text: the next byte drawn from what the model expects ---------------------------------- */

static weft_status speak(weft_module *model, const char *prompt, int n)
{
    char text[L + 1];
    int length = snprintf(text, sizeof text, "%s", prompt);
    weft_array *keys = weft_keep(weft_random_split(weft_random_key(2), n));
    weft_status status = WEFT_OK;
    for (int i = 0; i < n && length < L && status == WEFT_OK; i++) {
        weft_scope_open();
        weft_array *tokens = weft_from_data(text, WEFT_UINT8, WEFT_DIMS(1, length));
        weft_array *logits = weft_nn_call(model, weft_astype(tokens, WEFT_INT32));
        weft_array *next = WEFT_INDEX(logits, weft_at(0), weft_at(-1)); /* (VOCABULARY) */
        weft_array *key = WEFT_INDEX(keys, weft_at(i));
        weft_array *drawn = weft_random_categorical(key, weft_scale(next, 1 / 0.7), -1);
        status = weft_eval(drawn);
        text[length++] = status == WEFT_OK ? (char)weft_item_int(drawn) : '?';
        weft_scope_close(NULL);
    }
    weft_drop(keys);
    printf("%.*s\n", length, text);
    return status;
}

int main(int argc, char **argv)
{
    training t = {0};
    char *bytes = NULL;
    size_t size = 0;
    double first = NAN, last = NAN;
    weft_scope_open();
    weft_random_seed(0);
    weft_status status =
        weft_file_read(argc > 1 ? argv[1] : "examples/data/shakespeare.txt", 0, &bytes, &size);
    t.model = status == WEFT_OK ? transformer_new() : NULL;
    if (t.model != NULL) {
        t.text = weft_from_data(bytes, WEFT_UINT8, WEFT_DIMS((int64_t)size));
        status = weft_nn_trainable(t.model, &t.parameters);
        printf("%lld parameters\n", (long long)weft_nn_count(t.model, false));
    } else {
        status = weft_error_status();
    }
    weft_optim_group adamw = {.type = &weft_optim_adamw, .learning_rate = 3e-3};
    if (status == WEFT_OK)
        status = weft_optim_new(&t.parameters, &adamw, 1, &t.optimizer);
    if (status == WEFT_OK)
        status = train_plainly(&t, &first);
    if (status == WEFT_OK)
        status = train_compiled(&t, &last);
    if (status == WEFT_OK)
        status = speak(t.model, "ROMEO:", 50);
    if (status != WEFT_OK)
        printf("%s\n", weft_error_message());
    weft_optim_free(t.optimizer);
    weft_nn_slots_free(&t.parameters);
    weft_nn_free(t.model);
    weft_scope_close(NULL);
    weft_free(bytes);
    return !(status == WEFT_OK && last < 0.65 * first);
}
