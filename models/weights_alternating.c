/* models/weights_alternating.c -- experts whose gates and ups alternate, as gpt-oss has them: in
 * transformers' checkpoints dense matrices are (experts, in, out), and MXFP4 codes lie in blocks of
 * 16 bytes. In trees they are (experts, out, in), dense or encoded; codes are never decoded. */
#include <stdio.h>
#include <string.h>

#include "core/io/text.h"
#include "core/shape.h"
#include "models/save.h"
#include "weft/ops.h"

enum { BLOCK_BYTES = 16 };

static const struct {
    const char *stored, *here;
} endings[] = {{"_blocks", ".weight"}, {"_scales", ".scales"}, {"_bias", ".bias"}, {"", ".weight"}};
enum { BLOCKS, SCALES, BIAS, DENSE, N_ENDINGS };

static const char parent[] = ".mlp.experts.", gates[] = "gate_proj", ups[] = "up_proj",
                  both[] = "gate_up_proj";

/* The projection and what follows it, in a path of an expert; NULL: another path. */
static const char *projection_of(const char *path)
{
    const char *at = strstr(path, parent);
    return at ? at + sizeof parent - 1 : NULL;
}

static bool starts(const char *at, const char *projection)
{
    return strncmp(at, projection, strlen(projection)) == 0;
}

/* ---- reading -------------------------------------------------------------------------------- */

/* uint8 (n, rows, groups, 16) -> uint32 (n, rows, 4 groups) */
static weft_array *codes_of(const char *path, weft_array *blocks)
{
    if (!weft_ok(blocks) || (weft_dtype_of(blocks) == WEFT_UINT8 && weft_ndim(blocks) == 4 &&
                             weft_dim(blocks, 3) == BLOCK_BYTES))
        return weft_view(weft_flatten(blocks, 2, 3), WEFT_UINT32);
    const weft_dims shape = weft_shape(blocks);
    char text[WEFT_SHAPE_TEXT];
    return weft_error_array("%s: expected uint8 (experts, rows, groups, %d), found %s %s", path,
                            BLOCK_BYTES, weft_dtype_name(weft_dtype_of(blocks)),
                            weft__shape_text(&shape, text));
}

weft_array *weft__alternating_read(char *path, size_t size, weft_array *a)
{
    static const char *const names[] = {both, "down_proj"};
    const char *at = projection_of(path);
    for (int i = 0; at && i < 2; i++) {
        const char *end = at + strlen(names[i]);
        for (int e = 0; starts(at, names[i]) && e < N_ENDINGS; e++) {
            if (strcmp(end, endings[e].stored) != 0)
                continue;
            a = e == BLOCKS                       ? codes_of(path, a)
                : e == DENSE && weft_ndim(a) == 3 ? weft_swapaxes(a, 1, 2)
                                                  : a;
            snprintf(path + (end - path), size - (size_t)(end - path), "%s", endings[e].here);
            return a;
        }
    }
    return a;
}

/* ---- writing -------------------------------------------------------------------------------- */

bool weft__alternating_is(const char *path)
{
    return projection_of(path) != NULL;
}

/* The path with another projection instead of the one at `at`. */
static void with_projection(const char *path, const char *at, const char *projection,
                            const char *rest, char *out, size_t size)
{
    snprintf(out, size, "%.*s%s%s", (int)(at - path), path, projection, rest);
}

weft_array *weft__alternating_part(weft_array *a, int part)
{
    weft_dims shape = weft_shape(a);
    const weft_dims rest = shape;
    shape.n++;
    shape.at[1] = rest.at[1] / 2;
    shape.at[2] = 2;
    for (int i = 2; i < rest.n; i++)
        shape.at[i + 1] = rest.at[i];
    return weft_squeeze(weft_slice_axis(weft_reshape(a, shape), 2, part, part + 1), 2);
}

/* Gates (n, F, ...) and ups, which alternate: (n, 2 F, ...). */
static weft_array *joined(const char *path, const char *at, weft_array *a,
                          const weft_named_arrays *parameters)
{
    char other[WEFT_NN_PATH];
    weft_dims shape = weft_shape(a);
    with_projection(path, at, ups, strchr(at, '.'), other, sizeof other);
    weft_array *pair[] = {a, weft_named_arrays_find(parameters, other)};
    shape.at[1] *= 2;
    return weft_reshape(weft_stack(pair, 2, 2), shape);
}

weft_status weft__alternating_write(const char *path, weft_array *a,
                                    const weft_named_arrays *parameters, bool mlx,
                                    weft__alternating_put *put, void *context)
{
    char name[WEFT_NN_PATH];
    const char *at = projection_of(path), *kind = strchr(at, '.');
    const bool is_both = starts(at, both), is_gate = !is_both && starts(at, gates);
    if (mlx && !is_both)
        return put(context, path, a);
    for (int i = 0; mlx && i < 2; i++) {
        (void)weft__part_name(path, i, name, sizeof name); /* it is one */
        const weft_status status = put(context, name, weft__alternating_part(a, i));
        if (status != WEFT_OK || i == 1)
            return status;
    }
    if (starts(at, ups))
        return WEFT_OK; /* with the gates */
    if (is_gate)
        a = joined(path, at, a, parameters);
    int e = DENSE;
    if (strcmp(kind, ".weight") != 0)
        e = strcmp(kind, ".bias") == 0 ? BIAS : SCALES;
    else if (!weft_dtype_is_float(weft_dtype_of(a)))
        e = BLOCKS;
    with_projection(path, at, is_both || is_gate ? both : "down_proj", endings[e].stored, name,
                    sizeof name);
    if (e == BLOCKS) {
        const int64_t n = weft_dim(a, 0), rows = weft_dim(a, 1);
        a = weft_reshape(weft_view(a, WEFT_UINT8), WEFT_DIMS(n, rows, -1, BLOCK_BYTES));
    } else if (e == DENSE) {
        a = weft_swapaxes(a, 1, 2);
    }
    return put(context, name, a);
}
