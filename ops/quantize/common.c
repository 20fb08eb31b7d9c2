/* ops/quantize/common.c -- options of quantization, and checks of codes, scales and biases. */
#include "core/failure.h"
#include "ops/quantize/quantized.h"

const weft_field weft__quantized_fields[] = {
    WEFT_FIELD(INT, weft_quantized_params, mode),
    WEFT_FIELD(INT, weft_quantized_params, bits),
    WEFT_FIELD(INT, weft_quantized_params, group),
    WEFT_FIELD(DTYPE, weft_quantized_params, dtype),
    WEFT_FIELD(BOOL, weft_quantized_params, transposed),
    WEFT_FIELD(BOOL, weft_quantized_params, gathered),
    WEFT_FIELD(BOOL, weft_quantized_params, has_global),
    WEFT_FIELD(INT, weft_quantized_params, encoding),
    WEFT_FIELDS_END,
};

static const char *const mode_names[] = {"affine", "mxfp4", "mxfp8", "nvfp4"};

/* ---- Options -------------------------------------------------------------------------------- */

weft_array *weft__quantized_params(const char *where, const weft_quantize_options *options,
                                   weft_quantize_mode mode, weft_quantized_params *out)
{
    static const int64_t groups[] = {64, 32, 32, 16}, bits[] = {4, 4, 8, 4};
    const weft_quantize_options none = {.mode = mode}, *o = options ? options : &none;
    if ((int)o->mode < 0 || o->mode > WEFT_NVFP4) {
        return weft_error_array("%s: %d is no mode", where, (int)o->mode);
    }
    *out = (weft_quantized_params){.mode = (int64_t)o->mode + 1,
                                   .bits = o->bits ? o->bits : bits[o->mode],
                                   .group = o->group_size ? o->group_size : groups[o->mode],
                                   .has_global = o->global_scale != NULL};
    if (!weft_encoding_of_kind((weft_encoding_kind)out->mode, out->bits, out->group,
                               WEFT_FLOAT32)) {
        return weft_error_array("%s: %s has no %lld bits with groups of %lld: expected %s", where,
                                mode_names[o->mode], (long long)out->bits, (long long)out->group,
                                o->mode == WEFT_AFFINE
                                    ? "2, 3, 4, 5, 6 or 8 bits and groups of 32, 64 or 128"
                                : o->mode == WEFT_NVFP4 ? "4 bits and groups of 16"
                                : o->mode == WEFT_MXFP4 ? "4 bits and groups of 32"
                                                        : "8 bits and groups of 32");
    }
    if (o->global_scale && o->mode != WEFT_NVFP4) {
        return weft_error_array("%s: a global scale is of nvfp4, not of %s", where,
                                mode_names[o->mode]);
    }
    return NULL;
}

const weft_encoding *weft_quantize_encoding(const weft_quantize_options *options, weft_dtype dtype)
{
    weft_quantized_params p;
    weft_scope_open();
    weft_array *bad = weft__quantized_params("quantize_encoding", options, WEFT_AFFINE, &p);
    if (bad) {
        weft__report(bad);
    } else if (p.has_global) {
        weft_fail(WEFT_UNSUPPORTED, "quantize_encoding: a global scale is not part of an encoding");
    }
    weft_scope_close(NULL);
    if (bad || p.has_global) {
        return NULL;
    }
    const weft_encoding *e =
        weft_encoding_of_kind((weft_encoding_kind)p.mode, p.bits, p.group, dtype);
    if (!e) {
        weft_fail(WEFT_INVALID,
                  "quantize_encoding: expected scales of float32, float16 or bfloat16, got %s",
                  weft_dtype_name(dtype));
    }
    return e;
}

weft_array *weft__check_biases(const char *where, const weft_quantized_params *p,
                               const weft_array *biases)
{
    if (is_affine(p) && !biases) {
        return weft_error_array("%s: the affine mode needs biases", where);
    }
    return !is_affine(p) && biases
               ? weft_error_array("%s: %s has no biases", where, mode_names[p->mode - 1])
               : NULL;
}

/* ---- Checks --------------------------------------------------------------------------------- */

static bool expect_shape(const weft_array *node, int i, const char *name, const weft_dims *shape,
                         weft_why *why)
{
    weft_dims actual = input_shape(node, i);
    char a[WEFT_SHAPE_TEXT], b[WEFT_SHAPE_TEXT];
    return weft__shape_equal(&actual, shape) ||
           weft_because(why, "%s have shape %s, expected %s", name, weft__shape_text(&actual, a),
                        weft__shape_text(shape, b));
}

static bool expect_scales(const weft_array *node, int first, const weft_quantized_params *p,
                          weft_why *why)
{
    weft_dtype scales = input_dtype(node, first + 1);
    if (!is_affine(p)) {
        return scales == WEFT_UINT8 ||
               weft_because(why, "the scales are %s, expected uint8", weft_dtype_name(scales));
    }
    weft_dtype biases = input_dtype(node, first + 2);
    return (weft_dtype_is_float(scales) && biases == scales) ||
           weft_because(why, "scales and biases are %s and %s, expected one float dtype",
                        weft_dtype_name(scales), weft_dtype_name(biases));
}

bool weft__expect_quantized(const weft_array *node, int first, const weft_quantized_params *p,
                            weft_dims *shape, weft_why *why)
{
    if (weft_node_n_inputs(node) < first + tensors_of(p)) {
        return weft_because(why, "expected %d tensors of a quantized matrix", tensors_of(p));
    }
    if (input_dtype(node, first) != WEFT_UINT32) {
        return weft_because(why, "the codes are %s, expected uint32",
                            weft_dtype_name(input_dtype(node, first)));
    }
    weft_dims scales = input_shape(node, first + 1), codes = scales;
    if (scales.n < 2) {
        return weft_because(why, "the scales have rank %d, expected at least 2", scales.n);
    }
    *shape = scales;
    shape->at[scales.n - 1] *= p->group;
    codes.at[scales.n - 1] = shape->at[scales.n - 1] * p->bits / 32;
    return expect_scales(node, first, p, why) &&
           expect_shape(node, first, "the codes", &codes, why) &&
           (!is_affine(p) || expect_shape(node, first + 2, "the biases", &scales, why));
}

bool weft__expect_groups(const weft_array *node, int i, const weft_quantized_params *p,
                         weft_why *why)
{
    weft_dims shape = input_shape(node, i);
    weft_dtype dtype = input_dtype(node, i);
    if (dtype != WEFT_FLOAT32 && dtype != WEFT_FLOAT16 && dtype != WEFT_BFLOAT16) {
        return weft_because(why, "expected float32, float16 or bfloat16, got %s",
                            weft_dtype_name(dtype));
    }
    if (shape.n < 2) {
        return weft_because(why, "expected a matrix (..., N, K), got rank %d", shape.n);
    }
    return shape.at[shape.n - 1] % p->group == 0 ||
           weft_because(why, "the last dim, %lld, is no multiple of the group, %lld",
                        (long long)shape.at[shape.n - 1], (long long)p->group);
}

bool weft__expect_global(const weft_array *node, int i, const weft_quantized_params *p,
                         weft_why *why)
{
    int n = weft_node_n_inputs(node);
    if (n != i + p->has_global) {
        return weft_because(why, "%d inputs, expected %d", n, i + p->has_global);
    }
    return !p->has_global ||
           (input_shape(node, i).n == 0 && input_dtype(node, i) == WEFT_FLOAT32) ||
           weft_because(why, "the global scale is %s of rank %d, expected a float32 scalar",
                        weft_dtype_name(input_dtype(node, i)), input_shape(node, i).n);
}

void weft__quantized_specs(const weft_quantized_params *p, const weft_dims *shape, weft_dtype scale,
                           weft_spec *out)
{
    weft_dims codes = *shape, scales = *shape;
    const int last = shape->n - 1;
    codes.at[last] = shape->at[last] * p->bits / 32;
    scales.at[last] = shape->at[last] / p->group;
    set_spec(&out[0], WEFT_UINT32, &codes);
    set_spec(&out[1], is_affine(p) ? scale : WEFT_UINT8, &scales);
    set_spec(&out[2], scale, &scales);
    for (int i = tensors_of(p); i < WEFT_MAX_OUTPUTS; i++) {
        out[i].shape.n = -1; /* ends the list of outputs */
    }
}

/* ---- Nodes ---------------------------------------------------------------------------------- */

int weft__quantized_inputs(weft_array *x, weft_array *codes, weft_array *scales, weft_array *biases,
                           weft_array *more, weft_array **in)
{
    int n = 0;
    weft_array *const all[] = {x, codes, scales, biases, more};
    for (int i = 0; i < 5; i++) {
        if (all[i] || i == 1 || i == 2) { /* NULL for a required matrix makes the node an error */
            in[n++] = all[i];
        }
    }
    return n;
}

bool weft__quantized_vmap(weft_array *node, weft_array *const *in, const bool *batched,
                          int64_t size, weft_array **out)
{
    const weft_quantized_params *p = weft_node_params(node);
    const int n = weft_node_n_inputs(node);
    weft_array *all[WEFT_MAX_OPERANDS];
    if (p->has_global) {
        return false;
    }
    for (int i = 0; i < n; i++) {
        weft_dims shape = weft_shape(in[i]), leading = {.n = shape.n + 1, .at = {size}};
        memcpy(leading.at + 1, shape.at, (size_t)shape.n * sizeof *shape.at);
        all[i] = batched[i] ? in[i] : weft_broadcast_to(in[i], leading);
    }
    weft_array *y = weft_apply(weft_node_op(node), all, n, p);
    for (int o = 0; o < weft_node_n_outputs(node); o++) {
        out[o] = weft_pick(y, o);
    }
    return true;
}
