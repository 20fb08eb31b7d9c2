/* tests/check.h -- additions to CUnit for test suites: a main, checks that print the values they
 * compared, skipping, and the paths of fixtures. How to add a suite: tests/README.md.
 *
 * Every check returns whether it passed, so that a test that cannot continue returns:
 *     if (!CHECK(x != NULL)) return;
 * Call checks from the main thread of the test only. A test that makes no check fails. */
#ifndef TESTS_CHECK_H
#define TESTS_CHECK_H

#include <stdbool.h>
#include <stddef.h>

#include "weft/status.h"

typedef struct check_case {
    const char *name;
    void (*run)(void);
} check_case;

#define CHECK_CASE(function)                                                                       \
    {                                                                                              \
#function, function                                                                        \
    }

/* The body of a suite's main: runs its cases (those whose name contains argv[1], if given), prints
 * each failure as file:line, and last the line "NAME: N passed, N failed, N skipped". Returns the
 * exit status. */
int check_main(int argc, char **argv, const char *suite, const check_case *cases, size_t count);

#define CHECK_MAIN(suite, ...)                                                                     \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        static const check_case cases[] = {__VA_ARGS__};                                           \
        return check_main(argc, argv, suite, cases, sizeof cases / sizeof *cases);                 \
    }

/* Counts the running case as skipped, and says why; the case then returns. */
void check_skip(const char *format, ...) WEFT_PRINTF(1, 2);

/* Fails the running case with the given message. */
#define CHECK_FAIL(...) check_that(false, __FILE__, __LINE__, __VA_ARGS__)

#define CHECK(condition) check_that((condition), __FILE__, __LINE__, "%s", #condition)

/* Integers of any type up to 64 bits. */
#define CHECK_EQ_INT(actual, expected)                                                             \
    check_int((long long)(actual), (long long)(expected), #actual, __FILE__, __LINE__)

/* |actual - expected| <= tolerance; equal infinities are close, a NaN is close to nothing. */
#define CHECK_CLOSE(actual, expected, tolerance)                                                   \
    check_close((double)(actual), (double)(expected), (double)(tolerance), #actual, __FILE__,      \
                __LINE__)

/* |actual - expected| <= tolerance * |expected|. */
#define CHECK_RELATIVE(actual, expected, tolerance)                                                \
    check_relative((double)(actual), (double)(expected), (double)(tolerance), #actual, __FILE__,   \
                   __LINE__)

/* Equal strings; NULL equals only NULL. */
#define CHECK_STR(actual, expected) check_str((actual), (expected), #actual, __FILE__, __LINE__)

/* The text contains the part; for testing messages. */
#define CHECK_CONTAINS(text, part) check_contains((text), (part), #text, __FILE__, __LINE__)

/* Equal bytes; prints the first difference. */
#define CHECK_BYTES(actual, expected, size)                                                        \
    check_bytes((actual), (expected), (size), #actual, __FILE__, __LINE__)

/* A weft_status that must be WEFT_OK, or `expected`. Prints the library's message on failure. */
#define CHECK_OK(call) check_status((call), WEFT_OK, #call, __FILE__, __LINE__)
#define CHECK_STATUS(call, expected) check_status((call), (expected), #call, __FILE__, __LINE__)

bool check_that(bool held, const char *file, int line, const char *format, ...) WEFT_PRINTF(4, 5);
bool check_int(long long actual, long long expected, const char *text, const char *file, int line);
bool check_close(double actual, double expected, double tolerance, const char *text,
                 const char *file, int line);
bool check_relative(double actual, double expected, double tolerance, const char *text,
                    const char *file, int line);
bool check_str(const char *actual, const char *expected, const char *text, const char *file,
               int line);
bool check_contains(const char *actual, const char *part, const char *text, const char *file,
                    int line);
bool check_bytes(const void *actual, const void *expected, size_t size, const char *text,
                 const char *file, int line);
bool check_status(weft_status actual, weft_status expected, const char *text, const char *file,
                  int line);

/* Whether the default device is a software driver. */
bool check_in_software(void);

/* Whether exhaustive tests run: `make test-all`, which sets WEFT_TEST_ALL. */
bool check_exhaustive(void);

/* Whether the suite should try few cases, because it runs under a sanitizer or the default device
 * is a software driver, on which tests that take minutes on a card take hours; false with
 * check_exhaustive(). */
bool check_few(void);

/* Whether the default device may replace a float32 number of this magnitude by 0, because it
 * flushes numbers below 2^-126 (weft_device_flushes_subnormals). Such inputs and results are not
 * compared. `size` is the magnitude of the number or of its inputs. The first such number is
 * printed. */
bool check_may_be_flushed(double size);

/* Paths, valid until the suite ends. check_fixture: a file or folder in tests/golden. check_source:
 * in the source tree. check_shared: in ../shared beside the source tree, or in $WEFT_SHARED; NULL
 * if it does not exist, so that the test can skip. check_built: in the build folder, such as
 * "cli/weft". check_temporary: a name in this run's own folder, which is removed with its contents
 * when the suite ends. */
const char *check_fixture(const char *name);
const char *check_source(const char *name);
const char *check_shared(const char *name);
const char *check_built(const char *name);
const char *check_temporary(const char *name);

#endif
