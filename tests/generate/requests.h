/* tests/generate/requests.h -- requests to a running batch, which get the tokens that they get
 * alone. */
#ifndef TESTS_GENERATE_REQUESTS_H
#define TESTS_GENERATE_REQUESTS_H

#include "generate/batch.h"

enum { REQUESTS_MOST = 10, REQUESTS_LONGEST = 300 };

typedef struct requests {
    weft_model *model;
    int n;
    int32_t ids[REQUESTS_MOST][REQUESTS_LONGEST];
    weft_generate_options options[REQUESTS_MOST];
    weft_generate_request requests[REQUESTS_MOST];
    weft_generated_row results[REQUESTS_MOST];
} requests;

/* Makes n requests: random tokens, up to `longest` for each, of which lengths[i] are the prompt,
 * and up to most[i] new ones. */
void requests_make(requests *s, weft_model *model, int n, size_t longest, const size_t *lengths,
                   const int64_t *most);

weft_running_batch *requests_open(const requests *s, const weft_generate_batch_options *o);

/* Adds requests first .. end - 1. */
void requests_add(weft_running_batch *b, requests *s, int first, int end);

/* Runs one step; returns whether more are needed. */
bool requests_step(weft_running_batch *b);

/* Runs the batch until all requests have ended. */
void requests_run(weft_running_batch *b);

/* Compares results first .. end - 1 with those of the requests alone. A cancelled one has the first
 * tokens. */
void requests_compare(const requests *s, int first, int end);

/* Runs the batch to its end, frees it, compares results, and frees all of them. */
void requests_finish(weft_running_batch *b, requests *s, int first, int end);

#endif
