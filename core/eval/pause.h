/* core/eval/pause.h -- where a thread lets another one use the same model (weft_set_pause). */
#ifndef WEFT_CORE_EVAL_PAUSE_H
#define WEFT_CORE_EVAL_PAUSE_H

#include "weft/array.h"

/* Calls the thread's weft_pause_fn, at DISK and DISK_DONE for the outermost wait only: files pause
 * while they are written (core/io/fileio.c). weft__pauses: whether it has one. */
void weft__pause(weft_pause_point point);
bool weft__pauses(void);

#endif
