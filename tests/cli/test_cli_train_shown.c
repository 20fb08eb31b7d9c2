/* tests/cli/test_cli_train_shown.c -- weft train: progress, speeds, memory and samples. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/check.h"
#include "tests/cli/command.h"
#include "tests/cli/runs.h"
#include "weft/io.h"
#include "weft/memory.h"

/* The number after the last `name` in a text; NaN: none. */
static double last_number(const char *text, const char *name)
{
    double number = NAN;
    for (const char *at = text; (at = strstr(at, name)) != NULL;) {
        at += strlen(name);
        number = strtod(at, NULL);
    }
    return number;
}

/* A file with n copies of a row, in which # is the number of the row. */
static const char *rows(const char *name, const char *row, int n)
{
    char text[8000];
    size_t used = 0;
    for (int i = 0; i < n; i++)
        for (const char *at = row; *at; at++)
            used += (size_t)snprintf(text + used, sizeof text - used, *at == '#' ? "%d" : "%c",
                                     *at == '#' ? i : *at);
    return text_file(name, text);
}

static const char *const tale = "{\"prompt\": \"Tale # is\", \"completion\": \" number #.\"}\n";

/* The loss of a line is the average over the updates before, with weights 0.8^k; the learning rate
 * and the memory are the update's. */
static void the_progress_is_smoothed(void)
{
    char out[512];
    snprintf(out, sizeof out, "%s", check_temporary("smoothed"));
    output o = weft_command(NULL,
                            "train %s --data %s --steps 9 --batch-size 1 --lr 1e-3 --schedule "
                            "constant --warmup 0 --out %s",
                            model(), rows("rows.jsonl", tale, 6), out);
    if (!CHECK_EQ_INT(o.code, 0))
        CHECK_FAIL("%s", o.err);
    const curve c = read_curve(out);
    double sum = 0, weight = 0;
    if (!CHECK_EQ_INT(c.n, 9))
        return;
    for (int i = 0; i < c.n; i++) {
        sum = 0.8 * sum + c.loss[i];
        weight = 0.8 * weight + 1;
    }
    CHECK(fabs(sum / weight - c.loss[8]) > 1e-3);
    CHECK(fabs(last_number(o.err, "step 9/9  loss ") - sum / weight) < 1e-4);
    CHECK_CONTAINS(o.err, "  lr 0.001  ");
    CHECK_CONTAINS(o.err, " MB  ");
    CHECK_CONTAINS(o.err, " left\n");
}

/* The validation loss on other facts rises during training, which the end of the run reports. With
 * the rows themselves, and if only many updates follow the best one, it reports nothing. */
static void trained_rows_are_reported(void)
{
    static const char facts[] = "{\"prompt\": \"The mill is\", \"completion\": \" violet.\"}\n"
                                "{\"prompt\": \"The bridge is\", \"completion\": \" hollow.\"}\n"
                                "{\"prompt\": \"The tower is\", \"completion\": \" forgotten.\"}\n"
                                "{\"prompt\": \"The barn is\", \"completion\": \" of glass.\"}\n";
    static const char others[] =
        "{\"prompt\": \"The well is\", \"completion\": \" too narrow.\"}\n"
        "{\"prompt\": \"The road is\", \"completion\": \" made of salt.\"}\n";
    char data[512], val[512], out[512];
    snprintf(data, sizeof data, "%s", text_file("facts.jsonl", facts));
    snprintf(val, sizeof val, "%s", text_file("others.jsonl", others));
    snprintf(out, sizeof out, "%s", check_temporary("learned"));
    for (int i = 0; i < 2; i++) {
        const output o = weft_command(NULL,
                                      "train %s --data %s --val-data %s --val-every 2 --steps 40 "
                                      "--batch-size 4 --lr 1e-2 --overwrite --out %s",
                                      model(), data, i == 0 ? val : data, out);
        if (!CHECK_EQ_INT(o.code, 0))
            CHECK_FAIL("%s", o.err);
        CHECK((strstr(o.out, "such as facts, use ") != NULL) == (i == 0));
        CHECK(i == 1 || strstr(o.out, "learned/last (docs/teaching-facts.md)") != NULL);
    }
}

/* The speed is that of the updates; time for validation is not in it. */
static void speeds_leave_out_validation(void)
{
    char out[512], val[512];
    snprintf(out, sizeof out, "%s", check_temporary("fast"));
    snprintf(val, sizeof val, "%s", rows("val.jsonl", tale, 40));
    const output o = weft_command(NULL,
                                  "train %s --data %s --val-data %s --steps 8 --batch-size 1 "
                                  "--val-every 1 --json --out %s",
                                  model(), rows("few.jsonl", tale, 6), val, out);
    if (!CHECK_EQ_INT(o.code, 0))
        CHECK_FAIL("%s", o.err);
    const double shown = last_number(o.out, "\"tokens_per_second\": ");
    const output run = shell_command(NULL, "cat %s/run.json", out);
    const double seconds = last_number(run.out, "\"seconds\": "),
                 updates = last_number(run.out, "\"training_seconds\": "),
                 tokens = last_number(run.out, "\"tokens\": ");
    CHECK(updates > 0 && updates < 0.8 * seconds);
    CHECK_RELATIVE(shown, tokens / updates, 1e-4);
}

/* There are ten validations, and fewer if they would take longer than the updates. */
static void large_validation_data_is_read_less_often(void)
{
    static const struct {
        int rows, validations;
    } cases[] = {{8, 11}, {96, 6}, {2000, 2}}; /* the one before the first update too */
    char row[64], out[512], data[512];
    snprintf(data, sizeof data, "%s", rows("short.jsonl", "{\"text\": \"A b c d.\"}\n", 8));
    snprintf(out, sizeof out, "%s", check_temporary("often"));
    for (int i = 0; i < 3; i++) {
        const int n = cases[i].rows;
        snprintf(row, sizeof row, "seq %d | sed 's/.*/{\"text\": \"A b c d.\"}/'", n);
        const char *val = check_temporary("often.jsonl");
        CHECK_EQ_INT(shell_command(NULL, "%s >%s", row, val).code, 0);
        const output o = weft_command(NULL,
                                      "train %s --data %s --val-data %s --steps 40 --batch-size 4 "
                                      "--overwrite --out %s",
                                      model(), data, val, out);
        CHECK_EQ_INT(o.code, 0);
        CHECK_EQ_INT(atoi(shell_command(NULL, "grep -c validation_loss %s/metrics.jsonl", out).out),
                     cases[i].validations);
    }
}

#ifndef __SANITIZE_ADDRESS__

typedef struct memory {
    double reported;            /* bytes at the peak, of the run */
    double resident, anonymous; /* of its process; anonymous 0: unknown */
} memory;

/* Waits for a process. Returns the most anonymous memory that it was seen to have. */
static double watch(pid_t child, int *status, struct rusage *used)
{
    char path[64], text[4096];
    double most = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)child);
    while (wait4(child, status, WNOHANG, used) == 0) {
        FILE *file = fopen(path, "r");
        if (file) {
            text[fread(text, 1, sizeof text - 1, file)] = '\0';
            fclose(file);
            const char *line = strstr(text, "RssAnon:");
            const double now = line ? 1024 * strtod(line + 8, NULL) : 0;
            most = now > most ? now : most;
        }
        usleep(2000);
    }
    return most;
}

static memory run_once(const char *data, const char *options)
{
    char command[3000], out[512], json[512], *text = NULL;
    snprintf(out, sizeof out, "%s", check_temporary("memory"));
    snprintf(json, sizeof json, "%s", check_temporary("memory.json"));
    snprintf(command, sizeof command,
             "exec %s train %s --data %s --json --overwrite --out %s %s >%s 2>/dev/null",
             check_built("cli/weft"), model(), data, out, options, json);
    struct rusage used = {0};
    int status = -1;
    const pid_t child = fork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    memory m = {0};
    if (!CHECK(child > 0))
        return m;
    const double anonymous = watch(child, &status, &used);
    if (CHECK_EQ_INT(status, 0) && CHECK_OK(weft_file_read(json, 0, &text, NULL)))
        m = (memory){last_number(text, "\"peak_memory\": "), 1024.0 * (double)used.ru_maxrss,
                     anonymous};
    weft_free(text);
    return m;
}

static bool is_reported(const memory *m)
{
    return m->anonymous == 0 || fabs(m->reported / m->anonymous - 1) < 0.04;
}

/* A late measurement misses the peak: then once more. */
static memory memory_of(const char *data, const char *options)
{
    memory m = run_once(data, options);
    for (int i = 0; i < 4 && !is_reported(&m); i++)
        m = run_once(data, options);
    return m;
}

/* The memory outside of arrays is part of what is reported, which matters for small runs. */
static void expect_anonymous(const char *options, const memory *m)
{
    printf("  %s: %.1f MB reported, %.1f MB anonymous\n", options, m->reported / 1e6,
           m->anonymous / 1e6);
    CHECK(is_reported(m));
}

/* The reported memory is that of the process without pages of files: for small runs, for rows of
 * unequal lengths, with checkpointing, and with quantized weights, which take less. */
static void the_memory_is_that_of_the_process(void)
{
    static const char *const large[] = {"", "--checkpoint", "--quantize 4", "--dtype bfloat16"};
    char text[8000] = "", data[512];
    for (int i = 0; i < 16; i++) {
        strcat(text, "{\"text\": \"");
        for (int k = 0; k < 3 + 5 * (i % 6); k++)
            strcat(text, "A fox met a hen. ");
        strcat(text, "\"}\n");
    }
    snprintf(data, sizeof data, "%s", text_file("unequal.jsonl", text));
    const char *little = "--steps 3 --batch-size 1 --length 16";
    char options[256];
    const memory small = memory_of(data, little);
    snprintf(options, sizeof options, "%s --quantize 4", little);
    const memory quantized = memory_of(data, options);
    expect_anonymous(little, &small);
    CHECK(quantized.reported < small.reported - 6e6);
    CHECK(quantized.resident < small.resident - 6e6);
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        snprintf(options, sizeof options, "--steps 6 --batch-size 8 %s", large[i]);
        const memory m = memory_of(data, options);
        const double reported = m.reported - small.reported, resident = m.resident - small.resident;
        printf("  %s: %.1f MB reported, %.1f MB resident beyond a small run\n", large[i],
               reported / 1e6, resident / 1e6);
        CHECK(resident > 20e6 && fabs(reported / resident - 1) < 0.1);
        expect_anonymous(options, &m);
    }
}

#else

static void the_memory_is_that_of_the_process(void)
{
    check_skip("the sanitizers have memory of their own");
}

#endif

/* After training on conversations, samples are answers in a chat, and `weft chat` uses the adapter:
 * also with messages in prompts and in preference pairs. */
static void samples_are_answers_in_chats(void)
{
    static const struct {
        const char *options, *row;
        bool chat;
    } cases[] = {
        {"", "{\"prompt\": \"Tale # is\", \"completion\": \" number #.\"}\n", false},
        {"",
         "{\"messages\": [{\"role\": \"user\", \"content\": \"Who is #?\"}, {\"role\": "
         "\"assistant\", \"content\": \"A fox, #.\"}]}\n",
         true},
        {"",
         "{\"prompt\": [{\"role\": \"user\", \"content\": \"Who is #?\"}], \"completion\": "
         "[{\"role\": \"assistant\", \"content\": \"A fox, #.\"}]}\n",
         true},
        {"--objective dpo",
         "{\"prompt\": \"Who is #?\", \"chosen\": \" A fox, #.\", \"rejected\": \" No.\"}\n",
         false},
        {"--objective dpo",
         "{\"prompt\": [{\"role\": \"user\", \"content\": \"Who is #?\"}], \"chosen\": [{\"role\": "
         "\"assistant\", \"content\": \"A fox, #.\"}], \"rejected\": [{\"role\": \"assistant\", "
         "\"content\": \"Nobody.\"}]}\n",
         true},
        {"--objective kto",
         "{\"prompt\": [{\"role\": \"user\", \"content\": \"Who is #?\"}], \"completion\": "
         "[{\"role\": \"assistant\", \"content\": \"A fox, #.\"}], \"label\": true}\n",
         true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[512], name[32];
        snprintf(name, sizeof name, "shown%zu", i);
        snprintf(out, sizeof out, "%s", check_temporary(name));
        const output o =
            weft_command(NULL,
                         "train %s --data %s --val-split 0.3 --steps 1 "
                         "--sample-prompt 'Who came?' --out %s %s",
                         model(), rows("shown.jsonl", cases[i].row, 5), out, cases[i].options);
        if (!CHECK_EQ_INT(o.code, 0))
            CHECK_FAIL("%s", o.err);
        check_in_file(out, "metrics.jsonl",
                      cases[i].chat ? "\"prompt\": \"<|im_start|>user\\u000aWho came?<|im_end|>"
                                      "\\u000a<|im_start|>assistant\\u000a\""
                                    : "\"prompt\": \"Who came?\"");
        CHECK_CONTAINS(o.out, cases[i].chat ? "weft chat " : "weft generate ");
    }
}

/* An answer ends where the chat template ends a turn. */
static void samples_end_with_the_turn(void)
{
    char out[512], command[700];
    snprintf(out, sizeof out, "%s", check_temporary("turns"));
    const char *data = rows("turns.jsonl",
                            "{\"messages\": [{\"role\": \"user\", \"content\": \"Who came?\"}, "
                            "{\"role\": \"assistant\", \"content\": \"A fox.\"}]}\n",
                            4);
    const output o = weft_command(NULL,
                                  "train %s --data %s --val-data %s --steps 40 --lr 1e-2 "
                                  "--val-every 40 --sample-prompt 'Who came?' --out %s",
                                  model(), data, data, out);
    if (!CHECK_EQ_INT(o.code, 0))
        CHECK_FAIL("%s", o.err);
    snprintf(command, sizeof command, "tail -n 1 %s/metrics.jsonl", out);
    CHECK_CONTAINS(shell_command(NULL, "%s", command).out, "\"text\": \"A fox.\"}]");
}

CHECK_MAIN("cli_train_shown", CHECK_CASE(the_progress_is_smoothed),
           CHECK_CASE(trained_rows_are_reported), CHECK_CASE(speeds_leave_out_validation),
           CHECK_CASE(large_validation_data_is_read_less_often),
           CHECK_CASE(the_memory_is_that_of_the_process), CHECK_CASE(samples_are_answers_in_chats),
           CHECK_CASE(samples_end_with_the_turn))
