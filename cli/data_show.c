/* cli/data_show.c -- output of weft data: the summary, and samples. */
#include "cli/data_show.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/common.h"
#include "weft/tool/options.h"

enum { BUCKETS = 32, BAR = 40 };

/* A histogram of sample lengths: bucket k counts the samples of [2^k, 2^(k + 1)) tokens. */
typedef struct lengths {
    int64_t buckets[BUCKETS];
    int64_t median, percentile_95; /* the median and the 95th percentile of the lengths */
} lengths;

static int compare(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static weft_status measure(const weft_dataset *d, lengths *out)
{
    const int64_t n = weft_dataset_info_of(d).samples;
    int64_t *all = calloc((size_t)n + 1, sizeof *all);
    *out = (lengths){{0}, 0, 0};
    if (all == NULL)
        return weft_fail(WEFT_MEMORY, "data: out of memory for %lld lengths", (long long)n);
    for (int64_t i = 0; i < n; i++) {
        int k = 0;
        all[i] = weft_dataset_at(d, i).length;
        while (all[i] >> (k + 1) > 0 && k + 1 < BUCKETS)
            k++;
        out->buckets[k]++;
    }
    qsort(all, (size_t)n, sizeof *all, compare);
    out->median = all[n / 2];
    out->percentile_95 = all[n - 1 - n / 20];
    free(all);
    return WEFT_OK;
}

/* ---- segments ------------------------------------------------------------------------------- */

/* Sample i; of a text to be compared without the id that marks its end. */
static weft_sample sample_at(const weft_dataset *d, int64_t i)
{
    weft_sample s = weft_dataset_at(d, i);
    s.length -= weft_dataset_info_of(d).examples == WEFT_EXAMPLES_TEXTS;
    return s;
}

/* The role of a text to be compared. */
static const char *text_of(const weft_dataset_info *info, int64_t i)
{
    const int64_t k = i % info->texts;
    return k == 0 ? "anchor" : k == 1 ? "positive" : "negative";
}

/* The end of the run of tokens with equal weight that starts at `begin`. The first token of a
 * sample joins the run after it: it has no weight of its own, since nothing predicts it. */
static int64_t segment_end(const weft_sample *s, int64_t begin)
{
    int64_t end = begin == 0 && s->length > 1 ? 2 : begin + 1;
    while (end < s->length && s->weights[end] == s->weights[end - 1])
        end++;
    return end;
}

/* The label of a sample; NULL: it has none. */
static const char *label_of(const data_found *f, const weft_sample *s)
{
    return f->labels ? f->labels->at[s->ids[s->length - 1]] : NULL;
}

static weft_status decode(const data_found *f, const weft_sample *s, int64_t begin, int64_t end,
                          char **text, size_t *n)
{
    const char *label = end == s->length
                            ? label_of(f, s)
                            : NULL; /* the label is the last token, a segment of its own */
    if (label) {
        *text = weft_strdup(label);
        *n = strlen(label);
        return *text ? WEFT_OK : weft_fail(WEFT_MEMORY, "data: out of memory for a label");
    }
    return weft_tokenizer_decode(f->tokenizer, s->ids + begin, (size_t)(end - begin), 0, text, n);
}

/* Prints a text with a mark before each line. */
static void print_marked(const char *text, size_t n, const char *mark)
{
    for (size_t at = 0; at < n;) {
        const char *newline = memchr(text + at, '\n', n - at);
        const size_t length = newline ? (size_t)(newline - text) - at : n - at;
        fputs(mark, stdout);
        cli_write_text(text + at, length);
        putchar('\n');
        at += length + 1;
    }
}

/* The role of a sample in an objective, as text; "" for supervised training. */
static const char *side_of(const weft_dataset *d, int64_t i)
{
    static char text[32];
    const weft_dataset_info info = weft_dataset_info_of(d);
    if (info.examples == WEFT_EXAMPLES_TEXTS) {
        snprintf(text, sizeof text, ", %s", text_of(&info, i));
        return text;
    }
    static const char *const sides[][2] = {
        [WEFT_EXAMPLES_SINGLE] = {"", ""},
        [WEFT_EXAMPLES_LABELED] = {", undesirable", ", desirable"},
        [WEFT_EXAMPLES_PAIRS] = {", rejected", ", chosen"},
        [WEFT_EXAMPLES_SCORED] = {"", ""},
        [WEFT_EXAMPLES_PROMPTS] = {", prompt", ", prompt"}};
    return sides[info.examples][weft_dataset_is_desirable(d, i)];
}

weft_status data_print_sample(const data_found *f, int64_t i, bool color)
{
    const weft_sample s = sample_at(f->data, i);
    printf("\nsample %s%s, %s tokens\n", cli_count(i + 1), side_of(f->data, i),
           cli_count(s.length));
    for (int64_t begin = 0, end; begin < s.length; begin = end) {
        char *text;
        size_t n;
        end = segment_end(&s, begin);
        const weft_status status = decode(f, &s, begin, end, &text, &n);
        if (status != WEFT_OK)
            return status;
        const float weight = s.weights[end - 1];
        char mark[32] = "  ";
        if (weight != 0)
            snprintf(mark, sizeof mark, weight == 1 ? "+ " : "+%g ", (double)weight);
        fputs(color && weight != 0 ? "\033[32m" : "", stdout);
        print_marked(text, n, mark);
        fputs(color && weight != 0 ? "\033[0m" : "", stdout);
        weft_free(text);
    }
    return WEFT_OK;
}

/* ---- summary -------------------------------------------------------------------------------- */

static void print_counts(const weft_dataset_info *info)
{
    for (int i = 0; i < WEFT_DATA_FORMATS; i++) {
        if (info->files[i] > 0)
            printf("files      %s %s\n", cli_count(info->files[i]),
                   weft_data_format_name((weft_data_format)i));
    }
    for (int i = 0; i < WEFT_ROW_KINDS; i++) {
        if (info->rows[i] > 0)
            printf("rows       %s %s\n", cli_count(info->rows[i]),
                   weft_row_kind_name((weft_row_kind)i));
    }
    printf("samples    %s, %s tokens, %s trained\n", cli_count(info->samples),
           cli_count(info->tokens), cli_count(info->targets));
}

/* Prints a bar of a histogram whose largest count is `most`. */
static void print_bar(int64_t count, int64_t most)
{
    for (int64_t bar = (count * BAR + most - 1) / most; bar > 0; bar--)
        putchar('#');
    putchar('\n');
}

weft_status data_print_lengths(const data_found *f)
{
    lengths l;
    const weft_status status = measure(f->data, &l);
    if (status != WEFT_OK)
        return status;
    int64_t most = 1;
    for (int k = 0; k < BUCKETS; k++)
        most = l.buckets[k] > most ? l.buckets[k] : most;
    printf("lengths    median %s, 95%% at most %s, longest %s\n", cli_count(l.median),
           cli_count(l.percentile_95), cli_count(weft_dataset_info_of(f->data).longest));
    for (int k = 0; k < BUCKETS; k++) {
        if (l.buckets[k] == 0)
            continue;
        printf("  %7lld+ %8s ", 1LL << k, cli_count(l.buckets[k]));
        print_bar(l.buckets[k], most);
    }
    return WEFT_OK;
}

static int64_t count_label(const data_found *f, int label)
{
    const int64_t all = weft_dataset_info_of(f->data).samples;
    int64_t n = 0;
    for (int64_t i = 0; i < all; i++) {
        const weft_sample s = weft_dataset_at(f->data, i);
        n += s.ids[s.length - 1] == label;
    }
    return n;
}

void data_print_labels(const data_found *f)
{
    int64_t most = 1;
    for (int i = 0; f->labels && i < f->labels->n; i++)
        most = count_label(f, i) > most ? count_label(f, i) : most;
    if (f->labels)
        printf("labels     %d\n", f->labels->n);
    for (int i = 0; f->labels && i < f->labels->n; i++) {
        printf("  %8s %8s ", weft_printable(f->labels->at[i]), cli_count(count_label(f, i)));
        print_bar(count_label(f, i), most);
    }
}

void data_json_labels(const data_found *f)
{
    if (f->labels == NULL)
        return;
    fputs("\"labels\": [", stdout);
    for (int i = 0; i < f->labels->n; i++) {
        fputs(i > 0 ? ", {\"label\": " : "{\"label\": ", stdout);
        cli_json_text(stdout, f->labels->at[i], strlen(f->labels->at[i]));
        printf(", \"samples\": %lld}", (long long)count_label(f, i));
    }
    fputs("], ", stdout);
}

static void print_losses(const weft_dataset_info *info)
{
    if (info->truncated + info->split + info->dropped > 0)
        printf("too long   %s truncated, %s split, %s left out, %s tokens cut\n",
               cli_count(info->truncated), cli_count(info->split), cli_count(info->dropped),
               cli_count(info->cut));
    if (info->empty > 0)
        printf("empty      %s samples without a trained token\n", cli_count(info->empty));
    if (info->empty_answers > 0)
        printf("empty      %s answers without text\n", cli_count(info->empty_answers));
    if (info->bad_rows > 0)
        printf("bad rows   %s skipped\n", cli_count(info->bad_rows));
}

static int64_t count_desirable(const weft_dataset *d)
{
    const int64_t all = weft_dataset_info_of(d).samples;
    int64_t n = 0;
    for (int64_t i = 0; i < all; i++)
        n += weft_dataset_is_desirable(d, i);
    return n;
}

static void print_examples(const weft_dataset *d)
{
    const weft_dataset_info info = weft_dataset_info_of(d);
    const int64_t n = count_desirable(d);
    if (info.examples == WEFT_EXAMPLES_PAIRS)
        printf("pairs      %s\n", cli_count(n));
    else if (info.examples == WEFT_EXAMPLES_TEXTS)
        printf("examples   %s of %lld texts%s\n", cli_count(info.samples / info.texts),
               (long long)info.texts, info.scored ? " and a score" : "");
    else if (info.examples == WEFT_EXAMPLES_LABELED)
        printf("labels     %s desirable, %s not\n", cli_count(n), cli_count(info.samples - n));
}

weft_status data_print_summary(const data_values *v, const data_found *f)
{
    const weft_dataset_info info = weft_dataset_info_of(f->data);
    const char *no_color = getenv("NO_COLOR");
    const bool color = isatty(STDOUT_FILENO) && (no_color == NULL || *no_color == '\0');
    print_counts(&info);
    print_examples(f->data);
    data_print_labels(f);
    weft_status status = data_print_lengths(f);
    if (status != WEFT_OK)
        return status;
    print_losses(&info);
    printf("duplicates %s\n", cli_count(weft_dataset_duplicates(f->data, NULL)));
    if (f->validation)
        printf("validation %s samples, %s of them also trained\n",
               cli_count(weft_dataset_info_of(f->validation).samples),
               cli_count(weft_dataset_duplicates(f->validation, f->data)));
    for (int64_t i = 0; status == WEFT_OK && i < v->show && i < info.samples; i++)
        status = data_print_sample(f, i, color);
    return status;
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void print_named(const char *key, const char *(*name)(int), const int64_t *counts, int n)
{
    const char *separator = "";
    printf("\"%s\": {", key);
    for (int i = 0; i < n; i++) {
        if (counts[i] == 0)
            continue;
        printf("%s\"%s\": %lld", separator, name(i), (long long)counts[i]);
        separator = ", ";
    }
    fputs("}, ", stdout);
}

static const char *format_name(int i)
{
    return weft_data_format_name((weft_data_format)i);
}

static const char *kind_name(int i)
{
    return weft_row_kind_name((weft_row_kind)i);
}

weft_status data_print_json(const data_found *f)
{
    const weft_dataset_info info = weft_dataset_info_of(f->data);
    lengths l;
    const weft_status status = measure(f->data, &l);
    if (status != WEFT_OK)
        return status;
    putchar('{');
    print_named("files", format_name, info.files, WEFT_DATA_FORMATS);
    print_named("rows", kind_name, info.rows, WEFT_ROW_KINDS);
    printf("\"samples\": %lld, \"tokens\": %lld, \"targets\": %lld, \"longest\": %lld, "
           "\"median\": %lld, \"p95\": %lld, \"truncated\": %lld, \"split\": %lld, "
           "\"dropped\": %lld, \"cut_tokens\": %lld, \"empty\": %lld, "
           "\"empty_answers\": %lld, \"bad_rows\": %lld, \"duplicates\": %lld, ",
           (long long)info.samples, (long long)info.tokens, (long long)info.targets,
           (long long)info.longest, (long long)l.median, (long long)l.percentile_95,
           (long long)info.truncated, (long long)info.split, (long long)info.dropped,
           (long long)info.cut, (long long)info.empty, (long long)info.empty_answers,
           (long long)info.bad_rows, (long long)weft_dataset_duplicates(f->data, NULL));
    if (f->validation)
        printf("\"validation_samples\": %lld, \"validation_trained\": %lld, ",
               (long long)weft_dataset_info_of(f->validation).samples,
               (long long)weft_dataset_duplicates(f->validation, f->data));
    if (info.examples == WEFT_EXAMPLES_TEXTS)
        printf("\"texts\": %lld, \"scored\": %s, ", (long long)info.texts,
               info.scored ? "true" : "false");
    else if (info.examples != WEFT_EXAMPLES_SINGLE)
        printf("\"desirable\": %lld, ", (long long)count_desirable(f->data));
    data_json_labels(f);
    fputs("\"lengths\": [", stdout);
    const char *separator = "";
    for (int k = 0; k < BUCKETS; k++) {
        if (l.buckets[k] == 0)
            continue;
        printf("%s{\"from\": %lld, \"samples\": %lld}", separator, 1LL << k,
               (long long)l.buckets[k]);
        separator = ", ";
    }
    puts("]}");
    return WEFT_OK;
}

weft_status data_print_segments(const data_found *f, const weft_sample *s)
{
    for (int64_t begin = 0, end; begin < s->length; begin = end) {
        char *text;
        size_t n;
        end = segment_end(s, begin);
        const weft_status status = decode(f, s, begin, end, &text, &n);
        if (status != WEFT_OK)
            return status;
        printf("%s{\"tokens\": %lld, \"weight\": %.9g, \"text\": ", begin > 0 ? ", " : "",
               (long long)(end - begin), (double)s->weights[end - 1]);
        cli_json_text(stdout, text, n);
        putchar('}');
        weft_free(text);
    }
    return WEFT_OK;
}

static weft_status print_samples_of(const data_found *f, const weft_dataset *d, const char *part)
{
    const weft_dataset_info info = weft_dataset_info_of(d);
    for (int64_t i = 0; i < info.samples; i++) {
        const weft_sample s = sample_at(d, i);
        fputs("{\"ids\": [", stdout);
        for (int64_t k = 0; k < s.length; k++)
            printf("%s%d", k > 0 ? ", " : "", (int)s.ids[k]);
        fputs("], \"weights\": [", stdout);
        for (int64_t k = 0; k < s.length; k++)
            printf("%s%.9g", k > 0 ? ", " : "", (double)s.weights[k]);
        printf("], \"group\": %lld, \"part\": \"%s\", ", (long long)s.group, part);
        if (info.examples == WEFT_EXAMPLES_TEXTS)
            printf("\"text\": \"%s\", ", text_of(&info, i));
        else if (info.examples != WEFT_EXAMPLES_SINGLE)
            printf("\"desirable\": %s, ", weft_dataset_is_desirable(d, i) ? "true" : "false");
        if (f->labels) {
            fputs("\"label\": ", stdout);
            cli_json_text(stdout, label_of(f, &s), strlen(label_of(f, &s)));
            fputs(", ", stdout);
        }
        fputs("\"segments\": [", stdout);
        const weft_status status = data_print_segments(f, &s);
        if (status != WEFT_OK)
            return status;
        puts("]}");
    }
    return WEFT_OK;
}

weft_status data_print_samples(const data_found *f)
{
    const weft_status status = print_samples_of(f, f->data, "train");
    return status == WEFT_OK && f->validation ? print_samples_of(f, f->validation, "validation")
                                              : status;
}
