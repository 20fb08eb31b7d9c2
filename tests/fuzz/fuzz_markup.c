/* tests/fuzz/fuzz_markup.c -- an answer, parsed in the style and piece sizes that its first two
 * bytes select. */
#include <stdint.h>
#include <stdlib.h>

#include "weft/chat.h"
#include "weft/memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    const weft_chat_markup markup = {.think_open = data[0] & 16 ? "<|channel>" : "<think>",
                                     .think_close = data[0] & 16 ? "<channel|>" : "</think>",
                                     .thinking = data[0] & 32,
                                     .tools =
                                         (weft_tool_style)(data[0] % 16 % (WEFT_TOOLS_PYTHON + 1)),
                                     .tool_open = "<<",
                                     .tool_close = ">>"};
    const size_t piece = 1 + data[1] % 16;
    weft_chat_parser *parser = NULL;
    char *message = NULL;
    if (weft_chat_parser_new(&markup, NULL, NULL, &parser))
        return 0;
    for (size_t i = 2; i < size; i += piece)
        if (weft_chat_parser_push(parser, (const char *)data + i,
                                  size - i < piece ? size - i : piece))
            break;
    if (!weft_chat_parser_finish(parser) && !weft_chat_parser_message(parser, &message))
        weft_free(message);
    weft_chat_parser_free(parser);
    return 0;
}
