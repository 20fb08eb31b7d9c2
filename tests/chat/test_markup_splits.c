/* tests/chat/test_markup_splits.c -- weft_chat_parser over synthetic answers of every family:
 * however they are split into pieces, markup never reaches the text. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "weft/chat.h"
#include "weft/memory.h"

enum { ROOM = 1536, ANSWERS = 16, PAIRS = 2, NEAR = 20 };

/* The parts of an answer, and the expected events: [name arguments] for a call. */
typedef struct answer {
    char raw[ROOM], text[ROOM], reasoning[ROOM], calls[ROOM];
} answer;

typedef struct format {
    const char *name;
    weft_chat_markup markup;
    const char *marks[8]; /* none of these may be in a text */
    const char *call;     /* with %s for a name and %d for an argument */
    const char *think_line;
} format;

static const format formats[] = {
    {"hermes",
     {.think_open = "<think>", .think_close = "</think>", .tools = WEFT_TOOLS_HERMES},
     {"<think>", "</think>", "<tool_call>", "</tool_call>"},
     "<tool_call>\n{\"name\": \"%s\", \"arguments\": {\"s\": \"<think>}\\\"</tool_call>\", \"n\": "
     "%d}}\n</tool_call>",
     ""},
    {"mistral",
     {.think_open = "[THINK]", .think_close = "[/THINK]", .tools = WEFT_TOOLS_MISTRAL},
     {"[THINK]", "[/THINK]", "[TOOL_CALLS]", "[ARGS]"},
     "[TOOL_CALLS]%s[ARGS]{\"s\": \"<think>}\\\"</tool_call>\", \"n\": %d}",
     ""},
    {"mistral lists",
     {.tools = WEFT_TOOLS_MISTRAL},
     {"[TOOL_CALLS]"},
     "[TOOL_CALLS] [{\"name\": \"%s\", \"arguments\": {\"s\": \"<think>}\\\"</tool_call>\", "
     "\"n\": %d}}]",
     ""},
    {"gemma4",
     {.think_open = "<|channel>", .think_close = "<channel|>", .tools = WEFT_TOOLS_GEMMA4},
     {"<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", "<|\"|>", "thought"},
     "<|tool_call>call:%s{s:<|\"|><think>}\"</tool_call><|\"|>,n:%d}<tool_call|>",
     "thought\n"},
    {"functions",
     {.think_open = "<think>", .think_close = "</think>", .tools = WEFT_TOOLS_FUNCTION},
     {"<think>", "</think>", "<function", "</function>", "<param"},
     "<function name=\"%s\"><param name=\"s\"><![CDATA[<think>}\"</tool_call>]]></param><param "
     "name=\"n\">%d</param></function>",
     ""},
    {"lists",
     {.think_open = "<think>", .think_close = "</think>", .tools = WEFT_TOOLS_PYTHON},
     {"<think>", "</think>", "<|tool_call_start|>", "<|tool_call_end|>"},
     "<|tool_call_start|>[%s(s=\"<think>}\\\"</tool_call>\", n=%d)]<|tool_call_end|>",
     ""},
    {"custom",
     {.tools = WEFT_TOOLS_CUSTOM, .tool_open = "<<call:", .tool_close = ":call>>"},
     {"<<call:", ":call>>"},
     "<<call:{\"name\": \"%s\", \"arguments\": {\"s\": \"<think>}\\\"</tool_call>\", \"n\": "
     "%d}}:call>>",
     ""},
    {"llama",
     {.tools = WEFT_TOOLS_LLAMA},
     {"<|python_tag|>"},
     "<|python_tag|>{\"name\": \"%s\", \"parameters\": {\"s\": \"<think>}\\\"</tool_call>\", "
     "\"n\": %d}}",
     ""},
};

/* ---- making answers ------------------------------------------------------------------------- */

static uint32_t state;

static int draw(int n)
{
    state = state * 1664525U + 1013904223U;
    return (int)((state >> 8) % (uint32_t)n);
}

static void append(char *to, const char *text)
{
    const size_t n = strlen(to);
    snprintf(to + n, ROOM - n, "%s", text);
}

/* Words, with what begins like a mark among them. */
static const char *words(void)
{
    static const char *const list[] = {"Hello, ",          "a < b ",        "caf\xc3\xa9 ",
                                       "<|tool x ",        "[TOOL_CAL no",  "<thin air ",
                                       "\xf0\x9f\x8e\x89", "two\n\nlines ", "</thi ",
                                       "{\"x\": 1} ",      "<<cal ",        "<functio n "};
    return list[draw(sizeof list / sizeof *list)];
}

static void write_words(char *raw, char *also)
{
    char text[ROOM] = "w";
    for (int n = draw(4); n > 0; n--)
        append(text, words());
    append(text, "w"); /* no newline at the edges: those there belong to the markup */
    append(raw, text);
    append(also, text);
}

static void write_call(const format *f, answer *a)
{
    static const char *const names[] = {"get_weather", "f", "search"};
    char call[512];
    const char *name = names[draw(3)];
    const int n = draw(1000);
    snprintf(call, sizeof call, f->call, name, n);
    append(a->raw, call);
    snprintf(call, sizeof call, "[%s {\"s\":\"<think>}\\\"</tool_call>\",\"n\":%d}]", name, n);
    append(a->calls, call);
}

static void make(const format *f, answer *a)
{
    *a = (answer){.raw = ""};
    if (f->markup.think_open && draw(2)) {
        append(a->raw, f->markup.think_open);
        append(a->raw, f->think_line);
        append(a->raw, draw(2) ? "\n" : "");
        write_words(a->raw, a->reasoning);
        append(a->raw, draw(2) ? "\n" : "");
        append(a->raw, f->markup.think_close);
        append(a->raw, draw(2) ? "\n\n" : "");
    }
    const bool last = f->markup.tools == WEFT_TOOLS_LLAMA; /* nothing is behind its mark */
    for (int n = 1 + draw(3); n > 0; n--) {
        write_words(a->raw, a->text);
        append(a->raw, draw(2) ? "\n" : "");
        if (!last || n == 1)
            write_call(f, a);
        else
            a->raw[strlen(a->raw) - (a->raw[strlen(a->raw) - 1] == '\n')] = '\0';
    }
    if (!last && draw(2))
        write_words(a->raw, a->text);
}

/* ---- parsing -------------------------------------------------------------------------------- */

static bool note(void *context, const weft_chat_event *event)
{
    answer *got = context;
    if (event->kind == WEFT_CHAT_TEXT)
        append(got->text, event->text);
    if (event->kind == WEFT_CHAT_REASONING)
        append(got->reasoning, event->text);
    if (event->kind == WEFT_CHAT_TOOL_CALL) {
        append(got->calls, "[");
        append(got->calls, event->name);
        append(got->calls, " ");
        append(got->calls, event->arguments);
        append(got->calls, "]");
    }
    return true;
}

static bool has_mark(const format *f, const char *text)
{
    for (int i = 0; i < 8 && f->marks[i]; i++)
        if (strstr(text, f->marks[i]))
            return true;
    return false;
}

/* The answer in pieces that end at the given places. */
static bool parses(const format *f, const answer *a, const size_t *ends, size_t n)
{
    answer got = {.raw = ""};
    weft_chat_parser *parser = NULL;
    const size_t length = strlen(a->raw);
    bool fine = weft_chat_parser_new(&f->markup, note, &got, &parser) == WEFT_OK;
    size_t at = 0;
    for (size_t i = 0; i <= n && fine; i++) {
        const size_t end = i < n ? ends[i] : length;
        fine = weft_chat_parser_push(parser, a->raw + at, end - at) == WEFT_OK &&
               !has_mark(f, got.text);
        at = end;
    }
    fine = fine && weft_chat_parser_finish(parser) == WEFT_OK;
    weft_chat_parser_free(parser);
    fine = fine && strcmp(got.text, a->text) == 0 && strcmp(got.reasoning, a->reasoning) == 0 &&
           strcmp(got.calls, a->calls) == 0;
    if (!fine)
        CHECK_FAIL("%s, %zu ends, the first %zu\n%s\ntext \"%s\", expected \"%s\"\nreasoning "
                   "\"%s\", expected \"%s\"\ncalls %s, expected %s",
                   f->name, n, n > 0 ? ends[0] : 0, a->raw, got.text, a->text, got.reasoning,
                   a->reasoning, got.calls, a->calls);
    return fine;
}

/* Whole, byte by byte, cut once everywhere, and (some) cut twice wherever both cuts can be
 * in one mark. */
static void every_split(const format *f, const answer *a, bool twice)
{
    size_t ends[ROOM];
    const size_t length = strlen(a->raw);
    for (size_t i = 0; i < length; i++)
        ends[i] = i + 1;
    bool fine = CHECK(parses(f, a, NULL, 0)) && CHECK(parses(f, a, ends, length - 1));
    for (size_t i = 1; i < length && fine; i++) {
        const size_t pair[] = {i, 0};
        fine = parses(f, a, pair, 1);
        for (size_t j = i + 1; twice && j < i + NEAR && j < length && fine; j++) {
            const size_t both[] = {i, j};
            fine = parses(f, a, both, 2);
        }
    }
}

static void markup_never_reaches_the_text(void)
{
    state = 7;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        for (int n = 0; n < ANSWERS; n++) {
            answer a;
            make(&formats[i], &a);
            every_split(&formats[i], &a, n < PAIRS);
        }
}

CHECK_MAIN("markup_splits", CHECK_CASE(markup_never_reaches_the_text))
