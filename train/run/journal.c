/* train/run/journal.c -- keeps the sampled completions of a run, as a file that also trains
 * another run (weft_dataset_load_completions). */
#include "train/run/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "core/failure.h"
#include "core/io/fileio.h"
#include "core/io/json.h"
#include "core/io/text.h"
#include "core/list.h"
#include "train/rollout.h"
#include "train/run/number.h"
#include "weft/memory.h"

/* The lines of a batch, which follow each other in the file. */
typedef struct entry {
    int64_t batch;
    off_t start, end;
} entry;

struct weft__journal {
    char *path;
    int file;
    off_t length; /* of the complete lines */
    entry *entries;
    int n;
};

static weft_status fail_file(const weft__journal *j, const char *what)
{
    return weft_fail(WEFT_IO, "%s: %s: %s", j->path, what, strerror(errno));
}

/* ---- opening -------------------------------------------------------------------------------- */

static weft_status add_entry(weft__journal *j, int64_t batch, off_t start, off_t end)
{
    if (j->n > 0 && j->entries[j->n - 1].batch == batch && j->entries[j->n - 1].end == start) {
        j->entries[j->n - 1].end = end;
        return WEFT_OK;
    }
    if (!weft__list_more(j->entries, j->n))
        return weft__out_of_memory("training", "completions");
    j->entries[j->n++] = (entry){batch, start, end};
    return WEFT_OK;
}

/* Finds the batches of the lines, up to the first line that is not complete. */
static weft_status find_entries(weft__journal *j, const char *text, size_t size)
{
    const char *at = text, *end = text + size, *newline;
    weft_status status = WEFT_OK;
    for (; status == WEFT_OK && (newline = memchr(at, '\n', (size_t)(end - at))) != NULL;
         at = newline + 1) {
        weft__json_doc doc = {.root = NULL};
        int64_t batch = -1;
        status = weft__json_parse(at, (size_t)(newline - at), j->path, &doc);
        const weft__json root = weft__json_root(&doc);
        if (status == WEFT_OK)
            status = weft__json_get_int(&root, "batch", &batch);
        weft__json_free(&doc);
        if (status == WEFT_INVALID) /* after a power failure */
            return WEFT_OK;
        if (status == WEFT_OK)
            status = add_entry(j, batch, at - text, newline + 1 - text);
        if (status == WEFT_OK)
            j->length = newline + 1 - text;
    }
    return status;
}

weft_status weft__journal_open(const char *folder, bool resume, weft__journal **out)
{
    char *text = NULL;
    size_t size = 0;
    *out = NULL;
    weft__journal *j = weft_calloc(1, sizeof *j);
    if (j == NULL || (j->path = weft_format("%s/" WEFT__JOURNAL_FILE, folder)) == NULL) {
        weft_free(j);
        return weft__out_of_memory("training", "completions");
    }
    weft_status status = weft__file_open(j->path, O_RDWR | O_CREAT, &j->file);
    if (status == WEFT_OK && resume)
        status = weft_file_read(j->path, (size_t)1 << 40, &text, &size);
    if (status == WEFT_OK && resume)
        status = find_entries(j, text, size);
    weft_free(text);
    if (status == WEFT_OK && ftruncate(j->file, j->length) != 0)
        status = fail_file(j, "cannot be cut back");
    if (status == WEFT_OK)
        *out = j;
    else
        weft__journal_free(j);
    return status;
}

const char *weft__journal_path(const weft__journal *j)
{
    return j ? j->path : WEFT__JOURNAL_FILE;
}

void weft__journal_free(weft__journal *j)
{
    if (j == NULL)
        return;
    if (j->file >= 0)
        close(j->file);
    weft_free(j->entries);
    weft_free(j->path);
    weft_free(j);
}

/* ---- reading -------------------------------------------------------------------------------- */

/* Appends the lines of a batch, of which the newest count. *found: there are some. */
static weft_status read_batch(const weft__journal *j, int64_t batch, weft__text *out, bool *found)
{
    int i = j->n - 1;
    while (i >= 0 && j->entries[i].batch != batch)
        i--;
    *found = i >= 0;
    if (!*found)
        return WEFT_OK;
    const off_t start = j->entries[i].start;
    const size_t size = (size_t)(j->entries[i].end - start);
    char *lines = weft_malloc(size + 1);
    if (lines == NULL)
        return weft__out_of_memory("training", "completions");
    weft_status status = WEFT_OK;
    for (size_t done = 0; status == WEFT_OK && done < size;) {
        const ssize_t n = pread(j->file, lines + done, size - done, start + (off_t)done);
        if (n == 0)
            status = weft_fail(WEFT_INVALID, "%s: became shorter while it was read", j->path);
        else if (n < 0 && errno != EINTR)
            status = fail_file(j, "read");
        done += n > 0 ? (size_t)n : 0;
    }
    weft__text_append(out, lines, status == WEFT_OK ? size : 0);
    weft_free(lines);
    return status;
}

/* Reads the rewards of each line by their names; those that it lacks are NaN. */
static weft_status read_rewards(const char *lines, size_t size, const char *name, weft__rollout *r)
{
    const char *at = lines, *newline;
    weft_status status = WEFT_OK;
    for (int64_t i = 0; status == WEFT_OK && i < r->n * r->group; i++, at = newline + 1) {
        newline = memchr(at, '\n', size - (size_t)(at - lines));
        weft__json_doc doc = {.root = NULL};
        weft__json rewards;
        status = weft__json_parse(at, (size_t)(newline - at), name, &doc);
        const weft__json root = weft__json_root(&doc);
        if (status == WEFT_OK)
            status = weft__json_get(&root, "rewards", &rewards);
        for (int k = 0; status == WEFT_OK && k < r->n_names; k++) {
            double *to = &r->rewards[i * r->n_names + k];
            *to = NAN;
            status = weft__json_find_number(&rewards, r->names[k], to);
        }
        weft__json_free(&doc);
    }
    return status;
}

/* Whether the completions belong to the rollout's prompts. */
static bool fits(const weft__rollout *r, const weft_dataset *d)
{
    bool same = true;
    for (int64_t i = 0; same && i < d->info.samples; i++) {
        const weft_sample prompt = weft_dataset_at(r->prompts, r->which[i / r->group]);
        const weft__dataset_sample *s = &d->samples[i];
        same = s->prompt == prompt.length &&
               memcmp(d->ids + s->start, prompt.ids, (size_t)prompt.length * sizeof *d->ids) == 0;
    }
    return same;
}

/* The number of complete lines. */
static int64_t count_lines(const weft__text *t)
{
    int64_t n = 0;
    for (size_t i = 0; i < t->n; i++)
        n += t->at[i] == '\n';
    return n;
}

weft_status weft__journal_read(const weft__journal *j, int64_t batch, int64_t n, int64_t count,
                               weft__text *out, bool *found)
{
    weft_status status = WEFT_OK;
    *found = true;
    for (int64_t i = 0; status == WEFT_OK && *found && i < n; i++)
        status = read_batch(j, batch + i, out, found);
    if (status == WEFT_OK && out->failed)
        status = weft__out_of_memory("training", "completions");
    *found = status == WEFT_OK && *found && count_lines(out) == count;
    return status;
}

weft_status weft__journal_parse(const char *lines, size_t n, const char *name,
                                const weft_objective_options *o, weft__rollout *r)
{
    weft_dataset *d = NULL;
    weft_status status = weft__completions_parse(lines, n, name, o, &d);
    if (status == WEFT_OK && !fits(r, d))
        status = weft_fail(WEFT_INVALID, "%s: batch %lld: expected completions of its prompts",
                           name, (long long)r->numbers[0]);
    if (status == WEFT_OK)
        status = read_rewards(lines, n, name, r);
    if (status == WEFT_OK)
        r->dataset = d;
    else
        weft_dataset_free(d);
    return status;
}

/* ---- writing -------------------------------------------------------------------------------- */

static void add_number(weft__text *t, double value)
{
    char number[WEFT__NUMBER_TEXT];
    weft__text_format(t, "%s", weft__number(value, number));
}

static void add_ids(weft__text *t, const char *key, const int32_t *ids, int64_t n)
{
    weft__text_format(t, "\"%s\": [", key);
    for (int64_t i = 0; i < n; i++)
        weft__text_format(t, "%s%d", i ? ", " : "", (int)ids[i]);
    weft__text_format(t, "], ");
}

static void add_line(weft__text *t, const weft__rollout *r, int64_t i)
{
    const weft_dataset *d = r->dataset;
    const weft__dataset_sample *s = &d->samples[i];
    const int32_t *ids = d->ids + s->start;
    char *text = NULL;
    weft__text_format(t, "{\"batch\": %lld, ", (long long)r->numbers[i / r->group]);
    add_ids(t, "prompt_ids", ids, s->prompt);
    add_ids(t, "completion_ids", ids + s->prompt, s->length - s->prompt);
    weft__text_format(t, "\"logprobs\": [");
    for (int64_t k = s->prompt; k < s->length; k++) {
        weft__text_format(t, k == s->prompt ? "" : ", ");
        add_number(t, (double)d->sampled[s->start + k]);
    }
    weft__text_format(t, "], \"truncated\": %s, \"reward\": ", s->cut ? "true" : "false");
    add_number(t, d->rewards[i]);
    weft__text_format(t, ", \"rewards\": {");
    for (int k = 0; k < r->n_names; k++) {
        weft__text_format(t, k ? ", " : "");
        weft__text_quote(t, r->names[k]);
        weft__text_format(t, ": ");
        add_number(t, r->rewards[i * r->n_names + k]);
    }
    if (weft__completion_text(r->tokenizer, ids + s->prompt, (size_t)(s->length - s->prompt), 0,
                              &text) != WEFT_OK)
        t->failed = true;
    weft__text_format(t, "}, \"text\": ");
    weft__text_quote(t, text ? text : "");
    weft__text_format(t, "}\n");
    weft_free(text);
}

weft_status weft__journal_lines(const weft__rollout *r, weft__text *out)
{
    for (int64_t i = 0; !out->failed && i < r->n * r->group; i++)
        add_line(out, r, i);
    return out->failed ? weft__out_of_memory("training", "completions") : WEFT_OK;
}

static weft_status write_lines(const weft__journal *j, const char *lines, size_t size)
{
    for (size_t done = 0; done < size;) {
        const ssize_t n = pwrite(j->file, lines + done, size - done, j->length + (off_t)done);
        if (n < 0 && errno != EINTR)
            return fail_file(j, "write");
        done += n > 0 ? (size_t)n : 0;
    }
    return fdatasync(j->file) == 0 ? WEFT_OK : fail_file(j, "sync");
}

/* Batches are in order, and those that are added are not read again: they need no entries. */
weft_status weft__journal_add(weft__journal *j, int64_t batch, const char *lines, size_t n)
{
    for (; j->n > 0 && j->entries[j->n - 1].batch >= batch; j->n--)
        j->length = j->entries[j->n - 1].start; /* of an update that is sampled again */
    weft_status status =
        ftruncate(j->file, j->length) == 0 ? WEFT_OK : fail_file(j, "cannot be cut back");
    if (status == WEFT_OK)
        status = write_lines(j, lines, n);
    if (status == WEFT_OK)
        j->length += (off_t)n;
    else
        (void)!ftruncate(j->file, j->length);
    return status;
}
