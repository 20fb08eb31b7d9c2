/* nn/lora_kept.c -- arrays that adapters compute from their parameters once, for all calls until a
 * parameter changes: the factor of DoRA, and lora_A and lora_B as they are multiplied. */
#include <string.h>

#include "nn/lora.h"

enum { N_ARRAYS = 4 };

/* The arrays from which what is kept was computed. */
static void find_arrays(const weft_nn_lora_linear *m, weft_array *out[N_ARRAYS])
{
    out[0] = m->lora_magnitude_vector ? *weft_nn_find(m->base, "weight") : NULL;
    out[1] = weft__lora_A(m);
    out[2] = m->lora_B;
    out[3] = m->lora_magnitude_vector;
}

bool weft__lora_is_kept(const weft_nn_lora_linear *m)
{
    weft_array *now[N_ARRAYS];
    find_arrays(m, now);
    return (m->factor || m->ready[0]) && memcmp(now, m->kept_of, sizeof now) == 0;
}

static weft_status find_dtype(void *dtype, const weft_nn_item *item)
{
    const weft_array *a = *item->slot->address;
    if (*(weft_dtype *)dtype == 0 && weft_ndim(a) == 1 && weft_dtype_is_float(weft_dtype_of(a)) &&
        !item->slot->wide && strstr(item->path, "lora_") == NULL)
        *(weft_dtype *)dtype = weft_dtype_of(a);
    return WEFT_OK;
}

weft_dtype weft__lora_rows_dtype(weft_module *tree, const weft_module *base)
{
    const weft_array *weight = *weft_nn_find((weft_module *)base, "weight");
    weft_dtype dtype = 0;
    if (weft_encoding_of(weight) == NULL)
        return weft_dtype_of(weight);
    (void)weft_nn_visit(tree, find_dtype, &dtype); /* ends early only if a path is too long */
    return dtype ? dtype : WEFT_FLOAT32;
}

static void replace(weft_array **slot, weft_array *with)
{
    weft_array *before = *slot;
    *slot = with ? weft_keep(with) : NULL;
    weft_drop(before);
}

void weft__lora_keep(weft_nn_lora_linear *m, weft_array *factor, weft_array *const ready[2],
                     bool for_arrays)
{
    weft_array *now[N_ARRAYS] = {0};
    if (for_arrays)
        find_arrays(m, now);
    replace(&m->factor, factor);
    for (int i = 0; i < 2; i++)
        replace(&m->ready[i], ready ? ready[i] : NULL);
    for (int i = 0; i < N_ARRAYS; i++)
        replace(&m->kept_of[i], now[i]);
    memset(m->hashed, 0, sizeof m->hashed);
}

void weft__lora_keep_nothing(weft_nn_lora_linear *m)
{
    weft__lora_keep(m, NULL, NULL, false);
}

/* Whether the module is an adapter for which every call would compute arrays of its parameters. */
static bool computes(const weft_module *module)
{
    const weft_nn_lora_linear *m = (const weft_nn_lora_linear *)module;
    return module->type == &weft_nn_lora_linear_type && !m->merged && !m->start_A &&
           !weft__lora_is_kept(m);
}

static weft_status settle(void *tree, const char *path, weft_module **field)
{
    (void)path;
    if (!computes(*field))
        return WEFT_OK;
    weft_nn_lora_linear *m = (weft_nn_lora_linear *)*field;
    weft_scope_open_lean();
    weft_array *all[3];
    const weft_dtype dtype = weft__lora_rows_dtype(tree, m->base);
    weft__lora_ready(m, dtype, all);
    all[2] = m->lora_magnitude_vector ? weft__dora_factor(m) : NULL;
    const weft_status status = weft_eval_n(all, all[2] ? 3 : 2);
    if (status == WEFT_OK)
        weft__lora_keep(m, all[2], all, true);
    m->ready_dtype = dtype;
    weft_scope_close(NULL);
    return status;
}

weft_status weft__lora_settle(weft_module *tree)
{
    return weft_nn_visit_modules(tree, settle, tree);
}

static weft_status unsettle(void *context, const char *path, weft_module **field)
{
    (void)context;
    (void)path;
    weft_nn_lora_linear *m = (weft_nn_lora_linear *)*field;
    if (weft__is_lora(*field) && !m->merged)
        weft__lora_keep_nothing(m);
    return WEFT_OK;
}

void weft__lora_unsettle(weft_module *tree)
{
    (void)weft_nn_visit_modules(tree, unsettle, NULL); /* ends early only if a path is too long */
}

/* A head that needs a factor and has none that is valid. */
static weft_status share(void *found, const char *path, weft_module **field)
{
    (void)path;
    weft_nn_lora_linear *m = (weft_nn_lora_linear *)*field;
    if (computes(*field) && m->lora_magnitude_vector) {
        weft__lora_keep(m, weft__dora_factor(m), NULL, true);
        *(weft_nn_lora_linear **)found = m;
    }
    return WEFT_OK;
}

weft_nn_lora_linear *weft__dora_share(weft_module *head)
{
    weft_nn_lora_linear *found = NULL;
    (void)weft_nn_visit_modules(head, share, &found);
    return found;
}
