/* tests/train/test_data_formats.c -- formats of files, kinds of rows, folders, patterns, mixtures
 * and duplicates. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/check.h"
#include "weft/train.h"

enum { END = 4093 }; /* <|endoftext|> of the storyteller */

/* Like ChatML, with the storyteller's end token as the end of a turn. */
static const char template[] = "{%- for m in messages -%}[{{ m.role }}]{{ m.content }}"
                               "{{ '<|endoftext|>' if m.role == 'assistant' else '' }}\n"
                               "{% endfor -%}"
                               "{%- if add_generation_prompt -%}[assistant]{%- endif -%}";

static weft_tokenizer *tokenizer;
static weft_chat *chat;
static char logged[2048];

static void keep_log(void *context, weft_log_level level, const char *message)
{
    const size_t n = strlen(logged);
    (void)context;
    (void)level;
    snprintf(logged + n, sizeof logged - n, "%s\n", message);
}

static bool ready(void)
{
    if (tokenizer == NULL &&
        CHECK_OK(weft_tokenizer_load(check_source("examples/storyteller"), &tokenizer)))
        CHECK_OK(weft_chat_parse(template, strlen(template), "t", tokenizer, &chat));
    logged[0] = '\0';
    return CHECK(chat != NULL);
}

static weft_status parse(const char *name, const char *data, weft_dataset_options o,
                         weft_dataset **out)
{
    return weft_dataset_parse(data, strlen(data), name, tokenizer, &o, 0, out, NULL);
}

static void write_file(const char *path, const char *text)
{
    CHECK_OK(weft_file_write(path, text, strlen(text)));
}

/* Checks the text of sample i, and its trained part. */
static void expect(const weft_dataset *d, int64_t i, const char *text, const char *trained)
{
    char *all = NULL, *part = NULL;
    const weft_sample s = weft_dataset_at(d, i);
    int64_t first = 1;
    while (first < s.length && s.weights[first] == 0)
        first++;
    if (first == 1) /* the first token is never a target */
        first = 0;
    CHECK_OK(weft_tokenizer_decode(tokenizer, s.ids, (size_t)s.length, 0, &all, NULL));
    CHECK_OK(weft_tokenizer_decode(tokenizer, s.ids + first, (size_t)(s.length - first), 0, &part,
                                   NULL));
    CHECK_STR(all, text);
    CHECK_STR(part, trained);
    weft_free(all);
    weft_free(part);
}

#define CHAT "[user]Who?\n[assistant]A fox.<|endoftext|>"
#define PAIR "Who? A fox.<|endoftext|>"

static void kinds_of_rows_are_found_row_by_row(void)
{
    static const char rows[] =
        "{\"text\": \"A fox.\"}\n"
        "{\"prompt\": \"Who?\", \"completion\": \" A fox.\"}\n"
        "{\"messages\": [{\"role\": \"user\", \"content\": \"Who?\"}, "
        "{\"role\": \"assistant\", \"content\": \"A fox.\"}]}\n"
        "{\"conversations\": [{\"from\": \"human\", \"value\": \"Who?\"}, "
        "{\"from\": \"gpt\", \"value\": \"A fox.\"}]}\n"
        "{\"instruction\": \"Answer\", \"input\": \"Who?\", \"output\": \"A fox.\", "
        "\"text\": \"all of it\"}\n"
        "{\"instruction\": \"Who?\", \"input\": \"\", \"output\": \"A fox.\", \"system\": "
        "\"Be.\"}\n"
        "{\"question\": \"Who?\", \"answer\": \"A fox.\"}\n"
        "{\"prompt\": [{\"role\": \"assistant\", \"content\": \"Hm\"}, {\"role\": \"user\", "
        "\"content\": \"Who?\"}], \"completion\": [{\"role\": \"assistant\", \"content\": "
        "\"A fox.\"}]}\n";
    weft_dataset *d;
    if (!ready() || !CHECK_OK(parse("a.jsonl", rows, (weft_dataset_options){.chat = chat}, &d)))
        return;
    expect(d, 0, "A fox.<|endoftext|>", "A fox.<|endoftext|>");
    expect(d, 1, PAIR, " A fox.<|endoftext|>");
    expect(d, 2, CHAT, "A fox.<|endoftext|>");
    expect(d, 3, CHAT, "A fox.<|endoftext|>");
    expect(d, 4, "[user]Answer\n\nWho?\n[assistant]A fox.<|endoftext|>", "A fox.<|endoftext|>");
    expect(d, 5, "[system]Be.\n" CHAT, "A fox.<|endoftext|>");
    expect(d, 6, CHAT, "A fox.<|endoftext|>");
    expect(d, 7, "[assistant]Hm<|endoftext|>\n" CHAT, "A fox.<|endoftext|>");
    const weft_dataset_info info = weft_dataset_info_of(d);
    static const int64_t rows_of[WEFT_ROW_KINDS] = {1, 1, 0, 2, 2, 1, 1};
    CHECK_BYTES(info.rows, rows_of, sizeof rows_of);
    CHECK_EQ_INT(info.files[WEFT_DATA_JSONL], 1);
    weft_dataset_free(d);
}

static void rows_of_exchanges_need_no_template(void)
{
    weft_dataset *d;
    if (!ready() ||
        !CHECK_OK(
            parse("a.jsonl",
                  "{\"question\": \"Who?\", \"answer\": \"A fox.\"}\n"
                  "{\"instruction\": \"Answer\", \"input\": \"Who?\", \"output\": \"A fox.\"}\n"
                  "{\"system\": \"Be brief.\", \"question\": \"Who?\", \"answer\": \"A fox.\"}",
                  (weft_dataset_options){0}, &d)))
        return;
    expect(d, 0, "Who?\n\nA fox.<|endoftext|>", "A fox.<|endoftext|>");
    expect(d, 1, "Answer\n\nWho?\n\nA fox.<|endoftext|>", "A fox.<|endoftext|>");
    expect(d, 2, "Be brief.\n\nWho?\n\nA fox.<|endoftext|>", "A fox.<|endoftext|>");
    weft_dataset_free(d);
}

static void the_same_rows_come_in_all_formats(void)
{
    static const struct {
        const char *name, *data;
        weft_data_format format;
    } files[] = {
        {"a.jsonl", "{\"prompt\": \"Who?\", \"completion\": \" A fox.\"}\n", WEFT_DATA_JSONL},
        {"a.json", " [\n{\"prompt\": \"Who?\",\n \"completion\": \" A fox.\"}]\n", WEFT_DATA_JSON},
        {"b.json", "{\"prompt\": \"Who?\", \"completion\": \" A fox.\"}\n", WEFT_DATA_JSONL},
        {"a", "{\"prompt\": \"Who?\", \"completion\": \" A fox.\"}\n", WEFT_DATA_JSONL},
        {"b", "[ {\"prompt\": \"Who?\", \"completion\": \" A fox.\"}]", WEFT_DATA_JSON},
        {"a.csv", "prompt,completion\nWho?, A fox.\n", WEFT_DATA_CSV},
        {"b.csv", "\xef\xbb\xbfprompt,completion,,n\r\nWho?,\" A fox.\",,5\r\n\r\n", WEFT_DATA_CSV},
        {"a.TSV", "completion\tprompt\n A fox.\tWho?", WEFT_DATA_TSV},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files && ready(); i++) {
        weft_dataset *d;
        if (!CHECK_OK(parse(files[i].name, files[i].data, (weft_dataset_options){0}, &d)))
            continue;
        const weft_dataset_info info = weft_dataset_info_of(d);
        CHECK_EQ_INT(info.samples, 1);
        CHECK_EQ_INT(info.files[files[i].format], 1);
        expect(d, 0, PAIR, " A fox.<|endoftext|>");
        weft_dataset_free(d);
    }
}

static void fields_of_tables_may_be_quoted(void)
{
    weft_dataset *d;
    static const char data[] = "text,\"more \"\"x\"\"\"\n\"a, b\nc \"\"d\"\"\",1\n5\" disk,2\n";
    if (!ready() || !CHECK_OK(parse("a.csv", data, (weft_dataset_options){0}, &d)))
        return;
    if (CHECK_EQ_INT(weft_dataset_info_of(d).samples, 2)) {
        expect(d, 0, "a, b\nc \"d\"<|endoftext|>", "a, b\nc \"d\"<|endoftext|>");
        expect(d, 1, "5\" disk<|endoftext|>", "5\" disk<|endoftext|>");
    }
    weft_dataset_free(d);
    static const char lists[] =
        "messages\n\"[{\"\"role\"\": \"\"user\"\", \"\"content\"\": \"\"Who?\"\"}, {\"\"role\"\": "
        "\"\"assistant\"\", \"\"content\"\": \"\"A fox.\"\"}]\"\n";
    if (!CHECK_OK(parse("a.csv", lists, (weft_dataset_options){.chat = chat}, &d)))
        return;
    expect(d, 0, CHAT, "A fox.<|endoftext|>");
    weft_dataset_free(d);
}

static void a_text_that_looks_like_json_stays_text(void)
{
    weft_dataset *d;
    if (ready() && CHECK_OK(parse("a", "{ this is a poem }", (weft_dataset_options){0}, &d))) {
        expect(d, 0, "{ this is a poem }", "{ this is a poem }");
        weft_dataset_free(d);
    }
    if (ready() && CHECK_OK(parse("a", "[1] A note.", (weft_dataset_options){0}, &d)))
        weft_dataset_free(d);
}

static void bad_rows_may_be_skipped(void)
{
    static const char rows[] = "{\"text\": \"one\"}\n{\"text\": \n{\"txt\": \"two\"}\n"
                               "{\"text\": \"three\"}\n";
    weft_dataset *d;
    if (!ready())
        return;
    weft_set_log(keep_log, NULL);
    CHECK_OK(parse("a.jsonl", rows, (weft_dataset_options){.max_bad_rows = 2}, &d));
    CHECK_CONTAINS(logged, "skipped a bad row: a.jsonl:2: ");
    CHECK_CONTAINS(logged, "skipped a bad row: a.jsonl:3: expected \"text\"");
    CHECK_CONTAINS(logged, "a.jsonl: 2 bad rows are skipped");
    CHECK_EQ_INT(weft_dataset_info_of(d).samples, 2);
    CHECK_EQ_INT(weft_dataset_info_of(d).bad_rows, 2);
    weft_dataset_free(d);
    CHECK_STATUS(parse("a.jsonl", rows, (weft_dataset_options){.max_bad_rows = 1}, &d),
                 WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "a.jsonl:3: expected \"text\"");
    CHECK_CONTAINS(weft_error_message(), "1 bad rows before this one were skipped");
    /* Reading continues with the line after a record with an unclosed quote. */
    CHECK_OK(parse("a.csv", "text\n\"one\ntwo\n", (weft_dataset_options){.max_bad_rows = 1}, &d));
    CHECK_CONTAINS(logged, "a.csv:2: field 1: its quote is not closed");
    expect(d, 0, "two<|endoftext|>", "two<|endoftext|>");
    weft_dataset_free(d);
    weft_set_log(NULL, NULL);
}

/* ---- folders and patterns ------------------------------------------------------------------- */

static char root[512];

static const char *in_root(const char *name)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s/%s", root, name);
    return path;
}

static void make_folder(void)
{
    snprintf(root, sizeof root, "%s", check_temporary("data"));
    CHECK_OK(weft_folder_make(in_root("deep")));
    write_file(in_root("b.jsonl"), "{\"text\": \"second\"}\n");
    write_file(in_root("a.csv"), "text\nfirst\n");
    write_file(in_root("deep/c.json"), "[{\"text\": \"third\"}]");
    write_file(in_root("README.md"), "not data");
    write_file(in_root(".hidden.jsonl"), "not data");
}

static void folders_and_patterns_are_read_in_order(void)
{
    weft_dataset *d;
    if (!ready())
        return;
    make_folder();
    if (CHECK_OK(weft_dataset_load(root, tokenizer, NULL, 0, &d, NULL))) {
        if (CHECK_EQ_INT(weft_dataset_info_of(d).samples, 3)) {
            expect(d, 0, "first<|endoftext|>", "first<|endoftext|>");
            expect(d, 1, "second<|endoftext|>", "second<|endoftext|>");
            expect(d, 2, "third<|endoftext|>", "third<|endoftext|>");
        }
        weft_dataset_free(d);
    }
    if (CHECK_OK(weft_dataset_load(in_root("*.[cj]*"), tokenizer, NULL, 0, &d, NULL))) {
        CHECK_EQ_INT(weft_dataset_info_of(d).samples, 2);
        weft_dataset_free(d);
    }
    if (CHECK_OK(weft_dataset_load(in_root("[ad]*"), tokenizer, NULL, 0, &d, NULL))) {
        CHECK_EQ_INT(weft_dataset_info_of(d).samples, 2); /* a.csv, and the files of the folder */
        weft_dataset_free(d);
    }
    CHECK_STATUS(weft_dataset_load(in_root("*.none"), tokenizer, NULL, 0, &d, NULL), WEFT_IO);
    CHECK_CONTAINS(weft_error_message(), "no file matches the pattern");
    write_file(in_root("deep/d.arrow"), "ARROW1");
    CHECK_STATUS(weft_dataset_load(root, tokenizer, NULL, 0, &d, NULL), WEFT_UNSUPPORTED);
    CHECK_CONTAINS(weft_error_message(), "d.arrow");
    CHECK_OK(weft_folder_make(in_root("none")));
    CHECK_STATUS(weft_dataset_load(in_root("none"), tokenizer, NULL, 0, &d, NULL), WEFT_IO);
    CHECK_CONTAINS(weft_error_message(),
                   "the folder has no file of a known format: Parquet, JSON lines");
}

/* Links to files and folders are followed, except for a link to a folder that contains it. */
static void links_are_followed_once(void)
{
    weft_dataset *d;
    char path[1024];
    if (!ready())
        return;
    snprintf(root, sizeof root, "%s/in", check_temporary("linked"));
    CHECK_OK(weft_folder_make(in_root("deep/deeper")));
    write_file(in_root("deep/a.jsonl"), "{\"text\": \"first\"}\n");
    CHECK_EQ_INT(symlink("..", in_root("deep/up")), 0);
    CHECK_EQ_INT(symlink("../..", in_root("deep/deeper/up")), 0);
    CHECK_EQ_INT(symlink(".", in_root("self")), 0);
    CHECK_OK(weft_folder_make(strcat(strcpy(path, check_temporary("linked")), "/out")));
    write_file(strcat(path, "/b.csv"), "text\nsecond\n");
    CHECK_EQ_INT(symlink("../out", in_root("other")), 0);
    CHECK_EQ_INT(symlink("../out/b.csv", in_root("c.csv")), 0);
    if (CHECK_OK(weft_dataset_load(root, tokenizer, NULL, 0, &d, NULL))) {
        if (CHECK_EQ_INT(weft_dataset_info_of(d).samples, 3)) {
            expect(d, 0, "second<|endoftext|>", "second<|endoftext|>"); /* c.csv */
            expect(d, 1, "first<|endoftext|>", "first<|endoftext|>");   /* deep/a.jsonl */
            expect(d, 2, "second<|endoftext|>", "second<|endoftext|>"); /* other/b.csv */
        }
        weft_dataset_free(d);
    }
    CHECK_EQ_INT(symlink("nowhere", in_root("gone.jsonl")), 0);
    CHECK_STATUS(weft_dataset_load(root, tokenizer, NULL, 0, &d, NULL), WEFT_IO);
    CHECK_CONTAINS(weft_error_message(), "gone.jsonl");
}

static void standard_input_needs_a_format(void)
{
    weft_dataset *d;
    if (!ready())
        return;
    CHECK_STATUS(weft_dataset_load("-", tokenizer, NULL, 0, &d, NULL), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "standard input: expected the format");
    const char *path = check_temporary("stdin.jsonl");
    write_file(path, "{\"text\": \"piped\"}\n");
    const int before = dup(STDIN_FILENO);
    if (!CHECK(freopen(path, "r", stdin) != NULL))
        return;
    if (CHECK_OK(weft_dataset_load(
            "-", tokenizer, &(weft_dataset_options){.format = WEFT_DATA_JSONL}, 0, &d, NULL))) {
        expect(d, 0, "piped<|endoftext|>", "piped<|endoftext|>");
        weft_dataset_free(d);
    }
    dup2(before, STDIN_FILENO);
    close(before);
}

/* ---- mixtures ------------------------------------------------------------------------------- */

/* Counts how often each of n samples is in an epoch; the last but one id of a sample is its
 * number. */
static void count_epoch(weft_batches *b, int64_t epoch, int *counts, const int32_t *firsts, int n)
{
    memset(counts, 0, (size_t)n * sizeof *counts);
    for (int64_t i = 0; i < weft_batches_count(b); i++) {
        weft_batch batch;
        int32_t ids[64];
        if (!CHECK_OK(weft_batches_at(b, epoch * weft_batches_count(b) + i, &batch)))
            return;
        const int64_t rows = weft_dim(batch.tokens, 0), L = weft_dim(batch.tokens, 1);
        CHECK_OK(weft_read(batch.tokens, WEFT_INT32, ids, rows * L));
        for (int64_t row = 0; row < rows; row++) {
            for (int k = 0; k < n; k++)
                counts[k] += ids[row * L] == firsts[k];
        }
        weft_batch_free(&batch);
    }
}

enum { A = 10, N = 14 };

/* A mixture of A rows and N - A rows with these weights, and the first token of each row. */
static weft_dataset *mixture_of(double a, double b, int32_t firsts[N])
{
    char text[2000] = "";
    for (int i = 0; i < A; i++)
        sprintf(text + strlen(text), "{\"text\": \"%c x\"}\n", 'a' + i);
    const char *first = check_temporary("first.jsonl");
    write_file(first, text);
    const char *second = check_temporary("second.jsonl");
    write_file(second, "{\"text\": \"A y\"}\n{\"text\": \"B y\"}\n{\"text\": \"C y\"}\n"
                       "{\"text\": \"D y\"}\n");
    const weft_data_source sources[] = {{.path = first, .weight = a},
                                        {.path = second, .weight = b}};
    weft_dataset *d;
    if (!CHECK_OK(weft_dataset_load_mixture(sources, 2, tokenizer, NULL, 0, &d, NULL)))
        return NULL;
    for (int i = 0; i < N; i++)
        firsts[i] = weft_dataset_at(d, i).ids[0];
    return d;
}

static void mixtures_repeat_and_sample_their_sources(void)
{
    int32_t firsts[N];
    int counts[2][N], total = 0;
    weft_dataset *d = ready() ? mixture_of(0.5, 2, firsts) : NULL;
    weft_batches *b;
    if (d == NULL)
        return;
    if (CHECK_OK(weft_batches_new(d, 4, 3, &b))) {
        CHECK_EQ_INT(weft_batches_count(b), (5 + 8 + 3) / 4);
        for (int epoch = 0; epoch < 2; epoch++) {
            count_epoch(b, epoch, counts[epoch], firsts, N);
            total = 0;
            for (int i = 0; i < A; i++)
                total += counts[epoch][i];
            CHECK_EQ_INT(total, 5);
            for (int i = A; i < N; i++)
                CHECK_EQ_INT(counts[epoch][i], 2);
        }
        CHECK(memcmp(counts[0], counts[1], sizeof counts[0]) != 0);
        count_epoch(b, 0, counts[1], firsts, N);
        CHECK_BYTES(counts[0], counts[1], sizeof counts[0]);
    }
    weft_batches_free(b);
    weft_dataset_free(d);
    const weft_data_source bad = {.path = check_temporary("first.jsonl"), .weight = -1};
    CHECK_STATUS(weft_dataset_load_mixture(&bad, 1, tokenizer, NULL, 0, &d, NULL), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "weight: expected a positive number, got -1");
}

/* 1.25 times 10 rows: each once, and 3 of them (2.5, rounded) once more; half of 4 rows: 2. */
static void fractions_of_rows_are_drawn_without_repeats(void)
{
    int32_t firsts[N];
    int counts[N], drawn[N] = {0};
    weft_dataset *d = ready() ? mixture_of(1.25, 0.5, firsts) : NULL;
    weft_batches *b;
    if (d == NULL)
        return;
    if (CHECK_OK(weft_batches_new(d, 3, 1, &b))) {
        CHECK_EQ_INT(weft_batches_count(b), (13 + 2) / 3);
        for (int epoch = 0; epoch < 60; epoch++) {
            int totals[2] = {0, 0};
            count_epoch(b, epoch, counts, firsts, N);
            for (int i = 0; i < N; i++) {
                const int least = i < A ? 1 : 0;
                CHECK(counts[i] == least || counts[i] == least + 1);
                drawn[i] += counts[i] - least;
                totals[i >= A] += counts[i];
            }
            CHECK_EQ_INT(totals[0], 13);
            CHECK_EQ_INT(totals[1], 2);
        }
        for (int i = 0; i < N; i++) /* the expected number is 18, or 30 of the second source */
            CHECK(drawn[i] >= 5 && drawn[i] <= 45);
    }
    weft_batches_free(b);
    weft_dataset_free(d);
}

static void duplicates_are_counted(void)
{
    static const char rows[] = "{\"text\": \"one\"}\n{\"text\": \"two\"}\n{\"text\": \"one\"}\n"
                               "{\"text\": \"one\"}\n";
    weft_dataset *d, *others, *validation;
    if (!ready() || !CHECK_OK(parse("a.jsonl", rows, (weft_dataset_options){0}, &d)))
        return;
    CHECK_EQ_INT(weft_dataset_duplicates(d, NULL), 2);
    CHECK_OK(parse("b.jsonl", "{\"text\": \"two\"}\n{\"text\": \"six\"}", (weft_dataset_options){0},
                   &others));
    CHECK_EQ_INT(weft_dataset_duplicates(d, others), 1);
    CHECK_EQ_INT(weft_dataset_duplicates(others, d), 1);
    weft_dataset_free(d);
    weft_dataset_free(others);
    weft_set_log(keep_log, NULL);
    static const char same[] = "{\"text\": \"one\"}\n{\"text\": \"one\"}\n";
    CHECK_OK(
        weft_dataset_parse(same, strlen(same), "c.jsonl", tokenizer, NULL, 0.5, &d, &validation));
    weft_set_log(NULL, NULL);
    CHECK_CONTAINS(logged, "1 of 1 validation samples are also trained");
    weft_dataset_free(d);
    weft_dataset_free(validation);
}

/* Comparing each name of a header with all other names would take minutes. */
static void headers_may_have_many_columns(void)
{
    enum { COLUMNS = 300000 };
    static char table[24 * COLUMNS];
    size_t n = 0;
    weft_dataset *d;
    for (int i = 0; i < COLUMNS; i++)
        n += (size_t)snprintf(table + n, sizeof table - n, "%scolumn%d", i > 0 ? "," : "text,", i);
    n += (size_t)snprintf(table + n, sizeof table - n, "\none");
    for (int i = 0; i < COLUMNS; i++)
        table[n++] = ',';
    table[n] = '\0';
    const clock_t begin = clock();
    if (CHECK_OK(parse("a.csv", table, (weft_dataset_options){0}, &d)))
        CHECK_EQ_INT(weft_dataset_info_of(d).samples, 1);
    CHECK((double)(clock() - begin) / CLOCKS_PER_SEC < 20);
    weft_dataset_free(d);
}

static void everything_is_freed(void)
{
    CHECK(tokenizer != NULL);
    weft_chat_free(chat);
    weft_tokenizer_free(tokenizer);
    chat = NULL;
    tokenizer = NULL;
}

CHECK_MAIN("data_formats", CHECK_CASE(kinds_of_rows_are_found_row_by_row),
           CHECK_CASE(rows_of_exchanges_need_no_template),
           CHECK_CASE(the_same_rows_come_in_all_formats),
           CHECK_CASE(fields_of_tables_may_be_quoted),
           CHECK_CASE(a_text_that_looks_like_json_stays_text), CHECK_CASE(bad_rows_may_be_skipped),
           CHECK_CASE(folders_and_patterns_are_read_in_order), CHECK_CASE(links_are_followed_once),
           CHECK_CASE(standard_input_needs_a_format),
           CHECK_CASE(mixtures_repeat_and_sample_their_sources),
           CHECK_CASE(fractions_of_rows_are_drawn_without_repeats),
           CHECK_CASE(duplicates_are_counted), CHECK_CASE(headers_may_have_many_columns),
           CHECK_CASE(everything_is_freed))
