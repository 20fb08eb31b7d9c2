/* train/reward.c -- rewards of completions: comparison with the row's answers, patterns, JSON
 * schemas, lengths; programs are in reward_program.c. */
#include "train/reward.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/json.h"
#include "text/schema/check.h"
#include "text/tokenizer/regex.h"
#include "weft/io.h"
#include "weft/memory.h"

enum { SECONDS = 60 };

/* A reward. Members that its kind does not use are NULL. */
typedef struct reward {
    const struct kind *kind;
    char *text; /* after the colon; "" */
    char *open; /* exact: the tags around the part */
    char *close;
    double soft, hard; /* length */
    text_regex *regex;
    weft__json_doc schema;
    weft__checker *checker;
    weft__reward_program *program;
} reward;

typedef struct kind {
    const char *name;
    const char *expected; /* what follows the colon, for messages */
    bool optional;        /* nothing need follow */
    weft_status (*open)(reward *r, const char *description, double seconds);
    weft_status (*score)(const reward *r, const weft_completion *c, double *out);
} kind;

struct weft_rewards {
    reward *at;
    int n;
};

/* ---- exact ---------------------------------------------------------------------------------- */

static char *copy(const char *text, size_t n)
{
    return weft_format("%.*s", (int)n, text);
}

/* Lower case, single spaces, none at the ends, no period at the end. Other bytes than ASCII are
 * kept. */
static void normalize(char *text)
{
    size_t n = 0;
    for (const char *at = text; *at; at++) {
        const bool space = isspace((unsigned char)*at);
        if (!space)
            text[n++] = (unsigned char)*at < 0x80 ? (char)tolower((unsigned char)*at) : *at;
        else if (n > 0 && text[n - 1] != ' ')
            text[n++] = ' ';
    }
    while (n > 0 && (text[n - 1] == ' ' || text[n - 1] == '.'))
        n--;
    text[n] = '\0';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Whether a number begins here: a digit, or a point before one. */
static bool is_number(const char *p)
{
    return is_digit(*p) || (*p == '.' && is_digit(p[1]));
}

/* Whether there is a minus before the number at `at`: - or U+2212, not after a letter or digit. */
static bool is_negative(const char *text, const char *at)
{
    static const char minus[] = "\xe2\x88\x92";
    const size_t n = at - text >= 3 && memcmp(at - 3, minus, 3) == 0 ? 3 : 1;
    if (at - text < (ptrdiff_t)n || (n == 1 && at[-1] != '-'))
        return false;
    return at - n == text || !isalnum((unsigned char)at[-(ptrdiff_t)n - 1]);
}

/* Reads the number that begins at *at: digits, with commas between groups of three, decimals and an
 * exponent. Moves *at behind it. Integers of 64 bits are exact. */
static long double read_number(const char *text, const char **at)
{
    char digits[80];
    size_t n = 0;
    const char *p = *at;
    bool point = false;
    if (is_negative(text, p))
        digits[n++] = '-';
    for (; n + 16 < sizeof digits; p++) {
        const bool group = n > 0 && !point && *p == ',' && is_digit(p[1]) && is_digit(p[2]) &&
                           is_digit(p[3]) && !is_digit(p[4]);
        if (group)
            continue;
        if (!is_digit(*p) && (point || *p != '.' || !is_digit(p[1])))
            break;
        point = point || *p == '.';
        digits[n++] = *p;
    }
    while (is_digit(*p))
        p++;
    const char *power = p + 1 + (*p && (p[1] == '-' || p[1] == '+')), *end = power;
    while ((*p == 'e' || *p == 'E') && is_digit(*end))
        end++;
    if ((*p == 'e' || *p == 'E') && end > power && end - p < 8 && !isalnum((unsigned char)*end)) {
        memcpy(digits + n, p, (size_t)(end - p));
        n += (size_t)(end - p);
        p = end;
    }
    digits[n] = '\0';
    *at = p;
    return strtold(digits, NULL);
}

/* The last number of a text. */
static bool last_number(const char *text, long double *out)
{
    bool found = false;
    for (const char *at = text; *at;) {
        if (is_number(at)) {
            *out = read_number(text, &at);
            found = true;
        } else {
            at++;
        }
    }
    return found;
}

/* The contents of the last \boxed{}, with balanced braces. NULL if the text has no box, or without
 * memory. */
static char *last_boxed(const char *text)
{
    static const char mark[] = "\\boxed{";
    const char *begin = NULL;
    for (const char *at = text; (at = strstr(at, mark)) != NULL;)
        begin = at += sizeof mark - 1;
    if (begin == NULL)
        return NULL;
    int depth = 1;
    const char *end = begin;
    for (; *end && depth > 0; end++)
        depth += (*end == '{') - (*end == '}');
    return depth == 0 ? copy(begin, (size_t)(end - 1 - begin)) : NULL;
}

/* What is in the last pair of tags. */
static char *last_tagged(const reward *r, const char *text)
{
    const char *begin = NULL, *end = NULL;
    for (const char *at = text; (at = strstr(at, r->open)) != NULL;) {
        at += strlen(r->open);
        const char *close = strstr(at, r->close);
        begin = close ? at : begin;
        end = close ? close : end;
    }
    return begin ? copy(begin, (size_t)(end - begin)) : NULL;
}

/* The part of a text that is compared. NULL: it has none, or there is no memory. */
static char *part_of(const reward *r, const char *text)
{
    return r->open                         ? last_tagged(r, text)
           : strcmp(r->text, "boxed") == 0 ? last_boxed(text)
                                           : weft_strdup(text);
}

static bool same(const reward *r, const char *answer, const char *part)
{
    long double x = 0, y = 0;
    if (strcmp(r->text, "number") == 0)
        return last_number(answer, &x) && last_number(part, &y) && x == y;
    char *inner = part_of(r, answer), *expected = inner ? inner : weft_strdup(answer);
    char *found = weft_strdup(part);
    bool equal = false;
    if (expected && found) {
        normalize(expected);
        normalize(found);
        equal = strcmp(expected, found) == 0;
    }
    weft_free(expected);
    weft_free(found);
    return equal;
}

static weft_status score_exact(const reward *r, const weft_completion *c, double *out)
{
    char *part = part_of(r, c->text);
    *out = c->n_answers > 0 ? 0 : NAN;
    for (int i = 0; part && i < c->n_answers; i++)
        *out = same(r, c->answers[i], part) ? 1 : *out;
    weft_free(part);
    return WEFT_OK;
}

static weft_status open_exact(reward *r, const char *description, double seconds)
{
    (void)seconds;
    static const char *const parts[] = {"", "text", "number", "boxed"};
    const size_t n = strlen(r->text);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (strcmp(r->text, parts[i]) == 0)
            return WEFT_OK;
    }
    if (n < 3 || r->text[0] != '<' || r->text[1] == '/' || r->text[n - 1] != '>')
        return weft_fail(WEFT_INVALID,
                         "reward %s: expected exact:text, number, boxed or a tag such as <answer>",
                         weft_printable(description));
    r->open = weft_strdup(r->text);
    r->close = weft_format("</%s", r->text + 1);
    return r->open && r->close ? WEFT_OK : weft__out_of_memory("reward", NULL);
}

/* ---- patterns, schemas, lengths ------------------------------------------------------------- */

static weft_status open_pattern(reward *r, const char *description, double seconds)
{
    (void)seconds;
    const weft__json at = {.value = NULL, .name = description};
    char *whole = weft_format("(?-m)%s", r->text); /* ^ and $ are the ends of the text */
    const weft_status status = whole ? weft__regex_new(whole, strlen(whole), false, &at, &r->regex)
                                     : weft__out_of_memory("reward", NULL);
    weft_free(whole);
    return status;
}

static weft_status score_pattern(const reward *r, const weft_completion *c, double *out)
{
    regex_search search;
    bool found = false;
    weft_status status = weft__regex_search(r->regex, c->text, strlen(c->text), &search);
    if (status == WEFT_OK) {
        status = weft__regex_next(&search, &found);
        weft__regex_search_end(&search);
    }
    *out = status == WEFT_OK && found;
    return status == WEFT_MEMORY ? status : WEFT_OK; /* otherwise it takes too many steps */
}

static weft_status open_schema(reward *r, const char *description, double seconds)
{
    (void)description;
    (void)seconds;
    const weft_status status = weft__json_read(r->text, &r->schema);
    return status == WEFT_OK ? weft__checker_new(r->schema.root, &r->checker) : status;
}

static weft_status score_schema(const reward *r, const weft_completion *c, double *out)
{
    weft__json_doc doc = {.root = NULL};
    bool holds = false;
    weft_status status = weft__json_parse(c->text, strlen(c->text), "completion", &doc);
    if (status == WEFT_OK)
        status = weft__checker_matches(r->checker, r->schema.root, doc.root, &holds);
    weft__json_free(&doc);
    *out = holds;
    return status == WEFT_MEMORY ? status : WEFT_OK; /* otherwise it is not JSON */
}

static weft_status open_length(reward *r, const char *description, double seconds)
{
    (void)seconds;
    char *comma, *end;
    r->soft = strtod(r->text, &comma);
    r->hard = *comma == ',' ? strtod(comma + 1, &end) : 0;
    return comma != r->text && *comma == ',' && *end == '\0' && r->soft >= 0 && r->hard > r->soft &&
                   isfinite(r->hard)
               ? WEFT_OK
               : weft_fail(WEFT_INVALID,
                           "reward %s: expected length:SOFT,HARD, two numbers of tokens of which "
                           "the second is larger",
                           weft_printable(description));
}

static weft_status score_length(const reward *r, const weft_completion *c, double *out)
{
    const double over = ((double)c->tokens - r->soft) / (r->hard - r->soft);
    *out = over > 0 ? -fmin(over, 1) : 0;
    return WEFT_OK;
}

static weft_status open_program(reward *r, const char *description, double seconds)
{
    return weft__reward_program_new(r->text, description, seconds, &r->program);
}

/* ---- descriptions --------------------------------------------------------------------------- */

static const kind kinds[] = {
    {"exact", "PART", true, open_exact, score_exact},
    {"pattern", "REGEX", false, open_pattern, score_pattern},
    {"json-schema", "FILE", false, open_schema, score_schema},
    {"length", "SOFT,HARD", false, open_length, score_length},
    {"program", "COMMAND", false, open_program, NULL},
};

static weft_status open_reward(const char *description, double seconds, reward *out)
{
    const size_t n = strcspn(description, ":");
    const char *rest = description[n] == ':' ? description + n + 1 : "";
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && out->kind == NULL; i++) {
        if (strlen(kinds[i].name) == n && strncmp(kinds[i].name, description, n) == 0)
            out->kind = &kinds[i];
    }
    if (out->kind == NULL)
        return weft_fail(WEFT_INVALID,
                         "reward %s: expected exact, pattern:REGEX, json-schema:FILE, "
                         "length:SOFT,HARD or program:COMMAND",
                         weft_printable(description));
    if (*rest == '\0' && !out->kind->optional)
        return weft_fail(WEFT_INVALID, "reward %s: expected %s:%s", weft_printable(description),
                         out->kind->name, out->kind->expected);
    out->text = weft_strdup(rest);
    return out->text ? out->kind->open(out, description, seconds)
                     : weft__out_of_memory("reward", NULL);
}

weft_status weft_rewards_new(const char *const *descriptions, int n,
                             const weft_rewards_options *options, weft_rewards **out)
{
    const double asked = options ? options->seconds : 0;
    *out = NULL;
    if (n < 1 || !(asked >= 0 && isfinite(asked)))
        return weft_fail(WEFT_INVALID, "rewards: expected descriptions, and seconds of at least 0");
    weft_rewards *r = weft_calloc(1, sizeof *r);
    if (r == NULL || (r->at = weft_calloc((size_t)n, sizeof *r->at)) == NULL) {
        weft_free(r);
        return weft__out_of_memory("reward", NULL);
    }
    weft_status status = WEFT_OK;
    for (int i = 0; status == WEFT_OK && i < n; i++) {
        r->n++;
        status = open_reward(descriptions[i], asked > 0 ? asked : SECONDS, &r->at[i]);
    }
    if (status == WEFT_OK)
        *out = r;
    else
        weft_rewards_free(r);
    return status;
}

void weft_rewards_free(weft_rewards *rewards)
{
    for (int i = 0; rewards && i < rewards->n; i++) {
        reward *r = &rewards->at[i];
        weft__regex_free(r->regex);
        weft__checker_free(r->checker);
        weft__json_free(&r->schema);
        weft__reward_program_free(r->program);
        weft_free(r->open);
        weft_free(r->close);
        weft_free(r->text);
    }
    if (rewards)
        weft_free(rewards->at);
    weft_free(rewards);
}

weft_status weft_rewards_score(void *rewards, const weft_completion *completions, size_t n,
                               const weft_cancel *cancel, double *out)
{
    const weft_rewards *all = rewards;
    weft_status status = WEFT_OK;
    for (int k = 0; status == WEFT_OK && k < all->n; k++) {
        const reward *r = &all->at[k];
        if (r->program)
            status =
                weft__reward_program_score(r->program, completions, n, cancel, out + k, all->n);
        for (size_t i = 0; status == WEFT_OK && r->program == NULL && i < n; i++) {
            if (cancel && weft_cancel_is_set(cancel))
                return weft_fail(WEFT_CANCELLED,
                                 "training was stopped while it scored completions");
            status = r->kind->score(r, &completions[i], &out[i * (size_t)all->n + (size_t)k]);
            if (status != WEFT_OK)
                status = weft_fail(status, "%s: reward %s: %s", completions[i].where, r->kind->name,
                                   weft_error_message());
        }
    }
    return status;
}
