/* models/weights_parts.c -- parameters that other files have as two tensors: gates and ups of
 * experts that alternate (gpt-oss) or of Granite's MLP, and the rows of kv_b_proj that make keys
 * and values (GGUF's attn_k_b and attn_v_b, mlx-lm's embed_q and unembed_out). */
#include <stdio.h>
#include <string.h>

#include "core/failure.h"
#include "core/graph.h"
#include "core/io/text.h"
#include "core/shape.h"
#include "models/save.h"
#include "nn/encoded.h"
#include "weft/ops.h"
#include "weft/quantize.h"

typedef weft_array *part_of(const weft__decoder_config *c, weft_array *whole, int part);

/* Of (n, 2 F, ...): (n, F, ...). */
static weft_array *alternating(const weft__decoder_config *c, weft_array *whole, int part)
{
    (void)c;
    return weft__alternating_part(whole, part);
}

/* Of (H (nope + v), R): (H, R, nope) and (H, v, R). */
static weft_array *latent(const weft__decoder_config *c, weft_array *whole, int part)
{
    const int64_t nope = c->latent.qk_nope_head_dim, both = nope + c->latent.v_head_dim;
    weft_array *heads = weft_reshape(whole, WEFT_DIMS(c->num_attention_heads, both, -1));
    return part == 0 ? weft_swapaxes(weft_slice_axis(heads, 1, 0, nope), 1, 2)
                     : weft_slice_axis(heads, 1, nope, both);
}

/* Of (2 F, ...): (F, ...). */
static weft_array *half(const weft__decoder_config *c, weft_array *whole, int part)
{
    const int64_t F = weft_dim(whole, 0) / 2;
    (void)c;
    return weft_slice_axis(whole, 0, part * F, part * F + F);
}

static const struct {
    const char *whole, *parts[2];
    part_of *make;
} splits[] = {
    {".mlp.experts.gate_up_proj.",
     {".mlp.experts.gate_proj.", ".mlp.experts.up_proj."},
     alternating},
    {".self_attn.kv_b_proj.", {".self_attn.embed_q.", ".self_attn.unembed_out."}, latent},
    {".shared_mlp.input_linear.", {".shared_mlp.gate_proj.", ".shared_mlp.up_proj."}, half},
};
enum { LATENT = 1, HALVES = 2, N_SPLITS = sizeof splits / sizeof *splits };

/* Replaces the first occurrence of `from`; false: there is not one. */
static bool replaced(const char *path, const char *from, const char *to, char *out, size_t size)
{
    const char *at = strstr(path, from);
    const int n =
        at ? snprintf(out, size, "%.*s%s%s", (int)(at - path), path, to, at + strlen(from)) : -1;
    return n >= 0 && (size_t)n < size;
}

bool weft__part_name(const char *path, int part, char *out, size_t size)
{
    for (int i = 0; i < N_SPLITS; i++) {
        if (replaced(path, splits[i].whole, splits[i].parts[part], out, size))
            return true;
    }
    return false;
}

weft_array *weft__part_of(const weft__decoder_config *c, const char *path, weft_array *whole,
                          int part)
{
    for (int i = 0; i < N_SPLITS; i++) {
        if (strstr(path, splits[i].whole))
            return splits[i].make(c, whole, part);
    }
    return whole;
}

bool weft__half_name(const char *path, int half, char *out, size_t size)
{
    char name[WEFT_NN_PATH];
    if (!replaced(path, splits[HALVES].whole, splits[HALVES].parts[half], name, sizeof name))
        return false;
    return snprintf(out, size, "%s", name) < (int)size;
}

int weft__half_of(const char *path, char *whole, char *other, size_t size)
{
    const char *const *parts = splits[HALVES].parts;
    char module[WEFT_NN_PATH];
    const int n = snprintf(module, sizeof module, "%s.", path);
    for (int half = 0; half < 2 && n < (int)sizeof module; half++) {
        if (!replaced(module, parts[half], splits[HALVES].whole, whole, size) ||
            !replaced(module, parts[half], parts[1 - half], other, size))
            continue;
        whole[strlen(whole) - 1] = '\0';
        other[strlen(other) - 1] = '\0';
        return half;
    }
    return -1;
}

/* ---- joining --------------------------------------------------------------------------------- */

static weft_array *found(const weft__weights *w, const char *path)
{
    const weft__weight *item = weft__weights_find(w, path);
    return item ? item->array : NULL;
}

/* The matrices (n, rows, K) at a path, dense. Codes have scales beside them, and biases if they are
 * affine. */
static weft_array *dense_of(const weft__weights *w, const char *path, int64_t K)
{
    char other[WEFT_NN_PATH];
    weft_array *parts[3] = {found(w, path)};
    for (int i = 1; i < 3; i++) {
        if (weft__nn_part_path(path, i, other, sizeof other))
            parts[i] = found(w, other);
    }
    if (parts[0] == NULL || parts[1] == NULL || !weft_ok(parts[0]) || !weft_ok(parts[1]))
        return parts[0] ? weft_decode(parts[0]) : weft_error_array("%s: missing", path);
    const int64_t codes = weft_dim(parts[0], -1), groups = weft_dim(parts[1], -1);
    if (K < 1 || groups < 1)
        return weft_error_array("%s: expected codes with scales", path);
    const weft_quantize_options format = {
        .mode = parts[2]              ? WEFT_AFFINE
                : K / groups == 16    ? WEFT_NVFP4
                : 32 * codes / K == 8 ? WEFT_MXFP8
                                      : WEFT_MXFP4,
        .group_size = K / groups,
        .bits = 32 * codes / K,
    };
    const weft_dtype dtype = parts[2] ? weft_dtype_of(parts[1]) : WEFT_BFLOAT16;
    return weft_dequantize(parts[0], parts[1], parts[2], dtype, &format);
}

/* Keys' matrices (H, R, nope) and values' ones (H, v, R) as kv_b_proj: (H (nope + v), R). */
static weft_array *latents(const weft__weights *w, const char *keys, const char *values,
                           int64_t nope)
{
    weft_array *k = dense_of(w, keys, nope);
    const int64_t R = weft_ok(k) && weft_ndim(k) == 3 ? weft_dim(k, 1) : 0;
    weft_array *v = dense_of(w, values, R);
    if (!weft_ok(k) || !weft_ok(v))
        return weft_ok(k) ? v : k;
    if (R == 0 || weft_ndim(v) != 3 || weft_dim(v, 0) != weft_dim(k, 0) || weft_dim(v, 2) != R)
        return weft_error_array("%s: expected matrices of the keys (H, R, nope), and of the "
                                "values (H, v, R)",
                                keys);
    weft_array *both[] = {weft_swapaxes(k, 1, 2), v};
    return weft_reshape(weft_concatenate(both, 2, 1), WEFT_DIMS(-1, R));
}

/* The rows of two matrices of one shape below each other. Blocks of one type are copied. */
static weft_array *rows(weft_array *a, weft_array *b, const char *path)
{
    if (a == NULL || b == NULL || !weft_ok(a) || !weft_ok(b))
        return a == NULL || b == NULL ? weft_error_array("%s: one of two halves is missing", path)
               : weft_ok(a)           ? b
                                      : a;
    const weft_encoding *e = weft_encoding_of(a);
    weft_dims shape = weft_shape(a);
    const weft_dims other = weft_shape(b);
    if (!weft__shape_equal(&shape, &other) || shape.n < 1)
        return weft_error_array("%s: expected two halves of one shape", path);
    const bool alike = e && e == weft_encoding_of(b) && !weft_encoding_has_parts(e->kind);
    const void *first = alike ? weft__blocks(a) : NULL, *second = alike ? weft__blocks(b) : NULL;
    if (first == NULL || second == NULL) {
        weft_array *both[] = {weft_decode(a), weft_decode(b)};
        return weft_concatenate(both, 2, 0);
    }
    const size_t n = (size_t)weft_nbytes(a);
    char *all = weft_malloc(n > 0 ? 2 * n : 1);
    if (all == NULL)
        return weft__memory_error(path, "its rows");
    memcpy(all, first, n);
    memcpy(all + n, second, n);
    shape.at[0] *= 2;
    return weft_from_blocks(all, e, weft_dtype_of(a), shape, weft_free, all);
}

/* The tensor that has `part` as its first half, as a parameter of trees; NULL: none. */
static weft_array *joined(const weft__weights *w, const char *part, int split, int64_t nope)
{
    char other[WEFT_NN_PATH];
    const char *const *parts = splits[split].parts;
    if (!replaced(part, parts[0], parts[1], other, sizeof other))
        return NULL;
    return split == LATENT ? latents(w, part, other, nope)
                           : rows(found(w, part), found(w, other), part);
}

static bool is_part(const char *path)
{
    bool is = false;
    for (int s = LATENT; s < N_SPLITS; s++)
        is = is || strstr(path, splits[s].parts[0]) || strstr(path, splits[s].parts[1]);
    return is;
}

/* Adds the whole of a tensor that is the first half of one. */
static weft_status add_whole(weft__weights *w, int n, int i, int64_t nope)
{
    weft_status status = WEFT_OK;
    for (int s = LATENT; s < N_SPLITS && status == WEFT_OK; s++) {
        char path[WEFT_NN_PATH], name[WEFT_NN_PATH];
        const char *const *parts = splits[s].parts, *whole = splits[s].whole;
        const weft__weight *item = &w->at[i];
        const weft__weights before = {.at = w->at, .n = n};
        if (!weft__ends_with(item->path, ".weight") ||
            !replaced(item->path, parts[0], whole, path, sizeof path))
            continue;
        const bool named = item->name && replaced(item->name, parts[0], whole, name, sizeof name);
        weft_array *a = joined(&before, item->path, s, nope);
        status = weft__weights_add(w, path, named ? name : NULL, a);
    }
    return status;
}

weft_status weft__weights_join_parts(weft__weights *w, const weft_config *config)
{
    const int64_t nope = weft_config_int(config, "qk_nope_head_dim", 0);
    const int n = w->n;
    int kept = 0;
    weft_status status = WEFT_OK;
    for (int i = 0; i < n && status == WEFT_OK; i++)
        status = add_whole(w, n, i, nope);
    for (int i = 0; i < w->n && status == WEFT_OK; i++) {
        if (is_part(w->at[i].path)) {
            weft_free(w->at[i].path);
            weft_free(w->at[i].name);
        } else {
            w->at[kept++] = w->at[i];
        }
    }
    if (status == WEFT_OK)
        w->n = kept;
    weft__weights_sort(w);
    return status;
}
