/* ops/random/bits.c -- random words from a key. This is the only random op; all distributions are
 * composed of it.
 *
 * An output of W words, with h = W / 2: words i and i + h + W % 2 are the block (i, i + h + W % 2)
 * under the key, for i < h; with W odd, word h is the first of the block (h, 0). Narrower elements
 * are the words' bytes, low ones first. Keys (..., 2) make one such output each.
 */
#include "ops/kernel.h"
#include "ops/random/threefry.h"
#include "weft/random.h"

static void put_word(char *out, int64_t bytes, int64_t word, uint32_t value)
{
    int64_t left = bytes - word * 4;
    memcpy(out + word * 4, &value, left < 4 ? (size_t)left : 4);
}

static void fill(char *out, int64_t bytes, const uint32_t *key)
{
    int64_t words = (bytes + 3) / 4, half = words / 2, second = half + words % 2;
    for (int64_t i = 0; i < second; i++) {
        uint32_t block[2] = {(uint32_t)i, i < half ? (uint32_t)(i + second) : 0};
        threefry(key, block);
        put_word(out, bytes, i, block[0]);
        if (i < half) {
            put_word(out, bytes, i + second, block[1]);
        }
    }
}

static weft_status random_bits_reference(const weft_call *call)
{
    const weft_tensor *keys = &call->in[0], *out = &call->out[0];
    int64_t n = weft_tensor_size(keys) / 2;
    int64_t bytes = weft_tensor_size(out) * (int64_t)weft_dtype_size(out->dtype) / (n ? n : 1);
    for (int64_t i = 0; i < n; i++) {
        uint32_t key[2] = {(uint32_t)weft_tensor_get_int(keys, 2 * i),
                           (uint32_t)weft_tensor_get_int(keys, 2 * i + 1)};
        fill((char *)out->data + i * bytes, bytes, key);
    }
    return WEFT_OK;
}

static bool random_bits_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_bits_params *p = weft_node_params(node);
    weft_dims key = input_shape(node, 0);
    char text[WEFT_SHAPE_TEXT];
    if (input_dtype(node, 0) != WEFT_UINT32 || key.n < 1 || key.at[key.n - 1] != 2) {
        return weft_because(why, "key: expected uint32 (..., 2), got %s %s",
                            weft_dtype_name(input_dtype(node, 0)), weft__shape_text(&key, text));
    }
    for (int i = 0; i < p->shape.n; i++) {
        if (p->shape.at[i] < 0) {
            return weft_because(why, "a negative dimension in %s",
                                weft__shape_text(&p->shape, text));
        }
    }
    if (p->width != 1 && p->width != 2 && p->width != 4) {
        return weft_because(why, "width: expected 1, 2 or 4 bytes, got %lld", (long long)p->width);
    }
    if (weft__shape_size(&p->shape) > (INT64_C(1) << 34) / p->width) {
        return weft_because(
            why, "%s: expected at most %lld elements, as many as a key has words, got %lld",
            weft__shape_text(&p->shape, text), (long long)((INT64_C(1) << 34) / p->width),
            (long long)weft__shape_size(&p->shape));
    }
    weft_dtype dtype = p->width == 1 ? WEFT_UINT8 : p->width == 2 ? WEFT_UINT16 : WEFT_UINT32;
    if (key.n - 1 + p->shape.n > WEFT_MAX_DIMS) {
        return weft_because(why, "the result has more than %d dims", WEFT_MAX_DIMS);
    }
    for (int i = 0; i < p->shape.n; i++) {
        key.at[key.n - 1 + i] = p->shape.at[i];
    }
    key.n += p->shape.n - 1;
    return set_spec(out, dtype, &key);
}

static const weft_field random_bits_fields[] = {
    WEFT_FIELD(DIMS, weft_bits_params, shape),
    WEFT_FIELD(INT, weft_bits_params, width),
    WEFT_FIELDS_END,
};

static const weft_case random_bits_cases[] = {
    {.name = "even",
     .n_inputs = 1,
     .in = {{.shape = DIMS(2), .key = true}},
     .params = &(const weft_bits_params){DIMS(3, 4), 4}},
    {.name = "odd",
     .n_inputs = 1,
     .in = {{.shape = DIMS(2), .key = true}},
     .params = &(const weft_bits_params){DIMS(7), 4}},
    {.name = "bytes",
     .n_inputs = 1,
     .in = {{.shape = DIMS(2), .key = true}},
     .params = &(const weft_bits_params){DIMS(3, 3), 1}},
    {.name = "halves",
     .n_inputs = 1,
     .in = {{.shape = DIMS(2), .key = true}},
     .params = &(const weft_bits_params){DIMS(5), 2}},
    {.name = "keys",
     .n_inputs = 1,
     .in = {{.shape = DIMS(3, 2), .key = true}},
     .params = &(const weft_bits_params){DIMS(5), 1}},
    {.name = "keys of words",
     .n_inputs = 1,
     .in = {{.shape = DIMS(3, 2), .key = true}},
     .params = &(const weft_bits_params){DIMS(5), 4}},
    {.name = "empty",
     .n_inputs = 1,
     .in = {{.shape = DIMS(2), .key = true}},
     .params = &(const weft_bits_params){DIMS(0), 4}},
};

const weft_op weft_op_random_bits = {
    .name = "random_bits",
    .family = WEFT_STRUCTURAL,
    .arity = 1,
    .params_size = sizeof(weft_bits_params),
    .params_fields = random_bits_fields,
    .infer = random_bits_infer,
    .zero_gradient = 1u << 0,
    .takes_leading_axis = true,
    .reference = random_bits_reference,
    .cases = random_bits_cases,
    .n_cases = sizeof random_bits_cases / sizeof *random_bits_cases,
};

weft_array *weft_random_bits(weft_array *key, weft_dims shape, int width)
{
    weft_bits_params params = {.shape = shape, .width = width};
    return apply1(&weft_op_random_bits, key ? key : weft_random_next_key(), &params);
}
