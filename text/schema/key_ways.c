/* text/schema/key_ways.c -- counts the object keys that match a pattern, by length in bytes. */
#include "text/schema/key_ways.h"

#include "text/schema/pattern_parse.h"
#include "weft/memory.h"

enum { MAX_CELLS = 1 << 20, WIDTHS = 4 };

/* Characters that JSON writes as a two-byte escape. */
static const uint32_t escaped[] = {'\b', '\t', '\n', '\f', '\r', '"', '\\'};
enum { ESCAPES = sizeof escaped / sizeof *escaped };

static int64_t overlap(uint32_t first, uint32_t last, uint32_t low, uint32_t high)
{
    const uint32_t begin = first > low ? first : low, end = last < high ? last : high;
    return begin <= end ? (int64_t)end - begin + 1 : 0;
}

/* How many characters of first .. last are written in 1, 2, 3 and 4 bytes. */
static void count_widths(uint32_t first, uint32_t last, int64_t *out)
{
    out[0] = overlap(first, last, ' ', 0x7F);
    out[1] = overlap(first, last, 0x80, 0x7FF);
    out[2] = overlap(first, last, 0x800, 0xFFFF);
    out[3] = overlap(first, last, 0x10000, PATTERN_LAST);
    for (int i = 0; i < ESCAPES; i++) {
        const bool there = first <= escaped[i] && escaped[i] <= last;
        out[0] -= there && escaped[i] >= ' ';
        out[1] += there;
    }
}

static uint32_t last_of(const weft__pattern *p, int class)
{
    return class + 1 < p->n_classes ? p->firsts[class + 1] - 1 : PATTERN_LAST;
}

static int64_t few(int64_t counts)
{
    return counts < WEFT__MAX_COUNT ? counts : WEFT__MAX_COUNT;
}

/* The number of texts of a given length in bytes that lead from a state to a match, computed from
 * the counts for shorter lengths. */
static int64_t count_texts(const weft__pattern *p, const uint32_t *counts, size_t row,
                           int32_t state, int32_t bytes, const int64_t (*widths)[WIDTHS])
{
    int64_t sum = bytes == 0 && p->distance[state] == 0;
    for (int class = 0; class < p->n_classes; class ++) {
        const int32_t to = p->next[(size_t)state * (size_t)p->n_classes + (size_t) class];
        for (int w = 0; w < WIDTHS && to >= 0 && w < bytes; w++)
            sum = few(sum + widths[class][w] * counts[(size_t)to * row + (size_t)(bytes - w - 1)]);
    }
    return sum;
}

uint32_t *weft__pattern_counts(const weft__pattern *p, int32_t *longest)
{
    const int32_t most = MAX_CELLS / p->n_states - 1;
    *longest = most < WEFT__LONGEST_KEY ? most : WEFT__LONGEST_KEY;
    const size_t row = (size_t)*longest + 1;
    uint32_t *counts = weft_calloc(row * (size_t)p->n_states, sizeof *counts);
    int64_t(*widths)[WIDTHS] = weft_calloc((size_t)p->n_classes, sizeof *widths);
    for (int class = 0; class < p->n_classes && widths; class ++)
        count_widths(p->firsts[class], last_of(p, class), widths[class]);
    for (int32_t bytes = 0; bytes <= *longest && counts && widths; bytes++)
        for (int32_t s = 0; s < p->n_states; s++)
            counts[(size_t)s * row + (size_t)bytes] =
                (uint32_t)count_texts(p, counts, row, s, bytes, (const int64_t(*)[WIDTHS])widths);
    if (!widths) {
        weft_free(counts);
        counts = NULL;
    }
    weft_free(widths);
    return counts;
}

int64_t weft__pattern_counts_after(const weft__pattern *p, const uint32_t *counts, int32_t longest,
                                   int32_t state, uint32_t first, uint32_t last, int64_t bytes)
{
    int64_t sum = 0;
    if (bytes < 0 || bytes > longest)
        return 0;
    for (int class = 0; class < p->n_classes; class ++) {
        const int32_t to = p->next[(size_t)state * (size_t)p->n_classes + (size_t) class];
        const int64_t n = overlap(first, last, p->firsts[class], last_of(p, class));
        if (to >= 0 && n > 0)
            sum = few(sum + n * counts[(size_t)to * ((size_t)longest + 1) + (size_t)bytes]);
    }
    return sum;
}
