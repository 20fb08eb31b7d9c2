/* backends/cpu/codes.c -- locates codes, scales and biases of quantized groups. */
#include "backends/cpu/quantized.h"

cpu_codes weft__cpu_codes_encoded(const weft_tensor *t)
{
    const weft_encoding *e = t->encoding;
    const bool known = weft_encoding_has_parts(e->kind);
    const int64_t row = t->shape.at[t->shape.n - 1] / e->block * e->block_bytes;
    const int64_t header = known ? e->block_bytes - e->block * e->bits / 8 : 0;
    const int64_t bias = e->kind == WEFT_ENCODING_AFFINE ? (int64_t)weft_dtype_size(e->scale) : 0;
    cpu_codes c = {.kind = (int)e->kind,
                   .bits = e->bits,
                   .group = e->block,
                   .scale = e->scale,
                   .encoding = e,
                   .code_group = e->block_bytes,
                   .code_row = row,
                   .scale_group = e->block_bytes,
                   .scale_row = row};
    if (t->data) {
        c.scales = t->data;
        c.codes = c.scales + header;
        c.biases = c.scales + bias;
    }
    return c;
}

cpu_codes weft__cpu_codes_apart(const weft_quantized_params *p, const weft_tensor *tensors,
                                int64_t index)
{
    const weft_dims *shape = &tensors[1].shape;
    const int64_t groups = shape->at[shape->n - 1], rows = shape->at[shape->n - 2];
    const int64_t size = (int64_t)weft_dtype_size(tensors[1].dtype);
    const bool affine = p->mode == WEFT_ENCODING_AFFINE;
    cpu_codes c = {.kind = (int)p->mode,
                   .bits = (int)p->bits,
                   .group = p->group,
                   .scale = tensors[1].dtype,
                   .code_group = p->group * p->bits / 8,
                   .code_row = groups * p->group * p->bits / 8,
                   .scale_group = size,
                   .scale_row = groups * size};
    if (tensors[0].data) {
        c.codes = (const char *)tensors[0].data + index * rows * c.code_row;
        c.scales = (const char *)tensors[1].data + index * rows * c.scale_row;
        c.biases = affine ? (const char *)tensors[2].data + index * rows * c.scale_row : c.scales;
    }
    return c;
}

cpu_codes weft__cpu_codes_from(const cpu_codes *c, int64_t row)
{
    cpu_codes rest = *c;
    if (c->codes) {
        rest.codes += row * c->code_row;
        rest.scales += row * c->scale_row;
        rest.biases += row * c->scale_row;
    }
    return rest;
}
