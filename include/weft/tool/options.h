/* weft/tool/options.h -- values of the command's options as text. Unstable. */
#ifndef WEFT_TOOL_OPTIONS_H
#define WEFT_TOOL_OPTIONS_H

#include "weft/optim.h"
#include "weft/train.h"

#ifdef __cplusplus
extern "C" {
#endif

/* "jsonl", "messages" and so on; AUTO is "auto", and an unknown value "none". */
WEFT_API const char *weft_data_format_name(weft_data_format format);
WEFT_API const char *weft_row_kind_name(weft_row_kind kind);

/* Sets the options named in a text such as "beta2=0.95,nesterov=true" in the type's struct; the
 * others keep their values. A value is true, false or a number of at least 0, where 0 means zero,
 * not the default. WEFT_INVALID for an unknown name (the message lists the known ones) and for any
 * other value. */
WEFT_NODISCARD WEFT_API weft_status weft_optim_options_parse(const weft_optim_type *type,
                                                             const char *text, void *options)
    WEFT_NONNULL(1, 2);

#ifdef __cplusplus
}
#endif
#endif
