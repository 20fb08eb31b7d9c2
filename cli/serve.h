/* cli/serve.h -- interface between serve.c (the command) and serve_teach.c (its fine-tuning jobs).
 */
#ifndef CLI_SERVE_H
#define CLI_SERVE_H

#include "cli/caching.h"
#include "cli/common.h"
#include "serve/serve.h"

typedef struct serve_values {
    const char *model, *adapter_dir, *host, *name, *key_file, *template_file, *state;
    int64_t port, parallel, max_requests, max_tokens, max_body, cache, cache_tokens, quota;
    double timeout, stop_seconds, teach_latency, max_memory;
    cli_texts adapters, hosts, origins;
    cli_caching caching;
    cli_place place;
} serve_values;

typedef struct serve_run {
    const serve_values *values;
    const char *path;
    char own[8192]; /* the adapters without a name, joined by commas; "": none */
    serve_adapter_path named[CLI_MOST];
    size_t n_named;
    char names[CLI_MOST][129];
} serve_run;

/* serve_options.teach, with a serve_run as context. */
weft_status serve_teach(void *context, const serve_task *task, weft_train_result *result);

#endif
