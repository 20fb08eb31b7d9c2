/* cli/train_check.c -- checks for options of weft train that exclude each other, and whether --out
 * is writable. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/train.h"

/* Free bytes required on the disk; every run writes more than this. */
enum { LEAST_ROOM = 1 << 15 };

bool train_may_validate(const train_values *v)
{
    return v->val_split > 0 || v->val_data != NULL || train_splits_by_default(v);
}

static const char *plan_complaint(const train_values *v)
{
    const bool validated = train_may_validate(v);
    if (v->patience > 0 && !validated)
        return "--patience counts validations, which need --val-split or --val-data";
    if (v->sample_prompts.n > 0 && !validated)
        return "--sample-prompt generates after each validation: it needs --val-split or "
               "--val-data";
    if (v->patience > 0 && v->val_every == 0)
        return "--patience needs --val-every above 0";
    if (v->micro_batch != CLI_ABSENT && train_objective(v)->whole_batch)
        return "--micro-batch is not for kto and orpo, whose losses are of whole batches";
    return NULL;
}

/* --train-tokens and --add-tokens train single rows of a frozen matrix, so --modules-to-save may
 * not name it. */
static const char *tokens_complaint(const train_values *v)
{
    const bool tokens = v->add_tokens || v->train_tokens;
    if (tokens && v->whole && (strstr(v->whole, "embed_tokens") || strstr(v->whole, "lm_head")))
        return "--add-tokens and --train-tokens train rows of embedding and head: these are not "
               "for --modules-to-save";
    return NULL;
}

const char *train_complaint(const train_values *v)
{
    if (v->resume && v->overwrite)
        return "--resume and --overwrite exclude each other";
    if (v->model == NULL)
        return v->resume ? "--out has no run to continue, and MODEL to begin one is missing"
                         : "MODEL is missing";
    if ((v->source.paths.n == 0) == (v->batches == NULL))
        return "needs --data FILE or --batches FILE";
    if (v->val_split > 0 && (v->val_data != NULL || v->batches != NULL))
        return "--val-split is for --data without --val-data";
    const char *ranks = train_ranks_complaint(v);
    if (ranks != NULL)
        return ranks;
    if (v->batches != NULL && v->accumulate != 1)
        return "--batches makes one update of each batch: no --accumulate";
    if (v->pack && v->batches != NULL)
        return "--pack is for --data: --batches are trained as they are";
    const char *objective = train_objective_complaint(v);
    if (objective != NULL)
        return objective;
    if (v->steps != CLI_ABSENT && !isnan(v->epochs))
        return "--steps and --epochs exclude each other";
    const char *classify = train_classify_complaint(v);
    if (classify != NULL)
        return classify;
    const char *tokens = tokens_complaint(v);
    if (tokens != NULL)
        return tokens;
    const char *plan = plan_complaint(v);
    if (plan != NULL)
        return plan;
    const char *ignored = train_ignored_complaint(v);
    if (ignored != NULL)
        return ignored;
    return cli_place_complaint(&v->place);
}

/* ---- the folder ----------------------------------------------------------------------------- */

/* Writes a file and deletes it. If the process is killed in between, the next run deletes the file,
 * whose name is that of an incomplete run.json. */
static weft_status try_file(const char *path)
{
    static const char zeros[LEAST_ROOM];
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ssize_t n = 0;
    size_t done = 0;
    while (file >= 0 && done < sizeof zeros &&
           (n = write(file, zeros + done, sizeof zeros - done)) > 0)
        done += (size_t)n;
    const bool good = file >= 0 && done == sizeof zeros && fsync(file) == 0;
    const int error = errno;
    if (file >= 0) {
        close(file);
        unlink(path);
    }
    return good ? WEFT_OK
                : weft_fail(WEFT_IO, "%s: write: %s", path, n == 0 ? "no room" : strerror(error));
}

/* The length of the longest prefix of the path that exists. */
static size_t existing(char *path)
{
    struct stat info;
    size_t n = strlen(path);
    while (n > 0) {
        const char end = path[n];
        path[n] = '\0';
        const bool found = stat(path, &info) == 0;
        path[n] = end;
        if (found)
            break;
        while (n > 0 && path[--n] != '/')
            ;
    }
    return n;
}

/* Checks that the folder can be created and written to, then deletes everything that was created.
 */
static weft_status try_folder(char *folder)
{
    const size_t kept = existing(folder);
    char *path = weft_format("%s/run.json.part-%ld", folder, (long)getpid());
    weft_status status =
        path ? weft_folder_make(folder) : weft_fail(WEFT_MEMORY, "train: out of memory for a path");
    if (status == WEFT_OK)
        status = try_file(path);
    for (size_t n = strlen(folder); n > kept; n--) {
        if (folder[n] != '\0' && folder[n] != '/')
            continue;
        folder[n] = '\0';
        if (rmdir(folder) != 0 && errno != ENOENT)
            break;
    }
    weft_free(path);
    return status;
}

static weft_status check_out(const train_values *v)
{
    if (v->dry_run || !train_is_first())
        return WEFT_OK;
    if (!v->overwrite && !v->resume && weft_run_exists(v->out))
        return weft_fail(
            WEFT_INVALID,
            "train: %s already has a run: --resume continues it, --overwrite replaces it, "
            "or choose another --out",
            v->out);
    signal(
        SIGXFSZ,
        SIG_IGN); /* exceeding the file size limit becomes an error instead of ending the process */
    char *folder = weft_format("%s", v->out);
    const weft_status status =
        folder ? try_folder(folder) : weft_fail(WEFT_MEMORY, "train: out of memory for a path");
    weft_free(folder);
    return status;
}

weft_status train_check_out(const train_values *v)
{
    return weft_group_agree(train_ranks(), check_out(v), NULL);
}
