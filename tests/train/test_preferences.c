/* tests/train/test_preferences.c -- rows with a chosen and a rejected completion: their formats,
 * the pairs made from them, validation splits, caches, and refused input. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "weft/train.h"

static const char template[] = "{%- for m in messages -%}[{{ m.role }}]{{ m.content }}"
                               "{{ '<|endoftext|>' if m.role == 'assistant' else '' }}\n"
                               "{% endfor -%}"
                               "{%- if add_generation_prompt -%}[assistant]{%- endif -%}";

static weft_tokenizer *tokenizer;
static weft_chat *chat;

static bool ready(void)
{
    if (tokenizer == NULL &&
        CHECK_OK(weft_tokenizer_load(check_source("examples/storyteller"), &tokenizer)))
        CHECK_OK(weft_chat_parse(template, strlen(template), "t", tokenizer, &chat));
    return CHECK(chat != NULL);
}

static weft_status parse(const char *data, double split, weft_dataset **out,
                         weft_dataset **validation)
{
    const weft_dataset_options o = {.chat = chat, .examples = WEFT_EXAMPLES_PAIRS};
    return weft_dataset_parse(data, strlen(data), "p.jsonl", tokenizer, &o, split, out, validation);
}

/* The texts of a sample's prompt (what has weight 0) and completion, as "prompt|completion". */
static void expect(const weft_dataset *d, int64_t i, const char *text)
{
    const weft_sample s = weft_dataset_at(d, i);
    int64_t n = 1;
    while (n < s.length && s.weights[n] == 0)
        n++;
    char *prompt = NULL, *completion = NULL, got[256];
    CHECK_OK(weft_tokenizer_decode(tokenizer, s.ids, (size_t)n, 0, &prompt, NULL));
    CHECK_OK(
        weft_tokenizer_decode(tokenizer, s.ids + n, (size_t)(s.length - n), 0, &completion, NULL));
    snprintf(got, sizeof got, "%s|%s", prompt ? prompt : "", completion ? completion : "");
    CHECK_CONTAINS(got, text);
    weft_free(prompt);
    weft_free(completion);
}

#define USER "{\"role\": \"user\", \"content\": \"Sky?\"}"
#define SAYS(TEXT) "{\"role\": \"assistant\", \"content\": \"" TEXT "\"}"

static void forms_of_pairs(void)
{
    const struct {
        const char *row, *chosen, *rejected;
    } cases[] = {
        {"{\"prompt\": \"The sky is\", \"chosen\": \" blue.\", \"rejected\": \" green.\"}",
         "The sky is| blue.<|endoftext|>", "The sky is| green.<|endoftext|>"},
        {"{\"chosen\": \"The sky is blue.\", \"rejected\": \"The sky is green.\"}",
         "The sky is| blue.<|endoftext|>", "The sky is| green.<|endoftext|>"},
        {"{\"prompt\": [" USER
         "], \"chosen\": [" SAYS("Blue.") "], \"rejected\": [" SAYS("Green.") "]}",
         "[user]Sky?\n[assistant]|Blue.<|endoftext|>", "[assistant]|Green.<|endoftext|>"},
        {"{\"chosen\": [" USER ", " SAYS("Blue.") "], \"rejected\": [" USER
                                                  ", " SAYS("Green.") "]}",
         "[user]Sky?\n[assistant]|Blue.<|endoftext|>", "[assistant]|Green.<|endoftext|>"},
        {"{\"prompt\": \"Sky?\", \"chosen\": [" USER ", " SAYS("Blue.") "], \"rejected\": [" USER
                                                                        ", " SAYS("Green.") "]}",
         "[user]Sky?\n[assistant]|Blue.<|endoftext|>", "[assistant]|Green.<|endoftext|>"},
        {"{\"prompt\": \"The sky is\", \"chosen\": \" blue.\", \"rejected\": \" green.\", "
         "\"messages\": [" USER ", " SAYS("Blue.") "]}", /* for supervised training */
         "The sky is| blue.<|endoftext|>", "The sky is| green.<|endoftext|>"},
    };
    for (size_t i = 0; ready() && i < sizeof cases / sizeof *cases; i++) {
        weft_dataset *d = NULL;
        if (CHECK_OK(parse(cases[i].row, 0, &d, NULL))) {
            CHECK_EQ_INT(weft_dataset_info_of(d).samples, 2);
            CHECK_EQ_INT(weft_dataset_info_of(d).examples, WEFT_EXAMPLES_PAIRS);
            CHECK_EQ_INT(weft_dataset_info_of(d).rows[WEFT_ROW_PREFERENCE], 1);
            expect(d, 0, cases[i].chosen);
            expect(d, 1, cases[i].rejected);
        }
        weft_dataset_free(d);
    }
}

static void refused_rows(void)
{
    const struct {
        const char *row, *says;
    } cases[] = {
        {"{\"prompt\": \"a\", \"completion\": \"b\"}", "p.jsonl:1: expected a preference pair"},
        {"{\"prompt\": \"a\", \"chosen\": \"b\"}", "expected \"rejected\" beside \"chosen\""},
        {"{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": [" SAYS("c") "]}",
         "to be both texts or both arrays of messages"},
        {"{\"prompt\": \"a\", \"chosen\": 1, \"rejected\": 2}", "p.jsonl:1"},
        {"{\"prompt\": [" USER "], \"chosen\": [1], \"rejected\": [2]}", "p.jsonl:1"},
        {"{\"chosen\": [], \"rejected\": []}", "p.jsonl:1"},
        {"{\"prompt\": [" USER "], \"chosen\": \"b\", \"rejected\": \"c\"}",
         "\"prompt\" is an array of messages"},
    };
    for (size_t i = 0; ready() && i < sizeof cases / sizeof *cases; i++) {
        weft_dataset *d = NULL;
        CHECK_EQ_INT(parse(cases[i].row, 0, &d, NULL), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), cases[i].says);
        weft_dataset_free(d);
    }
}

/* A bad row adds nothing to the dataset, and plain texts are refused as preference data. */
static void bad_rows_add_no_samples(void)
{
    static const char text[] =
        "{\"prompt\": \"The sky is\", \"chosen\": \" blue.\", \"rejected\": \" green and green and "
        "green and green and green and green and green and green and green and green.\"}\n"
        "{\"prompt\": \"The sky is\", \"chosen\": \" blue.\", \"rejected\": \" red.\"}\n";
    weft_dataset_options o = {.chat = chat,
                              .examples = WEFT_EXAMPLES_LABELED,
                              .length = 12,
                              .longer = WEFT_LONG_REFUSE,
                              .max_bad_rows = 1};
    weft_dataset *d = NULL;
    if (!ready())
        return;
    o.chat = chat;
    if (CHECK_OK(weft_dataset_parse(text, strlen(text), "p.jsonl", tokenizer, &o, 0, &d, NULL))) {
        CHECK_EQ_INT(weft_dataset_info_of(d).bad_rows, 1);
        CHECK_EQ_INT(weft_dataset_info_of(d).samples, 2);
        expect(d, 0, "The sky is| blue.");
        expect(d, 1, "The sky is| red.");
    }
    weft_dataset_free(d);
    d = NULL;
    o.format = WEFT_DATA_TEXT;
    CHECK_STATUS(weft_dataset_parse(text, strlen(text), "p.txt", tokenizer, &o, 0, &d, NULL),
                 WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "p.txt: expected rows of preference data");
    weft_dataset_free(d);
}

/* Rows with a label, and both completions of a pair. */
static void labeled_rows(void)
{
    static const char text[] =
        "{\"prompt\": \"The sky is\", \"completion\": \" blue.\", \"label\": true}\n"
        "{\"prompt\": \"The sea is\", \"completion\": \" red.\", \"label\": false}\n"
        "{\"prompt\": \"A fox is\", \"chosen\": \" quick.\", \"rejected\": \" slow.\"}\n";
    static const char *const bad[] = {"{\"prompt\": \"a\", \"completion\": \"b\"}",
                                      "{\"prompt\": \"a\", \"completion\": \"b\", \"label\": 2}",
                                      "{\"text\": \"a\"}"};
    static const char *const says[] = {
        "l.jsonl:1: expected \"prompt\"",
        "l.jsonl:1: label: expected true or false (or 1 or 0), got 2",
        "l.jsonl:1: expected \"prompt\""};
    weft_dataset_options o = {.chat = chat, .examples = WEFT_EXAMPLES_LABELED};
    weft_dataset *d = NULL;
    weft_batches *batches = NULL;
    weft_batch b = {0};
    if (ready() &&
        CHECK_OK(weft_dataset_parse(text, strlen(text), "l.jsonl", tokenizer, &o, 0, &d, NULL)) &&
        CHECK_EQ_INT(weft_dataset_info_of(d).samples, 4) &&
        CHECK_OK(weft_batches_new(d, 4, 0, &batches)) &&
        CHECK_OK(weft_batches_at(batches, 0, &b))) {
        float labels[4], sum = 0;
        expect(d, 1, "The sea is| red.");
        CHECK_EQ_INT(weft_dim(b.tokens, 0), 8);
        CHECK_OK(weft_read(b.labels, WEFT_FLOAT32, labels, 4));
        for (int i = 0; i < 4; i++)
            sum += labels[i];
        CHECK_CLOSE(sum, 2, 0);
    }
    weft_batch_free(&b);
    weft_batches_free(batches);
    weft_dataset_free(d);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_EQ_INT(
            weft_dataset_parse(bad[i], strlen(bad[i]), "l.jsonl", tokenizer, &o, 0, &d, NULL),
            WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), says[i]);
    }
}

static weft_status parse_labeled(const char *name, const char *text, double split,
                                 weft_dataset **out, weft_dataset **validation)
{
    const weft_dataset_options o = {.chat = chat, .examples = WEFT_EXAMPLES_LABELED};
    return weft_dataset_parse(text, strlen(text), name, tokenizer, &o, split, out, validation);
}

/* The labels of the samples, as the digits of a text. */
static void expect_labels(const weft_dataset *d, const char *labels)
{
    char got[64] = "";
    for (int64_t i = 0; i < weft_dataset_info_of(d).samples && i < 60; i++)
        got[i] = weft_dataset_is_desirable(d, i) ? '1' : '0';
    CHECK_STR(got, labels);
}

/* Tables have only texts: labels, and messages as JSON. */
static void cells_of_tables_are_labels_and_messages(void)
{
    static const char labels[] = "prompt,completion,label\nA,b,true\nA,c,False\nA,d,1\nA,e,0\n"
                                 "A,f,TRUE\n";
    static const char bad[] = "prompt,completion,label\nA,b,true\nA,c,yes\n";
    static const char messages[] =
        "prompt,completion,label\n"
        "\"[{\"\"role\"\": \"\"user\"\", \"\"content\"\": \"\"Sky?\"\"}]\","
        "\"[{\"\"content\"\": \"\"Blue.\"\", \"\"role\"\": \"\"assistant\"\"}]\",0\n";
    static const char pairs[] =
        "prompt,chosen,rejected\n"
        "\"[{\"\"role\"\": \"\"user\"\", \"\"content\"\": \"\"Sky?\"\"}]\","
        "\"[{\"\"role\"\": \"\"assistant\"\", \"\"content\"\": \"\"Blue.\"\"}]\","
        "\"[{\"\"role\"\": \"\"assistant\"\", \"\"content\"\": \"\"Green.\"\"}]\"\n";
    static const char text[] = "prompt,completion,label\n"
                               "List:,\"[{\"\"content\"\": 1, \"\"id\"\": 2}]\",1\n";
    static const char *const malformed[] = {
        "prompt,completion,label\n\"[{'role': 'user', 'content': 'Sky?'}]\",x,1\n",
        "prompt,completion,label\nx,\"[{\"\"role\"\": \"\"assistant\"\", \",1\n"};
    weft_dataset *d = NULL;
    if (!ready())
        return;
    if (CHECK_OK(parse_labeled("l.csv", labels, 0, &d, NULL)))
        expect_labels(d, "10101");
    weft_dataset_free(d);
    CHECK_STATUS(parse_labeled("l.csv", bad, 0, &d, NULL), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(),
                   "l.csv:3: label: expected true or false (or 1 or 0), got yes");
    if (CHECK_OK(parse_labeled("l.csv", messages, 0, &d, NULL))) {
        expect(d, 0, "[user]Sky?\n[assistant]|Blue.<|endoftext|>");
        expect_labels(d, "0");
    }
    weft_dataset_free(d);
    if (CHECK_OK(parse_labeled("l.csv", text, 0, &d, NULL))) /* JSON, but not of messages */
        expect(d, 0, "List:|[{\"content\": 1, \"id\": 2}]<|endoftext|>");
    weft_dataset_free(d);
    const weft_dataset_options o = {.chat = chat, .examples = WEFT_EXAMPLES_PAIRS};
    if (CHECK_OK(weft_dataset_parse(pairs, strlen(pairs), "p.csv", tokenizer, &o, 0, &d, NULL))) {
        expect(d, 0, "[user]Sky?\n[assistant]|Blue.<|endoftext|>");
        expect(d, 1, "[user]Sky?\n[assistant]|Green.<|endoftext|>");
    }
    weft_dataset_free(d);
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(parse_labeled("l.csv", malformed[i], 0, &d, NULL), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(),
                       i ? "l.csv:2: completion: expected a text or a JSON array of messages"
                         : "l.csv:2: prompt: expected a text or a JSON array of messages");
    }
}

/* The mismatched completion in KTO's batches is that of the nearest other prompt, even if rows of
 * one prompt are adjacent. */
static void mismatched_completions_are_of_another_prompt(void)
{
    enum { N = 100, B = 4 };
    char text[12000] = "";
    weft_dataset *d = NULL;
    weft_batches *batches = NULL;
    if (!ready())
        return;
    for (int i = 0; i < N;
         i++) /* ten rows of A, eighty of B, ten of C; each row ends differently */
        snprintf(text + strlen(text), 120,
                 "{\"prompt\": \"%c is\", \"completion\": \" %c %d.\", \"label\": true}\n",
                 "ABC"[(i >= 10) + (i >= 90)], "ABC"[(i >= 10) + (i >= 90)], i);
    if (CHECK_OK(parse_labeled("m.jsonl", text, 0, &d, NULL)) &&
        CHECK_OK(weft_batches_new(d, B, 0, &batches))) {
        for (int64_t i = 0; i < N / B; i++) {
            weft_batch b = {0};
            int32_t ids[2 * B * 64];
            CHECK_OK(weft_batches_at(batches, i, &b));
            const int64_t L = weft_dim(b.tokens, 1);
            CHECK_OK(weft_read(b.tokens, WEFT_INT32, ids, 2 * B * L));
            for (int64_t k = 0; k < B; k++) {
                const int32_t *own = ids + k * L, *other = ids + (B + k) * L;
                char *a = NULL, *b_text = NULL;
                CHECK_OK(weft_tokenizer_decode(tokenizer, own, (size_t)L, 0, &a, NULL));
                CHECK_OK(weft_tokenizer_decode(tokenizer, other, (size_t)L, 0, &b_text, NULL));
                const char prompt = a[0], of = b_text[5];
                const int number = atoi(a + 7), got = atoi(b_text + 7);
                const int expected = prompt == 'A' ? 99 : prompt == 'C' ? 89 : number < 74 ? 9 : 90;
                CHECK_EQ_INT(b_text[0], prompt);
                CHECK(of != prompt);
                CHECK_EQ_INT(got, expected);
                weft_free(a);
                weft_free(b_text);
            }
            weft_batch_free(&b);
        }
    }
    weft_batches_free(batches);
    weft_dataset_free(d);
}

/* Both completions of a row are in the same split. */
static void splits_keep_labeled_pairs_whole(void)
{
    char text[4000] = "";
    for (int i = 0; i < 20; i++)
        snprintf(text + strlen(text), 120,
                 "{\"prompt\": \"Number %d is\", \"chosen\": \" good\", \"rejected\": \" bad\"}\n",
                 i);
    weft_dataset *d = NULL, *validation = NULL;
    if (ready() && CHECK_OK(parse_labeled("k.jsonl", text, 0.25, &d, &validation))) {
        CHECK_EQ_INT(weft_dataset_info_of(d).samples, 30);
        CHECK_EQ_INT(weft_dataset_info_of(validation).samples, 10);
        expect_labels(validation, "1010101010");
        for (int64_t i = 0; i < 10; i += 2) {
            const weft_sample a = weft_dataset_at(validation, i),
                              b = weft_dataset_at(validation, i + 1);
            CHECK(a.group != 0);
            CHECK_EQ_INT(a.group, b.group);
            CHECK_BYTES(a.ids, b.ids, 3 * sizeof *a.ids);
        }
    }
    weft_dataset_free(d);
    weft_dataset_free(validation);
}

/* Pairs are not divided by a split, and equal completions of one prompt stay two samples. */
static void splits_keep_pairs_whole(void)
{
    char text[4000] = "";
    for (int i = 0; i < 20; i++)
        snprintf(text + strlen(text), 120,
                 "{\"prompt\": \"Number %d is\", \"chosen\": \" good\", \"rejected\": \" bad\"}\n",
                 i);
    weft_dataset *d = NULL, *validation = NULL;
    if (ready() && CHECK_OK(parse(text, 0.25, &d, &validation))) {
        CHECK_EQ_INT(weft_dataset_info_of(d).samples, 30);
        CHECK_EQ_INT(weft_dataset_info_of(validation).samples, 10);
        CHECK_EQ_INT(weft_dataset_info_of(validation).examples, WEFT_EXAMPLES_PAIRS);
        for (int64_t i = 0; i < 10; i += 2) {
            expect(validation, i, "| good");
            expect(validation, i + 1, "| bad");
        }
    }
    weft_dataset_free(d);
    weft_dataset_free(validation);
}

static void the_cache_keeps_pairs(void)
{
    char path[512], folder[512];
    static const char text[] =
        "{\"prompt\": \"The sky is\", \"chosen\": \" blue.\", \"rejected\": \" green.\"}\n";
    snprintf(path, sizeof path, "%s", check_temporary("pairs.jsonl"));
    snprintf(folder, sizeof folder, "%s", check_temporary("pairs-cache"));
    const weft_dataset_options o = {.chat = chat,
                                    .examples = WEFT_EXAMPLES_PAIRS,
                                    .cache = folder,
                                    .tokenizer_path = check_source("examples/storyteller")};
    if (!ready() || !CHECK_OK(weft_file_write(path, text, strlen(text))))
        return;
    for (int again = 0; again < 2; again++) {
        weft_dataset *d = NULL;
        weft_batches *batches = NULL;
        weft_batch batch = {0};
        if (CHECK_OK(weft_dataset_load(path, tokenizer, &o, 0, &d, NULL))) {
            CHECK_EQ_INT(weft_dataset_info_of(d).cached, again);
            expect(d, 1, "The sky is| green.");
            if (CHECK_OK(weft_batches_new(d, 4, 0, &batches)) &&
                CHECK_OK(weft_batches_at(batches, 0, &batch)))
                CHECK_EQ_INT(weft_dim(batch.tokens, 0), 2);
        }
        weft_batch_free(&batch);
        weft_batches_free(batches);
        weft_dataset_free(d);
    }
    weft_chat_free(chat);
    weft_tokenizer_free(tokenizer);
}

CHECK_MAIN("preferences", CHECK_CASE(forms_of_pairs), CHECK_CASE(refused_rows),
           CHECK_CASE(bad_rows_add_no_samples), CHECK_CASE(labeled_rows),
           CHECK_CASE(cells_of_tables_are_labels_and_messages),
           CHECK_CASE(mismatched_completions_are_of_another_prompt),
           CHECK_CASE(splits_keep_labeled_pairs_whole), CHECK_CASE(splits_keep_pairs_whole),
           CHECK_CASE(the_cache_keeps_pairs))
