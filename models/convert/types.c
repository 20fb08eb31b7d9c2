/* models/convert/types.c -- names the types in which the matrices of an output are stored. */
#include <stdio.h>
#include <string.h>

#include "models/convert/convert.h"
#include "weft/nn_tools.h"
#include "weft/ops.h"

void weft__types_add(weft__types *types, const char *name, int64_t bytes)
{
    int i = 0;
    while (i < types->n && strcmp(types->at[i].name, name) != 0)
        i++;
    if (i == WEFT__TYPES)
        return;
    if (i == types->n)
        types->at[types->n++].name = name;
    types->at[i].bytes += bytes;
    for (; i > 0 && types->at[i].bytes > types->at[i - 1].bytes; i--) {
        const weft__type_bytes moved = types->at[i];
        types->at[i] = types->at[i - 1];
        types->at[i - 1] = moved;
    }
}

void weft__types_text(const weft__types *types, char *out, size_t size)
{
    size_t used = 0;
    *out = '\0';
    for (int i = 0; i < types->n && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s", i ? ", " : "", types->at[i].name);
}

/* ---- of a tree ------------------------------------------------------------------------------- */

static weft_status add(void *context, const weft_nn_item *item)
{
    const weft_array *a = *item->slot->address;
    const weft_encoding *e = weft_encoding_of(a);
    if (weft_ndim(a) > 1)
        weft__types_add(context, e ? e->name : weft_dtype_name(weft_dtype_of(a)), weft_nbytes(a));
    return WEFT_OK;
}

void weft__types_of(weft_model *model, weft__types *types)
{
    (void)weft_nn_visit(weft_model_module(model), add, types); /* always WEFT_OK */
}

static weft_status look_for_parts(void *context, const weft_nn_item *item)
{
    bool *found = context;
    const weft_encoding *e = weft_encoding_of(*item->slot->address);
    *found = *found || (e && weft_encoding_has_parts(e->kind));
    return WEFT_OK;
}

bool weft__model_is_mlx(weft_model *model)
{
    bool found = false;
    (void)weft_nn_visit(weft_model_module(model), look_for_parts, &found); /* always WEFT_OK */
    return found;
}

/* ---- conversion ------------------------------------------------------------------------------ */

typedef struct retyping {
    weft_dtype dtype;
    bool mlx; /* also matrices in MLX's format */
} retyping;

static weft_status retype(void *context, const weft_nn_item *item)
{
    const retyping *r = context;
    weft_array **slot = item->slot->address;
    const weft_encoding *e = weft_encoding_of(*slot);
    const bool kept =
        e ? weft_encoding_has_parts(e->kind) && !r->mlx
          : !weft_dtype_is_float(weft_dtype_of(*slot)) || weft_dtype_of(*slot) == r->dtype;
    return kept ? WEFT_OK : weft_set(slot, weft_astype(*slot, r->dtype));
}

weft_status weft__model_retype(weft_model *model, weft_dtype dtype, bool mlx)
{
    weft_scope_open();
    const weft_status status =
        weft_nn_visit(weft_model_module(model), retype, &(retyping){dtype, mlx});
    weft_scope_close(NULL);
    return status;
}

static weft_status first_matrix(void *context, const weft_nn_item *item)
{
    weft_dtype *dtype = context;
    const weft_array *a = *item->slot->address;
    if (*dtype == 0 && weft_ndim(a) > 1 && weft_encoding_of(a) == NULL)
        *dtype = weft_dtype_of(a);
    return WEFT_OK;
}

/* Sets "dtype", or "torch_dtype" as older files call it; false if the object has neither. */
static bool replace_dtype(json_object *object, const char *name)
{
    static const char *const keys[] = {"dtype", "torch_dtype"};
    bool found = false;
    for (int i = 0; object && i < 2; i++) {
        if (!json_object_object_get_ex(object, keys[i], NULL))
            continue;
        json_object_object_add(object, keys[i], json_object_new_string(name));
        found = true;
    }
    return found;
}

void weft__config_put_dtype(weft_model *model, json_object *root)
{
    weft_dtype dtype = (weft_dtype)0;
    (void)weft_nn_visit(weft_model_module(model), first_matrix, &dtype); /* always WEFT_OK */
    if (dtype == 0)
        return;
    const bool inner =
        replace_dtype(json_object_object_get(root, "text_config"), weft_dtype_name(dtype));
    if (!replace_dtype(root, weft_dtype_name(dtype)) && !inner)
        json_object_object_add(root, "dtype", json_object_new_string(weft_dtype_name(dtype)));
}

int64_t weft__first_not_finite(weft_array *a)
{
    weft_array *fine = weft_isfinite(weft_flatten(a, 0, -1));
    if (weft_item_int(weft_all(fine, WEFT_ALL_AXES, false)) != 0)
        return -1;
    return weft_item_int(weft_argmin(weft_astype(fine, WEFT_INT32), -1, false));
}
