/* tests/core/test_debug.c -- WEFT_DEBUG=1, which is read once: each case runs in its own process;
 * and the warning about loops without a scope. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/check.h"
#include "tests/support/child.h"
#include "weft/ops.h"

enum { SAID = 1 << 14 };

static weft_array *made_here(void)
{
    return weft_ones(WEFT_DIMS(2, 3), WEFT_FLOAT32);
}

static void runs(void (*body)(void), char *said)
{
    int status = in_child("WEFT_DEBUG", "1", body, said, SAID);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- arrays --------------------------------------------------------------------------------- */

static weft_array *from_a_closed_scope(void)
{
    weft_scope_open();
    weft_array *x = weft_exp(made_here());
    weft_scope_close(NULL);
    return x;
}

static void use_in_all_ways(void)
{
    float values[6];
    weft_array *slot = NULL;
    weft_array *x = from_a_closed_scope();
    weft_scope_open();
    fprintf(stderr, "add gives: %s\n", weft_error(weft_add(made_here(), x)));
    fprintf(stderr, "eval: %s\n", weft_status_name(weft_eval(x)));
    fprintf(stderr, "read: %s\n", weft_status_name(weft_read(x, WEFT_FLOAT32, values, 6)));
    fprintf(stderr, "set: %s\n", weft_status_name(weft_set(&slot, x)));
    fprintf(stderr, "keep: %d\n", weft_keep(x) == x);
    weft_drop(x);
    weft_scope_close(NULL);
}

static void use_after_release_is_reported_with_its_place(void)
{
    char said[SAID];
    runs(use_in_all_ways, said);
    CHECK_CONTAINS(said,
                   "add gives: use of a released array (exp, float32 (2, 3), made in the scope "
                   "of from_a_closed_scope (tests/core/test_debug.c:");
    CHECK_CONTAINS(said,
                   "released when the scope of from_a_closed_scope (tests/core/test_debug.c:");
    CHECK_CONTAINS(said, "WEFT_DEBUG: add: use of a released array");
    CHECK_CONTAINS(said, "called from ");
    CHECK_CONTAINS(said, "eval: invalid");
    CHECK_CONTAINS(said, "read: invalid");
    CHECK_CONTAINS(said, "set: invalid");
    CHECK_CONTAINS(said, "WEFT_DEBUG: keep: use of a released array");
    CHECK_CONTAINS(said, "keep: 1");
    CHECK_CONTAINS(said, "WEFT_DEBUG: drop: use of a released array");
}

static void drop_twice(void)
{
    weft_scope_open();
    weft_array *x = weft_keep(made_here()), *y = weft_keep(made_here());
    weft_drop(y);
    weft_drop(y); /* the scope still has it */
    fprintf(stderr, "y is %s\n", weft_ok(y) ? "fine" : weft_error(y));
    weft_scope_close(NULL);
    weft_drop(x);
    weft_drop(x);
}

static void a_second_drop_is_reported_and_does_nothing(void)
{
    char said[SAID];
    runs(drop_twice, said);
    CHECK_CONTAINS(said,
                   "WEFT_DEBUG: drop: nothing holds the array (float32 (2, 3), made in the scope "
                   "of drop_twice (tests/core/test_debug.c:");
    CHECK_CONTAINS(said, "y is fine");
    CHECK_CONTAINS(said, "which was released by weft_drop, called from ");
}

static void one_at_a_time(void)
{
    for (int i = 0; i < 200000; i++) {
        weft_scope_open();
        (void)weft_exp(made_here());
        weft_scope_close(NULL);
    }
    fprintf(stderr, "done");
}

static void released_arrays_do_not_pile_up(void)
{
    char said[SAID];
    runs(one_at_a_time, said);
    CHECK_STR(said, "done");
}

/* ---- scopes --------------------------------------------------------------------------------- */

static void returns_early(bool early)
{
    weft_scope_open();
    (void)made_here();
    if (early) {
        return;
    }
    weft_scope_close(NULL);
}

static void *leave_a_scope_open(void *unused)
{
    weft_scope_open();
    returns_early(true);
    weft_scope_close(NULL);
    return unused;
}

static void leave_a_scope_open_in_a_thread(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, leave_a_scope_open, NULL);
    pthread_join(thread, NULL);
}

static void leave_a_scope_open_at_exit(void)
{
    leave_a_scope_open(NULL);
    exit(0);
}

static void check_open_scope(void (*body)(void))
{
    char said[SAID];
    runs(body, said);
    CHECK_CONTAINS(said, "WEFT_DEBUG: the scope opened in leave_a_scope_open "
                         "(tests/core/test_debug.c:");
    CHECK_CONTAINS(said, "is still open at the end of its thread");
    /* The scope that was left open; its caller closed it. */
    CHECK_CONTAINS(said, "WEFT_DEBUG: the scope opened in returns_early (tests/core/test_debug.c:");
    CHECK_CONTAINS(said, "was closed in leave_a_scope_open: did the first return without closing");
}

static void scopes_left_open_are_reported(void)
{
    check_open_scope(leave_a_scope_open_in_a_thread);
    check_open_scope(leave_a_scope_open_at_exit);
}

static void close_all(void)
{
    for (int i = 0; i < 3; i++) {
        returns_early(false);
    }
    exit(0);
}

static void closed_scopes_are_not_reported(void)
{
    char said[SAID];
    runs(close_all, said);
    CHECK_STR(said, "");
}

/* ---- without the switch --------------------------------------------------------------------- */

static void read_often(bool scoped, int times)
{
    weft_array *x = weft_keep(made_here());
    for (int i = 0; i < times; i++) {
        if (scoped) {
            weft_scope_open();
        }
        (void)weft_item(weft_sum(weft_add_scalar(x, i), WEFT_ALL_AXES, false));
        if (scoped) {
            weft_scope_close(NULL);
        }
    }
    weft_drop(x);
}

static void loop_without_a_scope(void)
{
    weft_scope_open();
    read_often(false, 5000);
    read_often(false, 5000);
    weft_scope_close(NULL);
    weft_scope_open();
    read_often(false, 5000);
    weft_scope_close(NULL);
}

static void *loop_in_the_root_scope(void *unused)
{
    read_often(false, 5000);
    return unused;
}

static void loop_in_the_root_scope_of_a_thread(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, loop_in_the_root_scope, NULL);
    pthread_join(thread, NULL);
}

static void loop_with_scopes(void)
{
    read_often(true, 20000);
    weft_scope_open(); /* many arrays, few evaluations */
    weft_array *x = made_here();
    for (int i = 0; i < 20000; i++) {
        x = weft_add_scalar(x, 1);
    }
    (void)weft_item(weft_sum(x, WEFT_ALL_AXES, false));
    for (int i = 0; i < 20000; i++) { /* many evaluations, no more arrays */
        (void)weft_eval(x);
        (void)weft_item(weft_slice_axis(weft_scope_depth() == 1 ? x : NULL, 0, 0, 1));
        weft_scope_open();
        (void)weft_eval(weft_exp(x));
        weft_scope_close(NULL);
        i += 200;
    }
    weft_scope_close(NULL);
}

static int times_in(const char *text, const char *part)
{
    int n = 0;
    for (const char *at = strstr(text, part); at; at = strstr(at + 1, part)) {
        n++;
    }
    return n;
}

static void a_loop_without_a_scope_gives_one_warning(void)
{
    static const char warning[] = "open a scope in the loop";
    char said[SAID];
    in_child("WEFT_DEBUG", "0", loop_without_a_scope, said, sizeof said);
    CHECK_CONTAINS(said, "weft: warning: ");
    CHECK_CONTAINS(said, "arrays in the scope of loop_without_a_scope (tests/core/test_debug.c:");
    CHECK_EQ_INT(times_in(said, warning), 1);
    in_child("WEFT_DEBUG", "0", loop_in_the_root_scope_of_a_thread, said, sizeof said);
    CHECK_CONTAINS(said, "arrays in the scope of the thread");
    CHECK_EQ_INT(times_in(said, warning), 1);
    in_child("WEFT_DEBUG", "0", loop_with_scopes, said, sizeof said);
    CHECK_STR(said, "");
}

CHECK_MAIN("debug", CHECK_CASE(use_after_release_is_reported_with_its_place),
           CHECK_CASE(a_second_drop_is_reported_and_does_nothing),
           CHECK_CASE(released_arrays_do_not_pile_up), CHECK_CASE(scopes_left_open_are_reported),
           CHECK_CASE(closed_scopes_are_not_reported),
           CHECK_CASE(a_loop_without_a_scope_gives_one_warning))
