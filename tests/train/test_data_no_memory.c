/* tests/train/test_data_no_memory.c -- each allocation of reading a folder of data, of its cache
 * and of its batches fails once: the failure is reported, and nothing leaks (leaks are checked in
 * the sanitizer build). */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/check.h"
#include "weft/memory.h"
#include "weft/task.h"
#include "weft/tool/data.h"
#include "weft/train.h"

static const char template[] = "{%- for m in messages -%}[{{ m.role }}]{{ m.content }}"
                               "{{ '[old]' if m.role == 'assistant' and not loop.last else '' }}"
                               "{{ '<|endoftext|>' if m.role == 'assistant' else '' }}\n"
                               "{% endfor -%}"
                               "{%- if add_generation_prompt -%}[assistant]{%- endif -%}";

#define TURNS                                                                                      \
    "[{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"b\"}, "   \
    "{\"role\": \"user\", \"content\": \"c\"}, {\"role\": \"assistant\", \"content\": \"d\"}]"

static const char *const files[][2] = {
    {"a.jsonl", "{\"text\": \"one two three four five six seven eight nine ten\"}\n"
                "{\"prompt\": \"Who?\", \"completion\": \" A fox.\"}\nbad\n"
                "{\"messages\": " TURNS "}\n"
                "{\"conversations\": [{\"from\": \"human\", \"value\": \"x\"}, {\"from\": \"gpt\", "
                "\"value\": \"y\"}]}\n{\"question\": \"x\", \"answer\": \"y\"}\n"
                "{\"instruction\": \"x\", \"input\": \"y\", \"output\": \"z\"}\n"},
    {"b.json", "[{\"text\": \"x\"}, {\"prompt\": [{\"role\": \"user\", \"content\": \"c\"}], "
               "\"completion\": [{\"role\": \"assistant\", \"content\": \"d\"}]}]"},
    {"c.csv", "text,n\n\"a, \"\"b\"\"\",1\nc,2\n"},
    {"d.txt", "Once upon a time there was a fox. It lived in a wood, and had no memory."},
};

typedef struct setting {
    const weft_tokenizer *tokenizer;
    const weft_chat *chat;
    const char *folder, *cache;
    weft_long_samples longer;
} setting;

static weft_status make_batches(const weft_dataset *d)
{
    weft_batches *b = NULL, *packed = NULL;
    weft_batch batch = {0};
    weft_status status = weft_batches_new(d, 2, 0, &b);
    if (status == WEFT_OK)
        status = weft_batches_at(b, 0, &batch);
    weft_batch_free(&batch);
    if (status == WEFT_OK)
        status = weft_batches_new_packed(d, 2, 0, 0, &packed);
    if (status == WEFT_OK)
        status = weft_batches_at(packed, 0, &batch);
    weft_batch_free(&batch);
    weft_batches_free(b);
    weft_batches_free(packed);
    return status;
}

static weft_status read_data(const setting *s)
{
    weft_dataset *train, *validation;
    const weft_data_source sources[] = {{.path = s->folder, .weight = 1},
                                        {.path = s->folder, .weight = 0.5}};
    const weft_dataset_options o = {.length = 12,
                                    .longer = s->longer,
                                    .max_bad_rows = 1,
                                    .chat = s->chat,
                                    .cache = s->cache,
                                    .tokenizer_path = check_source("examples/storyteller")};
    weft_status status =
        weft_dataset_load_mixture(sources, 2, s->tokenizer, &o, 0.3, &train, &validation);
    if (status == WEFT_OK)
        status = make_batches(train);
    if (status == WEFT_OK && weft_dataset_duplicates(validation, train) < 0)
        status = WEFT_MEMORY;
    weft_dataset_free(train);
    weft_dataset_free(validation);
    return status;
}

static void ignore(void *context, weft_log_level level, const char *message)
{
    (void)context;
    (void)level;
    (void)message;
}

/* The rows of weft eval's tasks, and the text of rows. */
static weft_status read_tasks(const setting *s)
{
    static const char *const names[] = {"exact.json", "choices.csv", "exact.parquet"};
    static const char *const kinds[] = {
        "{\"question\": \"Who?\", \"context\": \"A fox.\", \"system\": \"Be brief.\", \"history\": "
        "[[\"Hi\", \"Ho\"]], \"answer\": [\"The fox\", \"A fox\"], \"tools\": []}\n",
        "{\"conversations\": [{\"from\": \"human\", \"value\": \"Hi\"}, {\"from\": \"gpt\", "
        "\"value\": \"ho\"}]}\n",
        "{\"prompt\": \"[{\\\"role\\\": \\\"user\\\", \\\"content\\\": \\\"Hi\\\"}]\", "
        "\"completion\": \"ho\", \"chat_template_kwargs\": {\"a\": 1}}\n"};
    char path[600], *text = NULL;
    size_t n;
    weft_status status = WEFT_OK;
    for (int i = 0; i < 6 && status == WEFT_OK; i++) {
        weft_task_rows rows;
        const weft_task_options o = {.choices = i == 1};
        if (i < 3)
            snprintf(path, sizeof path, "tests/golden/generate/task_formats/%s", names[i]);
        else
            snprintf(path, sizeof path, "%s/rows%d.jsonl", s->folder, i - 3);
        const weft_data_source source = {.path = i < 3 ? check_source(path) : path};
        if (i >= 3 && access(path, F_OK) != 0)
            CHECK_OK(weft_file_write(path, kinds[i - 3], strlen(kinds[i - 3])));
        status = weft_task_rows_load(&source, 1, &o, &rows);
        weft_task_rows_free(&rows);
    }
    if (status == WEFT_OK) {
        const weft_data_source source = {
            .path = check_source("tests/golden/generate/task_formats/loss.csv")};
        status = weft_data_text(&source, 1, NULL, &text, &n);
        weft_free(text);
    }
    return status;
}

static void sweep(const setting *s, weft_status (*read)(const setting *s))
{
    weft_set_log(ignore, NULL);
    weft_scope_open();
    weft_memory_set_cache_limit(0);
    CHECK_OK(read(s));
    const int64_t active = weft_memory_active();
    uint64_t n = 0, made = 1;
    int failures = 0;
    weft_status status = WEFT_MEMORY;
    for (; n < 20000; n++) {
        weft_scope_open();
        weft_memory_fail_at(n + 1);
        status = read(s);
        made = weft_memory_fail_at(0);
        weft_scope_close(NULL);
        if (made <= n)
            break;
        failures += status != WEFT_OK;
    }
    weft_set_log(NULL, NULL);
    printf("  %llu allocations, %d failures\n", (unsigned long long)n, failures);
    CHECK_OK(status);
    CHECK(n > 50 && n < 20000 && failures > (int)n / 2);
    CHECK_EQ_INT(weft_memory_active(), active);
    weft_scope_close(NULL);
}

static void every_allocation_fails_once(void)
{
    weft_tokenizer *tokenizer = NULL;
    weft_chat *chat = NULL;
    char folder[512], path[1024];
    snprintf(folder, sizeof folder, "%s", check_temporary("data"));
    CHECK_OK(weft_folder_make(folder));
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i][0]);
        CHECK_OK(weft_file_write(path, files[i][1], strlen(files[i][1])));
    }
    if (!CHECK_OK(weft_tokenizer_load(check_source("examples/storyteller"), &tokenizer)) ||
        !CHECK_OK(weft_chat_parse(template, strlen(template), "t", tokenizer, &chat)))
        return;
    setting s = {tokenizer, chat, folder, NULL, WEFT_LONG_SPLIT};
    sweep(&s, read_data);
    /* From the cache, which the first reading writes. */
    s.cache = check_temporary("cache");
    sweep(&s, read_data);
    sweep(&s, read_tasks);
    weft_chat_free(chat);
    weft_tokenizer_free(tokenizer);
}

CHECK_MAIN("data_no_memory", CHECK_CASE(every_allocation_fails_once))
