/* cli/bench_profile.c -- weft bench --train, and the profiles of weft bench. */
#include "cli/bench.h"
#include "cli/profile.h"

/* ---- Training ------------------------------------------------------------------------------- */

typedef struct profiled_step {
    const bench_values *values;
    weft_status status; /* of the profile */
} profiled_step;

static void profile_step(void *context, bool begins)
{
    profiled_step *p = context;
    if (begins)
        p->status = cli_profile_start(&p->values->place);
    else if (p->status == WEFT_OK)
        p->status = cli_profile_phase("step");
}

weft_status bench_train(const bench_values *v, const char *path)
{
    profiled_step extra = {.values = v};
    weft_bench_train_options o = {.steps = v->runs,
                                  .warm_up = v->warm_up > 0 ? v->warm_up : -1,
                                  .rows = v->batch_size,
                                  .length = v->length,
                                  .rank = v->rank,
                                  .checkpoint = v->checkpoint,
                                  .extra = cli_profile_asked(&v->place) ? profile_step : NULL,
                                  .context = &extra};
    weft_model *model = NULL;
    weft_bench_train_report report;
    weft_status status = cli_place_settle(path, &v->place, PLACE_LORA, NULL);
    if (status == WEFT_OK)
        status = cli_load_model(path, &v->place, v->adapter, &model);
    if (status == WEFT_OK)
        status = cli_catch_interrupt(&o.cancel);
    if (status == WEFT_OK)
        status = cli_profile_ceilings(&v->place);
    if (status == WEFT_OK)
        status = weft_bench_train(model, &o, &report);
    if (status == WEFT_OK)
        status = extra.status;
    if (status == WEFT_OK) {
        bench_print_train(v, path, weft_model_info_of(model), &report);
        if (!v->json)
            cli_profile_print();
    }
    weft_model_free(model);
    return status;
}

/* ---- Generating ----------------------------------------------------------------------------- */

typedef struct first_token {
    bool came;
    weft_status status; /* of the profile */
} first_token;

/* Profiles only the tokens after the first. */
static bool begin_decoding(void *context, const weft_generated *token)
{
    first_token *first = context;
    (void)token;
    if (!first->came)
        first->status = cli_profile_restart();
    first->came = true;
    return first->status == WEFT_OK;
}

/* Prefill is a run of one token; decode is a second run, profiled after its first token. Generation
 * computes one token ahead, so the second token is computed before the first one is delivered. */
static weft_status profile_phases_of(const weft_bench_options *o, weft_engine *engine)
{
    first_token first = {.status = WEFT_OK};
    weft_generate_options greedy = {
        .max_tokens = 1, .cancel = o->cancel, .ignore_eos = o->ids != NULL};
    const weft_engine_request request = {.prompt = o->ids != NULL ? NULL : o->prompt,
                                         .ids = o->ids,
                                         .n_ids = o->n_ids,
                                         .options = &greedy};
    weft_status status = weft_engine_generate(engine, &request, NULL, NULL);
    if (status == WEFT_OK)
        status = cli_profile_phase("prefill");
    greedy.max_tokens = o->max_tokens + 1;
    if (status == WEFT_OK && o->max_tokens > 1)
        status = weft_engine_generate(engine, &request, begin_decoding, &first);
    if (status == WEFT_OK && o->max_tokens > 1)
        status = first.status == WEFT_OK ? cli_profile_phase("decode") : first.status;
    return status;
}

weft_status bench_profile(const bench_values *v, const weft_bench_options *o, weft_engine *engine)
{
    if (!cli_profile_asked(&v->place))
        return WEFT_OK;
    weft_status status = cli_profile_ceilings(&v->place);
    if (status == WEFT_OK)
        status = cli_profile_start(&v->place);
    return status == WEFT_OK ? profile_phases_of(o, engine) : status;
}
