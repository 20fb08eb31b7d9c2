/* train/run/panels.h -- the plots of one run, or of several side by side, and the table of all
 * metrics. */
#ifndef WEFT_TRAIN_RUN_PANELS_H
#define WEFT_TRAIN_RUN_PANELS_H

#include "core/io/text.h"
#include "weft/tool/run.h"

/* Draws every panel of which a run has at least two points. `labels`: (n) of the runs. */
void weft__panels_draw(weft__text *t, weft_history *const *runs, const char *const *labels, int n);

/* A table with the first, last, least and largest value of every metric of the run. */
void weft__panels_list(weft__text *t, const weft_history *run);

#endif
