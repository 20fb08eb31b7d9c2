/* cli/train.c -- weft train: fine-tunes a model with LoRA. */
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/common.h"
#include "cli/profile.h"
#include "cli/progress.h"
#include "cli/shared.h"
#include "cli/train.h"

#define AT(field) .offset = offsetof(train_values, field)

static const cli_argument arguments[] = {{"MODEL", offsetof(train_values, model), true}};

static const cli_option options[] = {
    CLI_DATA_PATHS_OPTION(train_values),
    CLI_DATA_MIX_OPTION(train_values),
    CLI_DATA_READING_OPTIONS(train_values),
    {.name = "batches",
     .kind = CLI_TEXT,
     .value = "FILE",
     AT(batches),
     .help = "instead of --data: exactly these batches, one update each; a safetensors file with "
             "int32 batches (steps, B, L) and prompt_lengths (steps, B)"},
    {.name = "out",
     .letter = 'o',
     .kind = CLI_TEXT,
     .value = "DIR",
     .fallback = "weft-run",
     AT(out),
     .help = "folder for adapters, metrics and loss curve"},
    {.name = "val-split",
     .kind = CLI_REAL,
     .value = "SHARE",
     .low = 0,
     .high = 0.999,
     .fallback = "0",
     AT(val_split),
     .help = "share of the data to validate on, not to train on"},
    {.name = "val-data",
     .kind = CLI_TEXT,
     .value = "FILE",
     AT(val_data),
     .help = "a file to validate on"},
    {.name = "val-every",
     .kind = CLI_INT,
     .value = "N",
     .low = 0,
     .high = CLI_ANY,
     AT(val_every),
     .help =
         "validate every N updates, 0: before the first and after the last; default: ten times"},
    {.name = "save-every",
     .kind = CLI_INT,
     .value = "N",
     .fallback = "0",
     .low = 0,
     .high = CLI_ANY,
     AT(save_every),
     .help = "save every N updates too; 0: by --save-minutes alone"},
    {.name = "save-minutes",
     .kind = CLI_REAL,
     .value = "M",
     .fallback = "10",
     .low = 0,
     .high = CLI_ANY,
     AT(save_minutes),
     .help = "save when M minutes have passed since the last save; 0: never"},
    {.name = "keep",
     .kind = CLI_INT,
     .value = "N",
     .fallback = "2",
     .low = 1,
     .high = CLI_ANY,
     AT(keep),
     .help = "keep the newest N checkpoints"},
    {.name = "resume",
     .kind = CLI_FLAG,
     AT(resume),
     .help = "continue the run that --out has from its newest checkpoint, with the options that it "
             "began with; begin one where there is none"},
    {.name = "overwrite",
     .kind = CLI_FLAG,
     AT(overwrite),
     .help = "delete the run that --out has; without this and --resume it is refused"},

    {.name = "epochs",
     .letter = 'e',
     .kind = CLI_REAL,
     .value = "E",
     .low = CLI_ABOVE_ZERO,
     .high = CLI_ANY,
     AT(epochs),
     .help = "epochs; default: 1, or as many as make 100 updates"},
    {.name = "steps",
     .kind = CLI_INT,
     .value = "N",
     .low = 1,
     .high = CLI_ANY,
     AT(steps),
     .help = "updates, instead of --epochs"},
    {.name = "batch-size",
     .letter = 'b',
     .kind = CLI_INT,
     .value = "N",
     .fallback = "4",
     .low = 1,
     .high = 1 << 20,
     AT(batch_size),
     .help = "samples in a batch"},
    {.name = "accumulate",
     .kind = CLI_INT,
     .value = "N",
     .fallback = "1",
     .low = 1,
     .high = 1 << 20,
     AT(accumulate),
     .help = "batches in an update"},
    {.name = "length",
     .kind = CLI_INT,
     .value = "N",
     .fallback = "512",
     .low = 2,
     .high = 1 << 24,
     AT(length),
     .help = "most tokens of a sample; a text is cut into windows"},
    {.name = "pack",
     .kind = CLI_FLAG,
     AT(pack),
     .help = "pack samples into rows of --length tokens, in which none sees another: less padding"},
    {.name = "train-on",
     .kind = CLI_CHOICE,
     .value = "turns|last|everything",
     AT(train_on),
     .help = "what contributes to the loss: completions and every assistant turn of a conversation "
             "(the default), only the last turn of each conversation, or prompts too"},

    {.name = "objective",
     .kind = CLI_CHOICE,
     .value = TRAIN_OBJECTIVES,
     .fallback = "supervised",
     AT(objective),
     .help =
         "what is minimized; dpo, orpo and simpo need preference pairs (chosen, rejected, perhaps "
         "prompt), kto also takes rows with prompt, completion and label; dpo and kto compute "
         "log-probabilities in the starting model first"},
    {.name = "beta",
     .kind = CLI_REAL,
     .value = "X",
     .low = CLI_ABOVE_ZERO,
     .high = CLI_ANY,
     AT(beta),
     .help = "of the objective: the scale of rewards (of orpo: the weight of the odds ratio); "
             "default: 0.1, of simpo 2"},
    {.name = "gamma",
     .kind = CLI_REAL,
     .value = "X",
     .low = 0,
     .high = CLI_ANY,
     AT(gamma),
     .help = "of simpo: the margin between rewards; default: 0.5"},
    TRAIN_KTO_OPTION("desirable-weight", desirable_weight),
    TRAIN_KTO_OPTION("undesirable-weight", undesirable_weight),
    {.name = "label-smoothing",
     .kind = CLI_REAL,
     .value = "SHARE",
     .low = 0,
     .high = 0.499,
     AT(label_smoothing),
     .help = "of dpo (robust DPO) and simpo: share of pairs labelled the wrong way; default: 0"},
    {.name = "lr",
     .kind = CLI_REAL,
     .value = "X",
     .fallback = "2e-4",
     .low = CLI_ABOVE_ZERO,
     .high = CLI_ANY,
     AT(lr),
     .help = "learning rate"},
    {.name = "optimizer",
     .kind = CLI_CHOICE,
     .value = TRAIN_OPTIMIZERS,
     .fallback = "adamw",
     AT(optimizer),
     .help =
         "the optimizer; adam, adamw and adamax correct the bias, adafactor uses --lr as it is"},
    {.name = "optimizer-options",
     .kind = CLI_TEXT,
     .value = "NAME=X,...",
     .fallback = "",
     AT(optimizer_options),
     .help = "its other numbers, as in beta2=0.95,eps=1e-6 or momentum=0.9,nesterov=true"},
    {.name = "lora-plus",
     .kind = CLI_REAL,
     .value = "X",
     .low = CLI_ABOVE_ZERO,
     .high = CLI_ANY,
     AT(lora_plus),
     .help = "LoRA+: the rate of B is X times that of A, as in 16"},
    {.name = "weight-decay",
     .kind = CLI_REAL,
     .value = "X",
     .fallback = "0.01",
     .low = 0,
     .high = CLI_ANY,
     AT(weight_decay),
     .help = "weight decay, of an optimizer that has it"},
    {.name = "schedule",
     .kind = CLI_TEXT,
     .value = "constant|linear|cosine|wsd|exponential|step",
     AT(schedule),
     .help = "the learning rate over the run: linear and cosine fall to 0, or with cosine:0.1 to a "
             "tenth of --lr; wsd:0.2 is constant and falls to 0 over the last 20%; "
             "exponential:RATE, step:RATE:SIZE; joined as linear:0.1@100,cosine; default: cosine, "
             "or constant with --batches"},
    {.name = "warmup",
     .kind = CLI_INT,
     .value = "W",
     .low = 0,
     .high = CLI_ANY,
     AT(warmup),
     .help = "updates until the full learning rate; default: 3% of them, or 0 with --batches"},
    {.name = "clip",
     .kind = CLI_REAL,
     .value = "X",
     .low = 0,
     .high = CLI_ANY,
     AT(clip),
     .help = "largest norm of the gradient, 0: off; default: 1, or 0 with --batches"},
    {.name = "seed",
     .letter = 's',
     .kind = CLI_INT,
     .value = "N",
     .fallback = "0",
     .low = 0,
     .high = CLI_ANY,
     AT(seed),
     .help = "of the adapter's start, the data's order and dropout"},
    {.name = "checkpoint",
     .kind = CLI_FLAG,
     AT(checkpoint),
     .help = "gradient checkpointing: less memory, more time"},
    {.name = "compile",
     .kind = CLI_FLAG,
     AT(compile),
     .help = "compile updates of one batch: less work for the host, for small models"},

    {.name = "rank",
     .letter = 'r',
     .kind = CLI_INT,
     .value = "R",
     .fallback = "8",
     .low = 1,
     .high = 65536,
     AT(rank),
     .help = "rank of the adapter"},
    {.name = "alpha",
     .kind = CLI_REAL,
     .value = "X",
     .low = CLI_ABOVE_ZERO,
     .high = CLI_ANY,
     AT(alpha),
     .help = "scale the adapter by alpha / rank; default: twice the rank"},
    {.name = "rslora", .kind = CLI_FLAG, AT(rslora), .help = "scale it by alpha / sqrt(rank)"},
    {.name = "dora",
     .kind = CLI_FLAG,
     AT(dora),
     .help = "train DoRA adapters, which have a magnitude for each row of a matrix"},
    {.name = "pissa",
     .kind = CLI_FLAG,
     AT(pissa),
     .help = "start at the largest singular values of each matrix (PiSSA); saved as LoRA of twice "
             "the rank"},
    {.name = "rank-pattern",
     .kind = CLI_TEXT,
     .value = "NAME=R,...",
     AT(rank_pattern),
     .help = "another rank for linears of that name or path, as in v_proj=16"},
    {.name = "alpha-pattern",
     .kind = CLI_TEXT,
     .value = "NAME=X,...",
     AT(alpha_pattern),
     .help = "another alpha for linears of that name or path"},
    {.name = "layers",
     .kind = CLI_INT,
     .value = "N",
     .low = 1,
     .high = 1 << 20,
     AT(layers),
     .help = "adapt the last N layers only; default: all"},
    {.name = "dropout",
     .kind = CLI_REAL,
     .value = "P",
     .fallback = "0",
     .low = 0,
     .high = 0.999,
     AT(dropout),
     .help = "dropout in front of the adapter"},
    {.name = "targets",
     .kind = CLI_TEXT,
     .value = "NAMES",
     .fallback = WEFT_LORA_ALL_LINEAR,
     AT(targets),
     .help = "linears and embeddings to adapt, as in q_proj,v_proj,embed_tokens"},
    {.name = "modules-to-save",
     .kind = CLI_TEXT,
     .value = "NAMES",
     AT(whole),
     .help = "modules that are trained whole beside the adapters, as in lm_head"},
    {.name = "adapter-dtype",
     .kind = CLI_CHOICE,
     .value = "float32|bfloat16",
     .fallback = "float32",
     AT(adapter_dtype),
     .help = "dtype of the adapter"},
    {.name = "init-adapter",
     .kind = CLI_TEXT,
     .value = "DIR",
     AT(init_adapter),
     .help = "start from this PEFT adapter, with its rank, alpha and targets"},
    TRAIN_PLAN_OPTIONS,
    CLI_JSON_OPTION(train_values, "print the result as one JSON object"),
    CLI_PLACE_OPTIONS(train_values),
};

/* ---- What is trained ------------------------------------------------------------------------ */

static weft_status load_validation(const train_values *v, train_run *r, weft_dataset_options o)
{
    cli_data_options(&v->source, &o);
    o.format = WEFT_DATA_AUTO; /* --format is that of --data */
    return weft_dataset_load(v->val_data, r->tokenizer, &o, 0, &r->validation, NULL);
}

/* Validation samples that are also trained make the validation loss too low. */
static void report_duplicates(const train_values *v, const train_run *r)
{
    int64_t n = v->val_data && r->data ? weft_dataset_duplicates(r->validation, r->data) : 0;
    if (n > 0)
        weft_log_message(WEFT_LOG_WARNING, "%s of the %s validation samples are also trained",
                         cli_count(n), cli_count(weft_dataset_info_of(r->validation).samples));
}

static weft_status open_data(const train_values *v, const char *path, train_run *r)
{
    if (v->batches != NULL && v->val_data == NULL)
        return weft_batches_open(v->batches, &r->batches);
    weft_dataset_options o = {.length = v->length,
                              .learn_prompt = v->train_on == TRAIN_ON_EVERYTHING,
                              .last_turn = v->train_on == TRAIN_ON_LAST,
                              .seed = (uint64_t)v->seed,
                              .examples = train_objective(v)->examples};
    weft_status status = weft_tokenizer_load(path, &r->tokenizer);
    if (status == WEFT_OK)
        status = cli_load_template(path, &r->chat);
    o.chat = r->chat;
    o.tokenizer_path = r->path;
    if (status == WEFT_OK && v->val_data != NULL)
        status = load_validation(v, r, o);
    if (status != WEFT_OK)
        return status;
    if (v->batches != NULL)
        return weft_batches_open(v->batches, &r->batches);
    weft_dataset **split_off = v->val_data != NULL ? NULL : &r->validation;
    status = cli_data_load(&v->source, r->tokenizer, &o, v->val_split, &r->data, split_off);
    if (status == WEFT_OK)
        status = v->pack ? weft_batches_new_packed(r->data, v->batch_size, v->length,
                                                   (uint64_t)v->seed, &r->batches)
                         : weft_batches_new(r->data, v->batch_size, (uint64_t)v->seed, &r->batches);
    if (status == WEFT_OK)
        report_duplicates(v, r);
    return status;
}

/* ---- The run -------------------------------------------------------------------------------- */

/* Updates of the run. A small file is gone through more than once: 100 updates teach something. */
static int64_t updates(const train_values *v, const train_run *r)
{
    enum { LEAST = 100 };
    int64_t batches = weft_batches_count(r->batches);
    int64_t epoch = (batches + v->accumulate - 1) / v->accumulate;
    if (v->steps != CLI_ABSENT)
        return v->steps;
    if (!isnan(v->epochs))
        return (int64_t)ceil(v->epochs * (double)batches / (double)v->accumulate - 1e-9);
    if (v->batches != NULL || epoch >= LEAST)
        return epoch;
    return epoch * ((LEAST + epoch - 1) / epoch);
}

static int64_t validate_every(const train_values *v, const train_run *r)
{
    enum { TIMES = 10 };
    const int64_t steps = updates(v, r);
    return v->val_every != CLI_ABSENT ? v->val_every : steps > TIMES ? steps / TIMES : 1;
}

static weft_trainer_options trainer_options(const train_values *v, train_run *r)
{
    if (r->data)
        r->data_info = weft_dataset_info_of(r->data);
    bool data = v->source.paths.n > 0;
    double clip = isnan(v->clip) ? (data ? 1.0 : 0.0) : v->clip;
    weft_trainer_options o = {
        .objective = train_objective(v),
        .objective_options = train_objective_options(v),
        .steps = updates(v, r),
        .accumulate = v->accumulate,
        .lr = v->lr,
        .lora_plus = isnan(v->lora_plus) ? 0 : v->lora_plus,
        .optimizer = train_optimizer(v),
        .optimizer_options = &r->optimizer_options,
        .weight_decay = v->weight_decay > 0 ? v->weight_decay : -1,
        .schedule = v->schedule != NULL ? v->schedule
                    : data              ? "cosine"
                                        : "constant",
        .warmup = v->warmup != CLI_ABSENT ? v->warmup : 0,
        .warmup_share = v->warmup == CLI_ABSENT && data ? WEFT_LORA_WARMUP : 0,
        .clip = clip,
        .checkpoint = v->checkpoint,
        .compile = v->compile,
        .seed = (uint64_t)v->seed,
        .validate_every = validate_every(v, r),
        .patience = v->patience,
        .sampler = v->sample_prompts.n > 0 ? train_sample : NULL,
        .save_every = v->save_every,
        .save_minutes = v->save_minutes > 0 ? v->save_minutes : -1,
        .folder = v->out,
        .overwrite = v->overwrite,
        .resume = v->resume,
        .keep = v->keep,
        .command = (const char *const *)r->words.at,
        .n_command = r->words.n,
        .base_name = r->path,
        .data_name = data ? cli_data_first(&v->source) : v->batches,
        .data = r->data ? &r->data_info : NULL,
        .callback = train_show,
        .context = r,
    };
    return o;
}

static weft_status train(const train_values *v, train_run *r)
{
    weft_trainer_options o = trainer_options(v, r);
    if (v->dry_run)
        return train_dry_run(v, r, &o);
    weft_status status = train_catch_signals(&o.cancel);
    if (status == WEFT_OK)
        status = weft_trainer_new(r->model, &o, &r->trainer);
    if (status != WEFT_OK)
        return status;
    train_print_plan(v, r, &o);
    r->planned = o.steps;
    cli_progress_start(&r->progress);
    status = cli_profile_start(&v->place);
    if (status == WEFT_OK)
        status = weft_trainer_run(r->trainer, r->batches, r->validation, &r->result);
    cli_progress_end(&r->progress);
    if (status == WEFT_OK)
        train_print_result(v, r);
    if ((status == WEFT_OK && !v->json) || status == WEFT_CANCELLED)
        cli_profile_print();
    if (status == WEFT_CANCELLED)
        weft_fail(status,
                  "train: stopped after update %lld of %lld; the adapter so far is %s/last; weft "
                  "train --out %s --resume continues",
                  (long long)r->result.steps, (long long)o.steps, v->out, v->out);
    return status;
}

static const char *complaint(const train_values *v)
{
    if (v->resume && v->overwrite)
        return "--resume and --overwrite exclude each other";
    if (v->model == NULL)
        return "MODEL is missing";
    if ((v->source.paths.n == 0) == (v->batches == NULL))
        return "needs --data FILE or --batches FILE";
    if (v->val_split > 0 && (v->val_data != NULL || v->batches != NULL))
        return "--val-split is for --data without --val-data";
    if (v->batches != NULL && v->accumulate != 1)
        return "--batches makes one update of each batch: no --accumulate";
    if (v->pack && (v->batches != NULL || v->compile))
        return "--pack is for --data without --compile";
    const char *objective = train_objective_complaint(v);
    if (objective != NULL)
        return objective;
    if (v->compile && v->accumulate != 1)
        return "--compile is for updates of one batch: no --accumulate";
    if (v->steps != CLI_ABSENT && !isnan(v->epochs))
        return "--steps and --epochs exclude each other";
    const char *plan = train_plan_complaint(v);
    if (plan != NULL)
        return plan;
    return cli_place_complaint(&v->place);
}

/* Before anything is loaded. */
static weft_status check_out(const train_values *v)
{
    if (v->dry_run || v->overwrite || v->resume || !weft_run_exists(v->out))
        return WEFT_OK;
    return weft_fail(WEFT_INVALID,
                     "train: %s has a run already: --resume continues it, --overwrite deletes it, "
                     "or choose another --out",
                     v->out);
}

/* A run with all options at hand. */
static int run_with(const train_values *v)
{
    const char *why = complaint(v);
    if (why != NULL)
        return cli_usage("train", "%s", why);
    train_run r = {.values = v, .words = train_words(v)};
    if (train_read_texts(v, &r) != WEFT_OK) {
        cli_words_free(&r.words);
        return cli_usage("train", "%s", weft_error_message());
    }
    weft_status status = check_out(v);
    if (status == WEFT_OK)
        status = cli_find_model(&v->place, v->model, r.path, sizeof r.path);
    if (status == WEFT_OK)
        status = open_data(v, r.path, &r);
    if (status == WEFT_OK)
        status = cli_load_model(r.path, &v->place, NULL, &r.model);
    if (status == WEFT_OK)
        status = train_add_adapter(v, r.model);
    if (status == WEFT_OK)
        status = train_add_reference(v, &r);
    if (status == WEFT_OK)
        status = train(v, &r);
    int code = cli_status(status);
    if (status == WEFT_CANCELLED && train_stop_signal() != 0)
        code = 128 + train_stop_signal();
    weft_trainer_free(r.trainer);
    weft_batches_free(r.batches);
    weft_dataset_free(r.data);
    weft_dataset_free(r.validation);
    weft_tokenizer_free(r.tokenizer);
    weft_chat_free(r.chat);
    weft_model_free(r.model);
    train_free_samples(&r);
    cli_words_free(&r.words);
    return code;
}

static int run_parsed(train_values *v)
{
    cli_word_list words = {.n = 0};
    weft_status status = WEFT_OK;
    const char *conflict = train_adapter_conflict(v);
    if (conflict != NULL)
        return cli_usage("train", "--%s is that of --init-adapter, and cannot be given too",
                         conflict);
    if (v->resume && !v->overwrite && weft_run_exists(v->out))
        status = train_resume(v, &words);
    const int code = status == WEFT_OK ? run_with(v) : cli_status(status);
    cli_words_free(&words);
    return code;
}

static int run(void *context)
{
    return train_with_config(context, run_parsed);
}

const cli_command cli_train = {
    .name = "train",
    .summary = "fine-tune a model with LoRA",
    .description =
        "Trains a LoRA adapter and saves it in PEFT format as DIR/last and, where there is "
        "validation, DIR/best; DIR/metrics.jsonl has a line for every update, DIR/report.html the "
        "curves, settings and samples, DIR/config.json the options.\n\nWith --data alone: all "
        "linears, rank 8, AdamW with learning rate 2e-4, "
        "3% warmup and cosine.\n\n"
        "The adapter is saved every 10 minutes (--save-minutes) and at the end. Ctrl-C, SIGTERM "
        "and SIGHUP finish the update in progress, save and exit with status 130, 143 or 129; a "
        "second Ctrl-C or SIGTERM ends at once and leaves the latest save.\n\nA save is a "
        "checkpoint, "
        "DIR/step-N: the adapter, the optimizer and where the run stands. weft train --out DIR "
        "--resume continues from the newest with the run's own options, as if it had not stopped; "
        "those that are given replace them, unless the model, the data or the adapter would be "
        "another.\n\n"
        "--objective dpo, orpo, simpo or kto trains on preference pairs, rows with chosen and "
        "rejected; "
        "the line of an "
        "update and metrics.jsonl then have the share of pairs whose chosen completion has the "
        "larger reward, and the mean margin.",
    .example = "weft train storyteller --data book.txt --val-split 0.1\n"
               "weft train MODEL --data chats.jsonl --epochs 3 --rank 16 --out run\n"
               "weft train MODEL --batches batches.safetensors --init-adapter start --out run\n"
               "weft train --out run --resume",
    CLI_TABLE(train_values, arguments, options),
    .given = offsetof(train_values, given),
    .run = run,
};
