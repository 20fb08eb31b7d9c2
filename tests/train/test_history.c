/* tests/train/test_history.c -- the records of runs: malformed and truncated files, several runs
 * side by side, CSV, and TensorBoard's event files byte for byte. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <utime.h>

#include "tests/check.h"
#include "weft/io.h"
#include "weft/tool/run.h"

static const char *const record =
    "{\"state\": \"finished\", \"model\": {\"name\": \"m/llama\"}, \"data\": {\"name\": "
    "\"a.jsonl\"}, "
    "\"options\": {\"steps\": 3, \"lr\": 0.1}, \"result\": {\"steps\": 3}}\n";

static const char *const metrics =
    "{\"step\": 0, \"validation_loss\": 4.0, \"general_loss\": 3.0, \"samples\": [{\"prompt\": "
    "\"p\", "
    "\"text\": \"before\"}]}\n"
    "{\"step\": 1, \"loss\": 4.0, \"lr\": 0.1, \"applied\": true, \"seconds\": 1.5}\n"
    "{\"step\": 2, \"loss\": null, \"lr\": 0.05}\n"
    "{\"step\": 3, \"loss\": 2.0, \"lr\": 0, \"validation_loss\": 2.0, \"general_loss\": 3.5, "
    "\"samples\": [{\"prompt\": \"p\", \"text\": \"after\"}]}\n";

/* A folder with a run's two files; lives until the call after the next. */
static const char *run_folder(const char *name, const char *run, const char *lines, size_t n)
{
    static char folders[2][512];
    static int next;
    char *folder = folders[next++ % 2], path[600];
    snprintf(folder, sizeof folders[0], "%s", check_temporary(name));
    CHECK_OK(weft_folder_make(folder));
    snprintf(path, sizeof path, "%s/run.json", folder);
    CHECK_OK(weft_file_write(path, run, strlen(run)));
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    CHECK_OK(weft_file_write(path, lines, n));
    return folder;
}

static char *text_of(const char *folder, const char *name)
{
    char path[600], *text = NULL;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return CHECK_OK(weft_file_read(path, 0, &text, NULL)) ? text : weft_strdup("");
}

static void curves_have_the_numbers_of_the_lines(void)
{
    weft_history *h;
    const char *folder = run_folder("numbers", record, metrics, strlen(metrics));
    if (!CHECK_OK(weft_history_load(folder, &h)))
        return;
    const weft_curve *loss = weft_history_find(h, "loss"),
                     *applied = weft_history_find(h, "applied");
    if (CHECK(loss && applied && loss->n == 2)) {
        CHECK(loss->x[0] == 1 && loss->y[0] == 4 && loss->x[1] == 3 && loss->y[1] == 2);
        CHECK(applied->n == 1 && applied->y[0] == 1);
    }
    CHECK(weft_history_find(h, "step") == NULL && weft_history_find(h, "samples") == NULL);
    CHECK(weft_history_curve(h, -1) == NULL && weft_history_curve(h, 6) == NULL);
    CHECK_STR(weft_history_curve(h, 0)->name, "validation_loss");
    CHECK_STR(weft_history_json(h), record);
    double y[2];
    weft_curve_smooth(loss, y);
    CHECK(y[0] == 4);
    CHECK_CLOSE(y[1], (0.8 * 4 + 2) / 1.8, 1e-12);
    weft_history_free(h);
}

/* A page must not contain a second script, an address or unescaped markup. */
static void check_page(const char *page)
{
    const char *script = strstr(page, "<script");
    CHECK(script && strstr(script + 1, "<script") == NULL);
    const char *address = strstr(page, "http");
    if (CHECK(address != NULL)) {
        CHECK(strncmp(address, "http://www.w3.org/2000/svg'", 27) == 0);
        CHECK(strstr(address + 1, "http") == NULL);
    }
    CHECK(strstr(page, "src=") == NULL && strstr(page, "href=") == NULL);
    CHECK(strstr(page, "url(") == NULL && strstr(page, "@import") == NULL);
    CHECK(strstr(page, "</html>\n") != NULL);
}

/* At every length metrics.jsonl is read, or refused if no line is complete and well formed. */
static void truncated_metrics_break_nothing(void)
{
    for (size_t n = 0; n <= strlen(metrics); n += 7) {
        const char *folder = run_folder("torn", record, metrics, n);
        CHECK_OK(weft_run_report(folder));
        char *page = text_of(folder, "report.html");
        check_page(page);
        weft_free(page);
    }
}

static void drop(void *context, weft_log_level level, const char *message)
{
    (void)context, (void)level, (void)message;
}

/* Every fifth byte replaced in turn by one that JSON cannot have there, or that changes it. */
static void malformed_lines_break_nothing(void)
{
    static const char bad[] = {'\0', '{', '"', '\n', '\xff', '9'};
    char lines[1024];
    const size_t n = strlen(metrics);
    weft_set_log(drop, NULL);
    for (size_t i = 0; i < n; i += 5) {
        memcpy(lines, metrics, n);
        lines[i] = bad[i / 5 % sizeof bad];
        const char *folder = run_folder("malformed", record, lines, n);
        CHECK_OK(weft_run_report(folder));
        char *page = text_of(folder, "report.html");
        check_page(page);
        weft_free(page);
    }
    weft_set_log(NULL, NULL);
}

static void records_of_other_forms_are_refused_or_shown(void)
{
    static const struct {
        const char *run;
        weft_status status;
    } runs[] = {{"[]", WEFT_INVALID},
                {"{", WEFT_INVALID},
                {"{}", WEFT_OK},
                {"{\"model\": 5, \"data\": [1], \"options\": \"x\", \"command\": {\"a\": 1}, "
                 "\"identity\": null, \"result\": {\"steps\": \"many\", \"loss\": null}}",
                 WEFT_OK},
                {"{\"command\": [1, \"--\", \"--lr\"], \"model\": {\"name\": \"///\"}, \"data\": "
                 "{\"name\": \"\\u0000\"}}",
                 WEFT_OK}};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        CHECK_STATUS(weft_run_report(run_folder("forms", runs[i].run, metrics, strlen(metrics))),
                     runs[i].status);
    CHECK_STATUS(weft_run_report(run_folder("forms", record, "{\"step\": \"x\"}\n", 14)),
                 WEFT_INVALID);
}

/* Names and texts from files are escaped, also in attributes. */
static void names_are_escaped(void)
{
    static const char *const hostile =
        "{\"step\": 1, \"reward\": 1, \"rewards/<script>'\\\"\": 1, \"rewards/b\": 2}\n"
        "{\"step\": 2, \"reward\": 1, \"rewards/<script>'\\\"\": 2, \"rewards/b\": 3, \"samples\": "
        "[{\"prompt\": \"</pre><script>\", \"text\": \"\\u202e<b>\"}]}\n";
    const char *folder =
        run_folder("hostile", "{\"state\": \"<script>\", \"model\": {\"name\": \"<script>\"}}",
                   hostile, strlen(hostile));
    CHECK_OK(weft_run_report(folder));
    char *page = text_of(folder, "report.html");
    check_page(page);
    CHECK_CONTAINS(page, "data-name=\"&#60;script&#62;&#39;&#34;\"");
    CHECK_CONTAINS(page, "\\u202e&#60;b&#62;");
    weft_free(page);
}

/* The first and the last sample of a prompt are side by side. */
static void samples_are_aligned(void)
{
    const char *folder = run_folder("samples", record, metrics, strlen(metrics));
    CHECK_OK(weft_run_report(folder));
    char *page = text_of(folder, "report.html");
    CHECK_CONTAINS(page, "<h3>p</h3>\n<div class=\"pair\"><div><p>Before training</p><pre>before"
                         "</pre></div>\n<div><p>After update 3</p><pre>after</pre></div>\n</div>");
    CHECK_CONTAINS(page, "3.0000 &rarr; 3.5000<small>+16.7%: the model forgets</small>");
    weft_free(page);
}

static void runs_are_laid_side_by_side(void)
{
    static const char *const other =
        "{\"state\": \"stopped\", \"options\": {\"steps\": 3, \"lr\": 0.2, \"clip\": 1}}";
    static const char *const own[] = {"metrics.jsonl", "run.json"};
    weft_history *runs[WEFT_MOST_HISTORIES + 1] = {NULL};
    const char *a = run_folder("side/a", record, metrics, strlen(metrics)),
               *b = run_folder("side/b", other, metrics, strlen(metrics));
    if (!CHECK_OK(weft_history_load(a, &runs[0])) || !CHECK_OK(weft_history_load(b, &runs[1])))
        return;
    weft_history_table t;
    CHECK_OK(weft_histories_compare(runs, 2, &t));
    CHECK_STR(t.labels[0], "a");
    CHECK_STR(t.labels[1], "b");
    int options = 0;
    for (int i = 0; i < t.n_rows; i++) {
        const weft_history_row *row = &t.rows[i];
        options += row->option;
        if (strcmp(row->name, "state") == 0)
            CHECK(strcmp(row->values[0], "finished") == 0 &&
                  strcmp(row->values[1], "stopped") == 0);
        if (strcmp(row->name, "lr") == 0)
            CHECK(strcmp(row->values[0], "0.1") == 0 && strcmp(row->values[1], "0.2") == 0);
        if (strcmp(row->name, "clip") == 0)
            CHECK(row->values[0] == NULL && strcmp(row->values[1], "1") == 0);
        CHECK(strcmp(row->name, "steps") != 0); /* they are equal */
    }
    CHECK_EQ_INT(options, 2);
    weft_history_table_free(&t);
    CHECK_OK(weft_histories_page(runs, 2, check_temporary("side/both.html")));
    char *page = text_of(check_temporary("side"), "both.html");
    check_page(page);
    CHECK_CONTAINS(page, "<h1>2 runs side by side</h1>");
    CHECK_CONTAINS(page, "Loss: validation");
    CHECK_CONTAINS(page, "<td>0.1</td><td>0.2</td>");
    weft_free(page);
    /* Other files are not replaced. */
    CHECK_OK(weft_file_write(check_temporary("side/mine"), "mine", 4));
    CHECK_STATUS(weft_histories_page(runs, 2, check_temporary("side/mine")), WEFT_INVALID);
    CHECK_STATUS(weft_histories_csv(runs, 2, check_temporary("side/mine")), WEFT_INVALID);
    for (int i = 0; i < 2; i++) {
        char *path = weft_format("%s/%s", a, own[i]);
        CHECK_STATUS(weft_histories_csv(runs, 1, path), WEFT_INVALID);
        CHECK_STATUS(weft_histories_csv(runs, 2, path), WEFT_INVALID);
        weft_free(path);
    }
    CHECK_STATUS(weft_histories_csv(runs, 2, check_temporary("no/such/folder")), WEFT_IO);
    CHECK_STATUS(weft_histories_page(runs, 0, "x"), WEFT_INVALID);
    CHECK_STATUS(weft_histories_page(runs, WEFT_MOST_HISTORIES + 1, "x"), WEFT_INVALID);
    weft_history_free(runs[0]);
    weft_history_free(runs[1]);
}

/* Runs of two models, of different sizes and with other options on their command lines. */
static void runs_of_two_models_are_laid_side_by_side(void)
{
    static const char *const records[] = {
        "{\"model\": {\"name\": \"models/small\", \"trainable\": 1200}, \"data\": {\"name\": "
        "\"a.jsonl\"}, \"command\": [\"--lr\", \"0.1\", \"--full\", \"--reward\", \"x\", "
        "\"--reward\", \"y\", \"--threads\", \"2\", \"--\", \"models/small\"]}",
        "{\"model\": {\"name\": \"models/large\", \"trainable\": 5000000}, \"data\": {\"name\": "
        "\"a.jsonl\"}, \"command\": [\"--lr\", \"0.1\", \"--keep\", \"3\", \"--reward\", \"x\", "
        "\"--\", \"models/large\"]}"};
    static const char *const expected[][3] = {
        {"model and data", "small on a.jsonl", "large on a.jsonl"},
        {"trained parameters", "1,200", "5,000,000"},
        {"full", "yes", NULL},
        {"reward", "x, y", "x"},
        {"model", "models/small", "models/large"},
        {"keep", NULL, "3"}};
    weft_history *runs[2] = {NULL};
    for (int i = 0; i < 2; i++)
        if (!CHECK_OK(weft_history_load(
                run_folder(i ? "models/b" : "models/a", records[i], metrics, strlen(metrics)),
                &runs[i])))
            return;
    weft_history_table t;
    CHECK_OK(weft_histories_compare(runs, 2, &t));
    int options = 0, found = 0;
    for (int i = 0; i < t.n_rows; i++) {
        options += t.rows[i].option;
        for (size_t k = 0; k < sizeof expected / sizeof *expected; k++) {
            if (strcmp(t.rows[i].name, expected[k][0]) != 0)
                continue;
            found++;
            for (int r = 0; r < 2; r++) {
                const char *value = t.rows[i].values[r], *want = expected[k][r + 1];
                CHECK_EQ_INT(value != NULL, want != NULL);
                if (value && want)
                    CHECK_STR(value, want);
            }
        }
    }
    CHECK_EQ_INT(found, sizeof expected / sizeof *expected);
    CHECK_EQ_INT(options, 4); /* the differing ones, except for paths */
    weft_history_table_free(&t);
    CHECK_OK(weft_histories_page(runs, 2, check_temporary("models/both.html")));
    char *page = text_of(check_temporary("models"), "both.html");
    check_page(page);
    CHECK_CONTAINS(page, "<td>models/small</td><td>models/large</td>");
    CHECK_CONTAINS(page, "<tr><th>keep</th><td>not given</td><td>3</td></tr>");
    weft_free(page);
    weft_history_free(runs[0]);
    weft_history_free(runs[1]);
}

/* Runs whose folders have the same last component are labeled with the whole path. */
static void folders_of_equal_names_get_different_labels(void)
{
    weft_history *runs[2] = {NULL};
    char a[512];
    snprintf(a, sizeof a, "%s/", run_folder("one/run", record, metrics, strlen(metrics)));
    const char *b = run_folder("two/run", record, metrics, strlen(metrics));
    weft_history_table t = {.n_rows = 0};
    if (CHECK_OK(weft_history_load(a, &runs[0])) && CHECK_OK(weft_history_load(b, &runs[1])) &&
        CHECK_OK(weft_histories_compare(runs, 2, &t))) {
        CHECK_STR(t.labels[1], b);
        CHECK(strcmp(t.labels[0], t.labels[1]) != 0);
    }
    weft_history_table_free(&t);
    weft_history_free(runs[0]);
    weft_history_free(runs[1]);
}

static void csv_has_a_line_for_each_update(void)
{
    static const char *const lines = "{\"step\": 1, \"a,b\": 0.1, \"q\\\"q\": 2}\n"
                                     "{\"step\": 2, \"c\\nd\": 1e-9}\n"
                                     "{\"step\": 2, \"a,b\": 3}\n";
    weft_history *h;
    if (!CHECK_OK(weft_history_load(run_folder("csv", record, lines, strlen(lines)), &h)))
        return;
    CHECK_OK(weft_histories_csv(&h, 1, check_temporary("one.csv")));
    CHECK_OK(weft_histories_csv(&h, 1, check_temporary("one.csv"))); /* its own is replaced */
    char *text = NULL;
    if (CHECK_OK(weft_file_read(check_temporary("one.csv"), 0, &text, NULL)))
        CHECK_STR(text, "step,\"a,b\",\"q\"\"q\",\"c\nd\"\n1,0.1,2,\n2,3,,1e-09\n");
    weft_free(text);
    weft_history_free(h);
}

/* As TensorBoard's writer writes the same metrics: tests/golden/train/events.py. */
static void event_files_are_those_of_tensorboard(void)
{
    enum { BEGAN = 1700000000, LAST = 100 };
    char *lines = NULL, *expected = NULL, *found = NULL, path[600], out[512];
    size_t n = 0, n_expected = 0, n_found = 0;
    weft_history *h = NULL;
    CHECK_OK(weft_file_read(check_fixture("train/events.jsonl"), 0, &lines, &n));
    CHECK_OK(weft_file_read(check_fixture("train/events.tfevents"), 0, &expected, &n_expected));
    snprintf(out, sizeof out, "%s", check_temporary("boards"));
    const char *folder = run_folder("board", record, lines ? lines : "", n);
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    CHECK(utime(path, &(struct utimbuf){BEGAN + LAST, BEGAN + LAST}) == 0);
    if (CHECK_OK(weft_history_load(folder, &h)) && CHECK_OK(weft_histories_events(&h, 1, out))) {
        snprintf(path, sizeof path, "%s/events.out.tfevents.0.weft", out);
        CHECK_OK(weft_file_read(path, 0, &found, &n_found));
        if (CHECK_EQ_INT(n_found, n_expected))
            CHECK_BYTES(found, expected, n_found);
    }
    weft_history *const two[] = {h, h};
    if (h && CHECK_OK(weft_histories_events(two, 2, out))) {
        CHECK_STATUS(weft_histories_events(two, 2, path), WEFT_IO); /* a file, not a folder */
    }
    weft_history_free(h);
    weft_free(lines);
    weft_free(expected);
    weft_free(found);
}

CHECK_MAIN("history", CHECK_CASE(curves_have_the_numbers_of_the_lines),
           CHECK_CASE(truncated_metrics_break_nothing), CHECK_CASE(malformed_lines_break_nothing),
           CHECK_CASE(records_of_other_forms_are_refused_or_shown), CHECK_CASE(names_are_escaped),
           CHECK_CASE(samples_are_aligned), CHECK_CASE(runs_are_laid_side_by_side),
           CHECK_CASE(runs_of_two_models_are_laid_side_by_side),
           CHECK_CASE(folders_of_equal_names_get_different_labels),
           CHECK_CASE(csv_has_a_line_for_each_update),
           CHECK_CASE(event_files_are_those_of_tensorboard))
