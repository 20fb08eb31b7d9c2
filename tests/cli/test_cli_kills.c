/* tests/cli/test_cli_kills.c -- every writer is killed at changes of the file system, as process 1
 * each time: the earlier files are complete or replaced, the next call of the same writer succeeds,
 * its output equals that of an undisturbed call, and nothing is left over. WEFT_TEST_KILLS sets the
 * number of kills (80). */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/cli/command.h"
#include "tests/hub/tiny.h"
#include "weft/weft.h"

/* A command, run in the folder of this suite. */
typedef struct writer {
    const char *name;
    const char *before;  /* prepares what the command replaces; "": nothing */
    const char *command; /* weft's arguments, or those of tests/kill_writer after "!" */
    const char *again;   /* the next call; NULL: the command */
    const char *out;     /* what it writes */
    const char
        *sound;       /* a shell test of `out` after a kill; NULL: `out` is old or new as a whole */
    const char *same; /* what is equal after every complete call; NULL: `out` */
} writer;

#define TRAIN                                                                                      \
    "train model --data story.txt --length 16 --batch-size 2 --steps 3 --val-split 0.1 "           \
    "--val-every 1 --save-every 1 --keep 2 --seed 7 --token-cache tokens --out out"
/* Every file equals that of the undisturbed call, or that from before. */
#define PIECES                                                                                     \
    "for f in $(find out -type f ! -name '*.part-*' ! -name '*.incomplete' ! -name "               \
    ".weft-verified); do "                                                                         \
    "cmp -s $f whole/${f#out/} || cmp -s $f was/${f#out/} || exit 1; done"
/* Checkpoints are complete, and what `last` points to is there. */
#define RUN                                                                                        \
    "cd out 2>/dev/null || exit 0; for d in step-[0-9]; do [ ! -e $d ] || "                        \
    "[ -s $d/training.safetensors -a -s $d/adapter_model.safetensors ] || exit 1; done; "          \
    "[ ! -e last ] || [ -s last/adapter_config.json ]"

static const writer writers[] = {
    {"fuse", "", "fuse model ad out", NULL, "out", NULL, NULL},
    {"fuse over a model", "cp -r old out", "fuse model ad out --force", NULL, "out", NULL, NULL},
    {"fuse to GGUF", "", "fuse model ad out.gguf", NULL, "out.gguf", NULL, NULL},
    {"fuse over a file", "cp story.txt out.gguf", "fuse model ad out.gguf --force", NULL,
     "out.gguf", NULL, NULL},
    {"convert", "", "convert model out --shard-size 0.0005", NULL, "out", NULL, NULL},
    {"convert to 4 bits", "", "convert model out --bits 4", NULL, "out", NULL, NULL},
    {"convert to GGUF", "", "convert model out.gguf --type f16", NULL, "out.gguf", NULL, NULL},
    {"adapter of MLX", "", "convert ad out --adapter-format mlx --base model", NULL, "out", NULL,
     NULL},
    {"adapter of GGUF", "", "convert ad out.gguf --adapter-format gguf --base model", NULL,
     "out.gguf", NULL, NULL},
    {"token cache", "", "data story.txt model --token-cache out --show 0", NULL, "out", PIECES,
     NULL},
    {"logits", "", "logits model --ids ids.safetensors --out out", NULL, "out", NULL, NULL},
    {"report", "cp -r ran out", "report out", NULL, "out", PIECES, NULL},
    {"prompt cache", "", "!prompt_cache model out", NULL, "out", NULL, NULL},
    {"prompt cache again", "cp cache.safetensors out", "!prompt_cache model out", NULL, "out", NULL,
     NULL},
    {"state", "", "!state model out", NULL, "out", NULL, NULL},
    {"npz", "", "!npz model out", NULL, "out", "true", "/dev/null"},
    {"hdf5", "", "!hdf5 model out", NULL, "out", "true", "/dev/null"},
    {"train", "rm -rf tokens", TRAIN, TRAIN " --resume", "out", RUN,
     "out/last/adapter_model.safetensors"},
    {"train over a run", "rm -rf tokens; cp -r ran out", TRAIN " --overwrite", NULL, "out", RUN,
     "out/last/adapter_model.safetensors"},
    {"pull", "", "pull org/tiny", NULL, "out", PIECES, "out/models--org--tiny/snapshots"},
};
enum { WRITERS = sizeof writers / sizeof *writers };

static char work[512];
static bool namespaces; /* processes can be process 1 */

/* Runs a command of a writer under the library that kills; `first`: really as process 1. */
static output run(const char *settings, const char *command, bool first)
{
    char program[600], library[600];
    snprintf(program, sizeof program, "%s",
             check_built(*command == '!' ? "tests/kill_writer" : "cli/weft"));
    snprintf(library, sizeof library, "%s", check_built("tests/libkill_at.so"));
    return shell_command(NULL, "cd %s && %s env LD_PRELOAD=%s %s %s %s %s", work,
                         first && namespaces ? "unshare --pid --fork" : "", library,
                         first && namespaces ? "" : "WEFT_KILL_PID=1", settings, program,
                         command + (*command == '!'));
}

static bool in_work(const char *format, ...)
{
    char command[1500];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    return shell_command(NULL, "cd %s && { %s; }", work, command).code == 0;
}

static void reset(const writer *w)
{
    CHECK(in_work("rm -rf out* was"));
    if (*w->before)
        CHECK(in_work("%s", w->before));
    CHECK(in_work("[ ! -e %s ] || cp -r %s was", w->out, w->out));
}

/* Whether a complete call wrote what the undisturbed one did. */
static bool is_whole(const writer *w)
{
    const char *same = w->same ? w->same : w->out;
    return in_work("test -e %s && diff -r %s same", w->out, same);
}

static bool is_sound(const writer *w)
{
    if (w->sound)
        return in_work("%s", w->sound);
    return in_work("if [ -e was ]; then diff -r %s was || diff -r %s whole; else [ ! -e %s ] || "
                   "diff -r %s whole; fi",
                   w->out, w->out, w->out, w->out);
}

/* An undisturbed call. Returns the number of its changes; 0: it cannot run. */
static long run_undisturbed(const writer *w)
{
    reset(w);
    const output o = run("WEFT_KILL_COUNT=count", w->command, false);
    if (o.code == 77)
        return 0;
    if (!CHECK_EQ_INT(o.code, 0))
        CHECK_FAIL("%s: %s", w->name, o.err);
    CHECK(in_work("rm -rf whole same && cp -r %s whole && cp -rL %s same", w->out,
                  w->same ? w->same : w->out));
    const long changes = strtol(shell_command(NULL, "cat %s/count", work).out, NULL, 10);
    CHECK(changes > 0);
    return changes;
}

/* Kills two calls, then expects the third to write everything. */
static void kill_and_repeat(const writer *w, long at, long middle, bool first)
{
    const long points[] = {at, middle};
    const char *again = w->again ? w->again : w->command;
    char settings[64];
    reset(w);
    for (int i = 0; i < 2; i++) {
        snprintf(settings, sizeof settings, "WEFT_KILL_AT=%ld", points[i]);
        const output o = run(settings, i > 0 ? again : w->command, first);
        if (i == 0 && !CHECK_EQ_INT(o.code, 137))
            CHECK_FAIL("%s, at change %ld: %s", w->name, at, o.err);
        if (!CHECK(is_sound(w)))
            CHECK_FAIL("%s, after a kill at change %ld", w->name, points[i]);
    }
    if (w->again == NULL && w->sound == NULL && *w->before == '\0')
        CHECK(in_work("rm -rf %s", w->out)); /* it may be complete, and is not replaced */
    const output o = run("", again, first);
    if (!CHECK_EQ_INT(o.code, 0) || !CHECK(is_whole(w)))
        CHECK_FAIL("%s, after kills at changes %ld and %ld: %s", w->name, at, middle, o.err);
    const output left = shell_command(NULL, "cd %s && find . -name '*.part-*'", work);
    if (!CHECK_STR(left.out, ""))
        CHECK_FAIL("%s, after kills at changes %ld and %ld", w->name, at, middle);
}

/* ---- what the commands read ----------------------------------------------------------------- */

static bool prepare(void)
{
    snprintf(work, sizeof work, "%s", check_temporary("work"));
    char path[600];
    snprintf(path, sizeof path, "%s/ids.safetensors", work);
    bool fine = CHECK_EQ_INT(shell_command(NULL, "mkdir -p %s && cp -rL %s %s/model", work,
                                           check_source("examples/storyteller"), work)
                                 .code,
                             0);
    weft_scope_open();
    weft_array *ids = weft_zeros(WEFT_DIMS(1, 20), WEFT_INT32);
    fine = fine &&
           CHECK_OK(weft_safetensors_save(path, &(const char *){"input_ids"}, &ids, 1, NULL, 0));
    weft_scope_close(NULL);
    fine = fine && CHECK(in_work("for i in $(seq 40); do printf 'Line %%d of a story. ' $i; done "
                                 ">story.txt"));
    const char *const commands[] = {TRAIN " --rank 4", "!prompt_cache model cache.safetensors",
                                    "convert model old --type f16"};
    for (size_t i = 0; fine && i < sizeof commands / sizeof *commands; i++) {
        const output o = run("", commands[i], false);
        if (!CHECK_EQ_INT(o.code, 0))
            CHECK_FAIL("%s: %s", commands[i], o.err);
        fine = o.code == 0;
    }
    namespaces = shell_command(NULL, "unshare --pid --fork true").code == 0;
    return fine && CHECK(in_work("mv out ran && cp -rL ran/last ad && rm -f ad/training.*"));
}

static void writers_are_killed(void)
{
#ifdef __SANITIZE_ADDRESS__
    check_skip("kill_at.so is preloaded, which the address sanitizer does not allow");
    return;
#endif
    tiny_hub hub; /* its weights are other text */
    char cache[600];
    const bool prepared = prepare();
    snprintf(cache, sizeof cache, "%s/out", work);
    if (!prepared || tiny_start(&hub, "LICENSE", cache) == NULL)
        return;
    const char *setting = getenv("WEFT_TEST_KILLS");
    const int kills = setting ? atoi(setting) : 80;
    const int share = kills / 2 / WRITERS > 0 ? kills / 2 / WRITERS : 1;
    unsigned state = 12345;
    int n = 0;
    for (int i = 0; i < WRITERS; i++) {
        const long changes = run_undisturbed(&writers[i]);
        if (changes == 0)
            printf("  %s: not built\n", writers[i].name);
        for (int k = 0; k < share && changes > 0; k++, n += 2) {
            state = state * 1103515245u + 12345u;
            const long at =
                1 + (long)((double)(k + (state >> 16 & 255) / 256.0) / share * (double)changes);
            const long middle = 1 + (long)((state >> 8 & 0xffff) * (unsigned long)changes >> 16);
            kill_and_repeat(&writers[i], k % 2 ? -at : at, middle, k % 4 == 3);
        }
    }
    printf("  %d kills, %s\n", n, namespaces ? "some as process 1" : "none as process 1");
    tiny_stop(&hub);
}

CHECK_MAIN("cli_kills", CHECK_CASE(writers_are_killed))
