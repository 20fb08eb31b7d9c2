/* tests/check.c -- a suite's main on top of CUnit, and the checks of check.h. */
#include "tests/check.h"

#include <CUnit/CUnit.h>
#include <CUnit/TestRun.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/check_paths.h"
#include "weft/array.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool sanitized = true;
#else
static const bool sanitized = false;
#endif

enum { MESSAGE_SIZE = 2048, SHOWN_FAILURES = 20 };

static struct {
    unsigned checks;   /* made by the running case */
    unsigned failures; /* of these */
    bool skipped;
    bool verbose; /* WEFT_TEST_VERBOSE */
    struct timespec started;
    int passed, failed, skips;
    char skip_reason[MESSAGE_SIZE];
} state;

/* Threads of a server under test check, too. */
static bool report(bool held, const char *file, int line, const char *message)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    state.checks++;
    if (!held) {
        if (state.failures++ < SHOWN_FAILURES) {
            fprintf(stderr, "%s:%d: %s\n", file, line, message);
        }
        if (getenv("WEFT_TEST_STOP")) {
            fflush(NULL);
            _Exit(EXIT_FAILURE);
        }
        CU_assertImplementation(CU_FALSE, (unsigned)line, message, file, "", CU_FALSE);
    }
    pthread_mutex_unlock(&lock);
    return held;
}

bool check_that(bool held, const char *file, int line, const char *format, ...)
{
    char message[MESSAGE_SIZE] = "";
    if (!held) {
        va_list args;
        va_start(args, format);
        vsnprintf(message, sizeof message, format, args);
        va_end(args);
    }
    return report(held, file, line, message);
}

bool check_int(long long actual, long long expected, const char *text, const char *file, int line)
{
    return check_that(actual == expected, file, line, "%s: %lld, expected %lld", text, actual,
                      expected);
}

bool check_close(double actual, double expected, double tolerance, const char *text,
                 const char *file, int line)
{
    bool held = actual == expected || fabs(actual - expected) <= tolerance;
    return check_that(held, file, line, "%s: %.17g, expected %.17g within %g (off by %g)", text,
                      actual, expected, tolerance, fabs(actual - expected));
}

bool check_relative(double actual, double expected, double tolerance, const char *text,
                    const char *file, int line)
{
    return check_close(actual, expected, tolerance * fabs(expected), text, file, line);
}

bool check_str(const char *actual, const char *expected, const char *text, const char *file,
               int line)
{
    bool held = actual && expected ? strcmp(actual, expected) == 0 : actual == expected;
    return check_that(held, file, line, "%s: \"%s\", expected \"%s\"", text,
                      actual ? actual : "(NULL)", expected ? expected : "(NULL)");
}

bool check_contains(const char *actual, const char *part, const char *text, const char *file,
                    int line)
{
    return check_that(actual && strstr(actual, part), file, line,
                      "%s: \"%s\", expected it to contain \"%s\"", text, actual ? actual : "(NULL)",
                      part);
}

bool check_bytes(const void *actual, const void *expected, size_t size, const char *text,
                 const char *file, int line)
{
    const unsigned char *a = actual, *e = expected;
    size_t i = 0;
    while (i < size && a[i] == e[i]) {
        i++;
    }
    if (i == size) {
        return report(true, file, line, "");
    }
    return check_that(false, file, line, "%s: byte %zu of %zu is 0x%02x, expected 0x%02x", text, i,
                      size, a[i], e[i]);
}

bool check_status(weft_status actual, weft_status expected, const char *text, const char *file,
                  int line)
{
    return check_that(actual == expected, file, line, "%s: %s, expected %s%s%s", text,
                      weft_status_name(actual), weft_status_name(expected),
                      actual == WEFT_OK ? "" : ": ", actual == WEFT_OK ? "" : weft_error_message());
}

void check_skip(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(state.skip_reason, sizeof state.skip_reason, format, args);
    va_end(args);
    state.skipped = true;
}

bool check_in_software(void)
{
    return strstr(weft_device_description(weft_default_device()), "in software") != NULL;
}

bool check_exhaustive(void)
{
    return getenv("WEFT_TEST_ALL") != NULL;
}

bool check_few(void)
{
    return (sanitized || check_in_software()) && !check_exhaustive();
}

bool check_may_be_flushed(double size)
{
    static bool told;
    const bool may =
        fabs(size) < 0x1p-126 && size != 0 && weft_device_flushes_subnormals(weft_default_device());
    if (may && !told)
        printf("  %s flushes subnormal numbers, which are not compared\n",
               weft_device_name(weft_default_device()));
    told = told || may;
    return may;
}

static void case_starts(const CU_pTest test, const CU_pSuite suite)
{
    (void)test;
    (void)suite;
    state.checks = 0;
    state.failures = 0;
    state.skipped = false;
    timespec_get(&state.started, TIME_UTC);
}

static void case_ends(const CU_pTest test, const CU_pSuite suite, const CU_pFailureRecord failure)
{
    const char *problem = NULL;
    if (state.verbose) {
        struct timespec now;
        timespec_get(&now, TIME_UTC);
        printf("  %s: %.1f s\n", test->pName,
               (double)(now.tv_sec - state.started.tv_sec) +
                   1e-9 * (double)(now.tv_nsec - state.started.tv_nsec));
    }
    if (failure || state.failures) {
        problem = "failed";
    } else if (!state.skipped && state.checks == 0) {
        problem = "failed: it made no check";
    }
    if (problem) {
        state.failed++;
        fprintf(stderr, "%s: %s: %s", suite->pName, test->pName, problem);
        if (state.failures > SHOWN_FAILURES) {
            fprintf(stderr, " (%u checks, the first %d shown)", state.failures, SHOWN_FAILURES);
        }
        fputc('\n', stderr);
    } else if (state.skipped) {
        state.skips++;
        printf("%s: %s: skipped: %s\n", suite->pName, test->pName, state.skip_reason);
    } else {
        state.passed++;
    }
}

/* Whether a case named so runs. The filter: parts of names, joined by '+'; a leading '-' turns it
 * into all cases but these; NULL is all. */
static bool is_chosen(const char *filter, const char *name)
{
    const bool others = filter && *filter == '-';
    bool found = false;
    for (const char *part = filter ? filter + others : NULL; part && !found;) {
        char text[128];
        const size_t length = strcspn(part, "+");
        snprintf(text, sizeof text, "%.*s", (int)length, part);
        found = strstr(name, text) != NULL;
        part = part[length] ? part + length + 1 : NULL;
    }
    return !filter || found != others;
}

static bool add_cases(const char *suite_name, const char *filter, const check_case *cases,
                      size_t count)
{
    CU_pSuite suite = CU_add_suite(suite_name, NULL, NULL);
    if (!suite) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (is_chosen(filter, cases[i].name) && !CU_add_test(suite, cases[i].name, cases[i].run)) {
            return false;
        }
    }
    return true;
}

/* WEFT_TEST_DEVICE: the default device of the suite. False: it is not there, and the suite's cases
 * count as skipped. */
static bool use_device(const char *suite, size_t count)
{
    const char *name = getenv("WEFT_TEST_DEVICE");
    weft_device *device = name ? weft_device_get(name) : NULL;
    if (device) {
        weft_set_default_device(device);
    } else if (name) {
        printf("%s: skipped: %s\n%s: 0 passed, 0 failed, %zu skipped\n", suite,
               weft_error_message(), suite, count);
    }
    return device || !name;
}

static void print_log(void *context, weft_log_level level, const char *message)
{
    (void)context;
    (void)level;
    printf("  %s\n", message);
}

int check_main(int argc, char **argv, const char *suite, const check_case *cases, size_t count)
{
    state.verbose = getenv("WEFT_TEST_VERBOSE") != NULL;
    /* Recorded values are those of the CPU in float32, which the command does not always choose. */
    setenv("WEFT_DEVICE", "cpu", 0);
    setenv("WEFT_DTYPE", "float32", 0);
    if (state.verbose) {
        weft_set_log(print_log, NULL);
    }
    if (!use_device(suite, count)) {
        return EXIT_SUCCESS;
    }
    if (CU_initialize_registry() != CUE_SUCCESS ||
        !add_cases(suite, argc > 1 ? argv[1] : NULL, cases, count)) {
        fprintf(stderr, "%s: CUnit: %s\n", suite, CU_get_error_msg());
        return EXIT_FAILURE;
    }
    if (CU_get_registry()->uiNumberOfTests == 0) {
        fprintf(stderr, "%s: no case is named so: %s\n", suite, argv[1]);
        return EXIT_FAILURE;
    }
    CU_set_test_start_handler(case_starts);
    CU_set_test_complete_handler(case_ends);
    CU_run_all_tests();
    CU_cleanup_registry();
    check_paths_release();
    fflush(stderr);
    printf("%s: %d passed, %d failed, %d skipped\n", suite, state.passed, state.failed,
           state.skips);
    fflush(stdout); /* the leak check may end the process without it */
    return state.failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
