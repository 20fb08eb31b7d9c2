/* tests/train/test_rewards.c -- rewards of completions: comparison with answers, patterns, schemas,
 * lengths, and programs that hang, end, write malformed lines, or are slow. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "tests/check.h"
#include "weft/io.h"
#include "weft/memory.h"
#include "weft/reward.h"

enum { MOST = 4096 };

/* The reward of one completion, or -99 after a failure. */
static double score(const char *description, const char *text, const char *answer)
{
    weft_rewards *r = NULL;
    double out = -99;
    const weft_completion c = {.where = "rows.jsonl:1",
                               .prompt = "p",
                               .text = text,
                               .row = "{}",
                               .answers = &answer,
                               .n_answers = answer != NULL,
                               .tokens = (int64_t)strlen(text)};
    if (CHECK_OK(weft_rewards_new(&description, 1, NULL, &r)))
        CHECK_OK(weft_rewards_score(r, &c, 1, NULL, &out));
    weft_rewards_free(r);
    return out;
}

static void parts_are_compared(void)
{
    static const struct {
        const char *description, *text, *answer;
        double expected;
    } cases[] = {
        {"exact", "Paris", "Paris", 1},
        {"exact", "  paris. \n", "Paris", 1},
        {"exact:text", "the  capital\tis Paris", "The capital is Paris.", 1},
        {"exact", "Paris, France", "Paris", 0},
        {"exact:number", "It is 3 plus 4, so 7.", "7", 1},
        {"exact:number", "so 1,234.50 dollars", "1234.5", 1},
        {"exact:number", "#### -12", "the answer is -12", 1},
        {"exact:number", "x-3", "3", 1},
        {"exact:number", "between 3-4", "4", 1},
        {"exact:number", "1,23", "23", 1}, /* not a group of three: two numbers */
        {"exact:number", "7e", "7", 1},
        {"exact:number", "7e5x", "5", 1},
        {"exact:number", ".5", "0.5", 1},
        {"exact:number", "about 1e-5", "0.00001", 1},
        {"exact:number", "5", "1e-5", 0},
        {"exact:number",
         "\xe2\x88\x92"
         "5",
         "-5", 1},
        {"exact:number", "9007199254740993", "9007199254740992", 0},
        {"exact:number", "no number", "7", 0},
        {"exact:number", "7", "seven", 0},
        {"exact:boxed", "so \\boxed{1} and \\boxed{\\frac{1}{2}}", "\\frac{1}{2}", 1},
        {"exact:boxed", "\\boxed{5}", "hence \\boxed{5}.", 1},
        {"exact:boxed", "\\boxed{5", "5", 0},
        {"exact:boxed", "5", "5", 0},
        {"exact:<answer>", "<think>a</think><answer> B </answer>", "b", 1},
        {"exact:<answer>", "<answer>a</answer><answer>b</answer>", "b", 1},
        {"exact:<answer>", "<answer>b</answer><answer>c", "b", 1},
        {"exact:<answer>", "b", "b", 0},
        {"pattern:^<a>.*</a>$", "<a>x</a>", NULL, 1},
        {"pattern:\\d{3}", "ab 123", NULL, 1},
        {"pattern:^\\d{3}$", "ab 123", NULL, 0},
        {"pattern:^\\d{3}$", "ab\n123\ncd", NULL, 0},
        {"pattern:^(a+)+$", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", NULL, 0},
        {"length:10,20", "0123456789", NULL, 0},
        {"length:10,20", "012345678901234", NULL, -0.5},
        {"length:2,4", "0123456789", NULL, -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const double got = score(cases[i].description, cases[i].text, cases[i].answer);
        if (!CHECK(got == cases[i].expected))
            printf("  %s of '%s', '%s': %g\n", cases[i].description, cases[i].text,
                   cases[i].answer ? cases[i].answer : "", got);
    }
    CHECK(isnan(score("exact", "a", NULL)));
}

static void schemas_are_checked(void)
{
    const char *path = check_temporary("answer.json");
    char description[600];
    static const char schema[] = "{\"type\": \"object\", \"required\": [\"a\"], \"properties\": "
                                 "{\"a\": {\"type\": \"integer\", \"minimum\": 3}}}";
    CHECK_OK(weft_file_write(path, schema, sizeof schema - 1));
    snprintf(description, sizeof description, "json-schema:%s", path);
    CHECK(score(description, " {\"b\": [1], \"a\": 4}\n", NULL) == 1);
    CHECK(score(description, "{\"a\": 2}", NULL) == 0);
    CHECK(score(description, "{\"a\": 4", NULL) == 0);
    CHECK(score(description, "it is {\"a\": 4}", NULL) == 0);
}

static void wrong_descriptions_are_refused(void)
{
    static const struct {
        const char *description, *part;
    } wrong[] = {
        {"exactly", "expected exact, pattern:REGEX"},
        {"exact:word", "expected exact:text, number, boxed or a tag"},
        {"exact:</a>", "expected exact:text, number, boxed or a tag"},
        {"pattern:", "expected pattern:REGEX"},
        {"pattern", "expected pattern:REGEX"},
        {"pattern:(", "pattern:("},
        {"json-schema:/nowhere/x.json", "/nowhere/x.json"},
        {"length:20,10", "expected length:SOFT,HARD"},
        {"length:20", "expected length:SOFT,HARD"},
        {"length:1,2x", "expected length:SOFT,HARD"},
        {"program:", "expected program:COMMAND"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        weft_rewards *r = NULL;
        CHECK(weft_rewards_new(&wrong[i].description, 1, NULL, &r) != WEFT_OK && r == NULL);
        CHECK_CONTAINS(weft_error_message(), wrong[i].part);
    }
}

/* ---- programs -------------------------------------------------------------------------------- */

static weft_completion completions[MOST];

/* Scores n completions, each with its index as text, with a program of one line. */
static weft_status run_program(const char *command, size_t n, double seconds,
                               const weft_cancel *cancel, double *out)
{
    static char texts[MOST][16];
    char *description = weft_format("program:%s", command);
    const char *one = description;
    weft_rewards *r = NULL;
    for (size_t i = 0; i < n; i++) {
        snprintf(texts[i], sizeof *texts, "%zu", i);
        completions[i] = (weft_completion){.where = i == 2 ? "rows.jsonl:3" : "rows.jsonl:9",
                                           .prompt = "a \"quoted\"\n prompt",
                                           .text = texts[i],
                                           .row = "{\"answer\": 5}",
                                           .tokens = 1};
    }
    const weft_rewards_options o = {.seconds = seconds};
    weft_status status = weft_rewards_new(&one, 1, &o, &r);
    for (int twice = 0; status == WEFT_OK && twice < 2; twice++) /* it stays */
        status = weft_rewards_score(r, completions, n, cancel, out);
    char *why = weft_strdup(status == WEFT_OK ? "" : weft_error_message());
    weft_rewards_free(r);
    weft_free(description);
    if (status != WEFT_OK)
        weft_fail(status, "%s", why);
    weft_free(why);
    return status;
}

enum { PATIENCE = 600 }; /* seconds, for immediate answers */

#define PYTHON "exec python3 -u -c '"
#define EACH "import sys, json\nfor line in sys.stdin:\n    r = json.loads(line)\n    "

/* Answers in another order, with null, and only after it has read everything; more bytes than the
 * pipes hold. */
static void programs_answer_in_any_order(void)
{
    static double out[MOST];
    CHECK_OK(run_program(PYTHON EACH
                         "assert r[\"row\"][\"answer\"] == 5 and \"\\n\" in r[\"prompt\"]\n    "
                         "x = int(r[\"completion\"])\n    "
                         "print(json.dumps({\"id\": r[\"id\"], \"more\": \"a\" * 2000, "
                         "\"reward\": None if x % 7 == 0 else x / 2}))'",
                         MOST, PATIENCE, NULL, out));
    for (size_t i = 0; i < MOST; i++)
        CHECK(i % 7 == 0 ? isnan(out[i]) : out[i] == (double)i / 2);
    CHECK_OK(run_program(PYTHON "import sys, json\nwhile True:\n    lines = [sys.stdin.readline() "
                                "for _ in range(64)]\n    if not lines[-1]: break\n    "
                                "for line in reversed(lines):\n        "
                                "print(json.dumps({\"id\": json.loads(line)[\"id\"], "
                                "\"reward\": 1}))'",
                         64, PATIENCE, NULL, out));
    CHECK(out[0] == 1 && out[63] == 1);
}

/* A program may take longer for all answers than the limit for one. */
static void slow_programs_have_time(void)
{
    static const char *const pauses[] = {"0.5", "5"}; /* longer if the machine was too slow */
    double out[10];
    weft_status status = WEFT_IO;
    for (int i = 0; i < 2 && status != WEFT_OK; i++) {
        char *command = weft_format(PYTHON EACH "import time; time.sleep(%s)\n    "
                                                "print(json.dumps({\"id\": r[\"id\"], "
                                                "\"reward\": 0.5}))'",
                                    pauses[i]);
        status = run_program(command, 10, i == 0 ? 4 : 40, NULL, out);
        weft_free(command);
    }
    CHECK_OK(status);
    CHECK(out[9] == 0.5);
}

static bool is_running(const char *file)
{
    char *text = NULL;
    size_t n;
    if (!CHECK_OK(weft_file_read(file, 0, &text, &n)))
        return true;
    const pid_t pid = atoi(text); /* 0: the shell ended before it wrote it */
    weft_free(text);
    for (int i = 0; i < 3000 && pid > 0 && kill(pid, 0) == 0; i++)
        usleep(20000);
    return pid > 0 && kill(pid, SIGKILL) == 0;
}

/* The message has the row, the cause and the end of the standard error. The children of a program
 * end with it. */
static void failures_name_the_row(void)
{
    static const struct {
        const char *command, *row, *why;
        weft_status status;
    } cases[] = {
        {"echo started >&2; sleep 1000 & echo $! > \"$CHILD\"; wait", "rows.jsonl:9",
         " seconds and was ended: started", WEFT_IO},
        {"sleep 1000 & echo $! > \"$CHILD\"; echo broken >&2; exit 3", "rows.jsonl:9",
         "the program ended with status 3: broken", WEFT_IO},
        {"sleep 1000 & echo $! > \"$CHILD\"; read a; read b; "
         "echo '{\"id\": 0, \"reward\": 1}'; echo '{\"id\": 1, \"reward\": 1}'; kill -9 $$",
         "rows.jsonl:3", "the program was ended by signal 9", WEFT_IO},
        {"sleep 1000 & echo $! > \"$CHILD\"; echo hello; cat > /dev/null", "rows.jsonl:9",
         "in the line 'hello'", WEFT_INVALID},
        {"sleep 1000 & echo $! > \"$CHILD\"; echo '{\"id\": 7, \"reward\": 1}'; cat > /dev/null",
         "rows.jsonl:9", "id: expected that of a completion without an answer, got 7",
         WEFT_INVALID},
        {"sleep 1000 & echo $! > \"$CHILD\"; echo '{\"id\": 0, \"reward\": 1}'; "
         "echo '{\"id\": 0, \"reward\": 1}'; cat > /dev/null",
         "rows.jsonl:9", "id: expected that of a completion without an answer, got 0",
         WEFT_INVALID},
        {"sleep 1000 & echo $! > \"$CHILD\"; echo '{\"id\": 0, \"reward\": NaN}'; cat > /dev/null",
         "rows.jsonl:9", "expected a finite number or null, got nan", WEFT_INVALID},
        {"sleep 1000 & echo $! > \"$CHILD\"; echo '{\"id\": 0}'; cat > /dev/null", "rows.jsonl:9",
         "reward", WEFT_INVALID},
        {"sleep 1000 & echo $! > \"$CHILD\"; echo '{\"id\": 0, \"reward\": \"1\"}'; cat > "
         "/dev/null",
         "rows.jsonl:9", "reward: expected number, got string", WEFT_INVALID},
    };
    double out[4];
    char child[512];
    snprintf(child, sizeof child, "%s", check_temporary("reward-child"));
    setenv("CHILD", child, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const double began = weft__seconds();
        (void)unlink(child);
        weft_status status = run_program(cases[i].command, 4, i == 0 ? 2 : PATIENCE, NULL, out);
        if (i == 0 && access(child, F_OK) != 0) /* it had not started in time */
            status = run_program(cases[i].command, 4, 60, NULL, out);
        CHECK_EQ_INT(status, cases[i].status);
        CHECK_CONTAINS(weft_error_message(), cases[i].row);
        CHECK_CONTAINS(weft_error_message(), cases[i].why);
        CHECK_CONTAINS(weft_error_message(), "program:");
        CHECK(weft__seconds() - began < PATIENCE);
        CHECK(!is_running(child));
    }
}

/* A second answer to a completion is not taken as an answer of the next batch. */
static void late_answers_are_refused(void)
{
    double out[1];
    CHECK_EQ_INT(run_program(PYTHON EACH "print((json.dumps({\"id\": r[\"id\"], \"reward\": 1}) + "
                                         "\"\\n\") * 2, end=\"\")'",
                             1, PATIENCE, NULL, out),
                 WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "expected one answer to each completion, got another one");
}

static void cancelled_programs_end(void)
{
    double out[4];
    weft_cancel *cancel = weft_cancel_new();
    weft_cancel_set(cancel);
    CHECK_EQ_INT(run_program("cat > /dev/null", 4, PATIENCE, cancel, out), WEFT_CANCELLED);
    weft_cancel_free(cancel);
}

CHECK_MAIN("rewards", CHECK_CASE(parts_are_compared), CHECK_CASE(schemas_are_checked),
           CHECK_CASE(wrong_descriptions_are_refused), CHECK_CASE(programs_answer_in_any_order),
           CHECK_CASE(slow_programs_have_time), CHECK_CASE(failures_name_the_row),
           CHECK_CASE(late_answers_are_refused), CHECK_CASE(cancelled_programs_end))
