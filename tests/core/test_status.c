/* tests/core/test_status.c -- weft/status.h: names, each thread's own message, the log callback. */
#include "weft/status.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "weft/version.h"

enum { THREADS = 4, ROUNDS = 500 };

static void names_are_distinct(void)
{
    for (int i = WEFT_OK; i <= WEFT_CANCELLED; i++) {
        for (int j = WEFT_OK; j < i; j++) {
            CHECK(strcmp(weft_status_name((weft_status)i), weft_status_name((weft_status)j)) != 0);
        }
    }
    CHECK_STR(weft_status_name((weft_status)99), "unknown status");
}

static void version_is_that_of_the_headers(void)
{
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", WEFT_VERSION_MAJOR, WEFT_VERSION_MINOR,
             WEFT_VERSION_PATCH);
    CHECK_STR(weft_version(), text);
    CHECK_STR(WEFT_VERSION, text);
}

static void fail_returns_its_status_and_keeps_the_message(void)
{
    CHECK_STATUS(weft_fail(WEFT_IO, "%s: open: %d", "file", 7), WEFT_IO);
    CHECK_STR(weft_error_message(), "file: open: 7");
    /* The message may be an argument of the next. */
    CHECK_STATUS(weft_fail(WEFT_INVALID, "outer: %s", weft_error_message()), WEFT_INVALID);
    CHECK_STR(weft_error_message(), "outer: file: open: 7");
}

static void long_messages_are_cut(void)
{
    char word[100];
    memset(word, 'x', sizeof word - 1);
    word[sizeof word - 1] = 0;
    weft_fail(WEFT_INVALID, "start");
    for (int i = 0; i < 100; i++) {
        weft_fail(WEFT_INVALID, "%s%s", weft_error_message(), word);
    }
    size_t length = strlen(weft_error_message());
    CHECK(length >= 1000 && length < 100 * sizeof word);
    CHECK(strncmp(weft_error_message(), "startxxx", 8) == 0);
}

/* Fails over and over; true if the message was always this thread's. */
static void *fail_often(void *argument)
{
    int number = *(int *)argument;
    int *kept = argument;
    for (int i = 0; i < ROUNDS; i++) {
        char expected[64];
        snprintf(expected, sizeof expected, "thread %d round %d", number, i);
        weft_fail(WEFT_INVALID, "thread %d round %d", number, i);
        if (strcmp(weft_error_message(), expected) != 0) {
            *kept = -1;
        }
    }
    return NULL;
}

static bool run_threads(void *(*body)(void *), int *arguments)
{
    pthread_t threads[THREADS];
    int started = 0;
    while (started < THREADS &&
           pthread_create(&threads[started], NULL, body, &arguments[started]) == 0) {
        started++;
    }
    for (int i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
    }
    return CHECK_EQ_INT(started, THREADS);
}

static void each_thread_has_its_own_message(void)
{
    int numbers[THREADS] = {0, 1, 2, 3};
    weft_fail(WEFT_IO, "mine");
    if (!run_threads(fail_often, numbers)) {
        return;
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ_INT(numbers[i], i);
    }
    CHECK_STR(weft_error_message(), "mine");
}

typedef struct heard {
    atomic_int count;
    atomic_int level;
    char text[64];
} heard;

static void remember(void *context, weft_log_level level, const char *message)
{
    heard *h = context;
    atomic_fetch_add(&h->count, 1);
    atomic_store(&h->level, (int)level);
    snprintf(h->text, sizeof h->text, "%s", message);
}

static void log_reaches_the_callback(void)
{
    heard h = {0};
    weft_log_message(WEFT_LOG_WARNING, "nobody listens");
    weft_set_log(remember, &h);
    weft_log_message(WEFT_LOG_WARNING, "%d of %d", 3, 7);
    CHECK_EQ_INT(h.count, 1);
    CHECK_EQ_INT(h.level, WEFT_LOG_WARNING);
    CHECK_STR(h.text, "3 of 7");
    weft_set_log(NULL, NULL);
    weft_log_message(WEFT_LOG_INFO, "nobody listens");
    CHECK_EQ_INT(h.count, 1);
}

static void count(void *context, weft_log_level level, const char *message)
{
    (void)level;
    if (strcmp(message, "round") == 0) {
        atomic_fetch_add((atomic_int *)context, 1);
    }
}

static void *log_often(void *argument)
{
    (void)argument;
    for (int i = 0; i < ROUNDS; i++) {
        weft_log_message(WEFT_LOG_INFO, "%s", "round");
    }
    return NULL;
}

static void log_from_several_threads(void)
{
    atomic_int counted = 0;
    int unused[THREADS] = {0};
    weft_set_log(count, &counted);
    run_threads(log_often, unused);
    weft_set_log(NULL, NULL);
    CHECK_EQ_INT(counted, THREADS * ROUNDS);
}

CHECK_MAIN("status", CHECK_CASE(names_are_distinct), CHECK_CASE(version_is_that_of_the_headers),
           CHECK_CASE(fail_returns_its_status_and_keeps_the_message),
           CHECK_CASE(long_messages_are_cut), CHECK_CASE(each_thread_has_its_own_message),
           CHECK_CASE(log_reaches_the_callback), CHECK_CASE(log_from_several_threads))
