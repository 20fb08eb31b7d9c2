/* tests/fuzz/fuzz_gguf_text.c -- the metadata of a GGUF file: configuration, chat templates, the
 * tokenizer, and a text that it encodes and decodes. */
#include "models/gguf/gguf.h"
#include "tests/fuzz/input.h"
#include "text/chat/chat.h"
#include "text/gguf/gguf.h"
#include "weft/memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use_tokenizer(const weft_gguf *file, const weft_tokenizer *tokenizer)
{
    static const char input[] = "a<s> \xc3\xa9\x13 ab  abc</s>\n";
    int32_t *ids = NULL;
    size_t count = 0;
    char *text = NULL;
    weft__text json = {0};
    if (weft_tokenizer_encode(tokenizer, input, sizeof input - 1, WEFT_TOKENIZER_ADD_SPECIAL, &ids,
                              &count) == WEFT_OK &&
        weft_tokenizer_decode(tokenizer, ids, count, 0, &text, NULL) == WEFT_OK)
        weft_free(text);
    weft_free(ids);
    /* Written files can be read again, except with tokens that contain a NUL: the JSON reader
     * refuses these as names of members. */
    if (weft__gguf_tokenizer_json(file, tokenizer, &json) == WEFT_OK) {
        weft_tokenizer *again = NULL;
        if (weft_tokenizer_parse(json.at, json.n, NULL, 0, "written", &again) != WEFT_OK &&
            strstr(weft_error_message(), "\\u0000") == NULL) {
            fprintf(stderr, "%s\n", weft_error_message());
            abort();
        }
        weft_tokenizer_free(again);
    }
    weft_free(json.at);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    weft_gguf *file;
    const char *path = input_file(data, size);
    if (path == NULL || weft_gguf_open(path, &file) != WEFT_OK)
        return 0;
    weft_config *config = NULL;
    weft_tokenizer *tokenizer = NULL;
    weft_chat *chat = NULL;
    if (weft__gguf_config(file, &config) == WEFT_OK)
        weft_config_free(config);
    if (weft__gguf_generation(file, &config) == WEFT_OK)
        weft_config_free(config);
    if (weft__chat_templates(NULL, path, &chat) == WEFT_OK)
        weft_chat_free(chat);
    if (weft__gguf_tokenizer(path, &tokenizer) == WEFT_OK) {
        use_tokenizer(file, tokenizer);
        weft_tokenizer_free(tokenizer);
    }
    weft_gguf_close(file);
    return 0;
}
