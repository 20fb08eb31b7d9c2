/* cli/report.h -- what weft report and the end of weft train show of a run. */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include "weft/status.h"

/* Draws the loss in the run's metrics.jsonl on standard output; nothing for fewer than two points.
 */
weft_status report_plot(const char *folder);

#endif
