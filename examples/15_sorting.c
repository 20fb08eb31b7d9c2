/* examples/15_sorting.c -- Weft from the first array to a trained transformer: it learns to sort
 * digits, and is measured on digits that it has not seen.
 *
 * Read it from top to bottom. Each section uses the ones before it:
 *   1. arrays     2. attention by hand     3. modules     4. data     5. loss, gradients, updates
 *   6. answers    7. files
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

/* A sequence has the digits, a sign, and the digits in order: "31415>11345". The model reads
 * all but the last token, and predicts at each position the token after it. */
enum { DIGITS = 5, SIGN = 10, VOCABULARY = 11, LENGTH = 2 * DIGITS + 1, L = LENGTH - 1 };
enum { E = 32, HEADS = 4, LAYERS = 2 };                /* the model: hidden size, heads, layers */
enum { B = 64, STEPS = 300, WARMUP = 20, ROWS = 200 }; /* batch, updates, rows to measure */

/* ---- 1. Arrays ------------------------------------------------------------------------------ */

/* Functions of arrays build a graph and compute nothing; reading a number computes what it needs.
 * Each result belongs to the innermost open scope, which frees it when it closes. A failed call
 * returns an array that contains the error, and so does every call that gets this array. */
static int show_arrays(void)
{
    weft_scope_open();
    weft_array *x = weft_arange(0, 6, 1, WEFT_FLOAT32);   /* 0 1 2 3 4 5 */
    weft_array *table = weft_reshape(x, WEFT_DIMS(2, 3)); /* two rows of three */
    weft_array *column = weft_full(WEFT_DIMS(2, 1), 10, WEFT_FLOAT32);
    weft_array *sum = weft_add(table, column); /* the column is repeated: (2, 3) */
    const double last = weft_item(WEFT_INDEX(sum, weft_at(1), weft_at(2)));
    weft_array *wrong = weft_matmul(table, table); /* (2, 3) x (2, 3) is no product */
    printf("1. sum[1, 2] is %g; the error says: %s\n", last, weft_error(weft_sqrt(wrong)));
    const int fine = last == 15 && !weft_ok(wrong);
    weft_scope_close(NULL);
    return fine;
}

/* ---- 2. Attention by hand ------------------------------------------------------------------- */

/* Causal attention of q, k, v (B, L, heads, D), as in the formula: the softmax of q k^T / sqrt(D),
 * in which a position sees itself and those before it, times v. A function of arrays borrows them;
 * all that it makes but its result goes with its scope. */
static weft_array *attention_by_hand(weft_array *q, weft_array *k, weft_array *v)
{
    weft_scope_open();
    const int64_t n = weft_dim(q, 1);
    const double scale = 1 / sqrt((double)weft_dim(q, 3));
    weft_array *rows = weft_swapaxes(q, 1, 2), *columns = weft_swapaxes(k, 1, 2); /* (B, H, n, D) */
    weft_array *scores = weft_matmul(weft_scale(rows, scale), weft_swapaxes(columns, 2, 3));
    weft_array *seen = weft_tril(weft_ones(WEFT_DIMS(n, n), WEFT_BOOL), 0);
    scores = weft_where(seen, scores, weft_scalar(-INFINITY, WEFT_FLOAT32)); /* (B, H, n, n) */
    weft_array *y = weft_matmul(weft_softmax(scores, -1), weft_swapaxes(v, 1, 2));
    return weft_scope_close(weft_swapaxes(y, 1, 2)); /* (B, n, H, D) */
}

/* weft_attention computes the same in one kernel that never stores the scores. */
static int compare_attention(void)
{
    weft_scope_open();
    weft_array *parts[3];
    for (int i = 0; i < 3; i++)
        parts[i] = weft_random_normal(weft_random_key((uint64_t)i), WEFT_DIMS(2, L, HEADS, 16), 0,
                                      1, WEFT_FLOAT32);
    weft_attention_options causal = {.causal = true};
    weft_array *fused = weft_attention(parts[0], parts[1], parts[2], &causal);
    weft_array *difference = weft_subtract(attention_by_hand(parts[0], parts[1], parts[2]), fused);
    const double most = weft_item(weft_max(weft_abs(difference), WEFT_ALL_AXES, false));
    printf("2. attention by hand and weft_attention differ by at most %.1g\n", most);
    weft_scope_close(NULL);
    return most < 1e-5;
}

/* ---- 3. Modules ----------------------------------------------------------------------------- */

/* A module is a struct that begins with a weft_module. Its other fields are parameters and
 * children; their names are the names in files. */
typedef struct block {
    weft_module module;
    weft_module *norm1, *qkv, *out, *norm2, *up, *down;
} block;

/* x (B, L, E) -> (B, L, E). Rotary embeddings turn q and k by their positions. */
static weft_array *attend(block *m, weft_array *x)
{
    weft_array *parts[3];
    weft_split(weft_nn_call(m->qkv, x), 3, -1, parts); /* q, k, v: (B, L, E) each */
    weft_array *positions = weft_arange(0, (double)weft_dim(x, 1), 1, WEFT_INT32);
    weft_rope_options rope = {.head_dim = E / HEADS};
    weft_array *frequencies = weft_rope_frequencies(&rope, NULL);
    for (int i = 0; i < 3; i++) {
        parts[i] =
            weft_reshape(parts[i], WEFT_DIMS(weft_dim(x, 0), weft_dim(x, 1), HEADS, E / HEADS));
        if (i < 2)
            parts[i] = weft_rope(parts[i], positions, frequencies, false, 1);
    }
    weft_attention_options causal = {.causal = true};
    weft_array *y = weft_attention(parts[0], parts[1], parts[2], &causal);
    return weft_nn_call(m->out, weft_flatten(y, 2, 3));
}

/* The forward pass reads like the paper: two branches, each added to what it reads. */
static weft_array *block_forward(weft_module *self, weft_array *x)
{
    block *m = (block *)self;
    x = weft_add(x, attend(m, weft_nn_call(m->norm1, x)));
    weft_array *h = weft_gelu(weft_nn_call(m->up, weft_nn_call(m->norm2, x))); /* (B, L, 4 E) */
    return weft_add(x, weft_nn_call(m->down, h));
}

static const weft_module_type block_type = {.name = "block", .forward = block_forward};

/* A child that cannot be made marks the module as failed; weft_nn_finish then returns NULL. */
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

typedef struct sorter {
    weft_module module;
    weft_module *embedding, *blocks, *norm, *head;
} sorter;

/* tokens (B, L) -> logits of the next tokens (B, L, VOCABULARY) */
static weft_array *sorter_forward(weft_module *self, weft_array *tokens)
{
    sorter *m = (sorter *)self;
    weft_array *x = weft_nn_call(m->embedding, tokens); /* (B, L, E) */
    for (int i = 0; i < LAYERS; i++)
        x = weft_nn_call(weft_nn_list_at(m->blocks, i), x);
    return weft_nn_call(m->head, weft_nn_call(m->norm, x));
}

static const weft_module_type sorter_type = {.name = "sorter", .forward = sorter_forward};

static weft_module *sorter_new(void)
{
    sorter *m = weft_nn_new(sorter, &sorter_type);
    if (m == NULL)
        return NULL;
    weft_nn_child(m, embedding, weft_nn_embedding_new(VOCABULARY, E));
    weft_module *blocks = weft_nn_list_new(LAYERS);
    for (int i = 0; i < LAYERS && blocks != NULL; i++)
        weft_nn_list_append(blocks, block_new());
    weft_nn_child(m, blocks, blocks);
    weft_nn_child(m, norm, weft_nn_rms_norm_new(E, 1e-5));
    weft_nn_child(m, head, weft_nn_linear_new(E, VOCABULARY, false));
    return weft_nn_finish(m);
}

/* ---- 4. Data -------------------------------------------------------------------------------- */

/* n sequences (n, LENGTH): random digits, the sign, and the digits in order. The same key gives the
 * same digits on every device. Data of your own comes through weft_from_data or from files, as in
 * 08_transformer.c. */
static weft_array *draw_sequences(weft_array *key, int64_t n)
{
    weft_scope_open();
    weft_array *digits = weft_random_randint(key, WEFT_DIMS(n, DIGITS), 0, 10, WEFT_INT32);
    weft_array *sign = weft_full(WEFT_DIMS(n, 1), SIGN, WEFT_INT32);
    weft_array *const parts[] = {digits, sign, weft_sort(digits, -1)};
    return weft_scope_close(weft_concatenate(parts, 3, -1));
}

/* ---- 5. Loss, gradients, updates ------------------------------------------------------------ */

typedef struct training {
    weft_module *model;
    weft_nn_slots parameters; /* where the arrays of the parameters are */
    weft_optim *optimizer;
    weft_array *sequences; /* of the current batch */
} training;

/* The mean loss of the answers. The digits before the sign are random, so nobody can predict them:
 * their targets are -1, which the loss ignores (a loss mask). */
static weft_array *loss(void *context)
{
    training *t = context;
    weft_array *tokens = weft_slice_axis(t->sequences, 1, 0, L);
    weft_array *next = weft_slice_axis(t->sequences, 1, 1, LENGTH);
    weft_array *answered = weft_greater_equal_scalar(weft_arange(0, L, 1, WEFT_INT32), DIGITS);
    weft_array *targets = weft_where(answered, next, weft_scalar_int(-1, WEFT_INT32));
    weft_array *losses = weft_cross_entropy_rows(weft_nn_call(t->model, tokens), targets);
    return weft_scale(weft_sum(losses, WEFT_ALL_AXES, false), 1.0 / (B * DIGITS));
}

/* One update. weft_value_and_grad_slots calls the loss and gives its gradients for the arrays in
 * the slots. weft_optim_apply evaluates everything, clips the gradients, and replaces parameters
 * and moments; if the loss or the gradients are not finite, it changes nothing. */
static weft_status update(training *t, int step, double factor, double *value)
{
    weft_array *gradients[64];
    weft_optim_call call = {.lr_factor = factor, .clip = 1};
    weft_scope_open();
    t->sequences = draw_sequences(weft_random_key((uint64_t)step), B);
    call.loss = weft_value_and_grad_slots(loss, t, t->parameters.slots, t->parameters.n, gradients);
    weft_status status = weft_optim_apply(t->optimizer, gradients, &call);
    *value = call.loss_value;
    weft_scope_close(NULL);
    return status;
}

/* The learning rate rises for WARMUP updates and falls along a cosine. 08_transformer.c shows how
 * such a loop is compiled. */
static weft_status train(training *t, double *first, double *last)
{
    weft_rate *const parts[] = {weft_rate_linear(0.05, 1, WARMUP),
                                weft_rate_cosine_decay(1, STEPS - WARMUP, 0.02)};
    weft_rate *rate = weft_rate_join(parts, 2, (const int64_t[]){WARMUP});
    weft_status status = rate != NULL ? WEFT_OK : weft_error_status();
    for (int step = 0; step < STEPS && status == WEFT_OK; step++) {
        status = update(t, step, weft_rate_at(rate, step), last);
        *first = step == 0 ? *last : *first;
        if (status == WEFT_OK && (step % 100 == 0 || step == STEPS - 1))
            printf("5. update %3d: loss %.4f\n", step, *last);
    }
    weft_rate_free(rate);
    return status;
}

/* ---- 6. Answers ----------------------------------------------------------------------------- */

/* Greedy answers for `tokens` (n, DIGITS + 1): the most probable token is appended until the
 * sequences are complete. */
static weft_array *answer(weft_module *model, weft_array *tokens)
{
    weft_scope_open();
    for (int i = 0; i < DIGITS; i++) {
        weft_array *logits = weft_nn_call(model, tokens);
        weft_array *last = weft_slice_axis(logits, 1, -1, INT64_MAX);             /* (n, 1, V) */
        weft_array *next = weft_astype(weft_argmax(last, -1, false), WEFT_INT32); /* (n, 1) */
        tokens = weft_concatenate((weft_array *[]){tokens, next}, 2, 1);
    }
    return weft_scope_close(tokens); /* (n, LENGTH) */
}

/* The share of sequences that are right to the last digit, of ROWS that were not trained on: their
 * key is another one. There are 100,000 questions, and training has seen at most 19,200. */
static weft_status measure(weft_module *model, double *share)
{
    static const char letters[] = "0123456789>";
    int32_t ids[LENGTH];
    weft_scope_open();
    weft_array *right = draw_sequences(weft_random_key(1u << 20), ROWS);
    weft_array *answers = answer(model, weft_slice_axis(right, 1, 0, DIGITS + 1));
    weft_array *same = weft_all(weft_equal(answers, right), WEFT_DIMS(-1), false); /* (ROWS) */
    weft_array *mean = weft_mean(weft_astype(same, WEFT_FLOAT32), WEFT_ALL_AXES, false);
    weft_status status = weft_eval_n((weft_array *[]){mean, answers}, 2);
    *share = weft_item(mean);
    if (status == WEFT_OK)
        status = weft_read(WEFT_INDEX(answers, weft_at(0)), WEFT_INT32, ids, LENGTH);
    for (int i = 0; i < LENGTH && status == WEFT_OK; i++)
        putchar(letters[ids[i]]);
    printf(", and %.1f%% of %d answers are right\n", 100 * *share, ROWS);
    weft_scope_close(NULL);
    return status;
}

/* ---- 7. Files ------------------------------------------------------------------------------- */

/* Saves the parameters as safetensors, and loads them into a new model. */
static weft_status reload(weft_module *model, weft_module **out)
{
    char path[] = "/tmp/weft-15-XXXXXX";
    const int descriptor = mkstemp(path);
    weft_safetensors *file = NULL;
    weft_status status = weft_nn_save(model, path, NULL);
    *out = sorter_new();
    if (status == WEFT_OK)
        status = *out != NULL ? weft_safetensors_open(path, &file) : weft_error_status();
    if (status == WEFT_OK)
        status = weft_nn_load(*out, file, NULL);
    weft_safetensors_close(file);
    if (descriptor >= 0)
        remove(path);
    return status;
}

int main(void)
{
    const weft_optim_group adamw = {.type = &weft_optim_adamw, .learning_rate = 3e-3};
    training t = {0};
    weft_module *loaded = NULL;
    double first = NAN, last = NAN, before = NAN, after = NAN, again = NAN;
    const int fine = show_arrays() + compare_attention();
    weft_random_seed(0); /* of the initial parameters */
    t.model = sorter_new();
    weft_status status = t.model != NULL ? WEFT_OK : weft_error_status();
    if (status == WEFT_OK)
        status = weft_nn_trainable(t.model, &t.parameters);
    if (status == WEFT_OK)
        status = weft_optim_new(&t.parameters, &adamw, 1, &t.optimizer);
    if (status == WEFT_OK)
        printf("3. the model has %lld parameters\n6. before training: ",
               (long long)weft_nn_count(t.model, false));
    if (status == WEFT_OK)
        status = measure(t.model, &before);
    if (status == WEFT_OK)
        status = train(&t, &first, &last);
    printf("6. after training: ");
    if (status == WEFT_OK)
        status = measure(t.model, &after);
    printf("7. from the file: ");
    if (status == WEFT_OK)
        status = reload(t.model, &loaded);
    if (status == WEFT_OK)
        status = measure(loaded, &again);
    if (status != WEFT_OK)
        printf("%s\n", weft_error_message());
    weft_optim_free(t.optimizer);
    weft_nn_slots_free(&t.parameters);
    weft_nn_free(t.model);
    weft_nn_free(loaded);
    return !(fine == 2 && status == WEFT_OK && last < 0.2 * first && after > 0.8 && again == after);
}
