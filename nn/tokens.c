/* nn/tokens.c -- rows of an embedding and of the output head that are trained while the others are
 * frozen: the embeddings of some tokens. */
#include <stdio.h>
#include <string.h>

#include "core/failure.h"
#include "nn/tokens.h"

/* ---- the layers ----------------------------------------------------------------------------- */

/* Rows whose place in `trainable_tokens_delta` is given, in y (..., E). */
static weft_array *with_rows(const weft_nn_tokens *m, weft_array *y, weft_array *ids)
{
    weft_array *place = weft_take(m->places, ids, 0); /* (...), -1: frozen */
    weft_array *own = weft_embedding(m->trainable_tokens_delta, weft_maximum_scalar(place, 0));
    weft_array *trained = weft_expand_dims(weft_greater_equal_scalar(place, 0), -1);
    return weft_where(trained, weft_astype(own, weft_dtype_of(y)), y);
}

static weft_array *embed(weft_module *self, weft_array *ids)
{
    const weft_nn_tokens *m = (const weft_nn_tokens *)self;
    weft_array *y = weft_nn_call(m->base, ids);
    return m->merged ? y : with_rows(m, y, ids);
}

/* Logits (..., V), of which those of the trained tokens are from their own rows. */
static weft_array *head(weft_module *self, weft_array *x)
{
    const weft_nn_tokens *m = (const weft_nn_tokens *)self;
    weft_array *y = weft_nn_call(m->base, x);
    if (m->merged)
        return y;
    weft_array *own = weft_linear(x, m->trainable_tokens_delta, NULL); /* (..., k) */
    own = weft_take(own, weft_maximum_scalar(m->places, 0), -1);       /* (..., V) */
    return weft_where(weft_greater_equal_scalar(m->places, 0), weft_astype(own, weft_dtype_of(y)),
                      y);
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

weft_array *weft__tokens_rows(const weft_nn_tokens *m)
{
    const weft_slot *slot = weft__nn_slot((weft_module *)m, "trainable_tokens_delta");
    return slot->kind == WEFT_SLOT_TIED ? *slot->owner : m->trainable_tokens_delta;
}

/* ---- putting in ----------------------------------------------------------------------------- */

typedef struct search {
    const char *target;
    weft_module **field;
    weft_array **owner; /* with this: what is tied to it, and not what has the name */
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

static weft_status check_base(const weft_module *base, const char *target, const int32_t *tokens,
                              int n)
{
    if (base == NULL)
        return weft_fail(WEFT_INVALID, "tokens: there is no module '%s'", weft_printable(target));
    if (base->type != &weft__nn_embedding_type && base->type != &weft_nn_linear_type)
        return weft_fail(WEFT_UNSUPPORTED,
                         "tokens: %s: expected an embedding or a linear without an adapter, got %s",
                         weft_printable(target), base->type->name);
    if (base->type == &weft_nn_linear_type && ((const weft_nn_linear *)base)->bias)
        return weft_fail(WEFT_UNSUPPORTED, "tokens: %s: a head with a bias is unsupported", target);
    const int64_t V = weft_dim(*weft_nn_find((weft_module *)base, "weight"), 0);
    for (int i = 0; i < n; i++) {
        if (tokens[i] < 0 || tokens[i] >= V)
            return weft_fail(WEFT_INVALID, "tokens: %s: expected ids of 0 to %lld, got %d",
                             weft_printable(target), (long long)V - 1, (int)tokens[i]);
        for (int k = 0; k < i; k++) {
            if (tokens[k] == tokens[i])
                return weft_fail(WEFT_INVALID, "tokens: %d is given twice", (int)tokens[i]);
        }
    }
    return WEFT_OK;
}

static weft_array *places_of(const int32_t *tokens, int n, int64_t V)
{
    int32_t *places = weft_malloc((size_t)V * sizeof *places);
    if (places == NULL)
        return weft_error_array("tokens: out of memory for %lld places", (long long)V);
    for (int64_t i = 0; i < V; i++)
        places[i] = -1;
    for (int i = 0; i < n; i++)
        places[tokens[i]] = i;
    weft_array *a = weft_from_data(places, WEFT_INT32, WEFT_DIMS(V));
    weft_free(places);
    return a;
}

/* A wrapper that fits around `base` but does not hold it yet. The rows begin as the base's. */
static weft_nn_tokens *wrapper_of(const weft_module *base, const int32_t *tokens, int n)
{
    weft_array *weight = *weft_nn_find((weft_module *)base, "weight");
    weft_device *before = weft_default_device();
    weft_nn_tokens *m = weft_nn_new(
        weft_nn_tokens, base->type == &weft__nn_embedding_type ? &embedding_type : &head_type);
    if (m == NULL)
        return NULL;
    weft_set_default_device(weft_device_of(weight));
    weft_scope_open();
    weft_array *ids = weft_from_data(tokens, WEFT_INT32, WEFT_DIMS(n));
    weft_array *rows = weft_astype(weft_embedding(weight, ids), WEFT_FLOAT32); /* (n, E) */
    weft_nn_param(m, trainable_tokens_delta, weft_copy(rows));
    weft_nn_buffer(m, token_ids, ids);
    weft_nn_buffer(m, places, places_of(tokens, n, weft_dim(weight, 0)));
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

weft_status weft_nn_tokens_train(weft_module *tree, const char *module, const int32_t *tokens,
                                 int n)
{
    search s = {.target = module};
    weft_status status = n > 0 ? weft_nn_visit_modules(tree, look, &s)
                               : weft_fail(WEFT_INVALID, "tokens: expected at least one");
    if (status == WEFT_OK)
        status = check_base(s.field ? *s.field : NULL, module, tokens, n);
    if (status != WEFT_OK)
        return status;
    weft_slot *weight = weft__nn_slot(*s.field, "weight");
    if (weight->kind == WEFT_SLOT_TIED)
        return weft_fail(WEFT_INVALID, "tokens: %s is tied to an embedding: train that",
                         weft_printable(module));
    search tied = {.target = module, .owner = weight->address};
    status = weft_nn_visit_modules(tree, look, &tied);
    if (status == WEFT_OK && tied.field)
        status = check_base(*tied.field, "what is tied to it", tokens, n);
    if (status != WEFT_OK)
        return status;
    weft_nn_tokens *m = wrapper_of(*s.field, tokens, n);
    weft_nn_tokens *other = m && tied.field ? wrapper_of(*s.field, tokens, n) : NULL;
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
                       "trainable_tokens_delta"); /* cannot fail: both have the slot */
}

/* ---- merging ----------------------------------------------------------------------------- */

/* Puts rows into the base's weight, the trained ones or those that were there. */
weft_status weft__tokens_merge(weft_nn_tokens *m, bool merging)
{
    weft_slot *weight = weft__nn_slot(m->base, "weight");
    if (m->merged == merging)
        return WEFT_OK;
    m->merged = merging;
    if (weight->kind == WEFT_SLOT_TIED)
        return WEFT_OK; /* the owner's wrapper does it */
    weft_array **slot = weight->address;
    weft_scope_open_lean();
    weft_array *before = weft_astype(weft_embedding(*slot, m->token_ids), WEFT_FLOAT32);
    weft_array *rows = merging ? m->trainable_tokens_delta : m->original;
    weft_array *own = weft_embedding(rows, weft_maximum_scalar(m->places, 0)); /* (V, E) */
    weft_array *trained = weft_expand_dims(weft_greater_equal_scalar(m->places, 0), 1);
    const weft_dtype dtype = weft_dtype_of(*slot);
    weft_array *value = weft_where(trained, weft_astype(own, dtype), weft_astype(*slot, dtype));
    weft_status status = merging ? weft_set(&m->original, weft_copy(before)) : WEFT_OK;
    if (status == WEFT_OK)
        status = weft_update(&slot, &value, 1);
    weft_scope_close(NULL);
    if (status != WEFT_OK)
        m->merged = !merging;
    return status;
}
