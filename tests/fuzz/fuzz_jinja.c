/* tests/fuzz/fuzz_jinja.c -- a chat template, NUL, and the messages that it renders. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/json.h"
#include "text/jinja/jinja.h"
#include "weft/memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *source = (const char *)data;
    const char *end = memchr(source, '\0', size);
    const size_t length = end ? (size_t)(end - source) : size;
    jinja_template *template = NULL;
    weft__json_doc doc = {0};
    char *text = NULL;
    size_t n = 0;
    if (weft__jinja_parse(source, length, "fuzz", &template))
        return 0;
    if (end && weft__json_parse(end + 1, size - length - 1, "messages", &doc) == WEFT_OK) {
        const jinja_input inputs[] = {{"messages", doc.root}, {"tools", doc.root}};
        const jinja_context context = {
            .variables = inputs, .count = 2, .max_steps = 100000, .max_bytes = 8 << 20};
        if (!weft__jinja_render(template, &context, &text, &n))
            weft_free(text);
    }
    weft__json_free(&doc);
    weft__jinja_free(template);
    return 0;
}
