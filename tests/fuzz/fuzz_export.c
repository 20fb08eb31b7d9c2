/* tests/fuzz/fuzz_export.c -- the bytes of a file of exported functions, which are also called. */
#include <string.h>

#include "tests/fuzz/input.h"
#include "weft/export.h"
#include "weft/memory.h"
#include "weft/ops.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ARGUMENTS = 4, RESULTS = 4, MEMORY = 16 << 20 };

/* The arguments are in the signature's text: "f(float32 (2, 3), ...) -> (...)". */
static int make_arguments(const char *signature, weft_array **in)
{
    const char *at = strchr(signature, '(');
    int n = 0;
    while (at && at[1] != ')' && n < ARGUMENTS) {
        char dtype_name[16];
        weft_dtype dtype;
        weft_dims shape = {0};
        int used = 0;
        if (sscanf(at + 1, "%15[a-z0-9] (%n", dtype_name, &used) != 1 || used == 0 ||
            !weft_dtype_parse(dtype_name, &dtype))
            return -1;
        at += 1 + used;
        while (*at != ')' && shape.n < WEFT_MAX_DIMS) {
            if (*at >= 'a' && *at <= 'z') { /* a dynamic axis */
                shape.at[shape.n] = 3;
                at++;
            } else {
                shape.at[shape.n] = strtoll(at, (char **)&at, 10);
            }
            if (shape.at[shape.n++] > 64)
                return -1;
            at += strspn(at, ", ");
        }
        in[n++] = weft_ones(shape, dtype);
        at = strchr(at, ')') + 1;
        if (*at == ')')
            return n;
    }
    return at && at[1] == ')' ? n : -1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    weft_imported *imported;
    const char *path = input_file(data, size);
    if (path == NULL || weft_import(path, &imported) != WEFT_OK)
        return 0;
    weft_memory_set_limit(MEMORY);
    for (int i = 0; i < weft_imported_count(imported); i++) {
        weft_array *in[ARGUMENTS], *out[RESULTS];
        weft_scope_open();
        int n = make_arguments(weft_imported_signature(imported, i), in);
        for (int results = 1; n >= 0 && results <= RESULTS; results++) {
            weft_imported_call(imported, NULL, in, n, out, results);
            if (weft_ok(out[0]))
                (void)weft_eval_n(out, results);
        }
        weft_scope_close(NULL);
    }
    weft_imported_free(imported);
    return 0;
}
