/* tests/chat/test_formats.c -- tools in the built-in ChatML format: the prompts that Qwen 2.5's own
 * template renders for the same conversations, and the calls in answers. */
#include <string.h>

#include "tests/check.h"
#include "weft/chat.h"
#include "weft/memory.h"

static const char tools[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"description\": \"d\", "
    "\"parameters\": {\"type\": \"object\"}}}]";

static const char talk[] =
    "[{\"role\": \"system\", \"content\": \"S\"}, {\"role\": \"user\", \"content\": \"a\"}, "
    "{\"role\": \"assistant\", \"tool_calls\": ["
    "{\"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": {\"x\": \"<1>\", "
    "\"n\": [18446744073709551615, -123456789012345678901234567890]}}}, {\"type\": \"function\", "
    "\"function\": {\"name\": \"g\", \"arguments\": {}}}]}, "
    "{\"role\": \"tool\", \"content\": \"r1\"}, {\"role\": \"tool\", \"content\": \"r2\"}, "
    "{\"role\": \"assistant\", \"content\": \"b\"}]";

#define TOOLS                                                                                      \
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are "     \
    "provided with function signatures within <tools></tools> XML tags:\n<tools>\n"                \
    "{\"type\": \"function\", \"function\": {\"name\": \"f\", \"description\": \"d\", "            \
    "\"parameters\": {\"type\": \"object\"}}}\n</tools>\n\nFor each function call, return a json " \
    "object with function name and arguments within <tool_call></tool_call> XML tags:\n"           \
    "<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>"    \
    "<|im_end|>\n"
#define TURNS                                                                                      \
    "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n<tool_call>\n{\"name\": \"f\", "        \
    "\"arguments\": {\"x\": \"<1>\", \"n\": [18446744073709551615, "                               \
    "-123456789012345678901234567890]}}\n</tool_call>\n<tool_call>\n{\"name\": \"g\", "            \
    "\"arguments\": {}}\n</tool_call><|im_end|>\n<|im_start|>user\n<tool_response>\nr1\n"          \
    "</tool_response>\n<tool_response>\nr2\n</tool_response><|im_end|>\n<|im_start|>assistant\n"   \
    "b<|im_end|>\n"

static void check_render(const char *messages, const weft_chat_options *options,
                         const char *expected)
{
    weft_chat *chat = NULL;
    char *text = NULL;
    if (CHECK_OK(weft_chat_builtin("chatml", NULL, NULL, &chat)) &&
        CHECK_OK(weft_chat_render(chat, messages, options, &text, NULL)))
        CHECK_STR(text, expected);
    weft_free(text);
    weft_chat_free(chat);
}

static void tools_are_in_the_prompt(void)
{
    const weft_chat_options with = {.generation_prompt = true, .tools = tools};
    const weft_chat_options without = {.generation_prompt = false};
    check_render(talk, &with, "<|im_start|>system\nS\n\n" TOOLS TURNS "<|im_start|>assistant\n");
    check_render("[{\"role\": \"user\", \"content\": \"a\"}]", &with,
                 "<|im_start|>system\n" TOOLS
                 "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n");
    /* Earlier calls in a conversation that has no tools now; arguments as text. */
    check_render(talk, &without, "<|im_start|>system\nS<|im_end|>\n" TURNS);
    check_render("[{\"role\": \"assistant\", \"content\": \"c\", \"tool_calls\": [{\"function\": "
                 "{\"name\": \"f\", \"arguments\": \"{\\\"x\\\": 1}\"}}]}]",
                 &without,
                 "<|im_start|>assistant\nc\n<tool_call>\n{\"name\": \"f\", \"arguments\": "
                 "{\"x\": 1}}\n</tool_call><|im_end|>\n");
}

static void answers_are_searched_for_calls(void)
{
    weft_chat *chat = NULL;
    if (!CHECK_OK(weft_chat_builtin("chatml", NULL, NULL, &chat)))
        return;
    CHECK_EQ_INT(weft_chat_markup_of(chat, NULL, true).tools, WEFT_TOOLS_HERMES);
    CHECK_EQ_INT(weft_chat_markup_of(chat, NULL, false).tools, WEFT_TOOLS_NONE);
    weft_chat_free(chat);
}

CHECK_MAIN("formats", CHECK_CASE(tools_are_in_the_prompt),
           CHECK_CASE(answers_are_searched_for_calls))
