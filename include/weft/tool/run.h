/* weft/tool/run.h -- the folder of a training run: its report, its records, and several runs side
 * by side. Unstable. */
#ifndef WEFT_TOOL_RUN_H
#define WEFT_TOOL_RUN_H

#include <stdbool.h>

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- The folder ----------------------------------------------------------------------------- */

/* Whether a folder has a run: a run.json of Weft, or a checkpoint. */
WEFT_API bool weft_run_exists(const char *folder);
WEFT_API void weft_run_base_hash(const char *base, char out[17]); /* of its files; "": unknown */
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

/* Writes report.html into a run's folder from its run.json and metrics.jsonl: its result and
 * the next commands, curves (the training loss exponentially smoothed), samples before and after,
 * data and settings. The page is self-contained, and texts are escaped. Fails as weft_history_load,
 * and with WEFT_IO if it cannot be written. */
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

/* ---- The records ---------------------------------------------------------------------------- */

/* The most runs that are laid side by side. */
enum { WEFT_MOST_HISTORIES = 8 };

/* The records of a run: run.json, the numbers of metrics.jsonl as curves, and its samples. */
typedef struct weft_history weft_history;

/* Reads the records in a run's folder, finished or not; free with weft_history_free, which accepts
 * NULL. Malformed lines of metrics.jsonl are skipped with a warning, and an incomplete last line is
 * ignored. WEFT_IO without those files, WEFT_INVALID if run.json, or every line, is malformed. */
WEFT_NODISCARD WEFT_API weft_status weft_history_load(const char *folder, weft_history **out)
    WEFT_NONNULL(1, 2);
WEFT_API void weft_history_free(weft_history *history);

/* Its folder, and the text of run.json; they belong to the history. */
WEFT_API const char *weft_history_folder(const weft_history *history) WEFT_NONNULL(1);
WEFT_API const char *weft_history_json(const weft_history *history) WEFT_NONNULL(1);

enum { WEFT_MOST_USES = 4, WEFT_MOST_USE_WORDS = 12 };

/* A command that uses what a run trained: what it is for, and its words after the name of the
 * program, ended by NULL. */
typedef struct weft_run_use {
    const char *purpose, *words[WEFT_MOST_USE_WORDS];
} weft_run_use;

/* Lists commands for `best`, else `last`, of a run: to use it, to merge it into its base, and to
 * convert it. Returns their number, at most WEFT_MOST_USES; the texts belong to the history. */
WEFT_API int weft_history_uses(const weft_history *history, weft_run_use *out) WEFT_NONNULL(1, 2);

/* Curve i of a metric, from 0, in the order of their first lines, or the curve of that name; NULL:
 * there is none. It belongs to the history. x is the update, and y the value, finite; true and
 * false are 1 and 0. */
WEFT_API const weft_curve *weft_history_curve(const weft_history *history, int i) WEFT_NONNULL(1);
WEFT_API const weft_curve *weft_history_find(const weft_history *history, const char *name)
    WEFT_NONNULL(1, 2);

/* Writes the exponential moving average of a curve's values to y (curve->n), with a span of a
 * twentieth of its points, at least 5. */
WEFT_API void weft_curve_smooth(const weft_curve *curve, double *y) WEFT_NONNULL(1, 2);

/* A result of the runs, or an option that differs: values (n_runs) as text, NULL: not given. */
typedef struct weft_history_row {
    char *name, **values;
    bool option;
} weft_history_row;

/* Runs side by side. labels (n_runs): their folders, without what precedes the last slash if that
 * is enough to tell them apart. Results precede options. */
typedef struct weft_history_table {
    char **labels;
    weft_history_row *rows;
    int n_runs, n_rows;
} weft_history_table;

/* Lays 1 to WEFT_MOST_HISTORIES runs side by side. The options are those of the command lines, or,
 * if a run has none, those of the trainer. Free with weft_history_table_free. */
WEFT_NODISCARD WEFT_API weft_status weft_histories_compare(weft_history *const *runs, int n,
                                                           weft_history_table *out)
    WEFT_NONNULL(1, 3);
WEFT_API void weft_history_table_free(weft_history_table *table) WEFT_NONNULL(1);

/* Writes a page of HTML that needs no network: of one run what weft_run_report writes, of several
 * their table and their curves together. WEFT_IO if it cannot be written, WEFT_INVALID if the file
 * has other contents. */
WEFT_NODISCARD WEFT_API weft_status weft_histories_page(weft_history *const *runs, int n,
                                                        const char *path) WEFT_NONNULL(1, 3);

/* Writes the metrics as CSV (RFC 4180): a line for each update, with the columns step and the names
 * of the metrics, before them run if there are several. Empty: not measured. Fails as
 * weft_histories_page. */
WEFT_NODISCARD WEFT_API weft_status weft_histories_csv(weft_history *const *runs, int n,
                                                       const char *path) WEFT_NONNULL(1, 3);

/* Writes the metrics as scalars of TensorBoard's event files: into the folder, or of several runs
 * each into a folder in it. A file that was written before is replaced. WEFT_IO. */
WEFT_NODISCARD WEFT_API weft_status weft_histories_events(weft_history *const *runs, int n,
                                                          const char *folder) WEFT_NONNULL(1, 3);

#ifdef __cplusplus
}
#endif
#endif
