/* tests/cli/test_cli_place.c -- the device and the dtype of a command: the choice from simulated
 * facts, and what the command stores and prints. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/place_choice.h"
#include "tests/check.h"
#include "tests/cli/command.h"

enum { GB = 1000000000 };

/* Machines by the names of their devices other than the CPU, with free memory in GB and
 * features. */
typedef struct machine {
    const char *name;
    bool amx;
    struct {
        bool discrete, bfloat16, refused;
        int free;
    } cards[3];
    int n_cards;
} machine;

static const machine plain = {"plain", false, {{0}}, 0};
static const machine amx = {"AMX", true, {{0}}, 0};
static const machine software = {"software driver", false, {{false, false, false, 16}}, 1};
static const machine forced_software = {"forced software", false, {{false, true, false, 16}}, 1};
static const machine radeon = {"discrete, unmeasured", true, {{true, false, false, 24}}, 1};
static const machine nvidia = {"NVIDIA", true, {{true, true, false, 24}}, 1};
static const machine full_card = {"NVIDIA, in use", true, {{true, true, false, 1}}, 1};
static const machine broken = {"NVIDIA, wrong results", true, {{true, true, true, 24}}, 1};
static const machine second = {
    "integrated and NVIDIA", false, {{false, false, false, 32}, {true, true, false, 24}}, 2};
static const machine two_cards = {
    "two NVIDIA and software",
    false,
    {{true, true, false, 24}, {true, true, false, 24}, {false, false, false, 32}},
    3};

typedef struct choice_case {
    const machine *on;
    place_weights weights;
    place_use use;
    const char *device; /* given */
    int dtype;          /* given; -1: not */
    int ranks, rank;
    const char *chosen;
    weft_dtype chosen_dtype;
} choice_case;

#define F32 WEFT_FLOAT32
#define BF16 WEFT_BFLOAT16
#define OTHER PLACE_OTHER
#define HALF PLACE_BFLOAT16
#define BLOCKS PLACE_BLOCKS

/* A model of a billion parameters. */
static const choice_case choices[] = {
    {&plain, OTHER, PLACE_RUN, NULL, -1, 1, 0, "cpu", F32},
    {&plain, HALF, PLACE_RUN, NULL, -1, 1, 0, "cpu", F32},
    {&amx, OTHER, PLACE_RUN, NULL, -1, 1, 0, "cpu", F32},
    {&amx, HALF, PLACE_RUN, NULL, -1, 1, 0, "cpu", BF16},
    {&amx, HALF, PLACE_LORA, NULL, -1, 1, 0, "cpu", BF16},
    {&amx, HALF, PLACE_FULL, NULL, -1, 1, 0, "cpu", F32},
    {&amx, BLOCKS, PLACE_RUN, NULL, -1, 1, 0, "cpu", F32},
    {&amx, HALF, PLACE_RUN, NULL, F32, 1, 0, "cpu", F32},
    {&plain, HALF, PLACE_RUN, NULL, BF16, 1, 0, "cpu", BF16},
    {&plain, HALF, PLACE_RUN, NULL, 0, 1, 0, "cpu", 0},
    {&software, HALF, PLACE_RUN, NULL, -1, 1, 0, "cpu", F32},
    {&forced_software, HALF, PLACE_RUN, NULL, -1, 1, 0, "cpu", F32},
    {&radeon, HALF, PLACE_RUN, NULL, -1, 1, 0, "cpu", BF16},
    {&radeon, HALF, PLACE_RUN, "vulkan", -1, 1, 0, "vulkan", F32},
    {&radeon, BLOCKS, PLACE_RUN, "vulkan", -1, 1, 0, "vulkan", F32},
    {&nvidia, OTHER, PLACE_RUN, NULL, -1, 1, 0, "vulkan", F32},
    {&nvidia, HALF, PLACE_RUN, NULL, -1, 1, 0, "vulkan", BF16},
    {&nvidia, BLOCKS, PLACE_RUN, NULL, -1, 1, 0, "vulkan", BF16},
    {&nvidia, HALF, PLACE_LORA, NULL, -1, 1, 0, "vulkan", BF16},
    {&nvidia, HALF, PLACE_FULL, NULL, -1, 1, 0, "vulkan", F32},
    {&nvidia, HALF, PLACE_RUN, "cpu", -1, 1, 0, "cpu", BF16},
    {&nvidia, HALF, PLACE_RUN, NULL, F32, 1, 0, "vulkan", F32},
    {&full_card, HALF, PLACE_RUN, NULL, -1, 1, 0, "cpu", BF16},
    {&full_card, HALF, PLACE_RUN, "vulkan", -1, 1, 0, "vulkan", BF16},
    {&broken, HALF, PLACE_RUN, NULL, -1, 1, 0, "cpu", BF16},
    {&second, HALF, PLACE_RUN, NULL, -1, 1, 0, "vulkan:1", BF16},
    {&nvidia, HALF, PLACE_LORA, NULL, -1, 2, 0, "cpu", BF16},
    {&nvidia, HALF, PLACE_LORA, NULL, -1, 2, 1, "cpu", BF16},
    {&two_cards, HALF, PLACE_LORA, NULL, -1, 2, 0, "vulkan", BF16},
    {&two_cards, HALF, PLACE_LORA, NULL, -1, 2, 1, "vulkan:1", BF16},
    {&two_cards, HALF, PLACE_LORA, NULL, -1, 3, 2, "cpu", F32},
};

static place_facts facts_of(const choice_case *c)
{
    place_facts f = {.device = c->device,
                     .has_dtype = c->dtype >= 0,
                     .dtype = (weft_dtype)(c->dtype >= 0 ? c->dtype : 0),
                     .use = c->use,
                     .weights = c->weights,
                     .elements = c->weights == BLOCKS ? 0 : GB,
                     .packed_bytes = c->weights == BLOCKS ? GB / 2 : 0,
                     .ranks = c->ranks,
                     .rank = c->rank,
                     .n_devices = 1 + c->on->n_cards};
    f.devices[0] = (place_device){.name = "cpu", .traits = {.fast_bfloat16 = c->on->amx}};
    for (int i = 0; i < c->on->n_cards; i++) {
        place_device *d = &f.devices[1 + i];
        d->traits = (weft_device_traits){.discrete = c->on->cards[i].discrete,
                                         .fast_bfloat16 = c->on->cards[i].bfloat16,
                                         .free_memory = (int64_t)c->on->cards[i].free * GB};
        d->refused = c->on->cards[i].refused;
        snprintf(d->name, sizeof d->name, i > 0 ? "vulkan:%d" : "vulkan", i);
    }
    return f;
}

static void features_decide(void)
{
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        const choice_case *c = &choices[i];
        const place_facts f = facts_of(c);
        const place_choice found = place_choose(&f);
        check_that(strcmp(found.device, c->chosen) == 0 && found.dtype == c->chosen_dtype, __FILE__,
                   __LINE__, "case %zu, %s: %s in %s, expected %s in %s", i, c->on->name,
                   found.device, found.dtype ? weft_dtype_name(found.dtype) : "auto", c->chosen,
                   c->chosen_dtype ? weft_dtype_name(c->chosen_dtype) : "auto");
        CHECK((found.small != NULL) == (c->on == &full_card && c->device == NULL));
    }
}

/* With --gpu-layers blocks stay float32, as the loader leaves them. */
static void split_blocks_are_float32(void)
{
    place_facts f = facts_of(&(choice_case){&nvidia, BLOCKS, PLACE_RUN, "vulkan", -1, 1, 0, "", 0});
    CHECK_EQ_INT(place_choose(&f).dtype, WEFT_BFLOAT16);
    f.split = true;
    CHECK_EQ_INT(place_choose(&f).dtype, WEFT_FLOAT32);
}

static void more_work_needs_more_memory(void)
{
    place_facts f = facts_of(&choices[0]);
    f.weights = HALF;
    const int64_t half = place_memory(&f, BF16), single = place_memory(&f, F32);
    CHECK(half > 2 * (int64_t)GB && single > 4 * (int64_t)GB && single > half);
    f.quantize = 4;
    CHECK(place_memory(&f, BF16) < half);
    f.quantize = 0;
    f.use = PLACE_LORA;
    const int64_t lora = place_memory(&f, BF16);
    CHECK(lora > half);
    f.use = PLACE_FULL;
    CHECK(place_memory(&f, F32) > 20 * (int64_t)GB && place_memory(&f, BF16) > lora);
}

/* ---- the command ----------------------------------------------------------------------------- */

static void a_line_names_the_chosen_device_and_dtype(void)
{
    output o = shell_command(NULL,
                             "unset WEFT_DEVICE; WEFT_DTYPE=float32 VK_DRIVER_FILES=/dev/null "
                             "%s generate -p Once -n 1 --json",
                             check_built("cli/weft"));
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.err, "weft: computes on cpu in float32; --device and --dtype change that\n");
    CHECK_CONTAINS(o.out, "\"device\": \"cpu\", \"dtype\": \"float32\"");
    o = weft_command(NULL, "generate -p Once -n 1 --json --dtype bfloat16");
    CHECK(strstr(o.err, "computes on") == NULL);
    CHECK_CONTAINS(o.out, "\"device\": \"cpu\", \"dtype\": \"bfloat16\"");
}

static void every_line_of_json_has_device_and_dtype(void)
{
    static const struct {
        const char *in, *command;
    } cases[] = {{NULL, "generate %s -p Once -n 1 --json --dtype bfloat16"},
                 {"{\"prompt\": \"Once\"}\n", "generate %s --batch - -n 1 --dtype bfloat16"},
                 {"\"Hi\"\n", "chat %s --format chatml -n 1 --json --dtype bfloat16"},
                 {"Once\n", "embed %s --json --dtype bfloat16"},
                 {"Once\n", "classify %s --json --dtype bfloat16"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const output o =
            weft_command(cases[i].in, cases[i].command, check_source("examples/storyteller"));
        CHECK_EQ_INT(o.code, 0);
        CHECK_CONTAINS(o.out, ", \"device\": \"cpu\", \"dtype\": \"bfloat16\"");
    }
}

/* With what the process holds outside of arrays, as training reports it. */
static void generating_reports_its_peak_memory(void)
{
    const output o = weft_command(NULL, "generate -p Once -n 1 --json");
    const char *at = strstr(o.out, "\"peak_memory\": ");
    CHECK(at != NULL && strtoll(at + 15, NULL, 10) > 4000000);
}

static void environment_variables_set_the_defaults(void)
{
    output o = shell_command(NULL, "WEFT_DTYPE=float16 %s generate -p Once -n 1 --json",
                             check_built("cli/weft"));
    CHECK_CONTAINS(o.out, "\"dtype\": \"float16\"");
    o = shell_command(NULL, "WEFT_DTYPE=half %s generate -p Once -n 1", check_built("cli/weft"));
    CHECK_EQ_INT(o.code, 2);
    CHECK_CONTAINS(o.err, "WEFT_DTYPE (environment variable): expected one of float32|bfloat16|"
                          "float16|auto, got 'half'");
    o = shell_command(NULL, "WEFT_DEVICE=toaster %s generate -p Once -n 1",
                      check_built("cli/weft"));
    CHECK_EQ_INT(o.code, 1);
    CHECK_CONTAINS(o.err, "--device toaster: ");
}

static void unknown_devices_are_explained(void)
{
    static const char *const others[] = {"cuda", "cuda:0", "gpu", "mps", "ROCm"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const output o = weft_command(NULL, "generate -p Once -n 1 --device %s", others[i]);
        check_one_line(&o, 1);
        CHECK_CONTAINS(o.err, "through Vulkan: --device vulkan");
    }
    const output o = weft_command(NULL, "generate -p Once -n 1 --device vulkan:77");
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "--device vulkan:77: ");
    CHECK_CONTAINS(o.err, "weft info --devices");
}

/* A run stores what was chosen, and resumes with it although the default has changed since. */
static void runs_keep_device_and_dtype(void)
{
    const char *weft = check_built("cli/weft");
    char out[1024];
    snprintf(out, sizeof out, "%s", check_temporary("kept"));
    const char *data = text_file("kept.txt", "Once upon a time there was a king. He had a son.\n");
    output o = shell_command(NULL,
                             "unset WEFT_DEVICE; VK_DRIVER_FILES=/dev/null WEFT_DTYPE=bfloat16 %s "
                             "train storyteller --data %s --length 8 --steps 1 --out %s",
                             weft, data, out);
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.err, "computes on cpu in bfloat16");
    o = shell_command(NULL, "cat %s/run.json %s/config.json", out, out);
    CHECK_CONTAINS(o.out, "\"--device\",");
    CHECK_CONTAINS(o.out, "\"dtype\":\"bfloat16\"");
    o = weft_command(NULL, "train --out %s --resume --steps 2 --json", out);
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "\"device\": \"cpu\", \"dtype\": \"bfloat16\"");
    o = shell_command(NULL,
                      "sed -i 's/\"cpu\"/\"vulkan:77\"/' %s/run.json && %s train --out %s "
                      "--resume --steps 3",
                      out, weft, out);
    CHECK_EQ_INT(o.code, 1);
    CHECK_CONTAINS(o.err, "--device vulkan:77: ");
    o = weft_command(NULL, "train --out %s --resume --steps 3 --device cpu --json", out);
    CHECK_EQ_INT(o.code, 0);
}

/* A server prints the profile at its end: that of the thread that computes. */
static void servers_have_a_profile(void)
{
    const char *weft = check_built("cli/weft"), *model = check_source("examples/storyteller");
    char log[512];
    snprintf(log, sizeof log, "%s", check_temporary("served"));
    output o = shell_command(
        NULL,
        "%s serve %s --template %s --port 0 --device cpu --profile 2>%s & p=$!; "
        "for i in $(seq 200); do url=$(sed -n 's/^weft: serving on //p' %s); "
        "[ -n \"$url\" ] && break; sleep 0.05; done; %s chat --server $url -p Hi -n 4; "
        "kill $p; wait $p; code=$?; cat %s >&2; exit $code",
        weft, model, text_file("served.jinja", "{{ messages[0].content }}"), log, log, weft, log);
    if (strstr(o.err, "this build has no server") != NULL) {
        check_skip("%s", o.err);
        return;
    }
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.err, "profile of cpu: ");
    CHECK_CONTAINS(o.err, "\n  linear ");
}

CHECK_MAIN("cli_place", CHECK_CASE(features_decide), CHECK_CASE(split_blocks_are_float32),
           CHECK_CASE(more_work_needs_more_memory),
           CHECK_CASE(a_line_names_the_chosen_device_and_dtype),
           CHECK_CASE(every_line_of_json_has_device_and_dtype),
           CHECK_CASE(environment_variables_set_the_defaults),
           CHECK_CASE(generating_reports_its_peak_memory),
           CHECK_CASE(unknown_devices_are_explained), CHECK_CASE(runs_keep_device_and_dtype),
           CHECK_CASE(servers_have_a_profile))
