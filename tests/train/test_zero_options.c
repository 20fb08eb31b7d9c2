/* tests/train/test_zero_options.c -- zero in options whose default is another number: a negative
 * number means it, in every struct. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "generate/caches/ring.h"
#include "generate/prompt_cache/prompt_cache.h"
#include "tests/check.h"
#include "tests/hub/server.h"
#include "tests/optim/scenes.h"
#include "tests/support/golden.h"
#include "tests/support/models.h"
#include "train/objective/objective.h"
#include "weft/bench.h"
#include "weft/engine.h"
#include "weft/hub.h"
#include "weft/layers.h"
#include "weft/memory.h"
#include "weft/ops.h"
#include "weft/print.h"
#include "weft/session.h"
#include "weft/tool/options.h"
#include "weft/transforms.h"

/* ---- optimizers: every number of every type ------------------------------------------------- */

/* Three updates with an option set to `value`; the parameters go to `out`. */
static weft_status run_with(const weft_optim_type *type, const weft_field *f, double value,
                            weft_array **out)
{
    double options[32] = {0};
    void *at = (char *)options + f->offset;
    weft_optim *o = NULL;
    scene s;
    if (f->type == WEFT_FIELD_INT)
        *(int64_t *)at = (int64_t)floor(value);
    else
        *(double *)at = value;
    const weft_optim_group group = {.type = type, .options = options, .learning_rate = 0.05};
    scene_start(&s, WEFT_FLOAT64);
    weft_status status = weft_optim_new(&s.slots, &group, 1, &o);
    for (int t = 0; t < 3 && status == WEFT_OK; t++) {
        weft_array *gradients[SCENE_PARAMETERS];
        scene_gradients(t, WEFT_FLOAT64, gradients);
        status = weft_optim_update(o, gradients);
    }
    for (int i = 0; i < SCENE_PARAMETERS && status == WEFT_OK; i++)
        out[i] = weft_copy(s.arrays[i]);
    if (status == WEFT_OK)
        status = weft_eval_n(out, SCENE_PARAMETERS);
    weft_optim_free(o);
    scene_end(&s);
    return status;
}

static bool same(weft_array *const *a, weft_array *const *b)
{
    bool equal = true;
    for (int i = 0; i < SCENE_PARAMETERS; i++)
        equal = equal && weft_item(weft_allclose(a[i], b[i], 1e-12, 1e-12, true)) == 1;
    return equal;
}

/* -1 acts like a number next to zero, or is refused like zero. */
static void check_number(const weft_optim_type *type, const weft_field *f)
{
    double standard = 0, options[32] = {0}, written;
    char text[64];
    weft_array *zero[SCENE_PARAMETERS], *tiny[SCENE_PARAMETERS];
    memcpy(&standard, (const char *)type->defaults + f->offset, sizeof standard);
    if (standard == 0) /* also the bits of the integer 0 */
        return;
    weft_scope_open();
    const weft_status status = run_with(type, f, -1, zero);
    if (status == WEFT_INVALID) {
        CHECK_CONTAINS(weft_error_message(), f->name);
        CHECK_CONTAINS(weft_error_message(), "got 0");
    } else if (CHECK_OK(status) && f->type == WEFT_FIELD_DOUBLE &&
               CHECK_OK(run_with(type, f, 1e-300, tiny)) && !same(zero, tiny)) {
        CHECK_FAIL("%s: %s: -1 is not zero", type->name, f->name);
    }
    weft_scope_close(NULL);
    if (f->type != WEFT_FIELD_DOUBLE)
        return;
    snprintf(text, sizeof text, "%s=0", f->name);
    CHECK_OK(weft_optim_options_parse(type, text, options));
    memcpy(&written, (const char *)options + f->offset, sizeof written);
    CHECK_CLOSE(written, -1, 0);
}

static void numbers_of_optimizers(void)
{
    if (!golden_open("optim/optimizers"))
        return;
    for (int i = 0; weft_optim_type_at(i); i++) {
        const weft_optim_type *type = weft_optim_type_at(i);
        for (const weft_field *f = type->fields; f && f->type != WEFT_FIELD_END; f++) {
            if (f->type != WEFT_FIELD_BOOL && type->defaults)
                check_number(type, f);
        }
    }
    golden_close();
}

static void weight_decay_of_zero_decays_nothing(void)
{
    weft_array *none[SCENE_PARAMETERS], *standard[SCENE_PARAMETERS];
    const weft_field decay = WEFT_FIELD(DOUBLE, weft_optim_adamw_options, weight_decay);
    if (!golden_open("optim/optimizers"))
        return;
    weft_scope_open();
    if (CHECK_OK(run_with(&weft_optim_adamw, &decay, -1, none)) &&
        CHECK_OK(run_with(&weft_optim_adamw, &decay, 0, standard)))
        CHECK(!same(none, standard));
    weft_scope_close(NULL);
    golden_close();
}

/* ---- rotary embeddings: every number of every kind ------------------------------------------- */

enum { HEAD = 16 };

static const struct {
    const char *name;
    size_t offset;
} rope_numbers[] = {
#define NUMBER(field)                                                                              \
    {                                                                                              \
#field, offsetof(weft_rope_options, field)                                                 \
    }
    NUMBER(theta),           NUMBER(factor),           NUMBER(partial),
    NUMBER(low_freq_factor), NUMBER(high_freq_factor), NUMBER(beta_fast),
    NUMBER(beta_slow),       NUMBER(attention_factor), NUMBER(mscale),
    NUMBER(mscale_all_dim),
#undef NUMBER
};

/* The frequencies and then the amplitude, with a number set to `value`. */
static weft_array *rope_with(weft_rope_kind kind, size_t offset, double value)
{
    static const double ones[] = {1, 1, 1, 1, 1, 1, 1, 1};
    weft_rope_options o = {.kind = kind,
                           .head_dim = HEAD,
                           .factor = 2,
                           .max_position = 4096,
                           .original_max_position = 2048,
                           .mscale = 1,
                           .mscale_all_dim = 2,
                           .short_factor = ones,
                           .long_factor = ones};
    double amplitude = 0;
    memcpy((char *)&o + offset, &value, sizeof value);
    weft_array *f = weft_rope_frequencies(&o, &amplitude);
    return weft_concatenate((weft_array *[]){f, weft_full(WEFT_DIMS(1), amplitude, WEFT_FLOAT32)},
                            2, 0);
}

/* -1 gives what a number next to zero gives, or is refused with the field's name. */
static void numbers_of_rope(void)
{
    for (int kind = WEFT_ROPE_DEFAULT; kind <= WEFT_ROPE_PROPORTIONAL; kind++) {
        for (size_t i = 0; i < sizeof rope_numbers / sizeof *rope_numbers; i++) {
            const size_t offset = rope_numbers[i].offset;
            weft_scope_open();
            weft_array *zero = rope_with((weft_rope_kind)kind, offset, -1);
            weft_array *tiny = rope_with((weft_rope_kind)kind, offset, 1e-300);
            if (weft_error(zero) != NULL)
                CHECK_CONTAINS(weft_error(zero), rope_numbers[i].name);
            else if (!(weft_item(weft_allclose(zero, tiny, 1e-6, 1e-6, true)) == 1))
                CHECK_FAIL("rope %d: %s: -1 is not zero", kind, rope_numbers[i].name);
            CHECK(true);
            weft_scope_close(NULL);
        }
    }
}

/* ---- the other structs ---------------------------------------------------------------------- */

static double objective_value(const char *name, size_t offset, double value)
{
    weft_objective_options o = {0};
    memcpy((char *)&o + offset, &value, sizeof value);
    CHECK_OK(weft__objective_complete(weft_objective_named(name), &o));
    memcpy(&value, (const char *)&o + offset, sizeof value);
    return value;
}

#define OBJECTIVE(name, field)                                                                     \
    static double name##_##field(double value)                                                     \
    {                                                                                              \
        return objective_value(#name, offsetof(weft_objective_options, field), value);             \
    }
OBJECTIVE(orpo, beta)
OBJECTIVE(simpo, gamma)
OBJECTIVE(kto, desirable_weight)
OBJECTIVE(kto, undesirable_weight)
#undef OBJECTIVE

static double batch_norm_eps(double value)
{
    weft_module *m = weft_nn_batch_norm_new(4, &(weft_nn_batch_norm_options){.eps = value});
    const double eps = ((weft_nn_batch_norm *)m)->eps;
    weft_nn_free(m);
    return eps;
}

static double batch_norm_momentum(double value)
{
    weft_module *m = weft_nn_batch_norm_new(4, &(weft_nn_batch_norm_options){.momentum = value});
    const double momentum = ((weft_nn_batch_norm *)m)->momentum;
    weft_nn_free(m);
    return momentum;
}

static double group_norm_eps(double value)
{
    weft_module *m = weft_nn_group_norm_new(2, 4, &(weft_nn_group_norm_options){.eps = value});
    const double eps = ((weft_nn_group_norm *)m)->eps;
    weft_nn_free(m);
    return eps;
}

static double instance_norm_eps(double value)
{
    weft_module *m = weft_nn_instance_norm_new(4, value, false);
    const double eps = ((weft_nn_instance_norm *)m)->eps;
    weft_nn_free(m);
    return eps;
}

/* Digits after the point. */
static double print_precision(double value)
{
    weft_scope_open();
    char *text = weft_to_text(weft_full(WEFT_DIMS(1), 1.0 / 3, WEFT_FLOAT64),
                              &(weft_print_options){.precision = (int)value}); /* "[0.33]" */
    const double digits = (double)strlen(strchr(text, '.') + 1) - 1;
    weft_free(text);
    weft_scope_close(NULL);
    return digits;
}

static double sink_tokens(double value)
{
    int64_t sinks = -1;
    CHECK_OK(weft__cache_options_check(
        &(weft_cache_options){.max_context = 100, .sink_tokens = (int64_t)value}, &sinks));
    return (double)sinks;
}

static int cubed(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context, (void)n_in, (void)room;
    out[0] = weft_power_scalar(in[0], 3);
    return 1;
}

/* 1e-6 if differences of a cube are close enough, 0 if they must be exact. */
static double gradcheck_tolerance(double value)
{
    weft_scope_open();
    weft_array *x = weft_scalar(0.7, WEFT_FLOAT64);
    const weft_status status =
        weft_gradcheck(cubed, NULL, &x, 1, &(weft_gradcheck_options){.tolerance = value});
    weft_scope_close(NULL);
    return status == WEFT_OK ? 1e-6 : 0;
}

static double min_tokens(double value)
{
    weft_prompt_cache *cache = NULL;
    CHECK_OK(weft_prompt_cache_new(NULL, &(weft_prompt_cache_options){.min_tokens = (int64_t)value},
                                   &cache));
    const int64_t tokens = cache->min_tokens;
    weft_prompt_cache_free(cache);
    return (double)tokens;
}

/* The backend ignores requests to stop; the message states how long Weft waited, at most
 * answer_seconds. -1: it was late earlier. */
static double stop_once(double value)
{
    enum { ANSWER = 3 };
    double seconds = -1;
    weft_engine *engine = NULL;
    const weft_engine_options o = {.backend = "subprocess",
                                   .program = check_built("tests/fake_engine"),
                                   .answer_seconds = ANSWER,
                                   .stop_seconds = value};
    const weft_generate_options at_once = {.timeout = 0.01};
    if (weft_engine_load("deaf", &o, &engine) != WEFT_OK)
        return seconds;
    CHECK_STATUS(weft_engine_generate(engine,
                                      &(weft_engine_request){.prompt = "Once", .options = &at_once},
                                      NULL, NULL),
                 WEFT_IO);
    const char *said = strstr(weft_error_message(), "did not stop for ");
    if (said != NULL)
        CHECK_EQ_INT(sscanf(said, "did not stop for %lf", &seconds), 1);
    weft_engine_free(engine);
    return seconds;
}

static double stop_seconds(double value)
{
    double seconds = -1;
    for (int i = 0; i < 5 && seconds < 0; i++)
        seconds = stop_once(value);
    CHECK(seconds >= 0);
    return seconds;
}

/* Steps before those that are measured. */
static double warm_up(double value)
{
    weft_bench_train_report report = {0};
    weft_model *model = fixture_model("llama");
    if (model == NULL)
        return -1;
    CHECK_OK(weft_bench_train(
        model,
        &(weft_bench_train_options){.warm_up = (int64_t)value, .steps = 1, .length = 4, .rank = 1},
        &report));
    weft_model_free(model);
    return report.cold_seconds > 0;
}

/* Reads "(1 of 5)" and stops. */
static bool read_retries(void *context, const weft_hub_progress *p)
{
    const char *at = p->message ? strstr(p->message, "(1 of ") : NULL;
    return at == NULL || sscanf(at, "(1 of %lf)", (double *)context) != 1;
}

static double hub_retries(double value)
{
    const server_page page = {.path = "/api/models/org/tiny/revision/main", .code = 500};
    double retries = 0;
    char *folder = NULL;
    server *s = server_start(&page, 1, NULL);
    setenv("HF_HUB_CACHE", check_temporary("hub"), 1);
    setenv("no_proxy", "*", 1);
    if (!CHECK(s != NULL))
        return -1;
    const weft_hub_options o = {.endpoint = server_url(s),
                                .token = "t",
                                .retries = (int)value,
                                .progress = read_retries,
                                .context = &retries};
    CHECK(weft_hub_pull("org/tiny", &o, &folder) != WEFT_OK);
    server_stop(s);
    return retries;
}

static weft_status answer_no(void *context, const weft_session_request *request,
                             weft_generate_fn *callback, void *callback_context,
                             weft_generate_stats *stats)
{
    (void)request, (void)stats;
    ++*(int *)context;
    callback(callback_context, &(weft_generated){.id = -1, .text = "no", .length = 2});
    return WEFT_OK;
}

static double session_retries(double value)
{
    static const char template[] = "{% for m in messages %}{{ m.content }}{% endfor %}";
    int answers = 0;
    weft_chat *chat = NULL;
    weft_session *session = NULL;
    const weft_session_options o = {.source = answer_no, .source_context = &answers};
    const weft_session_turn turn = {.structured = WEFT_STRUCTURED_PROMPTED,
                                    .schema = "{\"type\": \"integer\"}",
                                    .retries = (int64_t)value};
    if (!CHECK_OK(weft_chat_parse(template, strlen(template), "test", NULL, &chat)))
        return -1;
    if (CHECK_OK(weft_session_new(NULL, NULL, chat, &o, &session)))
        CHECK_STATUS(weft_session_send(session, "How many?", &turn, NULL, NULL, NULL),
                     WEFT_INVALID);
    weft_session_free(session);
    weft_chat_free(chat);
    return answers - 1;
}

static const struct {
    const char *name;
    double (*result)(double value);
    double standard;
} rows[] = {
    {"orpo: beta", orpo_beta, 0.1},
    {"simpo: gamma", simpo_gamma, 0.5},
    {"kto: desirable_weight", kto_desirable_weight, 1},
    {"kto: undesirable_weight", kto_undesirable_weight, 1},
    {"batch_norm: eps", batch_norm_eps, 1e-5},
    {"batch_norm: momentum", batch_norm_momentum, 0.1},
    {"group_norm: eps", group_norm_eps, 1e-5},
    {"instance_norm: eps", instance_norm_eps, 1e-5},
    {"print: precision", print_precision, 8},
    {"cache: sink_tokens", sink_tokens, 4},
    {"gradcheck: tolerance", gradcheck_tolerance, 1e-6},
    {"prompt cache: min_tokens", min_tokens, 16},
    {"engine: stop_seconds", stop_seconds, 3},
    {"bench: warm_up", warm_up, 1},
    {"hub: retries", hub_retries, 5},
    {"session: retries", session_retries, 2},
};

static void negative_numbers_mean_zero(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const double standard = rows[i].result(0), zero = rows[i].result(-1);
        if (standard != rows[i].standard)
            CHECK_FAIL("%s: 0 gives %g, not the default", rows[i].name, standard);
        if (zero != 0)
            CHECK_FAIL("%s: -1 gives %g", rows[i].name, zero);
        CHECK(true);
    }
}

CHECK_MAIN("zero_options", CHECK_CASE(numbers_of_optimizers),
           CHECK_CASE(weight_decay_of_zero_decays_nothing), CHECK_CASE(numbers_of_rope),
           CHECK_CASE(negative_numbers_mean_zero))
