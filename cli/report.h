/* cli/report.h -- the loss curve that weft report and weft train draw. */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include "weft/status.h"

/* Draws the losses in the run's metrics.jsonl on standard output, unless there are fewer than two
 * points. */
weft_status report_plot(const char *folder);

/* Prints how the loss of the general text has changed, unless one of the two is NaN. */
void report_general(double first, double last);

#endif
