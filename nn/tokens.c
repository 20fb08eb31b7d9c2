/* nn/tokens.c -- trains the rows of selected tokens in the embedding and output head while the
 * others stay frozen. Rows of new tokens are stored separately too, so the weight may be encoded or
 * mapped. */
#include <stdio.h>
#include <string.h>

#include "core/failure.h"
#include "nn/tokens.h"

/* ---- the layers ----------------------------------------------------------------------------- */

/* Ids with new tokens replaced by one that the base has. */
static weft_array *known_ids(const weft_nn_tokens *m, weft_array *ids)
{
    const int64_t V = weft_dim(m->row_of_token, 0) - m->further;
    return m->further > 0 ? weft_minimum_scalar(ids, (double)(V - 1)) : ids;
}

/* Replaces rows of y (..., E) by those of `trainable_tokens_delta` whose index is given. */
static weft_array *with_rows(const weft_nn_tokens *m, weft_array *y, weft_array *ids)
{
    weft_array *row_index = weft_take(m->row_of_token, ids, 0); /* (...), -1: frozen */
    weft_array *own = weft_embedding(m->trainable_tokens_delta, weft_maximum_scalar(row_index, 0));
    weft_array *trained = weft_expand_dims(weft_greater_equal_scalar(row_index, 0), -1);
    return weft_where(trained, weft_astype(own, weft_dtype_of(y)), y);
}

static weft_array *embed(weft_module *self, weft_array *ids)
{
    const weft_nn_tokens *m = (const weft_nn_tokens *)self;
    if (m->merged)
        return weft_nn_call(m->base, ids);
    return with_rows(m, weft_nn_call(m->base, known_ids(m, ids)), ids);
}

/* x (..., n) padded with zeros to the number of all tokens. */
static weft_array *widened(const weft_nn_tokens *m, weft_array *x)
{
    return m->further > 0 ? weft_pad(x, -1, 0, m->further, 0) : x;
}

/* Logits (..., V), where those of trained tokens are computed from their own rows. */
static weft_array *head(weft_module *self, weft_array *x)
{
    const weft_nn_tokens *m = (const weft_nn_tokens *)self;
    weft_array *y = weft_nn_call(m->base, x);
    if (m->merged)
        return y;
    y = widened(m, y);
    weft_array *rows = weft__nn_near(m->row_of_token, x);
    weft_array *own = weft_linear(x, weft__nn_near(m->trainable_tokens_delta, x), NULL);
    own = weft_take(own, weft_maximum_scalar(rows, 0), -1); /* (..., k) -> (..., V) */
    return weft_where(weft_greater_equal_scalar(rows, 0), weft_astype(own, weft_dtype_of(y)), y);
}

static void describe(const weft_module *self, char *out, size_t size)
{
    const weft_nn_tokens *m = (const weft_nn_tokens *)self;
    snprintf(out, size, "tokens=%lld%s", (long long)weft_dim(m->token_ids, 0),
             m->merged ? " merged" : "");
}

static void destroy(weft_module *self)
{
    weft_drop(((weft_nn_tokens *)self)->original);
}

static const weft_module_type embedding_type = {
    .name = "token_embedding", .forward = embed, .destroy = destroy, .describe = describe};
static const weft_module_type head_type = {
    .name = "token_head", .forward = head, .destroy = destroy, .describe = describe};

bool weft__is_tokens(const weft_module *m)
{
    return m->type == &embedding_type || m->type == &head_type;
}

int64_t weft__tokens_count(weft_module *m)
{
    const weft_nn_tokens *tokens = (const weft_nn_tokens *)m;
    return weft__is_tokens(m) ? weft_dim(tokens->row_of_token, 0)
                              : weft_dim(*weft_nn_find(m, "weight"), 0);
}

weft_array *weft__tokens_rows(const weft_nn_tokens *m)
{
    const weft_slot *slot = weft__nn_slot((weft_module *)m, "trainable_tokens_delta");
    return slot->kind == WEFT_SLOT_TIED ? *slot->owner : m->trainable_tokens_delta;
}

/* ---- injection ------------------------------------------------------------------------------- */

typedef struct search {
    const char *target;
    weft_module **field;
    weft_array **owner; /* if set: search modules tied to it, not modules with the name */
} search;

static bool ends_with(const char *path, const char *end)
{
    const size_t n = strlen(path), m = strlen(end);
    return n >= m && strcmp(path + n - m, end) == 0 && (n == m || path[n - m - 1] == '.');
}

static weft_status look(void *context, const char *path, weft_module **field)
{
    search *s = context;
    const weft_slot *slot = weft__nn_slot(*field, "weight");
    if (s->field || (*field)->parent == NULL)
        return WEFT_OK;
    if (s->owner ? slot && slot->kind == WEFT_SLOT_TIED && slot->owner == s->owner
                 : ends_with(path, s->target))
        s->field = field;
    return WEFT_OK;
}

/* What to train. */
typedef struct request {
    const int32_t *tokens;
    int n;
    int64_t known; /* tokens from this id on are new; negative: none */
    bool loaded;   /* rows will be loaded, so new ones need no initial values */
} request;

/* Checks that the ids are distinct and within V rows, and that new tokens follow those rows without
 * a gap. */
static weft_status check_ids(const char *target, const request *r, int64_t V)
{
    const int64_t end = r->known < 0 ? V : V + r->n;
    bool *seen = weft_calloc((size_t)end, sizeof *seen);
    weft_status status = seen ? WEFT_OK : weft__out_of_memory("tokens", "a list of ids");
    int64_t largest = V - 1;
    for (int i = 0; status == WEFT_OK && i < r->n; i++) {
        const int32_t id = r->tokens[i];
        if (id < 0 || id >= end)
            status = weft_fail(WEFT_INVALID, "tokens: %s: expected ids of 0 to %lld, got %d",
                               weft_printable(target), (long long)end - 1, (int)id);
        else if (seen[id])
            status = weft_fail(WEFT_INVALID, "tokens: %d is given twice", (int)id);
        else
            seen[id] = true;
        largest = status == WEFT_OK && id > largest ? id : largest;
    }
    for (int64_t id = V; status == WEFT_OK && id < largest; id++) {
        if (!seen[id])
            status = weft_fail(WEFT_INVALID,
                               "tokens: %s: the new id %lld has no row: ids from %lld on must be "
                               "given without a gap",
                               weft_printable(target), (long long)id, (long long)V);
    }
    weft_free(seen);
    return status;
}

static weft_status check_base(const weft_module *base, const char *target, const request *r)
{
    if (base == NULL)
        return weft_fail(WEFT_INVALID, "tokens: there is no module '%s'", weft_printable(target));
    if (base->type != &weft__nn_embedding_type && base->type != &weft_nn_linear_type)
        return weft_fail(WEFT_UNSUPPORTED,
                         "tokens: %s: expected an embedding or a linear without an adapter, got %s",
                         weft_printable(target), base->type->name);
    if (base->type == &weft_nn_linear_type && ((const weft_nn_linear *)base)->bias)
        return weft_fail(WEFT_UNSUPPORTED, "tokens: %s: a head with a bias is unsupported", target);
    return check_ids(target, r, weft_dim(*weft_nn_find((weft_module *)base, "weight"), 0));
}

static weft_array *places_of(const request *r, int64_t V)
{
    int32_t *row_of_token = weft_malloc((size_t)V * sizeof *row_of_token);
    if (row_of_token == NULL)
        return weft_error_array("tokens: out of memory for %lld places", (long long)V);
    for (int64_t i = 0; i < V; i++)
        row_of_token[i] = -1;
    for (int i = 0; i < r->n; i++)
        row_of_token[r->tokens[i]] = i;
    weft_array *a = weft_from_data(row_of_token, WEFT_INT32, WEFT_DIMS(V));
    weft_free(row_of_token);
    return a;
}

/* The mean of the first `count` rows (V, E), decoded a few at a time: (E), float32. */
static weft_array *mean_row(weft_array *weight, int64_t count)
{
    enum { ROWS = 4096 };
    weft_array *sum = weft_zeros(WEFT_DIMS(weft_dim(weight, 1)), WEFT_FLOAT32);
    for (int64_t i = 0; i < count && weft_ok(sum); i += ROWS) {
        weft_scope_open();
        const int64_t end = i + ROWS < count ? i + ROWS : count;
        weft_array *ids = weft_arange((double)i, (double)end, 1, WEFT_INT32);
        weft_array *rows = weft_astype(weft_embedding(weight, ids), WEFT_FLOAT32);
        weft_array *next = weft_add(sum, weft_sum(rows, WEFT_DIMS(0), false));
        if (weft_eval(next) != WEFT_OK)
            next = weft_error_array("%s", weft_error_message());
        sum = weft_scope_close(next);
    }
    return weft_scale(sum, 1 / (double)count);
}

static bool any_from(const request *r, int64_t id)
{
    for (int i = 0; i < r->n; i++) {
        if (r->tokens[i] >= id)
            return true;
    }
    return false;
}

/* The initial rows: the base's; for new tokens the mean of the others: (n, E). */
static weft_array *first_rows(weft_array *weight, weft_array *ids, const request *r)
{
    const int64_t V = weft_dim(weight, 0);
    weft_array *known = weft_minimum_scalar(ids, (double)(V - 1));
    weft_array *rows = weft_astype(weft_embedding(weight, known), WEFT_FLOAT32);
    const int64_t count = r->known < V ? r->known : V; /* negative: none is new */
    if (r->loaded || count < 0 || !any_from(r, count))
        return rows;
    weft_array *is_new = weft_greater_equal_scalar(ids, (double)count);
    return weft_where(weft_expand_dims(is_new, 1), mean_row(weight, count), rows);
}

static int64_t count_further(const request *r, int64_t V)
{
    int64_t n = 0;
    for (int i = 0; i < r->n; i++)
        n += r->tokens[i] >= V;
    return n;
}

/* Creates a wrapper for `base` without taking it. */
static weft_nn_tokens *wrapper_of(const weft_module *base, const request *r)
{
    weft_array *weight = *weft_nn_find((weft_module *)base, "weight");
    const int64_t V = weft_dim(weight, 0);
    weft_device *before = weft_default_device();
    weft_nn_tokens *m = weft_nn_new(
        weft_nn_tokens, base->type == &weft__nn_embedding_type ? &embedding_type : &head_type);
    if (m == NULL)
        return NULL;
    m->further = count_further(r, V);
    weft_set_default_device(weft_device_of(weight));
    weft_scope_open();
    weft_array *ids = weft_from_data(r->tokens, WEFT_INT32, WEFT_DIMS(r->n));
    weft_nn_param(m, trainable_tokens_delta, weft_copy(first_rows(weight, ids, r)));
    weft_nn_buffer(m, token_ids, ids);
    weft_nn_buffer(m, row_of_token, places_of(r, V + m->further));
    weft_scope_close(NULL);
    weft_set_default_device(before);
    weft__nn_reserve_child(&m->module, "", &m->base);
    return (weft_nn_tokens *)weft_nn_finish(m);
}

static void attach(weft_nn_tokens *m, weft_module **field)
{
    weft_module *base = *field, *parent = base->parent;
    const char *name = base->name;
    m->module.training = base->training;
    weft__nn_put_child(&m->module, "", &m->base, base);
    weft__nn_put_child(parent, name, field, &m->module);
}

static weft_status put_in(weft_module *tree, const char *module, const request *r)
{
    search s = {.target = module};
    weft_status status = r->n > 0 ? weft_nn_visit_modules(tree, look, &s)
                                  : weft_fail(WEFT_INVALID, "tokens: expected at least one");
    if (status == WEFT_OK)
        status = check_base(s.field ? *s.field : NULL, module, r);
    if (status != WEFT_OK)
        return status;
    weft_slot *weight = weft__nn_slot(*s.field, "weight");
    if (weight->kind == WEFT_SLOT_TIED)
        return weft_fail(WEFT_INVALID, "tokens: %s is tied to an embedding: train that",
                         weft_printable(module));
    search tied = {.target = module, .owner = weight->address};
    status = weft_nn_visit_modules(tree, look, &tied);
    if (status == WEFT_OK && tied.field)
        status = check_base(*tied.field, "what is tied to it", r);
    if (status != WEFT_OK)
        return status;
    weft_nn_tokens *m = wrapper_of(*s.field, r);
    weft_nn_tokens *other = m && tied.field ? wrapper_of(*s.field, r) : NULL;
    if (m == NULL || (tied.field && other == NULL)) {
        weft_nn_free(m ? &m->module : NULL);
        return weft_error_status();
    }
    attach(m, s.field);
    if (other == NULL)
        return WEFT_OK;
    other->module.type = (*tied.field)->type == &weft_nn_linear_type ? &head_type : &embedding_type;
    attach(other, tied.field);
    return weft_nn_tie(&other->module, "trainable_tokens_delta", &m->module,
                       "trainable_tokens_delta"); /* cannot fail, since both have the slot */
}

weft_status weft_nn_tokens_train(weft_module *tree, const char *module, const int32_t *tokens,
                                 int n)
{
    return put_in(tree, module, &(request){tokens, n, -1, false});
}

weft_status weft__tokens_put(weft_module *tree, const char *module, const int32_t *tokens, int n)
{
    return put_in(tree, module, &(request){tokens, n, INT64_MAX, true});
}

weft_status weft_nn_tokens_add(weft_module *tree, const char *module, const int32_t *tokens, int n,
                               int64_t known)
{
    if (known < 1)
        return weft_fail(WEFT_INVALID, "tokens: expected at least one token before new ones");
    return put_in(tree, module, &(request){tokens, n, known, false});
}

/* ---- merging ----------------------------------------------------------------------------- */

/* The weight (V, E) with zero rows for new tokens appended, or removed again. */
static weft_array *resized(const weft_nn_tokens *m, weft_array *weight, bool merging)
{
    const int64_t V = weft_dim(m->row_of_token, 0) - m->further;
    weft_array *dense = weft_astype(weight, weft_dtype_of(weight));
    if (m->further == 0)
        return dense;
    return merging ? weft_pad(dense, 0, 0, m->further, 0) : weft_slice_axis(dense, 0, 0, V);
}

/* Writes the trained rows into the base weight, or restores the original ones. */
weft_status weft__tokens_merge(weft_nn_tokens *m, bool merging)
{
    weft_slot *weight = weft__nn_slot(m->base, "weight");
    if (m->merged == merging)
        return WEFT_OK;
    m->merged = merging;
    if (weight->kind == WEFT_SLOT_TIED)
        return WEFT_OK; /* done by the owner's wrapper */
    weft_array **slot = weight->address;
    weft_scope_open_lean();
    weft_array *before = weft_embedding(*slot, merging ? known_ids(m, m->token_ids) : m->token_ids);
    weft_array *rows = merging ? m->trainable_tokens_delta : m->original;
    weft_array *value = resized(m, *slot, merging);
    weft_array *row_of_token = weft_slice_axis(m->row_of_token, 0, 0, weft_dim(value, 0));
    weft_array *own = weft_embedding(rows, weft_maximum_scalar(row_of_token, 0)); /* (V, E) */
    weft_array *trained = weft_expand_dims(weft_greater_equal_scalar(row_of_token, 0), 1);
    value = weft_where(trained, weft_astype(own, weft_dtype_of(value)), value);
    weft_status status =
        merging ? weft_set(&m->original, weft_copy(weft_astype(before, WEFT_FLOAT32))) : WEFT_OK;
    if (status == WEFT_OK)
        status = weft_update(&slot, &value, 1);
    weft_scope_close(NULL);
    if (status != WEFT_OK)
        m->merged = !merging;
    return status;
}
