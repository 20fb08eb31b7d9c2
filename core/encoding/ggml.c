/* core/encoding/ggml.c -- the GGUF block types that Weft can compute with. */
#include "core/encoding/ggml.h"

#define TYPE(NAME, LOWER, BLOCK, BYTES, BITS, ENCODE)                                              \
    {                                                                                              \
        .name = #LOWER, .block = (BLOCK), .block_bytes = (BYTES), .kind = WEFT_ENCODING_##NAME,    \
        .bits = (BITS), .scale = WEFT_FLOAT16, .decode = weft__ggml_decode_##LOWER,                \
        .encode = (ENCODE)                                                                         \
    }
const weft_encoding weft__ggml_encodings[] = {
    TYPE(Q4_0, q4_0, 32, 18, 4, weft__ggml_encode_q4_0),
    TYPE(Q4_1, q4_1, 32, 20, 4, NULL),
    TYPE(Q5_0, q5_0, 32, 22, 5, NULL),
    TYPE(Q5_1, q5_1, 32, 24, 5, NULL),
    TYPE(Q8_0, q8_0, 32, 34, 8, weft__ggml_encode_q8_0),
    TYPE(Q2_K, q2_k, 256, 84, 2, NULL),
    TYPE(Q3_K, q3_k, 256, 110, 3, NULL),
    TYPE(Q4_K, q4_k, 256, 144, 4, weft__ggml_encode_q4_k),
    TYPE(Q5_K, q5_k, 256, 176, 5, weft__ggml_encode_q5_k),
    TYPE(Q6_K, q6_k, 256, 210, 6, weft__ggml_encode_q6_k),
    TYPE(IQ4_NL, iq4_nl, 32, 18, 4, NULL),
    TYPE(IQ4_XS, iq4_xs, 256, 136, 4, NULL),
    {"gguf_mxfp4", 32, 17, WEFT_ENCODING_GGUF_MXFP4, 4, WEFT_UINT8, weft__ggml_decode_mxfp4, NULL},
};
#undef TYPE
const int weft__ggml_encoding_count = sizeof weft__ggml_encodings / sizeof *weft__ggml_encodings;
