/* nn/lora_merge.c -- merges adapters into the weights of their bases, and unmerges them. */
#include <string.h>

#include "core/list.h"
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
    if (merging)
        weft__lora_keep_nothing(m);
    if (m->lora_magnitude_vector == NULL)
        return WEFT_OK;
    if (merging) {
        weft_array *factor = weft__dora_factor(m);
        status = weft_eval(factor);
        if (status == WEFT_OK)
            weft__lora_keep(m, factor, NULL, false);
    }
    if (status == WEFT_OK)
        *out = weft_expand_dims(m->factor, 1); /* (out, 1) */
    return status;
}

/* Computes W + scale B A, for DoRA multiplied by the row factors, in float32. */
static weft_array *sum_of(weft_nn_lora_linear *m, weft_array *factor)
{
    weft_array *W = weft_astype(weft__lora_weight(m, m->lora_B), WEFT_FLOAT32); /* (out, in) */
    W = weft_add(W, weft__lora_matrix(m));
    return factor ? weft_multiply(W, factor) : W;
}

bool weft__lora_terms_of(weft_module *linear, weft__lora_terms *out)
{
    weft_nn_lora_linear *m = (weft_nn_lora_linear *)linear;
    const bool adapted = linear->type == &weft_nn_lora_linear_type;
    const weft_nn_linear *base = (const weft_nn_linear *)(adapted ? m->base : linear);
    if (base->module.type != &weft_nn_linear_type || base->bias || base->int8 || linear->training)
        return false;
    weft_device *device = weft__nn_device((weft_module *)base);
    *out = (weft__lora_terms){.weight = weft_to(base->weight, device)};
    if (!adapted || m->merged)
        return true;
    weft_array *const pairs[][2] = {{m->lora_B, weft__lora_A(m)}, {m->start_B, m->start_A}};
    for (int i = 0; i < 2 && pairs[i][1]; i++) {
        out->left[i] = weft_scale(pairs[i][0], i == 0 ? m->scale : -m->scale);
        out->right[i] = pairs[i][1];
        out->n++;
    }
    out->factor = m->lora_magnitude_vector ? weft__dora_factor(m) : NULL;
    return true;
}

/* Computes the base weight W from a merged weight, the inverse of sum_of, in float32. */
static weft_array *difference_of(weft_nn_lora_linear *m, weft_array *factor)
{
    weft_array *W = weft_astype(weft__lora_weight(m, m->lora_B), WEFT_FLOAT32); /* (out, in) */
    W = factor ? weft_divide(W, factor) : W;
    return weft_subtract(W, weft__lora_matrix(m));
}

static weft_status set_merged(weft_nn_lora_linear *m, bool merging)
{
    weft_array **slot = weft_nn_find(m->base, "weight"), *factor;
    weft_scope_open_lean();
    weft_status status = find_factor(m, merging, &factor);
    weft_array *W = merging ? sum_of(m, factor) : difference_of(m, factor);
    weft_array *value = weft_to(weft_astype(W, weft_dtype_of(*slot)), weft_device_of(*slot));
    if (status == WEFT_OK)
        status = weft_update(&slot, &value, 1);
    weft_scope_close(NULL);
    if (status == WEFT_OK && !merging)
        weft__lora_keep_nothing(m);
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

/* ---- merged weights, computed one at a time -------------------------------------------------- */

typedef struct taking {
    weft_module *tree;
    weft__lora_taken *out;
} taking;

static weft_status take(void *context, const char *path, weft_module **field)
{
    const taking *c = context;
    if (!weft__is_lora(*field) || (*field)->parent == NULL)
        return WEFT_OK;
    weft_nn_lora_linear *m = (weft_nn_lora_linear *)*field;
    weft__lora_taken *out = c->out;
    const bool room = weft__list_more(out->paths, out->n) && weft__list_more(out->at, out->n);
    char *copy = room ? weft_strdup(path) : NULL;
    if (copy == NULL)
        return weft_fail(WEFT_MEMORY, "adapters: out of memory for the list of them");
    weft__nn_untie(m->base);
    weft__nn_untie_from(c->tree, weft_nn_find(m->base, "weight"));
    out->paths[out->n] = copy;
    out->at[out->n++] = m;
    *field = m->base;
    return WEFT_OK;
}

weft_status weft__lora_take(weft_module *tree, weft__lora_taken *out)
{
    return weft_nn_visit_modules(tree, take, &(taking){tree, out});
}

void weft__lora_taken_free(weft__lora_taken *taken)
{
    for (int i = 0; i < taken->n; i++) {
        taken->at[i]->base = NULL;
        weft_nn_free(&taken->at[i]->module);
        weft_free(taken->paths[i]);
    }
    weft_free(taken->paths);
    weft_free(taken->at);
    *taken = (weft__lora_taken){0};
}

weft_array *weft__lora_taken_sum(const weft__lora_taken *taken, const char *path)
{
    for (int i = 0; i < taken->n; i++) {
        const size_t n = strlen(taken->paths[i]);
        if (strncmp(taken->paths[i], path, n) != 0 || strcmp(path + n, ".weight") != 0)
            continue;
        weft_nn_lora_linear *m = taken->at[i];
        weft_array *factor = m->lora_magnitude_vector ? weft__dora_factor(m) : NULL; /* (out) */
        return sum_of(m, factor ? weft_expand_dims(factor, 1) : NULL);
    }
    return NULL;
}
