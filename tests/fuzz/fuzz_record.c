/* tests/fuzz/fuzz_record.c -- two records of a run as a checkpoint has them, with a NUL between:
 * their comparison by weft verify. */
#include <stddef.h>
#include <stdint.h>

#include "core/io/json.h"
#include "tests/fuzz/input.h"
#include "train/run/compare.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const size_t n = input_head(data, size), rest = n < size ? size - n - 1 : 0;
    weft__json_doc then = {.root = NULL}, now = {.root = NULL}, written = {.root = NULL};
    weft_set_log(input_drop_log, NULL);
    if (weft__json_parse((const char *)data, n, "then", &then) == WEFT_OK &&
        weft__json_parse((const char *)data + size - rest, rest, "now", &now) == WEFT_OK) {
        const weft__json a = weft__json_root(&then), b = weft__json_root(&now);
        weft__comparison items = {.state = {WEFT__EQUAL}};
        weft__text t = {0};
        if (weft__json_as_object(&a) == WEFT_OK && weft__json_as_object(&b) == WEFT_OK)
            weft__compare(then.root, now.root, &items);
        weft__text_format(&t, "{");
        weft__comparison_write(&t, &items);
        weft__text_format(&t, "\"end\": 0}");
        if (!t.failed && weft__json_parse(t.at, t.n, "written", &written) != WEFT_OK)
            abort();
        weft_free(t.at);
        weft__comparison_free(&items);
    }
    weft__json_free(&written);
    weft__json_free(&now);
    weft__json_free(&then);
    return 0;
}
