/* tests/fuzz/fuzz_tokenizer.c -- a tokenizer.json, NUL, and a text that it encodes and decodes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "weft/memory.h"
#include "weft/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *json = (const char *)data;
    const char *end = memchr(json, '\0', size);
    const size_t length = end ? (size_t)(end - json) : size;
    const char *input = end ? end + 1 : "a b";
    const size_t input_length = end ? size - length - 1 : 3;
    weft_tokenizer *tokenizer = NULL;
    if (weft_tokenizer_parse(json, length, NULL, 0, "fuzz", &tokenizer))
        return 0;
    int32_t *ids = NULL;
    size_t count = 0;
    char *text = NULL;
    if (!weft_tokenizer_encode(tokenizer, input, input_length, WEFT_TOKENIZER_ADD_SPECIAL, &ids,
                               &count) &&
        !weft_tokenizer_decode(tokenizer, ids, count, 0, &text, NULL))
        weft_free(text);
    weft_free(ids);
    weft_tokenizer_free(tokenizer);
    return 0;
}
