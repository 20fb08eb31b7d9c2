/* nn/encoded.c -- converts encoded parameters to MLX's two or three tensors, and back. */
#include "nn/encoded.h"

#include <stdio.h>
#include <string.h>

#include "core/shape.h"
#include "nn/module.h"

bool weft__nn_takes_encoded(const weft_nn_item *item)
{
    return item->module->type->takes_encoded && strcmp(item->slot->name, "weight") == 0;
}

bool weft__nn_part_path(const char *path, int part, char *out, size_t size)
{
    static const char *const names[] = {"weight", "scales", "biases"};
    const char *dot = strrchr(path, '.');
    const int parent = dot ? (int)(dot + 1 - path) : 0;
    const int n = snprintf(out, size, "%.*s%s", parent, path, part ? names[part] : path + parent);
    return n >= 0 && (size_t)n < size;
}

bool weft__nn_parts(weft_array *a, weft_array *out[3])
{
    const weft_encoding *e = weft_encoding_of(a);
    if (e == NULL || !weft_encoding_has_parts(e->kind))
        return false;
    weft_split_encoded(a, out);
    return true;
}

static weft_encoding_kind kind_of(const weft_safetensors_entry *const parts[3], int64_t bits,
                                  int64_t group)
{
    if (parts[2])
        return WEFT_ENCODING_AFFINE;
    if (parts[1]->dtype != WEFT_UINT8)
        return WEFT_ENCODING_OTHER;
    return group == 16 ? WEFT_ENCODING_NVFP4
           : bits == 8 ? WEFT_ENCODING_MXFP8
                       : WEFT_ENCODING_MXFP4;
}

bool weft__nn_format_of(const weft_safetensors_entry *const parts[3], const weft_dims *shape,
                        weft_quantize_options *out)
{
    const weft_dims *codes = &parts[0]->shape;
    if (parts[0]->dtype != WEFT_UINT32 || parts[1] == NULL || shape->n < 2)
        return false;
    weft_dims expected = *shape, scales = parts[1]->shape;
    const int last = shape->n - 1;
    const int64_t K = shape->at[last];
    if (scales.n != shape->n || codes->n != shape->n || K < 1 || scales.at[last] < 1)
        return false;
    const int64_t group = K / scales.at[last], bits = 32 * codes->at[last] / K;
    const weft_encoding_kind kind = kind_of(parts, bits, group);
    if (kind == WEFT_ENCODING_OTHER || !weft_encoding_of_kind(kind, bits, group, parts[1]->dtype) ||
        K % group != 0)
        return false;
    expected.at[last] = K * bits / 32;
    if (!weft__shape_equal(codes, &expected))
        return false;
    expected.at[last] = K / group;
    *out = (weft_quantize_options){.mode = (weft_quantize_mode)(kind - WEFT_ENCODING_AFFINE),
                                   .group_size = group,
                                   .bits = bits};
    return weft__shape_equal(&scales, &expected) &&
           (parts[2] == NULL ||
            (weft__shape_equal(&parts[2]->shape, &expected) && parts[2]->dtype == parts[1]->dtype));
}

weft_quantize_options weft__nn_format(const weft_encoding *e)
{
    return (weft_quantize_options){.mode = (weft_quantize_mode)(e->kind - WEFT_ENCODING_AFFINE),
                                   .group_size = e->block,
                                   .bits = e->bits};
}

weft_array *weft__nn_recast(weft_array *a, weft_dtype dtype)
{
    weft_array *parts[3];
    if (weft_encoding_of(a) && weft_dtype_of(a) == dtype)
        return a;
    if (dtype == WEFT_FLOAT64 || !weft__nn_parts(a, parts))
        return weft_astype(a, dtype);
    const weft_quantize_options format = weft__nn_format(weft_encoding_of(a));
    return weft_join_encoded(parts[0], parts[1], parts[2], dtype, &format);
}
