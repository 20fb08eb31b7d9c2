/* tests/chat/test_chat.c -- weft/chat.h: templates of folders, built-in formats, prompts as ids;
 * and the templates of real checkpoints if ../shared exists. */
#include "weft/chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <json-c/json.h>

#include "core/io/json.h"
#include "tests/check.h"
#include "tests/support/unpacked.h"
#include "text/chat/marks.h"
#include "weft/gguf.h"
#include "weft/memory.h"

static const char talk[] = "[{\"role\": \"system\", \"content\": \"S\"},"
                           "{\"role\": \"user\", \"content\": \" a \"},"
                           "{\"role\": \"assistant\", \"content\": \"<think>t</think>b\"},"
                           "{\"role\": \"user\", \"content\": \"c\"}]";

static const weft_chat_options prompt = {.generation_prompt = true};
static const weft_chat_options on = {.generation_prompt = true, .thinking = WEFT_THINKING_ON};
static const weft_chat_options off = {.generation_prompt = true, .thinking = WEFT_THINKING_OFF};

/* ---- built-in formats ----------------------------------------------------------------------- */

static void format(const char *type, const char *version, const weft_chat_options *options,
                   const char *expected)
{
    weft_chat *chat = NULL;
    char *text = NULL;
    if (!CHECK_OK(weft_chat_builtin(type, version, NULL, &chat)))
        return;
    if (CHECK_OK(weft_chat_render(chat, talk, options, &text, NULL)))
        CHECK_STR(text, expected);
    weft_free(text);
    weft_chat_free(chat);
}

static void formats_are_the_families(void)
{
    format("gemma3", NULL, &prompt,
           "<bos><start_of_turn>user\nS\n\na<end_of_turn>\n<start_of_turn>model\n"
           "<think>t</think>b<end_of_turn>\n<start_of_turn>user\nc<end_of_turn>\n"
           "<start_of_turn>model\n");
    format("gemma4", NULL, &prompt,
           "<bos><|turn>system\nS<turn|>\n<|turn>user\na<turn|>\n<|turn>model\n"
           "<think>t</think>b<turn|>\n<|turn>user\nc<turn|>\n<|turn>model\n");
    format("gemma4", "large", &on,
           "<bos><|turn>system\n<|think|>\nS<turn|>\n<|turn>user\na<turn|>\n<|turn>model\n"
           "<think>t</think>b<turn|>\n<|turn>user\nc<turn|>\n<|turn>model\n");
    format("qwen2", NULL, NULL,
           "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\n a <|im_end|>\n"
           "<|im_start|>assistant\n<think>t</think>b<|im_end|>\n<|im_start|>user\nc<|im_end|>\n");
    format("qwen3", NULL, &off,
           "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\n a <|im_end|>\n"
           "<|im_start|>assistant\nb<|im_end|>\n<|im_start|>user\nc<|im_end|>\n"
           "<|im_start|>assistant\n<think>\n\n</think>\n\n");
    format("llama", NULL, &prompt,
           "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n"
           "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\nS<|eot_id|>"
           "<|start_header_id|>user<|end_header_id|>\n\na<|eot_id|>"
           "<|start_header_id|>assistant<|end_header_id|>\n\n<think>t</think>b<|eot_id|>"
           "<|start_header_id|>user<|end_header_id|>\n\nc<|eot_id|>"
           "<|start_header_id|>assistant<|end_header_id|>\n\n");
    format("mistral", "v1", &prompt,
           "<s> [INST] S\n\n a  [/INST] <think>t</think>b</s> [INST] c [/INST] ");
    format("mistral", "v3", &prompt,
           "<s>[INST]  a [/INST] <think>t</think>b</s>[INST] S\n\nc[/INST] ");
    format("mistral", "v3-tekken", &prompt,
           "<s>[INST] a [/INST]<think>t</think>b</s>[INST]S\n\nc[/INST]");
    format("mistral", "v7", &prompt,
           "<s>[SYSTEM_PROMPT] S[/SYSTEM_PROMPT][INST]  a [/INST] <think>t</think>b</s>[INST] "
           "c[/INST] ");
    format("minicpm", "5", &on,
           "<s><|im_start|>system\nS<|im_end|>\n<|im_start|>user\n a <|im_end|>\n"
           "<|im_start|>assistant\n<think>\nt\n</think>\n\nb<|im_end|>\n<|im_start|>user\nc"
           "<|im_end|>\n<|im_start|>assistant\n<think>\n");
    weft_chat *chat = NULL;
    CHECK_STATUS(weft_chat_builtin("nosuch", NULL, NULL, &chat), WEFT_UNSUPPORTED);
}

/* ---- the formats as their families describe them -------------------------------------------- */

static void written(const char *type, const char *version, const weft_chat_options *options,
                    const char *messages, const char *expected)
{
    weft_chat *chat = NULL;
    char *text = NULL;
    if (!CHECK_OK(weft_chat_builtin(type, version, NULL, &chat)))
        return;
    if (CHECK_OK(weft_chat_render(chat, messages, options, &text, NULL)))
        CHECK_STR(text, expected);
    weft_free(text);
    weft_chat_free(chat);
}

#define USER(text) "{\"role\": \"user\", \"content\": \"" text "\"}"
#define MODEL(text) "{\"role\": \"assistant\", \"content\": \"" text "\"}"
#define SYSTEM(text) "{\"role\": \"system\", \"content\": \"" text "\"}"

static void gemma_formats(void)
{
    const char *plain = "[" USER(" u ") "," MODEL(" m ") "," USER("v") "]";
    const char *gemma2 = "<bos><start_of_turn>user\nu<end_of_turn>\n<start_of_turn>model\nm"
                         "<end_of_turn>\n<start_of_turn>user\nv<end_of_turn>\n"
                         "<start_of_turn>model\n";
    const char *gemma4 = "<bos><|turn>user\nu<turn|>\n<|turn>model\nm<turn|>\n<|turn>user\nv"
                         "<turn|>\n<|turn>model\n";
    char large[512];
    written("gemma2", NULL, &prompt, plain, gemma2);
    written("gemma2", NULL, NULL, "[" SYSTEM("S") "," USER("u") "]",
            "<bos><start_of_turn>user\nS\n\nu<end_of_turn>\n");
    /* Prompts of small models end with the turn's mark; those of large models add an empty thought
     * if thinking is off. */
    written("gemma4", "small", &prompt, plain, gemma4);
    written("gemma4", "small", &off, plain, gemma4);
    snprintf(large, sizeof large, "%s<|channel>thought\n<channel|>", gemma4);
    written("gemma4", "large", &off, plain, large);
    written("gemma4", "large", &prompt, plain, large);
    written("gemma4", "small", &on, "[" USER("u") "]",
            "<bos><|turn>system\n<|think|>\n<turn|>\n<|turn>user\nu<turn|>\n<|turn>model\n");
    written("gemma4", "large", &on,
            "[{\"role\": \"developer\", \"content\": \" D \"}," USER("u") "]",
            "<bos><|turn>system\n<|think|>\nD<turn|>\n<|turn>user\nu<turn|>\n<|turn>model\n");
    /* Earlier reasoning is left out, except that of calls after the last question. */
    written("gemma4", "small", NULL,
            "[" USER("u") "," MODEL("<|channel>thought\\nhm<channel|>a") "," USER("v") "]",
            "<bos><|turn>user\nu<turn|>\n<|turn>model\na<turn|>\n<|turn>user\nv<turn|>\n");
    written(
        "gemma4", "small", &prompt,
        "[" USER("u") ", {\"role\": \"assistant\", \"content\": \"\", "
                      "\"reasoning_content\": \"look\", \"tool_calls\": [{\"function\": {\"name\": "
                      "\"f\", \"arguments\": {\"b\": \"x\", \"a\": 1}}}]}, {\"role\": \"tool\", "
                      "\"name\": \"f\", \"content\": \"r\"}]",
        "<bos><|turn>user\nu<turn|>\n<|turn>model\n<|channel>thought\nlook\n<channel|>"
        "<|tool_call>call:f{a:1,b:<|\"|>x<|\"|>}<tool_call|><|tool_response>response:f{value:"
        "<|\"|>r<|\"|>}<tool_response|>");
}

static void mistral_formats(void)
{
    const char *turns = "[" USER("u") "," MODEL("a") "," USER("v") "]";
    const char *system = "[" SYSTEM("S") "," USER("u") "]";
    written("mistral", "v1", NULL, turns, "<s> [INST] u [/INST] a</s> [INST] v [/INST] ");
    written("mixtral", NULL, NULL, turns, "<s> [INST] u [/INST] a</s> [INST] v [/INST] ");
    written("mistral", NULL, NULL, turns, "<s>[INST] u[/INST] a</s>[INST] v[/INST] ");
    written("mistral", "v3-tekken", NULL, turns, "<s>[INST]u[/INST]a</s>[INST]v[/INST]");
    written("ministral", NULL, NULL, turns, "<s>[INST]u[/INST]a</s>[INST]v[/INST]");
    written("mistral", "v3", NULL, system, "<s>[INST] S\n\nu[/INST] ");
    written("mistral", "v7", NULL, system, "<s>[SYSTEM_PROMPT] S[/SYSTEM_PROMPT][INST] u[/INST] ");
    written("mistral", "v7-tekken", NULL, system,
            "<s>[SYSTEM_PROMPT]S[/SYSTEM_PROMPT][INST]u[/INST]");
}

static void minicpm_formats(void)
{
    const char *turns = "[" USER("u") "," MODEL("a") "," USER("v") "]";
    const char *five = "<s><|im_start|>user\nu<|im_end|>\n<|im_start|>assistant\n<think>\n\n"
                       "</think>\n\na<|im_end|>\n<|im_start|>user\nv<|im_end|>\n"
                       "<|im_start|>assistant\n";
    char expected[512];
    written("minicpm", "1", &prompt, turns,
            "<s><\xe7\x94\xa8\xe6\x88\xb7>u<AI>a<\xe7\x94\xa8\xe6\x88\xb7>v<AI>");
    written("minicpm", "4", &prompt, turns,
            "<s><|im_start|>user\nu<|im_end|>\n<|im_start|>assistant\na<|im_end|>\n"
            "<|im_start|>user\nv<|im_end|>\n<|im_start|>assistant\n");
    written("minicpm", "5", &prompt, turns, five);
    snprintf(expected, sizeof expected, "%s<think>\n", five);
    written("minicpm5", NULL, &on, turns, expected);
    snprintf(expected, sizeof expected, "%s<think>\n\n</think>\n\n", five);
    written("minicpm5", NULL, &off, turns, expected);
}

#define MINICPM5_TOOLS                                                                             \
    "# Tools\n\nYou are provided with function signatures within <tools></tools> XML tags:\n"      \
    "<tools>\n{\"type\": \"function\", \"function\": {\"name\": \"f\", \"description\": "          \
    "\"\xc3\xa9\"}}\n"                                                                             \
    "</tools>\n\nTool usage guidelines:\n- You may call zero or more functions. If no function "   \
    "calls are needed, just answer normally and do not include any <function ... </function>.\n"   \
    "- When calling a function, return an XML object within <function ... </function> using:\n"    \
    "<function name=\"function-name\"><param name=\"param-name\">param-value</param></function>\n" \
    "- param-value may be multi-line. If it contains <, & or newline characters, wrap it in a "    \
    "CDATA block: <param name=\"param-name\"><![CDATA[...multi-line "                              \
    "value...]]></param><|im_end|>\n"

static void minicpm5_writes_tools(void)
{
    weft_chat_options options = prompt;
    options.tools = "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"description\": "
                    "\"\xc3\xa9\"}}]";
    static const char calls[] =
        "{\"role\": \"assistant\", \"content\": \"c\", \"reasoning_content\": \"t\", "
        "\"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": {\"a\": \"v\", \"n\": "
        "[1, "
        "\"\xc3\xa9\"], \"x\": \"1 < 2\"}}}, {\"name\": \"g\", \"arguments\": {}}]}";
    char messages[1024], expected[2048];
    snprintf(messages, sizeof messages,
             "[%s, %s, %s, {\"role\": \"tool\", \"content\": \"r\"}, {\"role\": \"tool\", "
             "\"content\": \"s\"}, %s]",
             SYSTEM("S"), USER("q"), calls, USER("w"));
    snprintf(expected, sizeof expected,
             "<s><|im_start|>system\nS\n\n%s<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n"
             "<think>\nt\n</think>\n\nc\n<function name=\"f\"><param name=\"a\">v</param>"
             "<param name=\"n\">[1, \"\xc3\xa9\"]</param>"
             "<param name=\"x\"><![CDATA[1 < 2]]></param></function>\n"
             "<function name=\"g\"></function><|im_end|>\n<|im_start|>user\n<tool_response>\nr\n"
             "</tool_response>\n<tool_response>\ns\n</tool_response><|im_end|>\n"
             "<|im_start|>user\nw<|im_end|>\n<|im_start|>assistant\n",
             MINICPM5_TOOLS);
    written("minicpm5", NULL, &options, messages, expected);
    snprintf(expected, sizeof expected, "<s><|im_start|>system\n%s<|im_start|>user\nu<|im_end|>\n",
             MINICPM5_TOOLS);
    written("minicpm", "5", &(weft_chat_options){.tools = options.tools}, "[" USER("u") "]",
            expected);
    weft_chat *chat = NULL;
    if (!CHECK_OK(weft_chat_builtin("minicpm5", NULL, NULL, &chat)))
        return;
    const weft_chat_markup markup = weft_chat_markup_of(chat, "assistant\n<think>\n", true);
    CHECK_EQ_INT(markup.tools, WEFT_TOOLS_FUNCTION);
    CHECK_STR(markup.think_close, "</think>");
    CHECK(markup.thinking);
    static const char *const tokens[] = {"<function", "</function>", "<param",    "</param>",
                                         "<think>",   "</think>",    "<![CDATA[", "]]>"};
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        CHECK(weft__chat_is_mark(&markup, tokens[i])); /* text, though special tokens */
    CHECK(!weft__chat_is_mark(&markup, "<tool_response>"));
    char *text = NULL;
    CHECK_STATUS(weft_chat_render(chat,
                                  "[{\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": "
                                  "[{\"name\": \"f\", \"arguments\": \"{}\"}]}]",
                                  NULL, &text, NULL),
                 WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "as an object");
    weft_chat_free(chat);
}

static void gemma4_writes_tools(void)
{
    weft_chat *chat = NULL;
    char *text = NULL;
    weft_chat_options options = prompt;
    options.tools =
        "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"description\": \"D\", "
        "\"parameters\": {\"type\": \"object\", \"properties\": {\"a\": {\"type\": "
        "\"string\", \"description\": \"x\"}}, \"required\": [\"a\"]}}}]";
    const char *messages =
        "[{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", \"content\": \"\", "
        "\"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": {\"a\": \"v\", \"n\": "
        "1}}}]},"
        "{\"role\": \"tool\", \"name\": \"f\", \"content\": \"r\"}]";
    if (!CHECK_OK(weft_chat_builtin("gemma4", NULL, NULL, &chat)))
        return;
    CHECK_OK(weft_chat_render(chat, messages, &options, &text, NULL));
    CHECK_STR(text,
              "<bos><|turn>system\n<|tool>declaration:f{description:<|\"|>D<|\"|>,parameters:{"
              "properties:{a:{description:<|\"|>x<|\"|>,type:<|\"|>STRING<|\"|>}},required:[<|\"|>"
              "a<|\"|>],type:<|\"|>OBJECT<|\"|>}}<tool|><turn|>\n<|turn>user\nq<turn|>\n"
              "<|turn>model\n<|tool_call>call:f{a:<|\"|>v<|\"|>,n:1}<tool_call|>"
              "<|tool_response>response:f{value:<|\"|>r<|\"|>}<tool_response|>");
    weft_free(text);
    weft_chat_free(chat);
}

/* ---- folders -------------------------------------------------------------------------------- */

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (CHECK(file != NULL)) {
        fputs(text, file);
        fclose(file);
    }
}

static void rendered(const char *folder, const weft_chat_options *options, const char *expected)
{
    weft_chat *chat = NULL;
    char *text = NULL;
    if (CHECK_OK(weft_chat_load(folder, &chat)) &&
        CHECK_OK(weft_chat_render(chat, talk, options, &text, NULL)))
        CHECK_STR(text, expected);
    weft_free(text);
    weft_chat_free(chat);
}

static void a_folder_has_its_template(void)
{
    const char *folder = check_temporary("checkpoint");
    const weft_chat_options tools = {.tools = "[]"}, named = {.template_name = "other"};
    weft_chat *chat = NULL;
    char *text = NULL;
    mkdir(folder, 0755);
    CHECK_STATUS(weft_chat_load(folder, &chat), WEFT_UNSUPPORTED);
    write_file(folder, "config.json", "{\"model_type\": \"qwen3\"}");
    rendered(folder, NULL,
             "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\n a <|im_end|>\n"
             "<|im_start|>assistant\nb<|im_end|>\n<|im_start|>user\nc<|im_end|>\n");
    write_file(folder, "config.json", "{\"model_type\": \"llama\", \"vocab_size\": 130560}");
    CHECK_OK(weft_chat_load(folder, &chat)); /* MiniCPM 5 */
    CHECK_CONTAINS(weft_chat_source(chat, NULL), "<function name=");
    weft_chat_free(chat);
    write_file(
        folder, "tokenizer_config.json",
        "{\"bos_token\": {\"content\": \"<b>\"}, \"eos_token\": null, \"image_token\": \"<i>\","
        "\"chat_template\": [{\"name\": \"default\", \"template\": \"d{{ bos_token }}"
        "{{ eos_token }}{{ image_token }}\"}, {\"name\": \"tool_use\", \"template\": \"t\"}]}");
    rendered(folder, NULL, "d<b><i>");
    rendered(folder, &tools, "t");
    write_file(folder, "chat_template.jinja", "file {{ messages | length }} {{ tools }}\n");
    rendered(folder, NULL, "file 4 None");
    rendered(folder, &tools, "file 4 []");
    CHECK_OK(weft_chat_load(folder, &chat));
    CHECK_STATUS(weft_chat_render(chat, talk, &named, &text, NULL), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "there is no chat template called \"other\"");
    CHECK_STATUS(weft_chat_render(chat, "[]", NULL, &text, NULL), WEFT_INVALID);
    CHECK_STATUS(weft_chat_render(chat, "[1]", NULL, &text, NULL), WEFT_INVALID);
    CHECK_STATUS(weft_chat_render(chat, "{", NULL, &text, NULL), WEFT_INVALID);
    CHECK(text == NULL);
    weft_chat_free(chat);
    write_file(folder, "chat_template.jinja", "\n{{ broken");
    if (CHECK_OK(weft_chat_load(folder, &chat)))
        CHECK_STATUS(weft_chat_render(chat, talk, NULL, &text, NULL), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "chat_template.jinja: line 2: the tag has no end");
    weft_chat_free(chat);
}

static void options_reach_the_template(void)
{
    weft_chat *chat = NULL;
    char *text = NULL, *messages = NULL;
    const char *source =
        "{{ messages | tojson }}{{ enable_thinking is defined }}{{ more }}{{ documents }}"
        "{{ strftime_now('%Y') }}";
    const weft_chat_message list[] = {
        {.role = "user", .content = "\"q\"\n"},
        {.role = "assistant", .reasoning_content = "r", .tool_calls = "[{\"id\": \"1\"}]"},
        {.role = "tool", .content = "x", .tool_call_id = "1", .name = "f"}};
    const weft_chat_options options = {
        .variables = "{\"more\": [1]}", .documents = "[2]", .now = 1700000000};
    CHECK_OK(weft_chat_messages(list, 3, &messages));
    CHECK_OK(weft_chat_parse(source, strlen(source), "mine", NULL, &chat));
    CHECK_OK(weft_chat_render(chat, messages, &options, &text, NULL));
    CHECK_STR(
        text,
        "[{\"role\": \"user\", \"content\": \"\\\"q\\\"\\n\"}, {\"thinking\": \"r\", \"role\": "
        "\"assistant\", \"reasoning_content\": \"r\", \"tool_calls\": [{\"id\": \"1\"}]}, "
        "{\"role\": \"tool\", \"content\": \"x\", \"tool_call_id\": \"1\", \"name\": \"f\"}]"
        "False[1][2]2023");
    weft_free(text);
    weft_free(messages);
    weft_chat_free(chat);
}

static void markup_follows_the_template(void)
{
    weft_chat *chat = NULL;
    CHECK_OK(weft_chat_builtin("gemma4", NULL, NULL, &chat));
    weft_chat_markup markup = weft_chat_markup_of(chat, "<|turn>model\n", true);
    CHECK_STR(markup.think_open, "<|channel>");
    CHECK_EQ_INT(markup.tools, WEFT_TOOLS_GEMMA4);
    CHECK(!markup.thinking);
    weft_chat_free(chat);
    CHECK_OK(weft_chat_builtin("qwen3_5", NULL, NULL, &chat));
    markup = weft_chat_markup_of(chat, "<|im_start|>assistant\n<think>\n", false);
    CHECK_STR(markup.think_close, "</think>");
    CHECK_EQ_INT(markup.tools, WEFT_TOOLS_NONE);
    CHECK(markup.thinking);
    weft_chat_free(chat);
}

/* A GGUF file has its template and special tokens in its metadata; a folder of it, too. */
static void a_gguf_file_has_its_template(void)
{
    char path[1100], folder[1024];
    const weft_gguf_string words[] = {
        {"llama", 5}, {"{{ bos_token }}{{ pad_token }} {{ messages|length }}", 52}, {"t", 1}};
    const weft_gguf_string tokens[] = {{"<a>", 3}, {"<b>", 3}};
    const uint32_t ids[] = {1, 0};
    const weft_gguf_value values[] = {
        {"general.architecture", WEFT_GGUF_STRING, false, 1, NULL, &words[0]},
        {"tokenizer.ggml.tokens", WEFT_GGUF_STRING, true, 2, NULL, tokens},
        {"tokenizer.ggml.bos_token_id", WEFT_GGUF_UINT32, false, 1, &ids[0], NULL},
        {"tokenizer.ggml.padding_token_id", WEFT_GGUF_UINT32, false, 1, &ids[1], NULL},
        {"tokenizer.chat_template", WEFT_GGUF_STRING, false, 1, NULL, &words[1]},
        {"tokenizer.chat_template.tool_use", WEFT_GGUF_STRING, false, 1, NULL, &words[2]}};
    snprintf(folder, sizeof folder, "%s", check_temporary("of-gguf"));
    mkdir(folder, 0755);
    snprintf(path, sizeof path, "%s/model.gguf", folder);
    if (!CHECK_OK(weft_gguf_save(path, NULL, NULL, 0, values, 6)))
        return;
    rendered(path, NULL, "<b><a> 4");
    rendered(folder, NULL, "<b><a> 4");
    rendered(path, &(weft_chat_options){.tools = "[]"}, "t");
    weft_chat *chat = NULL;
    CHECK_OK(weft_gguf_save(path, NULL, NULL, 0, values, 3));
    CHECK_STATUS(weft_chat_load(path, &chat), WEFT_INVALID); /* sizes of the model are missing */
    CHECK_STATUS(weft_chat_load("/nowhere.gguf", &chat), WEFT_IO);
    CHECK(chat == NULL);
}

/* The last message is continued, also with templates that trim it; templates that leave it out are
 * refused. */
static void a_prompt_can_end_within_the_last_message(void)
{
    static const struct {
        const char *type, *messages, *expected;
    } cases[] = {
        {"chatml",
         "[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\","
         "\"content\":\"b c \"}]",
         "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb c "},
        {"gemma3",
         "[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\","
         "\"content\":\"b c \"}]",
         "<bos><start_of_turn>user\na<end_of_turn>\n<start_of_turn>model\nb c"},
        {"chatml",
         "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"x\"},"
         "{\"type\":\"image\"}]}]",
         "<|im_start|>user\nx"},
    };
    const weft_chat_options options = {.continue_final = true};
    weft_chat *chat = NULL;
    char *text = NULL;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t length = 0;
        CHECK_OK(weft_chat_builtin(cases[i].type, NULL, NULL, &chat));
        if (CHECK_OK(weft_chat_render(chat, cases[i].messages, &options, &text, &length)))
            CHECK_STR(text, cases[i].expected);
        CHECK_EQ_INT(length, strlen(cases[i].expected));
        weft_free(text);
        weft_chat_free(chat);
    }
    CHECK_OK(weft_chat_parse("nothing", 7, "mine", NULL, &chat));
    CHECK_STATUS(weft_chat_render(chat, talk, &options, &text, NULL), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "nothing to go on with");
    weft_chat_free(chat);
    /* The end is there, the beginning is not. */
    const char *half = "{{ messages[-1].content[1:] }}";
    CHECK_OK(weft_chat_parse(half, strlen(half), "mine", NULL, &chat));
    CHECK_STATUS(weft_chat_render(chat, "[{\"role\": \"user\", \"content\": \"ab\"}]", &options,
                                  &text, NULL),
                 WEFT_INVALID);
    CHECK_STATUS(weft_chat_render(chat, "[{\"role\": \"user\"}]", &options, &text, NULL),
                 WEFT_INVALID);
    const weft_chat_options both = {.continue_final = true, .generation_prompt = true};
    CHECK_STATUS(weft_chat_render(chat, talk, &both, &text, NULL), WEFT_INVALID);
    CHECK(text == NULL);
    weft_chat_free(chat);
}

/* ---- thirty conversations -------------------------------------------------------------------- */

/* The options of tests/golden/chat/conversations.py; `tools` holds the text of the tools. */
static weft_chat_options read_options(json_object *from, char *tools, size_t size)
{
    json_object *thinking = NULL, *list = json_object_object_get(from, "tools");
    weft_chat_options options = {.generation_prompt = json_object_get_boolean(
                                     json_object_object_get(from, "add_generation_prompt"))};
    if (json_object_object_get_ex(from, "enable_thinking", &thinking))
        options.thinking = json_object_get_boolean(thinking) ? WEFT_THINKING_ON : WEFT_THINKING_OFF;
    if (list) {
        snprintf(tools, size, "%s", json_object_to_json_string(list));
        options.tools = tools;
    }
    options.variables = "{\"bos_token\": \"<s>\"}";
    return options;
}

static void conversations_equal_jinja2(void)
{
    weft__json_doc doc = {0};
    weft_chat *chat = NULL;
    char source[8192], tools[8192];
    FILE *file = fopen(check_fixture("chat/own.jinja"), "rb");
    if (!CHECK(file != NULL))
        return;
    const size_t n = fread(source, 1, sizeof source, file);
    fclose(file);
    if (!CHECK_OK(weft_chat_parse(source, n, "own.jinja", NULL, &chat)) ||
        !CHECK_OK(weft__json_read(check_fixture("chat/own.json"), &doc)))
        return;
    json_object *talks = json_object_object_get(doc.root, "talks");
    json_object *options = json_object_object_get(doc.root, "options");
    json_object *cases = json_object_object_get(doc.root, "cases");
    CHECK_EQ_INT(json_object_array_length(cases), 180);
    for (size_t i = 0; i < json_object_array_length(cases); i++) {
        json_object *item = json_object_array_get_idx(cases, i);
        const int at = json_object_get_int(json_object_array_get_idx(item, 0));
        const int of = json_object_get_int(json_object_array_get_idx(item, 1));
        const weft_chat_options given =
            read_options(json_object_array_get_idx(options, (size_t)of), tools, sizeof tools);
        char *text = NULL;
        CHECK_OK(weft_chat_render(
            chat, json_object_to_json_string(json_object_array_get_idx(talks, (size_t)at)), &given,
            &text, NULL));
        CHECK_STR(text, json_object_get_string(json_object_array_get_idx(item, 2)));
        weft_free(text);
    }
    weft__json_free(&doc);
    weft_chat_free(chat);
}

/* ---- real checkpoints ----------------------------------------------------------------------- */

/* The prompt begins with one BOS if the template writes one, and with none otherwise. */
static void check_ids(const weft_chat *chat, const char *folder, const char *messages)
{
    weft_tokenizer *tokenizer = NULL;
    int32_t *ids = NULL;
    size_t count = 0;
    if (!CHECK_OK(weft_tokenizer_load(folder, &tokenizer)))
        return;
    CHECK_OK(weft_chat_encode(chat, tokenizer, messages, &prompt, &ids, &count));
    const int32_t bos = weft_tokenizer_bos(tokenizer);
    size_t starts = 0;
    for (size_t i = 0; i < count; i++)
        starts += bos >= 0 && ids[i] == bos;
    CHECK_EQ_INT(starts, bos >= 0);
    CHECK(count > 5 && (bos < 0 || ids[0] == bos));
    weft_free(ids);
    weft_tokenizer_free(tokenizer);
}

static void compare_real(const char *name, int64_t now)
{
    char path[128];
    snprintf(path, sizeof path, "fixtures/tokenizers/%s-chat.json", name);
    const char *fixture = check_shared(path), *folder = fixture ? unpacked_tokenizer(name) : NULL;
    if (!folder) {
        check_skip("../shared has no chat template of %s", name);
        return;
    }
    weft_chat *chat = NULL;
    weft__json_doc doc = {0};
    if (!CHECK_OK(weft_chat_load(folder, &chat)) || !CHECK_OK(weft__json_read(fixture, &doc)))
        return;
    for (size_t i = 0; i < json_object_array_length(doc.root); i++) {
        json_object *item = json_object_array_get_idx(doc.root, i);
        const char *messages = json_object_to_json_string(json_object_object_get(item, "messages"));
        const weft_chat_options options = {
            .generation_prompt =
                json_object_get_boolean(json_object_object_get(item, "add_generation_prompt")),
            .now = now};
        char *text = NULL;
        CHECK_OK(weft_chat_render(chat, messages, &options, &text, NULL));
        CHECK_STR(text, json_object_get_string(json_object_object_get(item, "text")));
        weft_free(text);
        if (i == 0)
            check_ids(chat, folder, messages);
    }
    weft__json_free(&doc);
    weft_chat_free(chat);
}

static void gemma3(void)
{
    compare_real("gemma3", 0);
}

/* Its fixture was made on 21 November 2026. */
static void llama3_2(void)
{
    compare_real("llama3_2", 1795262400);
}

static void qwen2_5(void)
{
    compare_real("qwen2_5", 0);
}

static void qwen3(void)
{
    compare_real("qwen3", 0);
}

CHECK_MAIN("chat", CHECK_CASE(formats_are_the_families), CHECK_CASE(gemma_formats),
           CHECK_CASE(mistral_formats), CHECK_CASE(minicpm_formats),
           CHECK_CASE(minicpm5_writes_tools), CHECK_CASE(gemma4_writes_tools),
           CHECK_CASE(a_folder_has_its_template), CHECK_CASE(options_reach_the_template),
           CHECK_CASE(a_gguf_file_has_its_template),
           CHECK_CASE(a_prompt_can_end_within_the_last_message),
           CHECK_CASE(markup_follows_the_template), CHECK_CASE(conversations_equal_jinja2),
           CHECK_CASE(gemma3), CHECK_CASE(llama3_2), CHECK_CASE(qwen2_5), CHECK_CASE(qwen3))
