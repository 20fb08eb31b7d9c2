/* backends/vulkan/pace.h -- how much work a submission may have.
 *
 * Drivers reset a device whose submission takes seconds (amdgpu: 2 to 10), sometimes without an
 * error. So submissions end after an estimated time. The work of a launch is its number of
 * operations; where a kernel counts none, each byte of its operands counts as a number of
 * operations. The rate of a pipeline follows from the timestamps of submissions. One that was not
 * measured yet is assumed to be ten times slower than the best submission so far. */
#ifndef BACKENDS_VULKAN_PACE_H
#define BACKENDS_VULKAN_PACE_H

#include "backends/vulkan/dispatch.h"

#define WEFT__VULKAN_SUBMISSION_SECONDS 0.05 /* that a submission may take */

enum { WEFT__VULKAN_LOADS = 160 }; /* at least the launches' pipelines in a submission */

typedef struct weft__vulkan_pipeline weft__vulkan_pipeline;

/* What is recorded in a slot: the work of each pipeline since the first timestamp. */
typedef struct weft__vulkan_load {
    int n;
    struct {
        weft__vulkan_pipeline *pipeline;
        double work;
    } all[WEFT__VULKAN_LOADS];
    double work;    /* of all of them */
    double seconds; /* estimated, of the whole submission */
} weft__vulkan_load;

/* Of a stream. */
typedef struct weft__vulkan_pace {
    double best;             /* work per second of the fastest submission; 0: none was measured */
    double longest, largest; /* seconds and work of a submission since profiling began */
} weft__vulkan_pace;

/* The work of a launch whose kernel counts none. */
double weft__vulkan_pace_work(const weft_call *call, const weft__vulkan_launch *launch);

double weft__vulkan_pace_seconds(const weft__vulkan_pace *pace,
                                 const weft__vulkan_pipeline *pipeline, double work);

/* The workgroups that a submission may have, of those that do this work: at least 1. */
uint64_t weft__vulkan_pace_groups(const weft__vulkan_pace *pace,
                                  const weft__vulkan_pipeline *pipeline, double work,
                                  uint64_t groups);

/* Pieces of a launch differ in cost: attention computes the longest rows first. So a launch leaves
 * the rate of its slowest piece. Called after each measured piece, with *slowest 0 at first. */
void weft__vulkan_pace_piece(weft__vulkan_pipeline *pipeline, double *slowest);

/* Whether the work belongs into the next submission. */
bool weft__vulkan_pace_is_full(const weft__vulkan_pace *pace, const weft__vulkan_load *load,
                               const weft__vulkan_pipeline *pipeline, double work);

/* Whether a submission with the work also is long enough to measure: timestamps of shorter ones
 * would cost more than they say. */
bool weft__vulkan_pace_is_measured(const weft__vulkan_pace *pace, const weft__vulkan_load *load,
                                   const weft__vulkan_pipeline *pipeline, double work);

void weft__vulkan_pace_add(const weft__vulkan_pace *pace, weft__vulkan_load *load,
                           weft__vulkan_pipeline *pipeline, double work);

/* Takes the time of a submission and empties its load. */
void weft__vulkan_pace_measured(weft__vulkan_pace *pace, weft__vulkan_load *load, double seconds);

/* For tests: above 0, submissions have at most this work, and nothing is learned. */
extern double weft__vulkan_most_work;

#endif
