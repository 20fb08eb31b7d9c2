/* nn/lora_merge.c -- merges adapters into the weights of their bases, and unmerges them. */
#include "nn/lora.h"
#include "nn/tokens.h"

/* ---- tied weights --------------------------------------------------------------------------- */

static void untie(weft_slot *slot)
{
    *slot->address = weft_keep(*slot->owner);
    slot->kind = WEFT_SLOT_PARAMETER;
    slot->owner = NULL;
    slot->frozen = true;
}

void weft__nn_untie(weft_module *m)
{
    for (int i = 0; i < m->n_slots; i++) {
        if (m->slots[i].kind == WEFT_SLOT_TIED)
            untie(&m->slots[i]);
    }
}

static weft_status untie_from(void *context, const char *path, weft_module **field)
{
    (void)path;
    for (int i = 0; i < (*field)->n_slots; i++) {
        weft_slot *slot = &(*field)->slots[i];
        if (slot->kind == WEFT_SLOT_TIED && slot->owner == (weft_array **)context)
            untie(slot);
    }
    return WEFT_OK;
}

void weft__nn_untie_from(weft_module *tree, weft_array **owner)
{
    (void)weft_nn_visit_modules(tree, untie_from,
                                owner); /* the visit ends early only if a path is too long */
}

/* ---- merging -------------------------------------------------------------------------------- */

/* The row factors as a column. They are kept evaluated, since they cannot be computed from the
 * merged weight. */
static weft_status find_factor(weft_nn_lora_linear *m, bool merging, weft_array **out)
{
    weft_status status = WEFT_OK;
    *out = NULL;
    if (m->lora_magnitude_vector == NULL)
        return WEFT_OK;
    if (merging) {
        weft_array *factor = weft__dora_factor(m);
        status = weft_eval(factor);
        if (status == WEFT_OK)
            weft__dora_keep(m, factor, false);
    }
    if (status == WEFT_OK)
        *out = weft_expand_dims(m->factor, 1); /* (out, 1) */
    return status;
}

/* Computes W + scale B A, for DoRA times the factors, or W without that; in float32. */
static weft_status set_merged(weft_nn_lora_linear *m, bool merging)
{
    weft_array **slot = weft_nn_find(m->base, "weight"), *factor;
    weft_scope_open_lean();
    weft_status status = find_factor(m, merging, &factor);
    weft_array *delta = weft__lora_matrix(m); /* (out, in) */
    weft_array *W = weft_astype(*slot, WEFT_FLOAT32);
    if (factor && !merging)
        W = weft_divide(W, factor);
    W = merging ? weft_add(W, delta) : weft_subtract(W, delta);
    if (factor && merging)
        W = weft_multiply(W, factor);
    weft_array *value = weft_astype(W, weft_dtype_of(*slot));
    if (status == WEFT_OK)
        status = weft_update(&slot, &value, 1);
    weft_scope_close(NULL);
    if (status == WEFT_OK && !merging)
        weft__dora_keep(m, NULL, false);
    return status;
}

typedef struct merging {
    weft_module *tree;
    bool wanted;
} merging;

static weft_status merge(void *context, const char *path, weft_module **field)
{
    (void)path;
    const merging *c = context;
    weft_nn_lora_linear *m = (weft_nn_lora_linear *)*field;
    if (weft__is_tokens(*field))
        return weft__tokens_merge((weft_nn_tokens *)*field, c->wanted);
    if (!weft__is_lora(*field) || m->merged == c->wanted)
        return WEFT_OK;
    weft__nn_untie(m->base);
    weft__nn_untie_from(c->tree, weft_nn_find(m->base, "weight"));
    const weft_status status = set_merged(m, c->wanted);
    if (status == WEFT_OK)
        m->merged = c->wanted;
    return status;
}

weft_status weft_nn_lora_merge(weft_module *m)
{
    return weft_nn_visit_modules(m, merge, &(merging){m, true});
}

weft_status weft_nn_lora_unmerge(weft_module *m)
{
    return weft_nn_visit_modules(m, merge, &(merging){m, false});
}
