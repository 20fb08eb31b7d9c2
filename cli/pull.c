/* cli/pull.c -- weft pull: downloads a model or a dataset from a hub into the local cache. */
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/common.h"
#include "cli/progress.h"
#include "cli/shared.h"

typedef struct pull_values {
    const char *name, *revision, *include;
    bool dataset, json;
} pull_values;

#define AT(field) .offset = offsetof(pull_values, field)

static const cli_argument arguments[] = {{"ORG/NAME", offsetof(pull_values, name), false}};

static const cli_option options[] = {
    {.name = "revision",
     .letter = 'r',
     .kind = CLI_TEXT,
     .value = "R",
     .fallback = "main",
     AT(revision),
     .help = "a branch, a tag or a commit"},
    {.name = "include",
     .letter = 'i',
     .kind = CLI_TEXT,
     .value = "GLOB",
     AT(include),
     .help = "only files that fit one of these patterns, separated by commas"},
    {.name = "dataset",
     .kind = CLI_FLAG,
     AT(dataset),
     .help = "fetch a dataset: its card (README.md) and its files of rows or text, or those of "
             "--include"},
    CLI_JSON_OPTION(pull_values, "print one JSON object"),
};

typedef struct pulling {
    cli_progress progress;
    int last; /* index of the file shown last */
    char message[120];
    int64_t bytes, files;
} pulling;

static bool show(void *context, const weft_hub_progress *p)
{
    pulling *run = context;
    const char *message = p->message != NULL ? p->message : "";
    const bool news = strcmp(message, run->message) != 0;
    const bool line = (p->index != run->last || (news && *message)) && !run->progress.terminal;
    run->last = p->index;
    run->bytes = p->all_size;
    run->files = p->count;
    snprintf(run->message, sizeof run->message, "%s", message);
    if (*message != '\0') {
        cli_progress_show(&run->progress, 0, line, "%s%s%s", weft_printable(p->file),
                          *p->file != '\0' ? ": " : "", message);
        return true;
    }
    cli_progress_show(&run->progress,
                      p->all_size > 0 ? (double)p->all_done / (double)p->all_size : 1, line,
                      "%d of %d: %s, %s of %s", p->index + 1, p->count, weft_printable(p->file),
                      cli_bytes(p->all_done), cli_bytes(p->all_size));
    return true;
}

static weft_status fetch(const pull_values *v, pulling *run, char **folder)
{
    *run = (pulling){.last = -1};
    cli_progress_start(&run->progress);
    const weft_hub_options o = {.revision = v->revision,
                                .include = v->include,
                                .dataset = v->dataset,
                                .progress = show,
                                .context = run};
    const weft_status status = weft_hub_pull(v->name, &o, folder);
    cli_progress_clear(&run->progress);
    return status;
}

weft_status cli_fetch_missing(const char *name)
{
    char *folder = NULL;
    pulling run;
    if (name == NULL || strchr(name, '/') == NULL || access(name, F_OK) == 0)
        return WEFT_OK;
    weft_status status = weft_hub_find(name, NULL, &folder);
    if (status == WEFT_INVALID) /* not of the form ORG/NAME */
        return WEFT_OK;
    if (status == WEFT_IO)
        status = fetch(&(pull_values){.name = name}, &run, &folder);
    weft_free(folder);
    return status;
}

static int run(void *context)
{
    const pull_values *v = context;
    if (strchr(v->name, '/') == NULL)
        return cli_usage("pull", "expected ORG/NAME, as in Qwen/Qwen3-0.6B, got '%s'", v->name);
    pulling run;
    char *folder = NULL;
    const weft_status status = fetch(v, &run, &folder);
    if (status == WEFT_OK && v->json) {
        fputs("{\"path\": ", stdout);
        cli_json_text(stdout, folder, strlen(folder));
        printf(", \"files\": %lld, \"bytes\": %lld}\n", (long long)run.files, (long long)run.bytes);
    } else if (status == WEFT_OK) {
        puts(folder);
    }
    weft_free(folder);
    return cli_status(status);
}

const cli_command cli_pull = {
    .name = "pull",
    .summary = "fetch a model or a dataset from a hub",
    .description =
        "Fetches a model, or with --dataset a dataset, from the Hugging Face hub into its local "
        "cache, where Weft and Python's libraries find it, and prints the folder. Files that are "
        "already cached "
        "are not fetched again, interrupted downloads continue, and every file is verified once "
        "by its hash. If the hub is busy (HTTP 429 and 5xx), it waits as long as the hub asks "
        "and tries again.\n\n"
        "Without --include it fetches what Weft reads: the configuration, the tokenizer, the "
        "chat template and *.safetensors, or, where there are none, the only *.gguf. "
        "Of a dataset it fetches README.md and all files of Parquet, JSON, CSV, TSV or text. "
        "HF_ENDPOINT, HF_TOKEN, HF_HOME and HF_HUB_CACHE work as in huggingface_hub.",
    .example = "weft pull Qwen/Qwen3-0.6B\n"
               "weft pull Qwen/Qwen3-0.6B-GGUF --include \"*Q8_0.gguf\"\n"
               "weft generate Qwen/Qwen3-0.6B -p \"Once upon a time\"\n"
               "weft chat Qwen/Qwen3-0.6B --pull\n"
               "weft pull --dataset HuggingFaceH4/no_robots\n"
               "weft train MODEL --data HuggingFaceH4/no_robots --out run",
    CLI_TABLE(pull_values, arguments, options),
    .run = run,
};
