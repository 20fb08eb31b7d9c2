/* tests/train/test_curve.c -- the loss curve as SVG. */
#include <math.h>
#include <string.h>

#include "tests/check.h"
#include "weft/tool/run.h"
#include "weft/train.h"

static char *draw(const weft_curve *curves, int n)
{
    char *text = NULL;
    const char *path = check_temporary("curve.svg");
    if (CHECK_OK(weft_curves_save(path, "a < b & c", "update", curves, n)))
        CHECK_OK(weft_file_read(path, 0, &text, NULL));
    return text;
}

static int count(const char *text, const char *part)
{
    int n = 0;
    for (const char *at = strstr(text, part); at; at = strstr(at + 1, part))
        n++;
    return n;
}

static void curves_have_axes_keys_and_dots(void)
{
    const double x[] = {1, 2, 3, 4, 5}, y[] = {5.1, 4.6, NAN, 4.2, 4.05};
    const double at[] = {0, 5}, seen[] = {5.2, 4.3};
    const weft_curve curves[] = {{.name = "training", .x = x, .y = y, .n = 5},
                                 {.name = "validation", .x = at, .y = seen, .n = 2, .dots = true}};
    char *text = draw(curves, 2);
    if (text) {
        CHECK_CONTAINS(text, "a &#60; b &#38; c");
        CHECK_CONTAINS(text, ">training</text>");
        CHECK_CONTAINS(text, ">4.2</text>"); /* a tick of the loss */
        CHECK_CONTAINS(text, ">3</text>");   /* and of the updates */
        CHECK_EQ_INT(count(text, "<circle"), 2);
        CHECK(strstr(text, "nan") == NULL);
    }
    weft_free(text);
}

static void odd_data_still_draws(void)
{
    const double x[] = {1}, y[] = {2}, none[] = {NAN}, huge[] = {1e300};
    const weft_curve one = {.name = "one", .x = x, .y = y, .n = 1};
    const weft_curve empty = {.name = "none", .n = 0};
    const weft_curve nothing = {.name = "nan", .x = x, .y = none, .n = 1};
    const weft_curve large = {.name = "huge", .x = x, .y = huge, .n = 1};
    const weft_curve *const all[] = {&one, &empty, &nothing, &large};
    for (int i = 0; i < 4; i++) {
        char *text = draw(all[i], 1);
        if (text)
            CHECK_CONTAINS(text, "</svg>");
        weft_free(text);
    }
    CHECK_STATUS(weft_curves_save(check_temporary("x.svg"), "", "", &one, 0), WEFT_INVALID);
    CHECK_STATUS(weft_curves_save(check_temporary("no/x.svg"), "", "", &one, 1), WEFT_IO);
}

static void long_curves_stay_small(void)
{
    static double x[100000], y[100000];
    for (int i = 0; i < 100000; i++) {
        x[i] = i;
        y[i] = 3 + sin(i * 0.01);
    }
    char *text = draw(&(weft_curve){.name = "long", .x = x, .y = y, .n = 100000}, 1);
    if (text)
        CHECK(strlen(text) < 40000);
    weft_free(text);
}

CHECK_MAIN("curve", CHECK_CASE(curves_have_axes_keys_and_dots), CHECK_CASE(odd_data_still_draws),
           CHECK_CASE(long_curves_stay_small))
