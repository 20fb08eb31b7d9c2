/* tests/train/test_row_members.c -- no member of a row is lost silently: of random rows of every
 * kind, each text is in a sample or is named as unused; and rules for members and turns. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/json.h"
#include "core/io/text.h"
#include "tests/check.h"
#include "weft/train.h"

static weft_tokenizer *tokenizer;
static weft_chat *chat;
static char log_text[8192];

static void record(void *context, weft_log_level level, const char *message)
{
    const size_t n = strlen(log_text);
    (void)level;
    (void)context;
    snprintf(log_text + n, sizeof log_text - n, "%s\n", message);
}

static bool ready(void)
{
    const char *folder = check_source("examples/storyteller");
    return tokenizer || (CHECK_OK(weft_tokenizer_load(folder, &tokenizer)) &&
                         CHECK_OK(weft_chat_load(folder, &chat)));
}

/* Reads rows, and records what is logged. */
static weft_status parse(const char *rows, const weft_chat *with, weft_examples examples,
                         weft_dataset **out)
{
    const weft_dataset_options o = {.chat = with, .examples = examples, .length = 4096};
    *out = NULL;
    log_text[0] = '\0';
    weft_set_log(record, NULL);
    const weft_status status =
        weft_dataset_parse(rows, strlen(rows), "r.jsonl", tokenizer, &o, 0, out, NULL);
    weft_set_log(NULL, NULL);
    return status;
}

/* The samples as text: trained parts in [ ], and | after each sample. */
static void write_samples(const weft_dataset *d, weft__text *out)
{
    for (int64_t i = 0; i < weft_dataset_info_of(d).samples; i++) {
        const weft_sample s = weft_dataset_at(d, i);
        for (int64_t at = 0; at < s.length;) {
            const bool trained = s.weights[at] != 0;
            char *text = NULL;
            int64_t end = at + 1;
            while (end < s.length && (s.weights[end] != 0) == trained)
                end++;
            CHECK_OK(
                weft_tokenizer_decode(tokenizer, s.ids + at, (size_t)(end - at), 0, &text, NULL));
            weft__text_format(out, trained ? "[%s]" : "%s", text ? text : "");
            weft_free(text);
            at = end;
        }
        weft__text_append(out, "|", 1);
    }
}

static void expect(const char *row, weft_examples examples, const char *samples)
{
    weft_dataset *d;
    weft__text got = {0};
    if (!ready() || !CHECK_OK(parse(row, chat, examples, &d)))
        return;
    write_samples(d, &got);
    CHECK_STR(got.at, samples);
    weft_free(got.at);
    weft_dataset_free(d);
}

/* ---- random rows ---------------------------------------------------------------------------- */

static uint64_t state;

static int draw(int n)
{
    state = state * 6364136223846793005U + 1442695040888963407U;
    return (int)((state >> 33) % (uint64_t)n);
}

/* A row as JSON, and the unique texts of its members. */
typedef struct drawn {
    weft__text json;
    char texts[24][16]; /* each text, and the member that it is in */
    const char *members[24];
    int n;
} drawn;

static const char *new_text(drawn *row, const char *member)
{
    static int counter;
    snprintf(row->texts[row->n], sizeof row->texts[0], "Q%dq", 1000 + counter++ % 9000);
    row->members[row->n] = member;
    return row->texts[row->n++];
}

static void begin_member(drawn *row, const char *name)
{
    weft__text_format(&row->json, "%s\"%s\": ", row->json.n > 1 ? ", " : "", name);
}

static void add_text(drawn *row, const char *name)
{
    begin_member(row, name);
    weft__text_format(&row->json, "\"%s\"", new_text(row, name));
}

/* Adds messages that alternate, of which the first is the user's or the assistant's. */
static void add_messages(drawn *row, const char *name, int n, bool assistant, bool sharegpt)
{
    static const char *const roles[2][2] = {{"user", "assistant"}, {"human", "gpt"}};
    begin_member(row, name);
    weft__text_append(&row->json, "[", 1);
    for (int i = 0; i < n; i++)
        weft__text_format(&row->json, "%s{\"%s\": \"%s\", \"%s\": \"%s\"}", i > 0 ? ", " : "",
                          sharegpt ? "from" : "role", roles[sharegpt][(i + assistant) % 2],
                          sharegpt ? "value" : "content", new_text(row, name));
    weft__text_append(&row->json, "]", 1);
}

static void add_required(drawn *row, int kind)
{
    static const char *const pairs[][2] = {{"prompt", "completion"},
                                           {"instruction", "output"},
                                           {"question", "answer"},
                                           {"instruction", "response"},
                                           {"chosen", "rejected"}};
    if (kind == 0) {
        add_messages(row, "messages", 2 * (1 + draw(2)), false, false);
    } else if (kind == 1) {
        add_messages(row, "conversations", 2 * (1 + draw(2)), false, true);
    } else if (kind < 7) {
        add_text(row, pairs[kind - 2][0]);
        add_text(row, pairs[kind - 2][1]);
    } else if (kind == 7) {
        add_messages(row, "prompt", 1, false, false);
        add_messages(row, "completion", 1, true, false);
    } else if (kind == 8) {
        add_messages(row, "chosen", 1, true, false);
        add_messages(row, "rejected", 1, true, false);
    } else {
        add_text(row, "text");
    }
}

static bool has(const drawn *row, const char *member)
{
    for (int i = 0; i < row->n; i++) {
        if (strcmp(row->members[i], member) == 0)
            return true;
    }
    return false;
}

/* Adds some of the members that rows have in data sets of other programs. */
static void add_optional(drawn *row)
{
    static const char *const names[] = {"system",   "system_prompt", "input",       "context",
                                        "prompt",   "question",      "instruction", "category",
                                        "id",       "completion",    "output",      "answer",
                                        "response", "text"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (draw(4) == 0 && !has(row, names[i]))
            add_text(row, names[i]);
    }
    if (draw(4) == 0) {
        begin_member(row, "history");
        weft__text_format(&row->json, "[[\"%s\", ", new_text(row, "history"));
        weft__text_format(&row->json, "\"%s\"]]", new_text(row, "history"));
    }
    if (draw(6) == 0 && !has(row, "messages"))
        add_messages(row, "messages", 2, false, false);
}

static void check_row(const drawn *row, weft_examples examples)
{
    weft_dataset *d;
    weft__text samples = {0};
    if (!CHECK_OK(parse(row->json.at, chat, examples, &d)))
        return;
    write_samples(d, &samples);
    size_t n = 0;
    for (size_t i = 0; i < samples.n; i++) { /* without the brackets */
        if (samples.at[i] != '[' && samples.at[i] != ']')
            samples.at[n++] = samples.at[i];
    }
    samples.at[n] = '\0';
    for (int i = 0; i < row->n; i++) {
        char name[40];
        snprintf(name, sizeof name, " %s (1)", row->members[i]);
        const bool used = strstr(samples.at, row->texts[i]) != NULL;
        const bool named = strstr(log_text, name) != NULL;
        if (!CHECK(used || named))
            CHECK_FAIL("%s of \"%s\" in %s\nsamples %s\nlog %s", row->texts[i], row->members[i],
                       row->json.at, samples.at, log_text);
    }
    weft_free(samples.at);
    weft_dataset_free(d);
}

static void every_text_is_in_a_sample_or_named(void)
{
    enum { ROWS = 1500, KINDS = 10 };
    for (int i = 0; ready() && i < ROWS; i++) {
        drawn row = {.n = 0};
        state = (uint64_t)i;
        const int kind = i % KINDS;
        weft__text_append(&row.json, "{", 1);
        add_required(&row, kind);
        add_optional(&row);
        weft__text_append(&row.json, "}", 1);
        const bool pair = kind == 6 || kind == 8;
        check_row(&row, pair && !has(&row, "label") ? WEFT_EXAMPLES_PAIRS : WEFT_EXAMPLES_SINGLE);
        weft_free(row.json.at);
    }
}

/* ---- members -------------------------------------------------------------------------------- */

#define SYSTEM(S) "<|im_start|>system\n" S "<|im_end|>\n"
#define USER(S) "<|im_start|>user\n" S "<|im_end|>\n"
#define ANSWER(S) "<|im_start|>assistant\n[" S "<|im_end|>]"
#define EARLIER(S) "<|im_start|>assistant\n" S "<|im_end|>\n"

static void members_of_rows(void)
{
    static const struct {
        const char *row;
        weft_examples examples;
        const char *samples;
    } cases[] = {
        {"{\"system\": \"s\", \"prompt\": \"Hi\", \"completion\": \"Ho\"}", WEFT_EXAMPLES_SINGLE,
         SYSTEM("s") USER("Hi") ANSWER("Ho") "|"},
        {"{\"system\": \"s\", \"conversations\": [{\"from\": \"human\", \"value\": \"Hi\"}, "
         "{\"from\": \"gpt\", \"value\": \"Ho\"}]}",
         WEFT_EXAMPLES_SINGLE, SYSTEM("s") USER("Hi") ANSWER("Ho") "|"},
        {"{\"system_prompt\": \"s\", \"messages\": [{\"role\": \"system\", \"content\": \"own\"}, "
         "{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": \"assistant\", \"content\": "
         "\"Ho\"}]}",
         WEFT_EXAMPLES_SINGLE, SYSTEM("own") USER("Hi") ANSWER("Ho") "|"},
        {"{\"question\": \"Who?\", \"context\": \"Ann sings.\", \"answer\": \"Ann\"}",
         WEFT_EXAMPLES_SINGLE, USER("Who?\n\nAnn sings.") ANSWER("Ann") "|"},
        {"{\"prompt\": \"Hi\", \"context\": \"all\", \"completion\": \" Ho\"}",
         WEFT_EXAMPLES_SINGLE, "Hi\n\nall[ Ho<|endoftext|>]|"},
        {"{\"system\": \"s\", \"question\": \"a\", \"chosen\": \"good\", \"rejected\": \"bad\"}",
         WEFT_EXAMPLES_PAIRS,
         SYSTEM("s") USER("a") ANSWER("good") "|" SYSTEM("s") USER("a") ANSWER("bad") "|"},
        {"{\"instruction\": \"And 2?\", \"input\": \"\", \"output\": \"three\", \"history\": "
         "[[\"1?\", \"two\"]]}",
         WEFT_EXAMPLES_SINGLE, USER("1?") ANSWER("two") "\n" USER("And 2?") ANSWER("three") "|"},
        {"{\"instruction\": \"And 2?\", \"chosen\": \"three\", \"rejected\": \"four\", "
         "\"history\": [[\"1?\", \"two\"]]}",
         WEFT_EXAMPLES_PAIRS,
         USER("1?") EARLIER("two") USER("And 2?") ANSWER("three") "|" USER("1?") EARLIER("two")
             USER("And 2?") ANSWER("four") "|"},
        {"{\"prompt\": \"Hi\", \"chosen\": [{\"role\": \"assistant\", \"content\": \"a\"}], "
         "\"rejected\": [{\"role\": \"assistant\", \"content\": \"b\"}]}",
         WEFT_EXAMPLES_PAIRS, USER("Hi") ANSWER("a") "|" USER("Hi") ANSWER("b") "|"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": \"assistant\", "
         "\"content\": \"bad\", \"train\": false}, {\"role\": \"user\", \"content\": \"Again\"}, "
         "{\"role\": \"assistant\", \"content\": \"good\", \"train\": true}]}",
         WEFT_EXAMPLES_SINGLE, USER("Hi") EARLIER("bad") USER("Again") ANSWER("good") "|"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": "
         "\"Hi\"}]}, {\"role\": \"assistant\", \"content\": [{\"type\": \"text\", \"text\": "
         "\"Ho\"}, {\"type\": \"text\", \"text\": \" ho\"}]}]}",
         WEFT_EXAMPLES_SINGLE, USER("Hi") ANSWER("Ho ho") "|"},
        {"{\"messages\": [{\"role\": \"assistant\", \"content\": \"Welcome!\"}, {\"role\": "
         "\"user\", \"content\": \"Hi\"}, {\"role\": \"assistant\", \"content\": \"Ho\"}]}",
         WEFT_EXAMPLES_SINGLE, ANSWER("Welcome!") "\n" USER("Hi") ANSWER("Ho") "|"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": \"assistant\", "
         "\"content\": \"one <|im_end|> two\"}]}",
         WEFT_EXAMPLES_SINGLE, USER("Hi") ANSWER("one <|im_end|> two") "|"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect(cases[i].row, cases[i].examples, cases[i].samples);
}

static void unused_members_are_one_note(void)
{
    weft__text rows = {0};
    weft_dataset *d;
    for (int i = 0; i < 13; i++)
        weft__text_format(
            &rows, "{\"text\": \"A fox.\", \"id\": %d, \"empty\": \"\", \"m%d\": 1}\n", i, i);
    if (ready() && CHECK_OK(parse(rows.at, chat, WEFT_EXAMPLES_SINGLE, &d))) {
        CHECK_CONTAINS(log_text, "r.jsonl: members of rows that are not used (and in how many "
                                 "rows): id (13), m0 (1), ");
        CHECK_CONTAINS(log_text, "m8 (1), and others (4)\n");
        CHECK(strstr(log_text, "empty") == NULL);
        CHECK(strchr(log_text, '\n') == log_text + strlen(log_text) - 1);
        weft_dataset_free(d);
    }
    weft_free(rows.at);
}

static void empty_answers_are_counted(void)
{
    static const char rows[] =
        "{\"prompt\": \"Hi\", \"completion\": \"\"}\n"
        "{\"prompt\": \"Hi\", \"completion\": \"Ho\"}\n"
        "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": \"assistant\", "
        "\"content\": \" \"}, {\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": \"assistant\", "
        "\"content\": \"\", \"weight\": 0}]}\n";
    weft_dataset *d;
    if (!ready() || !CHECK_OK(parse(rows, chat, WEFT_EXAMPLES_SINGLE, &d)))
        return;
    CHECK_EQ_INT(weft_dataset_info_of(d).empty_answers, 2);
    CHECK_CONTAINS(log_text,
                   "2 answers are empty: only their end is trained (r.jsonl:1, r.jsonl:3)");
    weft_dataset_free(d);
}

static void contradictions_are_refused(void)
{
    static const char *const cases[][2] = {
        {"\"role\": \"assistant\", \"train\": false, \"weight\": 1",
         "messages[1]: \"train\": false contradicts \"weight\": 1"},
        {"\"role\": \"assistant\", \"train\": true, \"weight\": 0",
         "messages[1]: \"train\": true contradicts \"weight\": 0"},
        {"\"role\": \"assistant\", \"train\": \"no\"", "messages[1].train: expected boolean"},
        {"\"role\": \"user\", \"train\": true", "only messages of the assistant are trained"},
        {"\"role\": \"assistant\", \"train_detail\": [{\"train\": false}]", "not supported"},
    };
    for (size_t i = 0; ready() && i < sizeof cases / sizeof *cases; i++) {
        char row[400];
        weft_dataset *d;
        snprintf(row, sizeof row,
                 "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}, {%s, \"content\": "
                 "\"Ho\"}, {\"role\": \"assistant\", \"content\": \"Ha\"}]}",
                 cases[i][0]);
        CHECK(parse(row, chat, WEFT_EXAMPLES_SINGLE, &d) != WEFT_OK);
        CHECK_CONTAINS(weft_error_message(), cases[i][1]);
        weft_dataset_free(d);
    }
    weft_dataset *d;
    CHECK_STATUS(parse("{\"instruction\": \"a\", \"output\": \"b\", \"history\": [[\"c\"]]}", chat,
                       WEFT_EXAMPLES_SINGLE, &d),
                 WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(),
                   "r.jsonl:1: history[0]: expected an array of a prompt and its answer");
    CHECK_STATUS(parse("{\"instruction\": \"a\", \"output\": \"b\", \"history\": [[\"c\", \"d\"]]}",
                       NULL, WEFT_EXAMPLES_SINGLE, &d),
                 WEFT_UNSUPPORTED);
    CHECK_CONTAINS(weft_error_message(), "earlier turns, but the model has no chat template");
}

/* ---- templates ------------------------------------------------------------------------------ */

static void expect_template(const char *source, const char *row, const char *samples)
{
    weft_chat *own = NULL;
    weft_dataset *d;
    weft__text got = {0};
    if (!ready() || !CHECK_OK(weft_chat_parse(source, strlen(source), "t", tokenizer, &own)))
        return;
    if (CHECK_OK(parse(row, own, WEFT_EXAMPLES_SINGLE, &d))) {
        write_samples(d, &got);
        CHECK_STR(got.at, samples);
        weft_free(got.at);
        weft_dataset_free(d);
    }
    weft_chat_free(own);
}

/* The generation prompt begins the reasoning, which messages are rendered without. */
static void reasoning_that_the_template_drops_is_trained(void)
{
    static const char source[] =
        "{%- for m in messages %}{% if m.role == 'user' %}<U>{{ m.content }}{% else %}"
        "<A>{{ m.content.split('</think>')[-1] }}<|endoftext|>{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}<A><think>\n{% endif %}";
    static const char row[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"Why?\"}, {\"role\": \"assistant\", "
        "\"content\": \"<think>\\nHm.\\n</think>\\n\\nSo.\"}, {\"role\": \"user\", \"content\": "
        "\"And?\"}, {\"role\": \"assistant\", \"content\": \"No.\"}]}";
    expect_template(source, row,
                    "<U>Why?<A><think>\n[Hm.\n</think>\n\nSo.<|endoftext|>]|"
                    "<U>Why?<A>\n\nSo.<|endoftext|><U>And?<A>[No.<|endoftext|>]|");
}

/* The parts that a template marks are trained, with the weights of the messages. */
static void marked_templates_are_trained_as_marked(void)
{
    static const char source[] =
        "{%- for m in messages %}({{ m.role }}){% if m.role == 'assistant' %}{% generation %}"
        "{{ m.content }};{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}(assistant){% endif %}";
    static const char row[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"Why?\"}, {\"role\": \"assistant\", "
        "\"content\": \"So.\"%s}, {\"role\": \"user\", \"content\": \"And?\"}, {\"role\": "
        "\"assistant\", \"content\": \"No.\"}]}";
    char text[sizeof row + 40];
    snprintf(text, sizeof text, row, "");
    expect_template(source, text, "(user)Why?(assistant)[So.;](user)And?(assistant)[No.;]|");
    snprintf(text, sizeof text, row, ", \"train\": false");
    expect_template(source, text, "(user)Why?(assistant)So.;(user)And?(assistant)[No.;]|");
    weft_chat_free(chat);
    weft_tokenizer_free(tokenizer);
}

CHECK_MAIN("row_members", CHECK_CASE(every_text_is_in_a_sample_or_named),
           CHECK_CASE(members_of_rows), CHECK_CASE(unused_members_are_one_note),
           CHECK_CASE(empty_answers_are_counted), CHECK_CASE(contradictions_are_refused),
           CHECK_CASE(reasoning_that_the_template_drops_is_trained),
           CHECK_CASE(marked_templates_are_trained_as_marked))
