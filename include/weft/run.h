/* weft/run.h -- the folder of a training run: what it has, its report, and curves. */
#ifndef WEFT_RUN_H
#define WEFT_RUN_H

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- The folder ----------------------------------------------------------------------------- */

/* Whether a folder has a run: a run.json of Weft, or a checkpoint. */
WEFT_API bool weft_run_exists(const char *folder);
/* Whether a run can write to a folder; WEFT_IO if not. WEFT_INVALID if it has no run but files that
 * a run would overwrite, or a run and one of the n inputs, which replacing it would delete. */
WEFT_NODISCARD WEFT_API weft_status weft_run_check(const char *folder, const char *const *inputs,
                                                   int n);

/* The trainer option `command` of the run in a folder, for a program that resumes it. Free with
 * weft_run_words_free. WEFT_IO without a run.json, WEFT_INVALID if it has no command. */
typedef struct weft_run_words {
    char **at;
    int n;
} weft_run_words;
WEFT_NODISCARD WEFT_API weft_status weft_run_command(const char *folder, weft_run_words *out)
    WEFT_NONNULL(2);
WEFT_API void weft_run_words_free(weft_run_words *words) WEFT_NONNULL(1); /* leaves it zeroed */

/* Writes report.html into a run's folder from its run.json and metrics.jsonl: curves of loss (the
 * training loss exponentially smoothed), learning rate, gradient norm and tokens per second, the
 * result, samples, data and settings. The page is self-contained, and texts are escaped. WEFT_IO
 * without those files, WEFT_INVALID if they are malformed. */
WEFT_NODISCARD WEFT_API weft_status weft_run_report(const char *folder);

/* ---- Curves --------------------------------------------------------------------------------- */

typedef struct weft_curve {
    const char *name;
    const double *x, *y; /* points with a y that is not finite are omitted */
    int n;
    bool dots; /* mark every point */
} weft_curve;

/* Plots up to four curves with common axes as a self-contained SVG file. WEFT_IO if it cannot be
 * written. */
WEFT_NODISCARD WEFT_API weft_status weft_curves_save(const char *path, const char *title,
                                                     const char *x_name, const weft_curve *curves,
                                                     int n);

#ifdef __cplusplus
}
#endif
#endif
