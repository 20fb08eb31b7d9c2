/* tests/train/test_data_cache.c -- token caches: the same datasets and batches, other keys for
 * other data, and damaged files. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/check.h"
#include "train/data/cache.h"
#include "weft/train.h"

static const char template[] = "{%- for m in messages -%}[{{ m.role }}]{{ m.content }}"
                               "{{ '[old]' if m.role == 'assistant' and not loop.last else '' }}"
                               "{{ '<|endoftext|>' if m.role == 'assistant' else '' }}\n"
                               "{% endfor -%}"
                               "{%- if add_generation_prompt -%}[assistant]{%- endif -%}";

static const char rows[] =
    "{\"text\": \"one two three four five six seven eight\"}\n"
    "{\"prompt\": \"Who?\", \"completion\": \" A fox.\"}\n"
    "not JSON\n"
    "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", "
    "\"content\": \"b\"}, {\"role\": \"user\", \"content\": \"c\"}, {\"role\": \"assistant\", "
    "\"content\": \"d\", \"weight\": 0.5}]}\n"
    "{\"text\": \"two\"}\n{\"text\": \"three\"}\n";

static weft_tokenizer *tokenizer;
static char source[512], folder[512], name[1024], logged[4096];

static void keep_log(void *context, weft_log_level level, const char *message)
{
    const size_t n = strlen(logged);
    (void)context;
    (void)level;
    snprintf(logged + n, sizeof logged - n, "%s\n", message);
}

/* How many files the cache has; `name` is one of them. */
static int count_files(void)
{
    DIR *open = opendir(folder);
    int n = 0;
    for (struct dirent *e = open ? readdir(open) : NULL; e; e = readdir(open)) {
        if (e->d_name[0] == '.')
            continue;
        snprintf(name, sizeof name, "%s/%s", folder, e->d_name);
        n++;
    }
    if (open)
        closedir(open);
    return n;
}

static weft_status load(const char *text, const char *chat_template, int64_t length,
                        const char *cache, weft_dataset **train, weft_dataset **validation)
{
    weft_chat *chat = NULL;
    CHECK_OK(weft_file_write(source, text, strlen(text)));
    CHECK_OK(weft_chat_parse(chat_template, strlen(chat_template), "t", tokenizer, &chat));
    const weft_dataset_options o = {.length = length,
                                    .max_bad_rows = 1,
                                    .chat = chat,
                                    .cache = cache,
                                    .tokenizer_path = check_source("examples/storyteller")};
    logged[0] = '\0';
    weft_set_log(keep_log, NULL);
    const weft_status status =
        weft_dataset_load(source, tokenizer, &o, validation ? 0.3 : 0, train, validation);
    weft_set_log(NULL, NULL);
    weft_chat_free(chat);
    return status;
}

static bool start(void)
{
    snprintf(folder, sizeof folder, "%s", check_temporary("cache"));
    snprintf(source, sizeof source, "%s", check_temporary("rows.jsonl"));
    return tokenizer != NULL ||
           CHECK_OK(weft_tokenizer_load(check_source("examples/storyteller"), &tokenizer));
}

static void expect_equal(const weft_dataset *a, const weft_dataset *b)
{
    const weft_dataset_info x = weft_dataset_info_of(a), y = weft_dataset_info_of(b);
    CHECK_EQ_INT(x.samples, y.samples);
    CHECK_EQ_INT(x.targets, y.targets);
    CHECK_EQ_INT(x.truncated, y.truncated);
    CHECK_EQ_INT(x.bad_rows, y.bad_rows);
    CHECK_BYTES(x.rows, y.rows, sizeof x.rows);
    for (int64_t i = 0; i < x.samples && i < y.samples; i++) {
        const weft_sample s = weft_dataset_at(a, i), t = weft_dataset_at(b, i);
        CHECK_EQ_INT(s.group, t.group);
        if (CHECK_EQ_INT(s.length, t.length)) {
            CHECK_BYTES(s.ids, t.ids, (size_t)s.length * sizeof *s.ids);
            CHECK_BYTES(s.weights, t.weights, (size_t)s.length * sizeof *s.weights);
        }
    }
}

static void expect_equal_batches(const weft_dataset *a, const weft_dataset *b)
{
    weft_batches *x, *y;
    weft_batch s, t;
    int32_t ids[2][256];
    CHECK_OK(weft_batches_new(a, 2, 5, &x));
    CHECK_OK(weft_batches_new(b, 2, 5, &y));
    for (int64_t i = 0; i < 2 * weft_batches_count(x); i++) {
        CHECK_OK(weft_batches_at(x, i, &s));
        CHECK_OK(weft_batches_at(y, i, &t));
        if (CHECK_EQ_INT(weft_size(s.tokens), weft_size(t.tokens))) {
            const int64_t n = weft_size(s.tokens);
            CHECK_OK(weft_read(s.tokens, WEFT_INT32, ids[0], n));
            CHECK_OK(weft_read(t.tokens, WEFT_INT32, ids[1], n));
            CHECK_BYTES(ids[0], ids[1], (size_t)n * sizeof ids[0][0]);
        }
        weft_batch_free(&s);
        weft_batch_free(&t);
    }
    weft_batches_free(x);
    weft_batches_free(y);
}

/* Loads n rows with WEFT_SPLIT_AUTO twice through the cache: the same both times. */
static void keep_auto_split(int n)
{
    char *text = weft_calloc((size_t)n + 1, 32);
    weft_dataset *train[2] = {NULL, NULL}, *validation[2] = {NULL, NULL};
    const weft_dataset_options o = {.cache = folder,
                                    .tokenizer_path = check_source("examples/storyteller")};
    for (int i = 0; i < n; i++)
        sprintf(text + strlen(text), "{\"text\": \"line %d\"}\n", i);
    CHECK_OK(weft_file_write(source, text, strlen(text)));
    for (int i = 0; i < 2; i++)
        CHECK_OK(
            weft_dataset_load(source, tokenizer, &o, WEFT_SPLIT_AUTO, &train[i], &validation[i]));
    CHECK(train[1] && weft_dataset_info_of(train[1]).cached);
    if (train[0] && train[1])
        expect_equal(train[0], train[1]);
    CHECK_EQ_INT(validation[0] != NULL, n >= 200);
    CHECK_EQ_INT(validation[1] != NULL, n >= 200);
    if (validation[0] && validation[1])
        expect_equal(validation[0], validation[1]);
    for (int i = 0; i < 2; i++) {
        weft_dataset_free(train[i]);
        weft_dataset_free(validation[i]);
    }
    weft_free(text);
}

static void default_splits_are_kept(void)
{
    if (!start())
        return;
    keep_auto_split(3);
    keep_auto_split(300);
}

static void cached_data_equals_the_data_that_was_read(void)
{
    weft_dataset *fresh, *rest, *made, *left, *kept, *chosen;
    if (!start() || !CHECK_OK(load(rows, template, 6, NULL, &fresh, &rest)))
        return;
    CHECK_OK(load(rows, template, 6, folder, &made, &left));
    CHECK_EQ_INT(count_files(), 1);
    CHECK(!weft_dataset_info_of(made).cached);
    CHECK_OK(load(rows, template, 6, folder, &kept, &chosen));
    CHECK(weft_dataset_info_of(kept).cached && weft_dataset_info_of(chosen).cached);
    expect_equal(kept, fresh);
    expect_equal(chosen, rest);
    expect_equal(made, fresh);
    expect_equal_batches(kept, fresh);
    CHECK_CONTAINS(logged, "skipped a bad row: ");
    CHECK_CONTAINS(logged, "are longer than 6 tokens");
    CHECK_STATUS(weft_dataset_add(kept, (const int32_t[]){1, 2}, 2, 0), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "no sample can be added to one from the cache");
    weft_dataset *const all[] = {fresh, rest, made, left, kept, chosen};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        weft_dataset_free(all[i]);
}

static void other_data_has_another_file(void)
{
    weft_dataset *d;
    char other[sizeof rows];
    if (!start())
        return;
    memcpy(other, rows, sizeof rows);
    *strstr(other, "fox") = 'b';
    int n = 0;
    const struct {
        const char *rows, *template;
        int64_t length;
    } changes[] = {{rows, template, 20}, {other, template, 20}, {rows, template, 21}};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        n = count_files();
        CHECK_OK(load(changes[i].rows, changes[i].template, changes[i].length, folder, &d, NULL));
        CHECK(!weft_dataset_info_of(d).cached);
        CHECK_EQ_INT(count_files(), n + 1);
        weft_dataset_free(d);
    }
    char text[sizeof template];
    memcpy(text, template, sizeof template);
    *strstr(text, "[old]") = '<';
    CHECK_OK(load(rows, text, 20, folder, &d, NULL));
    CHECK_EQ_INT(count_files(), n + 2);
    weft_dataset_free(d);
    /* The text of a template may depend on the date. */
    static const char dated[] = "{{ strftime_now('%Y') }}{% for m in messages %}{{ m.content }}"
                                "<|endoftext|>{% endfor %}";
    CHECK_OK(load(rows, dated, 20, folder, &d, NULL));
    CHECK_EQ_INT(count_files(), n + 2);
    weft_dataset_free(d);
}

/* Writes a file with one sample of this length and limit, with a valid checksum; returns whether it
 * can be opened. */
static bool is_opened(int64_t length, int64_t limit)
{
    static const int32_t ids[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    const weft__said said = {.n = 0};
    const char *path = check_temporary("lengths.tokens");
    weft_dataset *d, *back = NULL;
    if (!CHECK_OK(weft_dataset_new(12, &d)) || !CHECK_OK(weft_dataset_add(d, ids, 12, 0)))
        return false;
    d->limit = limit;
    d->samples[0].length = d->info.tokens = d->info.longest = length;
    d->info.targets = length - 1;
    CHECK_OK(weft__dataset_cache_write(path, d, NULL, &said));
    weft_dataset_free(d);
    const bool opened = weft__dataset_cache_open(path, &back, NULL);
    weft_dataset_free(back);
    return opened;
}

static void impossible_lengths_are_refused(void)
{
    CHECK(!is_opened(1, 8));
    CHECK(is_opened(2, 8));
    CHECK(is_opened(7, 8));
    CHECK(is_opened(8, 8));
    CHECK(!is_opened(9, 8));
    CHECK(is_opened(12, 12));
    CHECK(!is_opened(13, 13)); /* beyond the list of ids */
}

static void damaged_files_are_written_anew(void)
{
    weft_dataset *d, *fresh;
    char *data;
    size_t size;
    if (!start())
        return;
    while (count_files() > 0)
        CHECK_EQ_INT(unlink(name), 0);
    CHECK_OK(load(rows, template, 9, NULL, &fresh, NULL));
    CHECK_OK(load(rows, template, 9, folder, &d, NULL));
    weft_dataset_free(d);
    CHECK_EQ_INT(count_files(), 1);
    CHECK_OK(weft_file_read(name, 0, &data, &size));
    for (size_t cut = 0; cut < size; cut += 1 + size / 7) {
        CHECK_OK(weft_file_write(name, data, cut));
        CHECK_OK(load(rows, template, 9, folder, &d, NULL));
        CHECK(!weft_dataset_info_of(d).cached);
        CHECK_CONTAINS(logged, "is damaged and written anew");
        weft_dataset_free(d);
    }
    /* A change of any byte is detected. */
    for (size_t i = 0; i < size && i < 2000; i++) {
        data[i] = (char)~data[i];
        CHECK_OK(weft_file_write(name, data, size));
        data[i] = (char)~data[i];
        if (!CHECK_OK(load(rows, template, 9, folder, &d, NULL)))
            break;
        CHECK(!weft_dataset_info_of(d).cached);
        weft_dataset_free(d);
    }
    CHECK_OK(weft_file_write(name, data, size));
    CHECK_OK(load(rows, template, 9, folder, &d, NULL));
    CHECK(weft_dataset_info_of(d).cached);
    CHECK_EQ_INT(truncate(name, 10), 0); /* by another process, while it is used */
    expect_equal(d, fresh);
    weft_dataset_free(d);
    weft_dataset_free(fresh);
    weft_free(data);
}

static void a_cache_that_cannot_be_written_is_not_needed(void)
{
    weft_dataset *d;
    if (!start() || !CHECK_OK(load(rows, template, 30, source, &d, NULL)))
        return;
    CHECK_CONTAINS(logged, "the cache of tokens is not written: ");
    CHECK_EQ_INT(weft_dataset_info_of(d).samples, 6);
    weft_dataset_free(d);
    weft_tokenizer_free(tokenizer);
    tokenizer = NULL;
}

CHECK_MAIN("data_cache", CHECK_CASE(cached_data_equals_the_data_that_was_read),
           CHECK_CASE(default_splits_are_kept), CHECK_CASE(other_data_has_another_file),
           CHECK_CASE(impossible_lengths_are_refused), CHECK_CASE(damaged_files_are_written_anew),
           CHECK_CASE(a_cache_that_cannot_be_written_is_not_needed))
