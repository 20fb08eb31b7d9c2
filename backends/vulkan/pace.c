/* backends/vulkan/pace.c -- how much work a submission may have. */
#include "backends/vulkan/pace.h"

#include <math.h>

#include "backends/vulkan/pipeline.h"

/* FIRST: work of a submission before anything was measured. BYTE: work that is counted for a byte,
 * the ratio of integrated devices (2 TFLOP/s, 100 GB/s). GROUP: bytes of a workgroup of an
 * independent launch, which computes some operands of its call: 256 invocations read and write four
 * float32 each. SLOW: how much slower than the best a new pipeline may be. MEANS: seconds below
 * which a submission says little about rates, since starting its commands takes as long.
 * SUBSTANTIAL: work from which it shows what the device can do. */
#define FIRST 2e9
#define BYTE 16.0
#define GROUP 8192.0
#define SLOW 10.0
#define MEANS 2e-3
#define SUBSTANTIAL 5e7

double weft__vulkan_most_work;

static double bytes_of(const weft_tensor *t)
{
    const int64_t n = weft_tensor_size(t);
    return t->encoding ? (double)weft_encoding_bytes(t->encoding, n)
                       : (double)n * (double)weft_dtype_size(t->dtype);
}

/* An op that moves elements reads no more of an input than it writes; in place it writes no more
 * than it reads of the others. */
static double call_bytes(const weft_call *call)
{
    const weft_tensor *in = call->in, *out = call->out;
    const bool moves = call->op->family == WEFT_STRUCTURAL && call->n_outputs == 1,
               in_place = moves && call->n_inputs > 1 && in[0].buffer == out[0].buffer &&
                          in[0].offset == out[0].offset;
    double sum = 0;
    for (int i = in_place; i < call->n_inputs; i++) {
        const double own = bytes_of(&in[i]), most = moves && !in_place ? bytes_of(&out[0]) : own;
        sum += in_place ? 2 * own : own < most ? own : most;
    }
    for (int i = 0; i < call->n_outputs && !in_place; i++) {
        sum += out[i].shape.n >= 0 ? bytes_of(&out[i]) : 0;
    }
    return sum;
}

double weft__vulkan_pace_work(const weft_call *call, const weft__vulkan_launch *launch)
{
    return BYTE * (launch->independent ? GROUP * (double)launch->groups : call_bytes(call));
}

static double rate_of(const weft__vulkan_pace *pace, const weft__vulkan_pipeline *pipeline)
{
    const double first = FIRST / WEFT__VULKAN_SUBMISSION_SECONDS, slow = pace->best / SLOW;
    return weft__vulkan_most_work > 0 ? weft__vulkan_most_work / WEFT__VULKAN_SUBMISSION_SECONDS
           : pipeline->rate > 0       ? pipeline->rate
           : slow > first             ? slow
                                      : first;
}

double weft__vulkan_pace_seconds(const weft__vulkan_pace *pace,
                                 const weft__vulkan_pipeline *pipeline, double work)
{
    return work / rate_of(pace, pipeline);
}

uint64_t weft__vulkan_pace_groups(const weft__vulkan_pace *pace,
                                  const weft__vulkan_pipeline *pipeline, double work,
                                  uint64_t groups)
{
    const double fits = (double)groups * WEFT__VULKAN_SUBMISSION_SECONDS /
                        weft__vulkan_pace_seconds(pace, pipeline, work);
    return fits >= (double)groups ? groups : fits > 1 ? (uint64_t)fits : 1;
}

void weft__vulkan_pace_piece(weft__vulkan_pipeline *pipeline, double *slowest)
{
    if (*slowest == 0 || pipeline->rate < *slowest) {
        *slowest = pipeline->rate;
    }
    pipeline->rate = *slowest;
}

bool weft__vulkan_pace_is_full(const weft__vulkan_pace *pace, const weft__vulkan_load *load,
                               const weft__vulkan_pipeline *pipeline, double work)
{
    return load->n > 0 && load->seconds + weft__vulkan_pace_seconds(pace, pipeline, work) >
                              WEFT__VULKAN_SUBMISSION_SECONDS;
}

bool weft__vulkan_pace_is_measured(const weft__vulkan_pace *pace, const weft__vulkan_load *load,
                                   const weft__vulkan_pipeline *pipeline, double work)
{
    return load->seconds + weft__vulkan_pace_seconds(pace, pipeline, work) >= MEANS;
}

void weft__vulkan_pace_add(const weft__vulkan_pace *pace, weft__vulkan_load *load,
                           weft__vulkan_pipeline *pipeline, double work)
{
    int i = 0;
    while (i < load->n && load->all[i].pipeline != pipeline) {
        i++;
    }
    if (i == load->n && i < WEFT__VULKAN_LOADS) {
        load->all[load->n++].pipeline = pipeline;
        load->all[i].work = 0;
    }
    if (i < load->n) {
        load->all[i].work += work;
    }
    load->work += work;
    load->seconds += weft__vulkan_pace_seconds(pace, pipeline, work);
}

/* Corrects the rates of the submission's pipelines, each by its share of the estimate, which is
 * made again, since earlier submissions may have corrected them. */
static void learn(const weft__vulkan_pace *pace, weft__vulkan_load *load, double seconds)
{
    double estimate = 0;
    for (int i = 0; i < load->n; i++) {
        estimate += weft__vulkan_pace_seconds(pace, load->all[i].pipeline, load->all[i].work);
    }
    if (estimate <= 0 || (estimate < MEANS && seconds < MEANS)) {
        return;
    }
    for (int i = 0; i < load->n; i++) {
        weft__vulkan_pipeline *p = load->all[i].pipeline;
        const double rate = rate_of(pace, p), share = load->all[i].work / rate / estimate;
        p->rate = rate * pow(estimate / seconds, share);
    }
}

void weft__vulkan_pace_measured(weft__vulkan_pace *pace, weft__vulkan_load *load, double seconds)
{
    pace->longest = seconds > pace->longest ? seconds : pace->longest;
    pace->largest = load->work > pace->largest ? load->work : pace->largest;
    if (seconds > 0 && weft__vulkan_most_work <= 0) {
        learn(pace, load, seconds);
        const double rate = load->work / seconds;
        pace->best = load->work >= SUBSTANTIAL && rate > pace->best ? rate : pace->best;
    }
    load->n = 0;
}
