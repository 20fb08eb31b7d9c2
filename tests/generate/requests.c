/* tests/generate/requests.c -- requests to a running batch. */
#include "tests/generate/requests.h"

#include <string.h>

#include "tests/check.h"
#include "tests/support/generated.h"

void requests_make(requests *s, weft_model *model, int n, size_t longest, const size_t *lengths,
                   const int64_t *most)
{
    const uint32_t V = (uint32_t)weft_model_info_of(model)->vocab_size;
    uint32_t state = 13579;
    memset(s, 0, sizeof *s);
    s->model = model;
    s->n = n;
    for (int i = 0; i < n; i++) {
        for (size_t j = 0; j < longest; j++) {
            state = state * 1664525u + 1013904223u;
            s->ids[i][j] = (int32_t)((state >> 8) % V);
        }
        s->options[i] = (weft_generate_options){.max_tokens = most[i], .ignore_eos = true};
        s->options[i].seed = (uint64_t)i;
        s->requests[i] =
            (weft_generate_request){.prompt = {s->ids[i], lengths[i]}, .options = &s->options[i]};
    }
}

weft_running_batch *requests_open(const requests *s, const weft_generate_batch_options *o)
{
    weft_running_batch *b = NULL;
    CHECK_OK(weft_running_batch_new(s->model, NULL, o, &b));
    return b;
}

void requests_add(weft_running_batch *b, requests *s, int first, int end)
{
    for (int i = first; i < end; i++)
        CHECK_OK(weft_running_batch_add(b, &s->requests[i], NULL, NULL, &s->results[i]));
}

bool requests_step(weft_running_batch *b)
{
    bool more = false;
    return CHECK_OK(weft_running_batch_advance(b, &more)) && more;
}

void requests_run(weft_running_batch *b)
{
    while (requests_step(b)) {
    }
}

void requests_compare(const requests *s, int first, int end)
{
    for (int i = first; i < end; i++) {
        const weft_prompt *p = &s->requests[i].prompt;
        const weft_generated_row *r = &s->results[i];
        weft_generate_options o = s->options[i];
        generated t = {.n = 0};
        o.cancel = NULL;
        o.prompt_cache = NULL;
        CHECK_OK(weft_generate(s->model, NULL, p->ids, p->n, &o, generated_collect, &t, NULL));
        if (CHECK_OK(r->status) &&
            CHECK(r->n == (size_t)t.n ||
                  (r->n < (size_t)t.n && r->stats.reason == WEFT_FINISH_CANCELLED)))
            CHECK_BYTES(r->ids, t.ids, r->n * sizeof *t.ids);
    }
}

void requests_finish(weft_running_batch *b, requests *s, int first, int end)
{
    requests_run(b);
    weft_running_batch_free(b);
    requests_compare(s, first, end);
    weft_generated_rows_free(s->results, (size_t)s->n);
}
