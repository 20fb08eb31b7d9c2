/* tests/fuzz/fuzz_gguf.c -- the bytes of a GGUF file, opened and read to the end. */
#include "tests/fuzz/input.h"
#include "weft/gguf.h"
#include "weft/quantize.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every element of the value as whatever it is. */
static void touch(const weft_gguf_value *v)
{
    volatile char sum = 0;
    for (int64_t i = 0; i < v->count; i++) {
        int64_t whole;
        double number;
        weft_gguf_string s;
        if (weft_gguf_value_string(v, i, &s)) {
            for (size_t j = 0; j < s.n; j++)
                sum = (char)(sum + s.at[j]);
        } else if (!weft_gguf_value_number(v, i, &number)) {
            abort();
        }
        weft_gguf_value_int(v, i, &whole);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    weft_gguf *file;
    const char *path = input_file(data, size);
    if (path == NULL || weft_gguf_open(path, &file) != WEFT_OK)
        return 0;
    for (int i = 0; i < weft_gguf_value_count(file); i++)
        touch(weft_gguf_value_at(file, i));
    weft_scope_open();
    for (int i = 0; i < weft_gguf_count(file); i++)
        input_touch(weft_decode(weft_gguf_get(file, weft_gguf_at(file, i)->name)));
    weft_scope_close(NULL);
    weft_gguf_close(file);
    return 0;
}
