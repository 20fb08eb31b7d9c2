/* train/data/parts.c -- parts of datasets: order, groups, validation splits, mixtures and
 * duplicates. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "core/list.h"
#include "train/data/dataset.h"

/* ---- orders --------------------------------------------------------------------------------- */

uint64_t weft__draw_seed(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
}

void weft__shuffle(int64_t *order, int64_t n, uint64_t *state)
{
    for (int64_t i = 0; i < n; i++) {
        const int64_t j = (int64_t)(weft__draw_seed(state) % (uint64_t)(i + 1));
        order[i] = order[j];
        order[j] = i;
    }
}

int64_t *weft__dataset_groups(const weft_dataset *dataset, int64_t *n)
{
    const int64_t samples = dataset->info.samples;
    int64_t *starts = weft_calloc((size_t)samples + 1, sizeof *starts);
    if (starts == NULL) {
        weft_fail(WEFT_MEMORY, "dataset: out of memory to group %lld samples", (long long)samples);
        return NULL;
    }
    *n = 0;
    for (int64_t i = 0; i < samples; i++) {
        const int64_t group = dataset->samples[i].group;
        if (i == 0 || group == 0 || group != dataset->samples[i - 1].group)
            starts[(*n)++] = i;
    }
    starts[*n] = samples;
    return starts;
}

/* ---- parts ---------------------------------------------------------------------------------- */

/* Copies the members of sample i that weft_sample does not have to the last sample. */
static void copy_marks(weft_dataset *to, const weft_dataset *from, int64_t i)
{
    weft__dataset_sample *last = &to->samples[to->info.samples - 1];
    last->undesirable = from->samples[i].undesirable;
    last->score = from->samples[i].score;
    last->text = from->samples[i].text;
}

static weft_status copy_sample(weft_dataset *to, const weft_dataset *from, int64_t i)
{
    const weft_sample sample = weft_dataset_at(from, i);
    const weft_status status = weft__dataset_append(to, &sample, from->samples[i].cut);
    if (status == WEFT_OK)
        copy_marks(to, from, i);
    return status;
}

static void copy_kind(weft_dataset_info *to, const weft_dataset_info *from)
{
    to->examples = from->examples;
    to->texts = from->texts;
    to->scored = from->scored;
}

/* Adds the counts of the rows and texts that were read. Counts of samples are not included. */
static void add_counts(weft_dataset_info *to, const weft_dataset_info *from)
{
    copy_kind(to, from);
    to->split += from->split;
    to->dropped += from->dropped;
    to->cut += from->cut;
    to->empty += from->empty;
    to->empty_answers += from->empty_answers;
    to->bad_rows += from->bad_rows;
    to->rendered += from->rendered;
    for (int i = 0; i < WEFT_ROW_KINDS; i++)
        to->rows[i] += from->rows[i];
    for (int i = 0; i < WEFT_DATA_FORMATS; i++)
        to->files[i] += from->files[i];
}

/* Puts n_chosen of the groups into `chosen`, drawn by the seed, or the last ones if it is NULL, and
 * the others into `rest`. */
static weft_status fill_parts(const weft_dataset *all, const int64_t *starts, int64_t n,
                              int64_t n_chosen, const uint64_t *seed, weft_dataset *rest,
                              weft_dataset *chosen)
{
    uint64_t state = seed ? *seed : 0;
    int64_t *order = weft_calloc((size_t)n, sizeof *order);
    bool *is_chosen = weft_calloc((size_t)n, sizeof *is_chosen);
    weft_status status = WEFT_OK;
    if (order && is_chosen) {
        weft__shuffle(order, n, &state);
        for (int64_t i = 0; i < n_chosen; i++)
            is_chosen[seed ? order[i] : n - 1 - i] = true;
        for (int64_t g = 0; g < n; g++) {
            for (int64_t i = starts[g]; status == WEFT_OK && i < starts[g + 1]; i++)
                status = copy_sample(is_chosen[g] ? chosen : rest, all, i);
        }
    } else {
        status = weft_fail(WEFT_MEMORY, "out of memory to split %lld samples",
                           (long long)all->info.samples);
    }
    add_counts(&rest->info, &all->info);
    copy_kind(&chosen->info, &all->info);
    weft_free(order);
    weft_free(is_chosen);
    return status;
}

static weft_status split_groups(const weft_dataset *all, const int64_t *starts, int64_t n,
                                double share, const uint64_t *seed, weft_dataset **rest,
                                weft_dataset **chosen)
{
    if (n < 2)
        return weft_fail(WEFT_INVALID,
                         "expected samples to learn from and some to validate on, "
                         "got %lld",
                         (long long)n);
    int64_t n_chosen = (int64_t)llround(share * (double)n);
    n_chosen = n_chosen < 1 ? 1 : n_chosen > n - 1 ? n - 1 : n_chosen;
    weft_status status = weft_dataset_new(all->limit, rest);
    if (status == WEFT_OK)
        status = weft_dataset_new(all->limit, chosen);
    return status == WEFT_OK ? fill_parts(all, starts, n, n_chosen, seed, *rest, *chosen) : status;
}

weft_status weft__dataset_split(const weft_dataset *all, double share, const uint64_t *seed,
                                weft_dataset **rest, weft_dataset **chosen)
{
    int64_t n;
    *rest = *chosen = NULL;
    int64_t *starts = weft__dataset_groups(all, &n);
    if (starts == NULL)
        return WEFT_MEMORY;
    const weft_status status = split_groups(all, starts, n, share, seed, rest, chosen);
    weft_free(starts);
    if (status == WEFT_OK)
        return WEFT_OK;
    weft_dataset_free(*rest);
    weft_dataset_free(*chosen);
    *rest = *chosen = NULL;
    return status;
}

/* ---- mixtures ------------------------------------------------------------------------------- */

static weft_status begin_part(weft_dataset *d, double weight)
{
    if (!weft__list_more(d->parts, d->n_parts))
        return weft__out_of_memory("dataset", NULL);
    d->parts[d->n_parts++] = (weft__dataset_part){d->info.samples, weight};
    return WEFT_OK;
}

/* The largest absolute value of a group number. */
static int64_t largest_group(const weft_dataset *d)
{
    int64_t largest = 0;
    for (int64_t i = 0; i < d->info.samples; i++) {
        const int64_t group = llabs(d->samples[i].group);
        largest = group > largest ? group : largest;
    }
    return largest;
}

weft_status weft__dataset_join(weft_dataset *to, const weft_dataset *from, double weight)
{
    const int64_t apart = largest_group(to);
    const weft_dataset_info *had = &to->info, *more = &from->info;
    if (had->samples > 0 && more->samples > 0 &&
        (had->texts != more->texts || had->scored != more->scored))
        return weft_fail(WEFT_INVALID,
                         "the sources have examples of %lld texts%s and of %lld texts%s: expected "
                         "one kind",
                         (long long)had->texts, had->scored ? " with scores" : "",
                         (long long)more->texts, more->scored ? " with scores" : "");
    weft_status status = begin_part(to, weight);
    for (int64_t i = 0; status == WEFT_OK && i < from->info.samples; i++) {
        weft_sample sample = weft_dataset_at(from, i);
        if (sample.group != 0)
            sample.group += sample.group > 0 ? apart : -apart;
        status = weft__dataset_append(to, &sample, from->samples[i].cut);
        if (status == WEFT_OK)
            copy_marks(to, from, i);
    }
    if (status == WEFT_OK)
        add_counts(&to->info, &from->info);
    return status;
}

/* ---- duplicates ----------------------------------------------------------------------------- */

/* 128-bit hash of a sample's ids. Among 1e9 samples, the probability of a collision is below 1e-20.
 */
typedef struct digest {
    uint64_t a, b;
} digest;

static digest digest_of(const weft_sample *s)
{
    uint64_t a = (uint64_t)s->length, b = ~a;
    for (int64_t i = 0; i < s->length; i++) {
        a ^= (uint64_t)s->ids[i];
        b ^= (uint64_t)s->ids[i] << 32;
        a = weft__draw_seed(&a);
        b = weft__draw_seed(&b);
    }
    return (digest){a, b};
}

static int compare_digests(const void *x, const void *y)
{
    return memcmp(x, y, sizeof(digest));
}

static digest *digests_of(const weft_dataset *d)
{
    digest *all = weft_calloc((size_t)d->info.samples + 1, sizeof *all);
    for (int64_t i = 0; all && i < d->info.samples; i++) {
        const weft_sample s = weft_dataset_at(d, i);
        all[i] = digest_of(&s);
    }
    if (all)
        qsort(all, (size_t)d->info.samples, sizeof *all, compare_digests);
    return all;
}

int64_t weft_dataset_duplicates(const weft_dataset *dataset, const weft_dataset *others)
{
    const weft_dataset *among = others ? others : dataset;
    const int64_t n = among->info.samples;
    digest *all = digests_of(among);
    int64_t found = 0;
    if (all == NULL)
        return -1;
    for (int64_t i = 1; others == NULL && i < n; i++)
        found += compare_digests(&all[i - 1], &all[i]) == 0;
    for (int64_t i = 0; others && i < dataset->info.samples; i++) {
        const weft_sample s = weft_dataset_at(dataset, i);
        const digest key = digest_of(&s);
        found += bsearch(&key, all, (size_t)n, sizeof *all, compare_digests) != NULL;
    }
    weft_free(all);
    return found;
}
