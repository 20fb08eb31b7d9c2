/* text/schema/pattern.c -- builds one deterministic automaton from syntax trees of patterns. */
#include "text/schema/pattern.h"

#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/utf8.h"
#include "text/schema/lookahead.h"
#include "text/schema/pattern_parse.h"
#include "text/tokenizer/buffer.h"
#include "weft/memory.h"

enum {
    MAX_LENGTH = 4096, /* bytes of a pattern; the tree may be as deep */
    MAX_PARTS = 1 << 16,
    MAX_STATES = 1 << 16,
    MAX_CELLS = 1 << 22,
    NOWHERE = WEFT__PATTERN_NOWHERE
};

#define TOO_LARGE "%s: the pattern, with its lengths, needs too many states"

/* A part of the nondeterministic automaton. */
typedef enum part_kind {
    PART_SPLIT, /* goes to next and other without reading */
    PART_SET,   /* reads one of `ranges` and goes to next */
    PART_BEGIN, /* goes to next, only at the start */
    PART_END,   /* goes to next, only at the end */
    PART_FINAL  /* the pattern has matched, whatever follows */
} part_kind;

typedef struct part {
    part_kind kind;
    int next, other;
    const pattern_range *ranges;
    int n_ranges;
    int pattern; /* FINAL: which */
} part;

/* A state of the deterministic automaton under construction: parts[begin .. begin + count). */
typedef struct subset {
    size_t begin, count;
    int64_t length; /* length of the string so far, saturating when more makes no difference */
    bool accepts;
} subset;

typedef struct builder {
    const char *where;
    weft_status status;
    const weft__pattern_source *sources;
    pattern_tree *trees;
    size_t n;
    int64_t min_length, max_length;
    part *parts;
    size_t n_parts, part_capacity;
    int *starts;
    int *members; /* the members of all subsets, consecutively */
    size_t n_members, member_capacity;
    subset *subsets;
    size_t n_subsets, subset_capacity;
    size_t next_capacity;
    int32_t *table; /* hash -> subset, NOWHERE: free */
    size_t table_size;
    int *stack;
    unsigned char *seen; /* by part */
    weft__pattern *out;
} builder;

static int too_large(builder *b)
{
    if (!b->status)
        b->status = weft_fail(WEFT_UNSUPPORTED, TOO_LARGE, b->where);
    return 0;
}

static void *grow(builder *b, void *data, size_t *capacity, size_t length, size_t more, size_t size)
{
    const weft_status status = weft__bytes_grow(&data, capacity, length, more, size);
    if (status)
        b->status = status;
    return data;
}

/* ---- the nondeterministic automaton ---------------------------------------------------------- */

static int add_part(builder *b, part p)
{
    if (b->status || b->n_parts >= MAX_PARTS)
        return too_large(b);
    b->parts = grow(b, b->parts, &b->part_capacity, b->n_parts, 1, sizeof p);
    if (b->status)
        return 0;
    b->parts[b->n_parts] = p;
    return (int)b->n_parts++;
}

static int build(builder *b, const pattern_tree *tree, int at, int next);

static int build_repeat(builder *b, const pattern_tree *tree, const pattern_node *node, int next)
{
    int entry = next;
    if (node->most == PATTERN_UNBOUNDED) {
        entry = add_part(b, (part){.kind = PART_SPLIT, .next = next, .other = next});
        const int inside = build(b, tree, node->left, entry);
        if (!b->status)
            b->parts[entry].next = inside;
    } else {
        for (int i = node->least; i < node->most && !b->status; i++) {
            const int inside = build(b, tree, node->left, entry);
            entry = add_part(b, (part){.kind = PART_SPLIT, .next = inside, .other = next});
        }
    }
    for (int i = 0; i < node->least && !b->status; i++)
        entry = build(b, tree, node->left, entry);
    return entry;
}

/* Builds the parts that read the node and then go to `next`; returns the entry. */
static int build(builder *b, const pattern_tree *tree, int at, int next)
{
    const pattern_node *node = &tree->nodes[at];
    switch (node->kind) {
    case PATTERN_EMPTY:
        return next;
    case PATTERN_SET:
        return add_part(b, (part){.kind = PART_SET,
                                  .next = next,
                                  .ranges = tree->ranges + node->first,
                                  .n_ranges = node->count});
    case PATTERN_CAT:
        return build(b, tree, node->left, build(b, tree, node->right, next));
    case PATTERN_ALT: {
        const int left = build(b, tree, node->left, next);
        const int right = build(b, tree, node->right, next);
        return add_part(b, (part){.kind = PART_SPLIT, .next = left, .other = right});
    }
    case PATTERN_REPEAT:
        return build_repeat(b, tree, node, next);
    case PATTERN_BEGIN:
        return add_part(b, (part){.kind = PART_BEGIN, .next = next});
    case PATTERN_END:
        return add_part(b, (part){.kind = PART_END, .next = next});
    }
    return next;
}

/* A pattern matches anywhere: it may be preceded and followed by any characters. */
static int build_search(builder *b, int pattern)
{
    static const pattern_range any[] = {{0, PATTERN_LAST}};
    const int final = add_part(b, (part){.kind = PART_FINAL, .pattern = pattern});
    const int entry = build(b, &b->trees[pattern], b->trees[pattern].root, final);
    const int skip = add_part(b, (part){.kind = PART_SET, .ranges = any, .n_ranges = 1});
    const int start = add_part(b, (part){.kind = PART_SPLIT, .next = entry, .other = skip});
    if (!b->status)
        b->parts[skip].next = start;
    return start;
}

/* ---- classes of characters that no pattern distinguishes ------------------------------------- */

static int ascending(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void find_classes(builder *b)
{
    size_t n = 3;
    for (size_t i = 0; i < b->n_parts; i++)
        n += 2 * (size_t)b->parts[i].n_ranges;
    uint32_t *firsts = weft_malloc(n * sizeof *firsts);
    b->out->firsts = firsts;
    if (!firsts) {
        b->status = weft__out_of_memory(b->where, "a pattern");
        return;
    }
    size_t k = 0;
    firsts[k++] = 0;
    firsts[k++] = 0xD800; /* surrogates are not characters: a class without transitions */
    firsts[k++] = 0xE000;
    for (size_t i = 0; i < b->n_parts; i++)
        for (int j = 0; j < b->parts[i].n_ranges; j++) {
            firsts[k++] = b->parts[i].ranges[j].first;
            firsts[k++] = b->parts[i].ranges[j].last + 1;
        }
    qsort(firsts, k, sizeof *firsts, ascending);
    int classes = 0;
    for (size_t i = 0; i < k; i++)
        if (firsts[i] <= PATTERN_LAST && (classes == 0 || firsts[classes - 1] != firsts[i]))
            firsts[classes++] = firsts[i];
    b->out->n_classes = classes;
}

static int class_of(const weft__pattern *p, uint32_t character)
{
    int low = 0, high = p->n_classes;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (p->firsts[middle] <= character)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static bool reads(const part *p, uint32_t character)
{
    for (int i = 0; i < p->n_ranges; i++)
        if (p->ranges[i].first <= character && character <= p->ranges[i].last)
            return true;
    return false;
}

/* ---- subsets -------------------------------------------------------------------------------- */

/* Adds the parts that can be reached from a part without reading. */
static void reach(builder *b, int from, bool begin, bool end)
{
    int depth = 0;
    b->stack[depth++] = from;
    while (depth > 0 && !b->status) {
        const int at = b->stack[--depth];
        if (b->seen[at])
            continue;
        b->seen[at] = 1;
        const part *p = &b->parts[at];
        if (p->kind == PART_SPLIT) {
            b->stack[depth++] = p->other;
            b->stack[depth++] = p->next;
            continue;
        }
        if ((p->kind == PART_BEGIN && begin) || (p->kind == PART_END && end))
            b->stack[depth++] = p->next;
        if (p->kind == PART_BEGIN)
            continue;
        b->members = grow(b, b->members, &b->member_capacity, b->n_members, 1, sizeof *b->members);
        if (!b->status)
            b->members[b->n_members++] = at;
    }
}

static void forget(builder *b)
{
    memset(b->seen, 0, b->n_parts);
}

static int by_number(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* Whether the string may end here: every pattern has matched (or not, if negated), and the length
 * is within its bounds. */
static bool accepts(builder *b, size_t begin, int64_t length, bool at_start)
{
    const size_t end = b->n_members;
    bool right = length >= b->min_length;
    forget(b);
    for (size_t i = begin; i < end && right && !b->status; i++)
        reach(b, b->members[i], at_start, true);
    for (size_t i = 0; i < b->n_parts && right; i++)
        if (b->parts[i].kind == PART_FINAL)
            right = (b->seen[i] != 0) != b->sources[b->parts[i].pattern].negated;
    b->n_members = end;
    return right;
}

static uint64_t hash_of(const int *members, size_t n, int64_t length)
{
    uint64_t hash = (uint64_t)length * 0x9E3779B97F4A7C15u + n;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ (uint64_t)members[i]) * 0x100000001B3u;
    return hash ^ hash >> 29;
}

static void enlarge_table(builder *b)
{
    const size_t size = b->table_size ? 2 * b->table_size : 256;
    int32_t *table = weft_malloc(size * sizeof *table);
    if (!table) {
        b->status = weft__out_of_memory(b->where, "a pattern");
        return;
    }
    for (size_t i = 0; i < size; i++)
        table[i] = NOWHERE;
    for (size_t s = 0; s < b->n_subsets; s++) {
        const subset *u = &b->subsets[s];
        size_t slot = hash_of(b->members + u->begin, u->count, u->length) & (size - 1);
        while (table[slot] != NOWHERE)
            slot = (slot + 1) & (size - 1);
        table[slot] = (int32_t)s;
    }
    weft_free(b->table);
    b->table = table;
    b->table_size = size;
}

/* The state for the members from `begin` on, which are removed again if the state exists already.
 */
static int32_t intern(builder *b, size_t begin, int64_t length, bool at_start)
{
    const size_t count = b->n_members - begin;
    if (b->status || count == 0)
        return NOWHERE;
    qsort(b->members + begin, count, sizeof *b->members, by_number);
    if (2 * b->n_subsets >= b->table_size)
        enlarge_table(b);
    if (b->status)
        return NOWHERE;
    size_t slot = hash_of(b->members + begin, count, length) & (b->table_size - 1);
    for (; b->table[slot] != NOWHERE; slot = (slot + 1) & (b->table_size - 1)) {
        const subset *u = &b->subsets[b->table[slot]];
        if (u->count == count && u->length == length &&
            memcmp(b->members + u->begin, b->members + begin, count * sizeof *b->members) == 0) {
            b->n_members = begin;
            return b->table[slot];
        }
    }
    if (b->n_subsets >= MAX_STATES || (b->n_subsets + 1) * (size_t)b->out->n_classes > MAX_CELLS)
        return too_large(b);
    b->subsets = grow(b, b->subsets, &b->subset_capacity, b->n_subsets, 1, sizeof *b->subsets);
    if (b->status)
        return NOWHERE;
    b->table[slot] = (int32_t)b->n_subsets;
    b->subsets[b->n_subsets] = (subset){begin, count, length, false};
    b->subsets[b->n_subsets].accepts = accepts(b, begin, length, at_start);
    return (int32_t)b->n_subsets++;
}

/* The state to which a class of characters leads. */
static int32_t successor(builder *b, size_t from, int class)
{
    const subset u = b->subsets[from];
    const uint32_t character = b->out->firsts[class];
    if (character == 0xD800 || u.length == b->max_length)
        return NOWHERE;
    int64_t length = 0;
    if (b->max_length >= 0)
        length = u.length + 1;
    else if (b->min_length > 0)
        length = u.length < b->min_length ? u.length + 1 : u.length;
    const size_t begin = b->n_members;
    forget(b);
    for (size_t i = 0; i < u.count && !b->status; i++) {
        const int member = b->members[u.begin + i];
        const part *p = &b->parts[member];
        if (p->kind == PART_FINAL)
            reach(b, member, false, false);
        else if (p->kind == PART_SET && reads(p, character))
            reach(b, p->next, false, false);
    }
    return intern(b, begin, length, false);
}

static void find_states(builder *b)
{
    forget(b);
    for (size_t i = 0; i < b->n && !b->status; i++)
        reach(b, b->starts[i], true, false);
    intern(b, 0, 0, true);
    const size_t classes = (size_t)b->out->n_classes;
    for (size_t s = 0; s < b->n_subsets && !b->status; s++) {
        b->out->next =
            grow(b, b->out->next, &b->next_capacity, s * classes, classes, sizeof(int32_t));
        for (size_t c = 0; c < classes && !b->status; c++) {
            const int32_t to = successor(b, s, (int)c);
            b->out->next[s * classes + c] = to;
        }
    }
}

/* The bytes of the cheapest character of a class in a JSON string. */
static int32_t class_cost(const weft__pattern *p, int class)
{
    const uint32_t first = p->firsts[class];
    const uint32_t last = class + 1 < p->n_classes ? p->firsts[class + 1] - 1 : PATTERN_LAST;
    for (uint32_t c = first > ' ' ? first : ' '; c <= last && c < 0x80; c++)
        if (c != '"' && c != '\\')
            return 1;
    for (const char *at = "\b\t\n\f\r\"\\"; *at; at++)
        if (first <= (uint32_t)*at && (uint32_t)*at <= last)
            return 2;
    if (last >= 0x80)
        return first < 0x800 ? 2 : first < 0x10000 ? 3 : 4;
    return 6; /* \u00.. */
}

/* Computes distances backwards from the accepting states, in rounds over all states, last first:
 * automata of patterns are shallow, and numbered from their start. */
static void spread_distances(const builder *b, const int32_t *costs)
{
    weft__pattern *p = b->out;
    const size_t classes = (size_t)p->n_classes;
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t s = b->n_subsets; s-- > 0;)
            for (size_t c = 0; c < classes; c++) {
                const int32_t to = p->next[s * classes + c];
                if (to == NOWHERE || p->distance[to] == INT32_MAX ||
                    p->distance[to] + costs[c] >= p->distance[s])
                    continue;
                p->distance[s] = p->distance[to] + costs[c];
                changed = true;
            }
    }
}

/* Computes distances, and removes transitions to states that cannot reach a match. */
static void find_distances(builder *b)
{
    weft__pattern *p = b->out;
    const size_t classes = (size_t)p->n_classes;
    int32_t *costs = weft_malloc(classes * sizeof *costs);
    p->distance = weft_malloc((b->n_subsets + 1) * sizeof *p->distance);
    if (!p->distance || !costs) {
        weft_free(costs);
        b->status = weft__out_of_memory(b->where, "a pattern");
        return;
    }
    for (size_t c = 0; c < classes; c++)
        costs[c] = class_cost(p, (int)c);
    for (size_t s = 0; s < b->n_subsets; s++)
        p->distance[s] = b->subsets[s].accepts ? 0 : INT32_MAX;
    p->n_states = (int32_t)b->n_subsets;
    spread_distances(b, costs);
    weft_free(costs);
    for (size_t i = 0; i < b->n_subsets * classes; i++)
        if (p->next[i] != NOWHERE && p->distance[p->next[i]] == INT32_MAX)
            p->next[i] = NOWHERE;
}

/* ---- construction ---------------------------------------------------------------------------- */

static void make(builder *b)
{
    for (size_t i = 0; i < b->n && !b->status; i++) {
        if (strlen(b->sources[i].text) > MAX_LENGTH)
            too_large(b);
        else
            b->status = weft__pattern_parse(b->sources[i].text, b->where, &b->trees[i]);
    }
    for (size_t i = 0; i < b->n && !b->status; i++)
        b->starts[i] = build_search(b, (int)i);
    if (b->status)
        return;
    b->stack = weft_malloc(2 * (b->n_parts + 1) * sizeof *b->stack);
    b->seen = weft_malloc(b->n_parts);
    if (!b->stack || !b->seen)
        b->status = weft__out_of_memory(b->where, "a pattern");
    if (!b->status)
        find_classes(b);
    if (!b->status)
        find_states(b);
    if (!b->status)
        find_distances(b);
}

weft_status weft__pattern_new(const weft__pattern_source *patterns, size_t n, int64_t min_length,
                              int64_t max_length, const char *where, weft__pattern **out, bool *any)
{
    *out = NULL;
    pattern_parts parts = {0};
    builder b = {.where = where, .min_length = min_length, .max_length = max_length};
    b.status = weft__lookahead_split(patterns, n, where, &parts);
    b.sources = parts.at;
    b.n = parts.n;
    b.trees = weft_calloc(b.n + 1, sizeof *b.trees);
    b.starts = weft_calloc(b.n + 1, sizeof *b.starts);
    b.out = weft_calloc(1, sizeof *b.out);
    if (!b.status && !(b.trees && b.starts && b.out))
        b.status = weft__out_of_memory(where, "a pattern");
    if (!b.status)
        make(&b);
    weft__lookahead_release(&parts);
    for (size_t i = 0; b.trees && i < b.n; i++)
        weft__pattern_tree_release(&b.trees[i]);
    weft_free(b.trees);
    weft_free(b.starts);
    weft_free(b.parts);
    weft_free(b.members);
    weft_free(b.subsets);
    weft_free(b.table);
    weft_free(b.stack);
    weft_free(b.seen);
    *any = !b.status && b.n_subsets > 0 && b.out->distance[0] < INT32_MAX;
    if (*any)
        *out = b.out;
    else
        weft__pattern_free(b.out);
    return b.status;
}

void weft__pattern_free(weft__pattern *pattern)
{
    if (!pattern)
        return;
    weft_free(pattern->firsts);
    weft_free(pattern->next);
    weft_free(pattern->distance);
    weft_free(pattern->within);
    weft_free(pattern);
}

int32_t weft__pattern_step(const weft__pattern *pattern, int32_t state, uint32_t character)
{
    return pattern
        ->next[(size_t)state * (size_t)pattern->n_classes + (size_t)class_of(pattern, character)];
}

bool weft__pattern_matches(const weft__pattern *pattern, const char *text, size_t n)
{
    int32_t state = 0;
    for (size_t i = 0; i < n && state >= 0;) {
        const int size = weft__utf8_step(text + i, n - i);
        uint32_t character = (unsigned char)text[i];
        if (size > 1) {
            character &= 0x7fU >> size;
            for (int j = 1; j < size; j++)
                character = character << 6 | ((unsigned char)text[i + (size_t)j] & 0x3fU);
        }
        state = weft__pattern_step(pattern, state, character);
        i += size > 0 ? (size_t)size : 1;
    }
    return state >= 0 && pattern->distance[state] == 0;
}

int32_t weft__pattern_distance(const weft__pattern *pattern, int32_t state, int64_t most)
{
    return most < 0 || most >= pattern->n_within
               ? pattern->distance[state]
               : pattern->within[most * pattern->n_states + state];
}

int32_t weft__pattern_nearest(const weft__pattern *pattern, int32_t state, uint32_t first,
                              uint32_t last, int64_t most)
{
    const int32_t *next = pattern->next + (size_t)state * (size_t)pattern->n_classes;
    int32_t least = INT32_MAX;
    for (int c = class_of(pattern, first); c < pattern->n_classes && pattern->firsts[c] <= last;
         c++) {
        const int32_t distance =
            next[c] == NOWHERE ? INT32_MAX : weft__pattern_distance(pattern, next[c], most);
        if (distance < least)
            least = distance;
    }
    return least;
}

/* ---- strings of limited length ----------------------------------------------------------------
 */

/* The distances with at most one character more than in the last row; true: none differs. */
static bool add_row(weft__pattern *p, const int32_t *costs)
{
    int32_t *row = p->within + p->n_within * p->n_states;
    const int32_t *before = p->n_within > 0 ? row - p->n_states : NULL;
    bool settled = true;
    for (int32_t s = 0; s < p->n_states; s++) {
        row[s] = p->distance[s] == 0 ? 0 : INT32_MAX;
        for (int c = 0; before && c < p->n_classes; c++) {
            const int32_t to = p->next[(size_t)s * (size_t)p->n_classes + (size_t)c];
            if (to != NOWHERE && before[to] < INT32_MAX && before[to] + costs[c] < row[s])
                row[s] = before[to] + costs[c];
        }
        settled = settled && row[s] == p->distance[s];
    }
    return settled;
}

weft_status weft__pattern_limit(weft__pattern *pattern, int64_t max_length, const char *where)
{
    weft__pattern *p = pattern;
    int32_t *costs = weft_malloc((size_t)p->n_classes * sizeof *costs);
    size_t capacity = 0;
    weft_status status = costs ? WEFT_OK : weft__out_of_memory(where, "a pattern");
    for (int c = 0; c < p->n_classes && !status; c++)
        costs[c] = class_cost(p, c);
    for (bool settled = false; !settled && p->n_within <= max_length && !status;) {
        const size_t used = (size_t)p->n_within * (size_t)p->n_states;
        void *data = p->within;
        if (used > MAX_CELLS)
            status = weft_fail(WEFT_UNSUPPORTED, TOO_LARGE, where);
        else
            status =
                weft__bytes_grow(&data, &capacity, used, (size_t)p->n_states, sizeof *p->within);
        p->within = data;
        settled = !status && add_row(p, costs);
        p->n_within += !status && !settled;
    }
    weft_free(costs);
    return status;
}
