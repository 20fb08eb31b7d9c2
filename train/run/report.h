/* train/run/report.h -- the parts of report.html, and of the page of several runs. */
#ifndef WEFT_TRAIN_RUN_REPORT_H
#define WEFT_TRAIN_RUN_REPORT_H

#include "core/io/text.h"
#include "weft/tool/run.h"

/* "storyteller on tales.jsonl", from the last components of the paths; not escaped. */
void weft__report_title(weft__text *t, const weft_history *run);

/* Samples of the same prompt before and after, and all of them. */
void weft__report_samples(weft__text *t, const weft_history *run);

/* The result, data, model, settings and options of run.json. */
void weft__report_tables(weft__text *t, const weft_history *run);

/* Writes the page of several runs. */
weft_status weft__report_compare(weft_history *const *runs, int n, const char *path);

#endif
