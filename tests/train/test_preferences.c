/* tests/train/test_preferences.c -- rows with a chosen and a rejected completion: their forms, the
 * pairs that become of them, validation splits, caches, and what is refused. */
#include <stdio.h>
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

/* Nothing of a bad row stays, and texts are no preference data. */
static void bad_rows_leave_nothing(void)
{
    static const char text[] =
        "{\"prompt\": \"The sky is\", \"chosen\": \" blue.\", \"rejected\": \" green and green and "
        "green and green and green and green and green and green and green and green.\"}\n"
        "{\"prompt\": \"The sky is\", \"chosen\": \" blue.\", \"rejected\": \" red.\"}\n";
    weft_dataset_options o = {.chat = chat,
                              .examples = WEFT_EXAMPLES_LABELLED,
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
static void labelled_rows(void)
{
    static const char text[] =
        "{\"prompt\": \"The sky is\", \"completion\": \" blue.\", \"label\": true}\n"
        "{\"prompt\": \"The sea is\", \"completion\": \" red.\", \"label\": false}\n"
        "{\"prompt\": \"A fox is\", \"chosen\": \" quick.\", \"rejected\": \" slow.\"}\n";
    static const char *const bad[] = {"{\"prompt\": \"a\", \"completion\": \"b\"}",
                                      "{\"prompt\": \"a\", \"completion\": \"b\", \"label\": 1}",
                                      "{\"text\": \"a\"}"};
    weft_dataset_options o = {.chat = chat, .examples = WEFT_EXAMPLES_LABELLED};
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
        CHECK_EQ_INT(b.pairs, 4);
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
        CHECK_CONTAINS(weft_error_message(), "l.jsonl:1: expected \"prompt\"");
    }
}

/* Pairs are split whole, and equal completions of one prompt stay two samples. */
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
                CHECK_EQ_INT(batch.pairs, 1);
        }
        weft_batch_free(&batch);
        weft_batches_free(batches);
        weft_dataset_free(d);
    }
    weft_chat_free(chat);
    weft_tokenizer_free(tokenizer);
}

CHECK_MAIN("preferences", CHECK_CASE(forms_of_pairs), CHECK_CASE(refused_rows),
           CHECK_CASE(bad_rows_leave_nothing), CHECK_CASE(labelled_rows),
           CHECK_CASE(splits_keep_pairs_whole), CHECK_CASE(the_cache_keeps_pairs))
