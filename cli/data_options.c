/* cli/data_options.c -- the options for reading data. */
#include "cli/data_options.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "weft/hub.h"
#include "weft/memory.h"
#include "weft/status.h"
#include "weft/tool/options.h"

const char *cli_data_first(const cli_data_source *data)
{
    return data->paths.n > 0 ? data->paths.at[0] : NULL;
}

const char *cli_data_format(int i)
{
    const int format = WEFT_DATA_JSONL + i;
    return format < WEFT_DATA_FORMATS ? weft_data_format_name((weft_data_format)format) : NULL;
}

void cli_data_options(const cli_data_source *data, weft_dataset_options *options)
{
    if (data->format >= 0)
        options->format = (weft_data_format)(WEFT_DATA_JSONL + data->format);
    if (data->longer >= 0)
        options->longer = (weft_long_samples)data->longer;
    options->max_bad_rows = data->max_bad_rows;
    options->cache = data->cache;
    options->system = data->system;
}

/* Parses --mix ("1,0.5") into the weights of the sources. */
static weft_status read_mix(const char *mix, weft_data_source *sources, int n)
{
    const char *at = mix;
    int k = 0;
    for (bool more = mix != NULL; more; k++) {
        char *end;
        const double weight = strtod(at, &end);
        if (end == at || !(weight > 0) || weight > 1e6 || (*end != ',' && *end != '\0'))
            return weft_fail(WEFT_INVALID,
                             "--mix: expected positive numbers separated by commas, got %s",
                             weft_printable(mix));
        if (k < n)
            sources[k].weight = weight;
        more = *end == ',';
        at = end + 1;
    }
    if (mix != NULL && k != n)
        return weft_fail(WEFT_INVALID, "--mix: expected a weight for each --data, %d, got %d", n,
                         k);
    return WEFT_OK;
}

/* Writes the paths and their weights. */
static weft_status list_sources(const cli_data_source *data, weft_data_source *out)
{
    for (int i = 0; i < data->paths.n; i++)
        out[i] = (weft_data_source){.path = data->paths.at[i]};
    return read_mix(data->mix, out, data->paths.n);
}

/* The length of ORG/NAME in a dataset's name. */
static int name_length(const char *path)
{
    const size_t org = strcspn(path, "/") + 1;
    return (int)(org + strcspn(path + org, "/:"));
}

/* Whether a path that does not exist has the form of a dataset's name, ORG/NAME[/CONFIG][:SPLIT].
 */
static bool may_be_dataset(const char *path)
{
    const char *slash = strchr(path, '/'), *second = slash ? strchr(slash + 1, '/') : NULL;
    return slash != NULL && strpbrk(path, "*?[") == NULL && *path != '/' && *path != '.' &&
           (second == NULL || strchr(second + 1, '/') == NULL) && access(path, F_OK) != 0;
}

weft_status cli_data_resolve(weft_data_source *sources, int n)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < n && status == WEFT_OK; i++) {
        char **files = NULL;
        if (!may_be_dataset(sources[i].path))
            continue;
        status = weft_hub_dataset(sources[i].path, &files, &sources[i].n_files);
        sources[i].files = files;
        if (status == WEFT_IO)
            status = weft_fail(WEFT_IO,
                               "%s: there is no such file or folder, and no such dataset in the "
                               "local cache (weft pull --dataset %.*s fetches it)",
                               weft_printable(sources[i].path), name_length(sources[i].path),
                               sources[i].path);
    }
    return status;
}

void cli_data_release(weft_data_source *sources, int n)
{
    for (int i = 0; i < n; i++) {
        weft_hub_dataset_free((char **)sources[i].files, sources[i].n_files);
        sources[i].files = NULL;
        sources[i].n_files = 0;
    }
}

weft_status cli_data_open(const cli_data_source *data, weft_data_source *out)
{
    const weft_status status = list_sources(data, out);
    return status == WEFT_OK ? cli_data_resolve(out, data->paths.n) : status;
}

static bool is_file(const char *path)
{
    struct stat about;
    return path != NULL && stat(path, &about) == 0 && S_ISREG(about.st_mode);
}

int cli_data_parts(const cli_data_source *data, const char *name, char **parts)
{
    int n = 0;
    for (int i = 0; i < data->paths.n; i++) {
        char *train = weft_format("%s/train.jsonl", data->paths.at[i]);
        parts[i] = weft_format("%s/%s", data->paths.at[i], name);
        const bool failed = train == NULL || parts[i] == NULL;
        if (!is_file(train) || !is_file(parts[i])) {
            weft_free(parts[i]);
            parts[i] = NULL;
        }
        weft_free(train);
        n = failed || n < 0 ? -1 : n + (parts[i] != NULL);
    }
    return n;
}

void cli_data_parts_free(const cli_data_source *data, char **parts)
{
    for (int i = 0; i < data->paths.n; i++)
        weft_free(parts[i]);
}

weft_status cli_data_load(const cli_data_source *data, const weft_tokenizer *tokenizer,
                          const weft_dataset_options *options, double split, weft_dataset **out,
                          weft_dataset **validation)
{
    weft_data_source sources[CLI_MOST];
    weft_dataset_options o = *options;
    cli_data_options(data, &o);
    weft_status status = cli_data_open(data, sources);
    if (status == WEFT_OK)
        status = weft_dataset_load_mixture(sources, data->paths.n, tokenizer, &o, split, out,
                                           validation);
    cli_data_release(sources, data->paths.n);
    return status;
}
