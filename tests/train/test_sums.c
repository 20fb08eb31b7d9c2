/* tests/train/test_sums.c -- sums that find which items of a list changed, and command lines that a
 * run recorded. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/io/json.h"
#include "tests/check.h"
#include "train/run/settings.h"
#include "train/run/sums.h"

static uint64_t random_word(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state ^ *state >> 29;
}

/* The JSON of n items, of which those in `changed` (n_changed) have other hashes. */
static void write_list(weft__json_doc *out, int64_t n, const int64_t *changed, int n_changed)
{
    weft__sums sums = {.n = 0};
    weft__text t = {0};
    uint64_t state = 7;
    for (int64_t i = 0; i < n; i++) {
        uint64_t hash = random_word(&state);
        for (int k = 0; k < n_changed; k++)
            hash ^= changed[k] == i ? 0x1234567812345678u + (uint64_t)i : 0;
        weft__sums_add(&sums, hash);
    }
    weft__sums_write(&t, &sums);
    CHECK_OK(weft__json_parse(t.at, t.n, "sums", out));
    weft_free(t.at);
}

/* Expects this text for a list in which these items (from 0) changed; NULL: no difference. */
static void expect_changed(int64_t n, const int64_t *changed, int n_changed, const char *expected)
{
    weft__json_doc a = {.root = NULL}, b = {.root = NULL};
    weft__text found = {0};
    write_list(&a, n, NULL, 0);
    write_list(&b, n, changed, n_changed);
    CHECK_EQ_INT(weft__sums_compare(a.root, b.root, "line", &found), expected != NULL);
    if (expected && CHECK(found.at != NULL))
        CHECK_STR(found.at, expected);
    weft_free(found.at);
    weft__json_free(&a);
    weft__json_free(&b);
}

static void changed_items_are_found(void)
{
    static const int64_t sizes[] = {1, 2, 63, 64, 65, 1000, 100000};
    expect_changed(0, NULL, 0, NULL);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const int64_t n = sizes[s], at[] = {0, n / 2, n - 1};
        char expected[128];
        expect_changed(n, NULL, 0, NULL);
        for (int k = 0; k < 3; k++) {
            snprintf(expected, sizeof expected, "line %" PRId64 " of %" PRId64, at[k] + 1, n);
            expect_changed(n, &at[k], 1, expected);
        }
    }
    expect_changed(1000, (const int64_t[]){700, 3, 64}, 3, "lines 4, 65, 701 of 1000");
    /* Two of one class: the change is detected, but not its position. */
    expect_changed(1000, (const int64_t[]){5, 69}, 2, "lines at several positions of 1000");
    expect_changed(1000, (const int64_t[]){5, 69, 7}, 3, "lines 8 and others of 1000");
    int64_t many[12];
    for (int i = 0; i < 12; i++)
        many[i] = 2 * i;
    expect_changed(1000, many, 12, "lines 1, 3, 5, 7, 9, 11, 13, 15 and others of 1000");
}

static void other_counts_and_malformed_sums(void)
{
    static const char *const malformed[] = {"{}",
                                            "[]",
                                            "{\"n\": 1}",
                                            "{\"n\": 1, \"sums\": \"00\"}",
                                            "{\"n\": -1, \"sums\": \"\"}",
                                            "{\"n\": 1, \"sums\": \"ffffffff00000000\"}",
                                            "{\"n\": 1, \"sums\": \"0000000g00000000\"}",
                                            "{\"n\": 1, \"sums\": 5}"};
    weft__json_doc a = {.root = NULL}, b = {.root = NULL};
    weft__text found = {0};
    write_list(&a, 24, NULL, 0);
    write_list(&b, 23, NULL, 0);
    CHECK(weft__sums_compare(a.root, b.root, "line", &found));
    CHECK_STR(found.at, "lines: recorded 24, now 23");
    weft__json_free(&b);
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        b = (weft__json_doc){.root = NULL};
        CHECK_OK(weft__json_parse(malformed[i], strlen(malformed[i]), "sums", &b));
        CHECK(!weft__sums_compare(a.root, b.root, "line", &found));
        CHECK(!weft__sums_compare(b.root, a.root, "line", &found));
        weft__json_free(&b);
    }
    weft_free(found.at);
    weft__json_free(&a);
}

/* A flag, an option with an empty value, a repeated option, and arguments that look like options.
 */
static void command_lines_are_read(void)
{
    static const char text[] = "[\"first\", \"--full\", \"--reward\", \"a\", \"--note\", \"\", "
                               "\"--reward\", \"b\", \"--\", \"--data\", \"base\", 5]";
    static const char *const expected[][2] = {{NULL, "first"}, {"full", NULL},  {"reward", "a"},
                                              {"note", ""},    {"reward", "b"}, {NULL, "--data"},
                                              {NULL, "base"},  {NULL, ""}};
    weft__json_doc doc = {.root = NULL};
    CHECK_OK(weft__json_parse(text, sizeof text - 1, "command", &doc));
    weft__options o = {.words = doc.root};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        if (!CHECK(weft__options_next(&o)))
            break;
        for (int k = 0; k < 2; k++) {
            const char *found = k ? o.value : o.name, *want = expected[i][k];
            CHECK_EQ_INT(found != NULL, want != NULL);
            if (found && want)
                CHECK_STR(found, want);
        }
    }
    CHECK(!weft__options_next(&o));
    CHECK_STR(weft__option_of(doc.root, "reward", 1), "b");
    CHECK_STR(weft__option_of(doc.root, "full", 0), "");
    CHECK(weft__option_of(doc.root, "reward", 2) == NULL);
    CHECK(weft__option_of(doc.root, "data", 0) == NULL);
    CHECK(weft__option_of(NULL, "data", 0) == NULL);
    weft__json_free(&doc);
}

CHECK_MAIN("sums", CHECK_CASE(changed_items_are_found), CHECK_CASE(other_counts_and_malformed_sums),
           CHECK_CASE(command_lines_are_read))
