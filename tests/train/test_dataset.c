/* tests/train/test_dataset.c -- samples from files, and refused input. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "weft/train.h"

enum { END = 4093 }; /* <|endoftext|> of the storyteller */

static weft_tokenizer *tokenizer;
static char last_log[512];

static void keep_log(void *context, weft_log_level level, const char *message)
{
    (void)context;
    (void)level;
    strncpy(last_log, message, sizeof last_log - 1);
}

static bool have_tokenizer(void)
{
    if (tokenizer == NULL)
        CHECK_OK(weft_tokenizer_load(check_source("examples/storyteller"), &tokenizer));
    return CHECK(tokenizer != NULL);
}

static const char *file_of(const char *name, const char *text)
{
    const char *path = check_temporary(name);
    CHECK_OK(weft_file_write(path, text, strlen(text)));
    return path;
}

/* Loads a file of that text with the tokenizer. */
static weft_dataset *load(const char *name, const char *text, const weft_dataset_options *options)
{
    weft_dataset *d = NULL;
    if (have_tokenizer())
        CHECK_OK(weft_dataset_load(file_of(name, text), tokenizer, options, 0, &d, NULL));
    return d;
}

static void expect_refusal(const char *name, const char *text, weft_status status,
                           const char *message)
{
    weft_dataset *d;
    if (!have_tokenizer())
        return;
    CHECK_STATUS(weft_dataset_load(file_of(name, text), tokenizer, NULL, 0, &d, NULL), status);
    CHECK_CONTAINS(weft_error_message(), message);
    CHECK(d == NULL);
}

/* Writes the ids of a text to `out`; returns their number. */
static int64_t ids_of(const char *text, int32_t *out)
{
    int32_t *ids;
    size_t n = 0;
    if (CHECK_OK(weft_tokenizer_encode(tokenizer, text, strlen(text), 0, &ids, &n)))
        memcpy(out, ids, n * sizeof *ids);
    weft_free(ids);
    return (int64_t)n;
}

/* The number of leading ids with weight 0; checks that the others have weight 1. */
static int64_t untrained(const weft_sample *s)
{
    int64_t n = 0;
    while (n < s->length && s->weights[n] == 0)
        n++;
    for (int64_t i = n; i < s->length; i++)
        CHECK_CLOSE(s->weights[i], 1, 0);
    return n;
}

static void text_lines_end_in_eos(void)
{
    weft_dataset *d = load(
        "text.jsonl", "{\"text\": \"Once upon a time\"}\n\n{\"text\": \"Caf\\u00e9\"}\n", NULL);
    if (d == NULL)
        return;
    CHECK_EQ_INT(weft_dataset_info_of(d).samples, 2);
    int32_t ids[64];
    int64_t n = ids_of("Once upon a time", ids);
    const weft_sample first = weft_dataset_at(d, 0), second = weft_dataset_at(d, 1);
    CHECK_EQ_INT(first.length, n + 1);
    CHECK_BYTES(first.ids, ids, (size_t)n * sizeof *ids);
    CHECK_EQ_INT(first.ids[n], END);
    CHECK_EQ_INT(untrained(&first), 1);
    n = ids_of("Caf\xc3\xa9", ids);
    CHECK_EQ_INT(second.length, n + 1);
    CHECK_BYTES(second.ids, ids, (size_t)n * sizeof *ids);
    weft_dataset_free(d);
}

static void texts_may_contain_nul(void)
{
    weft_dataset *d = load("nul.jsonl", "{\"text\": \"a\\u0000\xc3\xa9\"}\n", NULL);
    if (d == NULL)
        return;
    int32_t *ids;
    size_t n = 0;
    const weft_sample sample = weft_dataset_at(d, 0);
    CHECK_OK(weft_tokenizer_encode(tokenizer, "a\0\xc3\xa9", 4, 0, &ids, &n));
    CHECK_EQ_INT(sample.length, (int64_t)n + 1);
    CHECK_BYTES(sample.ids, ids, n * sizeof *ids);
    weft_free(ids);
    weft_dataset_free(d);
}

static void prompts_do_not_contribute_to_the_loss(void)
{
    const char *text = "{\"prompt\": \"Who lives here?\", \"completion\": \" A rabbit.\"}";
    int32_t ids[64];
    weft_dataset *d = load("pairs.jsonl", text, NULL);
    if (d == NULL)
        return;
    const int64_t prompt = ids_of("Who lives here?", ids);
    const int64_t n = prompt + ids_of(" A rabbit.", ids + prompt);
    const weft_sample s = weft_dataset_at(d, 0);
    CHECK_EQ_INT(untrained(&s), prompt);
    CHECK_EQ_INT(s.length, n + 1);
    CHECK_BYTES(s.ids, ids, (size_t)n * sizeof *ids);
    CHECK_EQ_INT(weft_dataset_info_of(d).targets, n + 1 - prompt);
    weft_dataset_free(d);
    d = load("pairs.jsonl", text,
             &(weft_dataset_options){.learn_prompt = true, .eos = &(int32_t){-1}});
    if (d) {
        const weft_sample all = weft_dataset_at(d, 0);
        CHECK_EQ_INT(untrained(&all), 1);
        CHECK_EQ_INT(all.length, n);
    }
    weft_dataset_free(d);
}

static void any_id_can_be_the_eos(void)
{
    const char *text = "{\"text\": \"A rabbit.\"}";
    const int32_t zero = 0;
    int32_t ids[64];
    const int64_t n = ids_of("A rabbit.", ids);
    weft_dataset *d = load("zero.jsonl", text, &(weft_dataset_options){.eos = &zero});
    if (d) {
        const weft_sample s = weft_dataset_at(d, 0);
        CHECK_EQ_INT(s.length, n + 1);
        CHECK_EQ_INT(s.ids[n], 0);
    }
    weft_dataset_free(d);
}

static void an_eos_in_the_text_is_not_doubled(void)
{
    weft_dataset *d = load("eos.jsonl", "{\"text\": \"The end<|endoftext|>\"}", NULL);
    if (d) {
        const weft_sample s = weft_dataset_at(d, 0);
        CHECK_EQ_INT(s.ids[s.length - 1], END);
        CHECK(s.ids[s.length - 2] != END);
    }
    weft_dataset_free(d);
}

static const char long_rows[] = "{\"prompt\": \"one two three\", \"completion\": \" the answer of "
                                "all\"}\n{\"text\": \"so\"}\n"
                                "{\"prompt\": \"one two three four five six seven\", "
                                "\"completion\": \" yes\"}\n";

static void long_samples_follow_the_policy(void)
{
    int32_t ids[32];
    if (!have_tokenizer())
        return;
    const int64_t prompt = ids_of("one two three", ids);
    const int64_t n = prompt + ids_of(" the answer of all", ids + prompt) + 1;
    const int64_t length = prompt + 2;
    ids[n - 1] = END;
    for (int policy = 0; policy < WEFT_LONG_REFUSE; policy++) {
        last_log[0] = '\0';
        weft_set_log(keep_log, NULL);
        weft_dataset *d =
            load("long.jsonl", long_rows,
                 &(weft_dataset_options){.length = length, .longer = (weft_long_samples)policy});
        weft_set_log(NULL, NULL);
        if (d == NULL)
            return;
        const weft_dataset_info info = weft_dataset_info_of(d);
        const weft_sample s = weft_dataset_at(d, 0);
        CHECK_CONTAINS(last_log, "samples of 2 of 3 rows are longer than ");
        CHECK_CONTAINS(last_log, "(long.jsonl:1, long.jsonl:3)");
        CHECK_EQ_INT(info.truncated + info.split + info.dropped, 2);
        switch (policy) {
        case WEFT_LONG_KEEP_HEAD: /* the prompt and two tokens; the second prompt leaves none */
            CHECK_EQ_INT(info.dropped, 1);
            CHECK_EQ_INT(s.length, length);
            CHECK_BYTES(s.ids, ids, (size_t)length * sizeof *ids);
            CHECK_EQ_INT(untrained(&s), prompt);
            break;
        case WEFT_LONG_KEEP_TAIL:
            CHECK_EQ_INT(info.truncated, 2);
            CHECK_EQ_INT(s.length, length);
            CHECK_BYTES(s.ids, ids + n - length, (size_t)length * sizeof *ids);
            break;
        case WEFT_LONG_SPLIT: { /* every target belongs to exactly one piece */
            const weft_sample next = weft_dataset_at(d, 1);
            CHECK_EQ_INT(info.split, 2);
            CHECK_BYTES(s.ids, ids, (size_t)length * sizeof *ids);
            CHECK_EQ_INT(next.ids[0], ids[length - 1]);
            CHECK(next.group != 0 && next.group == s.group);
            CHECK_EQ_INT(info.targets,
                         n - prompt + 2 + ids_of(" yes", ids) + ids_of("so", ids) - 1);
            break;
        }
        default:
            CHECK_EQ_INT(info.samples, 1);
            CHECK_EQ_INT(info.dropped, 2);
        }
        weft_dataset_free(d);
    }
    weft_dataset *d;
    CHECK_STATUS(
        weft_dataset_load(file_of("long.jsonl", long_rows), tokenizer,
                          &(weft_dataset_options){.length = length, .longer = WEFT_LONG_REFUSE}, 0,
                          &d, NULL),
        WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "long.jsonl:1: the sample has ");
}

static void texts_become_windows(void)
{
    weft_dataset *d = load("tale.txt",
                           "Once upon a time there was a king who had three sons and a horse. "
                           "The king lived in a castle by the sea.",
                           &(weft_dataset_options){.length = 7});
    if (d == NULL)
        return;
    int32_t ids[128];
    const int64_t n = ids_of("Once upon a time there was a king who had three sons and a horse. "
                             "The king lived in a castle by the sea.",
                             ids);
    /* Each begins with the last token of the previous one: all but the first are targets. */
    const weft_dataset_info info = weft_dataset_info_of(d);
    CHECK_EQ_INT(info.samples, (n - 1 + 5) / 6);
    CHECK_EQ_INT(info.targets, n - 1);
    for (int64_t i = 0; i < info.samples; i++) {
        const weft_sample s = weft_dataset_at(d, i);
        CHECK_EQ_INT(s.length, n - 6 * i < 7 ? n - 6 * i : 7);
        CHECK_BYTES(s.ids, ids + 6 * i, (size_t)s.length * sizeof *ids);
    }
    weft_dataset_free(d);
}

static void windows_may_overlap(void)
{
    const int32_t ids[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    weft_dataset *d;
    if (!CHECK_OK(weft_dataset_new(4, &d)))
        return;
    CHECK_OK(weft_dataset_add_windows(d, ids, 10, 3));
    /* 0-3, 3-6, 6-9: every id but the first is a target exactly once. */
    CHECK_EQ_INT(weft_dataset_info_of(d).samples, 3);
    CHECK_EQ_INT(weft_dataset_info_of(d).targets, 9);
    CHECK_EQ_INT(weft_dataset_at(d, 2).ids[0], 6);
    weft_dataset_free(d);
}

static void a_text_is_split_by_characters(void)
{
    char text[1200];
    size_t n = 0;
    for (int i = 0; i < 100; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s",
                              i < 90 ? "\xc3\xa9t\xc3\xa9 " : "sea ");
    weft_dataset *train, *validation;
    if (!have_tokenizer() || !CHECK_OK(weft_dataset_load(file_of("split.txt", text), tokenizer,
                                                         &(weft_dataset_options){.length = 16}, 0.1,
                                                         &train, &validation)))
        return;
    char *decoded;
    const weft_sample s = weft_dataset_at(validation, 0);
    if (CHECK_OK(weft_tokenizer_decode(tokenizer, s.ids, (size_t)s.length, 0, &decoded, NULL)))
        CHECK(strncmp(decoded, "sea sea", 7) == 0);
    weft_free(decoded);
    const weft_sample last = weft_dataset_at(train, weft_dataset_info_of(train).samples - 1);
    if (CHECK_OK(
            weft_tokenizer_decode(tokenizer, last.ids, (size_t)last.length, 0, &decoded, NULL)))
        CHECK(strstr(decoded, "sea") == NULL);
    weft_free(decoded);
    weft_dataset_free(train);
    weft_dataset_free(validation);
}

/* Loads n short rows with WEFT_SPLIT_AUTO, and counts the samples of both datasets. */
static void expect_auto_split(int n, int64_t held_out)
{
    char *text = weft_calloc((size_t)n + 1, 32);
    size_t size = 0;
    for (int i = 0; i < n; i++)
        size += (size_t)snprintf(text + size, 32, "{\"text\": \"line %d\"}\n", i);
    weft_dataset *train = NULL, *validation = NULL;
    if (CHECK_OK(weft_dataset_parse(text, size, "rows.jsonl", tokenizer, NULL, WEFT_SPLIT_AUTO,
                                    &train, &validation))) {
        CHECK_EQ_INT(weft_dataset_info_of(train).samples, n - held_out);
        CHECK_EQ_INT(weft_dataset_info_of(train).rows[WEFT_ROW_TEXT], n);
        if (CHECK((validation != NULL) == (held_out > 0)) && validation)
            CHECK_EQ_INT(weft_dataset_info_of(validation).samples, held_out);
    }
    weft_dataset_free(train);
    weft_dataset_free(validation);
    weft_free(text);
}

static void large_data_is_split_by_default(void)
{
    if (!have_tokenizer())
        return;
    expect_auto_split(1, 0);
    expect_auto_split(199, 0);
    expect_auto_split(200, 10);
    expect_auto_split(2000, 100);
    expect_auto_split(2500, 100);
}

/* The last windows of a text are held out, and no token is lost. */
static void windows_are_split_by_default(void)
{
    static char text[16000];
    size_t n = 0;
    for (int i = 0; i < 1000; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "word %d ", i);
    weft_dataset *train, *validation, *whole = load("auto.txt", text, NULL);
    const weft_dataset_options o = {.length = 16};
    if (!have_tokenizer() || !CHECK_OK(weft_dataset_load(file_of("auto.txt", text), tokenizer, &o,
                                                         WEFT_SPLIT_AUTO, &train, &validation)))
        return;
    const int64_t trained = weft_dataset_info_of(train).samples;
    if (CHECK(validation != NULL)) {
        const weft_dataset_info held_out = weft_dataset_info_of(validation);
        CHECK(trained + held_out.samples >= 200);
        CHECK_EQ_INT(held_out.samples, llround(0.05 * (double)(trained + held_out.samples)));
        CHECK_EQ_INT(weft_dataset_info_of(train).targets + held_out.targets,
                     weft_dataset_info_of(whole).targets);
        const weft_sample last = weft_dataset_at(train, trained - 1),
                          next = weft_dataset_at(validation, 0);
        CHECK_EQ_INT(next.ids[0], last.ids[last.length - 1]);
    }
    weft_dataset_free(whole);
    weft_dataset_free(train);
    weft_dataset_free(validation);
}

static void lines_are_split_by_the_seed(void)
{
    char text[2000] = "";
    for (int i = 0; i < 40; i++)
        sprintf(text + strlen(text), "{\"text\": \"line number %d\"}\n", i);
    const char *path = file_of("lines.jsonl", text);
    uint64_t sums[3] = {0};
    for (int k = 0; k < 3 && have_tokenizer(); k++) {
        weft_dataset *train, *validation;
        const weft_dataset_options o = {.seed = k == 2 ? 1 : 0};
        if (!CHECK_OK(weft_dataset_load(path, tokenizer, &o, 0.25, &train, &validation)))
            return;
        CHECK_EQ_INT(weft_dataset_info_of(train).samples, 30);
        CHECK_EQ_INT(weft_dataset_info_of(validation).samples, 10);
        for (int i = 0; i < 10; i++) {
            const weft_sample s = weft_dataset_at(validation, i);
            for (int64_t j = 0; j < s.length; j++)
                sums[k] = sums[k] * 31 + (uint64_t)s.ids[j];
        }
        weft_dataset_free(train);
        weft_dataset_free(validation);
    }
    CHECK(sums[0] == sums[1]);
    CHECK(sums[0] != sums[2]);
}

static void bad_lines_are_named(void)
{
    expect_refusal("a.jsonl", "{\"text\": \"fine\"}\n{\"text\": \n", WEFT_INVALID, "a.jsonl:2");
    expect_refusal("b.jsonl", "{\"text\": \"fine\"}\n\n[1]\n", WEFT_INVALID, "b.jsonl:3");
    expect_refusal("c.jsonl", "{\"text\": 5}\n", WEFT_INVALID, "c.jsonl:1");
    expect_refusal("d.jsonl", "{\"prompt\": \"Hm?\"}\n", WEFT_INVALID, "completion");
    expect_refusal("e.jsonl", "{\"question\": \"Hm?\"}\n", WEFT_INVALID, "\"answer\"");
    expect_refusal("i.jsonl", "{\"query\": \"Hm?\"}\n", WEFT_INVALID, "\"prompt\" and");
    expect_refusal("f.jsonl", "{\"messages\": []}\n", WEFT_UNSUPPORTED, "no chat template");
    expect_refusal("g.jsonl", "{\"text\": \"\xff\"}\n", WEFT_INVALID, "g.jsonl:1");
    expect_refusal("h.txt", "\xc3(", WEFT_INVALID, "h.txt: ");
}

static void byte_order_marks_are_skipped(void)
{
    weft_dataset *marked = load("mark.jsonl", "\xef\xbb\xbf{\"text\": \"so it was\"}\n", NULL);
    weft_dataset *plain = load("plain.jsonl", "{\"text\": \"so it was\"}\n", NULL);
    if (marked && plain) {
        const weft_sample a = weft_dataset_at(marked, 0), b = weft_dataset_at(plain, 0);
        if (CHECK_EQ_INT(a.length, b.length))
            CHECK_BYTES(a.ids, b.ids, (size_t)b.length * sizeof *b.ids);
    }
    weft_dataset_free(marked);
    weft_dataset_free(plain);
    int32_t ids[16];
    weft_dataset *text = load("mark.txt", "\xef\xbb\xbfso it was", NULL);
    if (text)
        CHECK_EQ_INT(weft_dataset_at(text, 0).length, ids_of("so it was", ids));
    weft_dataset_free(text);
}

static void files_that_cannot_be_read_are_not_trained_as_text(void)
{
    expect_refusal("a.arrow", "ARROW1", WEFT_UNSUPPORTED, ".arrow files");
    expect_refusal("a.jsonl.bz2", "BZh", WEFT_UNSUPPORTED, ".bz2 files");
}

static void empty_datasets_are_refused(void)
{
    expect_refusal("none.jsonl", "", WEFT_INVALID, "empty");
    expect_refusal("none.txt", "", WEFT_INVALID, "empty");
    expect_refusal("blank.jsonl", "{\"text\": \"\"}\n", WEFT_INVALID, "nothing to learn");
    weft_dataset *train, *validation;
    if (!have_tokenizer())
        return;
    const char *one = file_of("one.jsonl", "{\"text\": \"only one\"}\n");
    CHECK_STATUS(weft_dataset_load(one, tokenizer, NULL, 0.1, &train, &validation), WEFT_INVALID);
    CHECK(train == NULL && validation == NULL);
    CHECK_STATUS(weft_dataset_load(check_temporary("absent.txt"), tokenizer, NULL, 0, &train, NULL),
                 WEFT_IO);
    CHECK_CONTAINS(weft_error_message(), "absent.txt");
    CHECK_STATUS(weft_dataset_load(one, tokenizer, NULL, 1.5, &train, &validation), WEFT_INVALID);
    CHECK_STATUS(
        weft_dataset_load(one, tokenizer, &(weft_dataset_options){.length = 1}, 0, &train, NULL),
        WEFT_INVALID);
    weft_tokenizer_free(tokenizer);
    tokenizer = NULL;
}

static void groups_are_not_split(void)
{
    char text[4000] = "";
    static const char template[] =
        "{% for m in messages %}{{ m.content }}{{ '[old]' if m.role == 'assistant' and not "
        "loop.last else '' }}<|endoftext|>{% endfor %}";
    weft_chat *chat = NULL;
    if (!have_tokenizer() ||
        !CHECK_OK(weft_chat_parse(template, strlen(template), "t", tokenizer, &chat)))
        return;
    for (int i = 0; i < 10; i++)
        sprintf(text + strlen(text),
                "{\"messages\": [{\"role\": \"user\", \"content\": \"u\"}, "
                "{\"role\": \"assistant\", \"content\": \"a%d\"}, "
                "{\"role\": \"user\", \"content\": \"v\"}, "
                "{\"role\": \"assistant\", \"content\": \"b\"}]}\n",
                i);
    const weft_dataset_options o = {.chat = chat};
    weft_dataset *train, *validation;
    if (CHECK_OK(weft_dataset_load(file_of("groups.jsonl", text), tokenizer, &o, 0.3, &train,
                                   &validation))) {
        CHECK_EQ_INT(weft_dataset_info_of(train).samples, 14);
        CHECK_EQ_INT(weft_dataset_info_of(validation).samples, 6);
        for (int i = 0; i < 6; i += 2)
            CHECK_EQ_INT(weft_dataset_at(validation, i).group,
                         weft_dataset_at(validation, i + 1).group);
        weft_dataset_free(train);
        weft_dataset_free(validation);
    }
    weft_chat_free(chat);
}

static void negative_ids_are_refused(void)
{
    weft_dataset *d;
    const int32_t ids[] = {3, -1, 5};
    if (!CHECK_OK(weft_dataset_new(0, &d)))
        return;
    CHECK_STATUS(weft_dataset_add(d, ids, 3, 0), WEFT_INVALID);
    const int32_t good[] = {3, 4, 5};
    const float weights[] = {1, -1, 1};
    CHECK_STATUS(weft_dataset_add_sample(d, &(weft_sample){good, weights, 3, 0}), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "weight 1 of a sample");
    CHECK_EQ_INT(weft_dataset_info_of(d).samples, 0);
    weft_dataset_free(d);
}

CHECK_MAIN("dataset", CHECK_CASE(text_lines_end_in_eos), CHECK_CASE(texts_may_contain_nul),
           CHECK_CASE(prompts_do_not_contribute_to_the_loss), CHECK_CASE(any_id_can_be_the_eos),
           CHECK_CASE(an_eos_in_the_text_is_not_doubled),
           CHECK_CASE(long_samples_follow_the_policy), CHECK_CASE(texts_become_windows),
           CHECK_CASE(windows_may_overlap), CHECK_CASE(a_text_is_split_by_characters),
           CHECK_CASE(large_data_is_split_by_default), CHECK_CASE(windows_are_split_by_default),
           CHECK_CASE(lines_are_split_by_the_seed), CHECK_CASE(bad_lines_are_named),
           CHECK_CASE(byte_order_marks_are_skipped),
           CHECK_CASE(files_that_cannot_be_read_are_not_trained_as_text),
           CHECK_CASE(negative_ids_are_refused), CHECK_CASE(groups_are_not_split),
           CHECK_CASE(empty_datasets_are_refused))
