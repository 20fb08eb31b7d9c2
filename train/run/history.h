/* train/run/history.h -- the records of a run: run.json, curves and samples. */
#ifndef WEFT_TRAIN_RUN_HISTORY_H
#define WEFT_TRAIN_RUN_HISTORY_H

#include "core/io/json.h"
#include "weft/tool/run.h"

/* A text that the run generated. */
typedef struct weft__said {
    int64_t step;
    char *prompt, *text;
    double reward; /* NaN: none */
} weft__said;

struct weft_history {
    char *folder;
    char *trained; /* its folder "best", else "last"; NULL: it has none */
    bool has_best;
    char *json; /* the text of run.json */
    weft__json_doc doc;
    char **names; /* (n) of the metrics */
    double **x, **y;
    weft_curve *curves; /* (n) */
    int n;
    weft__said *said; /* (n_said), by step */
    int n_said;
};

/* A member of an object in run.json, such as "result", "steps"; NULL: absent. An object NULL stands
 * for run.json itself. */
json_object *weft__history_member(const weft_history *h, const char *object, const char *name);
/* Its text; "": absent or another type. */
const char *weft__history_text(const weft_history *h, const char *object, const char *name);
double weft__history_number(const weft_history *h, const char *object, const char *name); /* NaN */

/* The value of an option in the command line of the run ("" for a flag); NULL: not given, or the
 * run has no command line. */
const char *weft__history_option(const weft_history *h, const char *name);

/* First, last and extreme values of a metric; n is 0 if it is unknown. */
typedef struct weft__summary {
    double first, last, least, most, least_at, most_at;
    int n;
} weft__summary;
weft__summary weft__history_summary(const weft_history *h, const char *name);

/* The validation results: the mean reward of validation prompts, else the validation loss. */
typedef struct weft__outcome {
    const char *what; /* "validation loss"; NULL: not measured */
    double first, last, best, best_at;
    bool rises; /* larger is better */
} weft__outcome;
weft__outcome weft__history_outcome(const weft_history *h);

/* Smooths the curve of a metric, into new memory for y. False if it has fewer than two points. */
bool weft__history_smoothed(const weft_history *h, const char *name, weft_curve *out);

#endif
