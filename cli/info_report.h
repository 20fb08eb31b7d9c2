/* cli/info_report.h -- weft info --devices --report. */
#ifndef CLI_INFO_REPORT_H
#define CLI_INFO_REPORT_H

#include "weft/status.h"

/* Tests and measures every device and writes one JSON object (docs/device-report.md). What fails is
 * recorded there. After each part the file is replaced, so it shows during which part a driver
 * crashed. WEFT_IO if it cannot be written. */
weft_status cli_report_devices(const char *path);

#endif
