/* cli/data.c -- weft data: shows the samples that training would read from data. */
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/common.h"
#include "cli/data_options.h"
#include "cli/data_show.h"
#include "cli/mine_options.h"
#include "cli/shared.h"
#include "cli/train.h"
#include "cli/words.h"
#include "weft/task.h"

#define AT(field) .offset = offsetof(data_values, field)

static const cli_argument arguments[] = {{"MODEL", offsetof(data_values, model), false},
                                         {"DATA", offsetof(data_values, data), false}};

static const cli_option options[] = {
    CLI_DATA_READING_OPTIONS(data_values),
    CLI_DATA_CHAT_OPTIONS(data_values),
    {.name = "length",
     .kind = CLI_INT,
     .value = "N",
     .fallback = "512",
     .low = 2,
     .high = 1 << 24,
     AT(length),
     .help = "most tokens of a sample; a text is cut into windows"},
    {.name = "train-on",
     .kind = CLI_CHOICE,
     .value = "turns|last|everything",
     AT(train_on),
     .help = "what contributes to the loss, as in weft train"},
    {.name = "task",
     .kind = CLI_CHOICE,
     .value = "generate|classify|embed",
     .fallback = "generate",
     AT(task),
     .help = "what is trained, as in weft train: texts, the labels of rows with text and label, or "
             "texts whose vectors are compared"},
    {.name = "query-prompt",
     .kind = CLI_TEXT,
     .value = "TEXT",
     AT(embed.query_prompt),
     .help = "with --task embed: as in weft train"},
    {.name = "passage-prompt",
     .kind = CLI_TEXT,
     .value = "TEXT",
     AT(embed.passage_prompt),
     .help = "with --task embed: as in weft train"},
    {.name = "labels",
     .kind = CLI_TEXT,
     .value = "A,B,C",
     AT(labels),
     .help = "with --task classify: the labels in this order; default: those of DATA, sorted"},
    {.name = "objective",
     .kind = CLI_CHOICE,
     .word = train_objective_name,
     .fallback = "supervised",
     AT(objective),
     .help =
         "what is trained, as in weft train: preference pairs for dpo, orpo and simpo, labeled "
         "completions for kto, prompts for grpo, dapo, dr_grpo, gspo and rloo, with --task embed "
         "texts for ranking, triplet, cosent and cosine"},
    {.name = "val-split",
     .kind = CLI_REAL,
     .value = "SHARE",
     .low = 0,
     .high = 0.999,
     .fallback = "0",
     AT(val_split),
     .help = "split this share off for validation, and count what is in both parts; weft train "
             "holds out 5%, at most 100 samples, of 200 or more unless told otherwise"},
    {.name = "seed",
     .letter = 's',
     .kind = CLI_INT,
     .value = "N",
     .fallback = "0",
     .low = 0,
     .high = CLI_ANY,
     AT(seed),
     .help = "of the split"},
    {.name = "show",
     .kind = CLI_INT,
     .value = "N",
     .fallback = "1",
     .low = 0,
     .high = CLI_ANY,
     AT(show),
     .help = "print the first N samples"},
    {.name = "jsonl",
     .kind = CLI_FLAG,
     AT(jsonl),
     .help =
         "print each sample as one JSON object: ids, weights, segments of text, its part "
         "(train or validation), and with --objective whether it is desirable. Of a text with a "
         "label the last id is the label's number"},
    CLI_JSON_OPTION(data_values, "print the summary as one JSON object"),
    DATA_MINE_OPTIONS(data_values),
};

/* The first given option that is for --mine-negatives alone; NULL: none. */
static const char *mining_option(const data_values *v)
{
    const cli_option *first = cli_option_named(&cli_data, "mine-negatives");
    for (const cli_option *o = first + 1; o < options + cli_data.n_options; o++) {
        if (cli_is_given(&cli_data, &v->given, o->name))
            return o->name;
    }
    return NULL;
}

static weft_status show(const data_values *v, const data_found *found)
{
    if (v->jsonl)
        return data_print_samples(found);
    if (v->json)
        return data_print_json(found);
    return data_print_summary(v, found);
}

static bool has_rewards(const void *values)
{
    const data_values *v = values;
    return train_objective_of(v->task, v->objective)->examples == WEFT_EXAMPLES_SCORED;
}

static bool compares(const void *values)
{
    const data_values *v = values;
    return train_objective_of(v->task, v->objective)->compare != NULL;
}

static bool compares_nothing(const void *values)
{
    return !compares(values);
}

static const cli_rule rules[] = {
    {"json jsonl", NULL, "--json and --jsonl exclude each other"},
    {"mine-negatives jsonl", NULL, "--mine-negatives writes rows: no --jsonl"},
    {"mine-negatives val-split", NULL, "--mine-negatives splits nothing: no --val-split"},
    {"mine-negatives task=classify", NULL, "--mine-negatives is for rows of --task embed"},
    {"val-split !val-split=0", has_rewards, "this --objective has no validation"},
    TRAIN_TASK_RULES(compares, compares_nothing),
};

/* Of an objective with rewards: the prompts, of which completions are sampled. */
static weft_status load_prompts(const data_values *v, const weft_dataset_options *common,
                                data_found *found)
{
    weft_data_source sources[CLI_MOST];
    weft_dataset_options o = *common;
    cli_data_options(&v->source, &o);
    weft_status status = cli_data_open(&v->source, sources);
    if (status == WEFT_OK)
        status = weft_dataset_load_prompts(sources, v->source.paths.n, found->tokenizer, &o,
                                           &found->data);
    cli_data_release(sources, v->source.paths.n);
    return status;
}

/* Reads the data and prints what was found. */
static weft_status load_and_show(const data_values *v, const char *path, const weft_chat *chat,
                                 data_found *found)
{
    weft_labels labels = {0};
    weft_dataset_options o = {.length = v->length,
                              .learn_prompt = v->train_on == TRAIN_ON_EVERYTHING,
                              .last_turn = v->train_on == TRAIN_ON_LAST,
                              .seed = (uint64_t)v->seed,
                              .examples = train_objective_of(v->task, v->objective)->examples,
                              .tokenizer_path = path,
                              .chat = chat};
    weft_status status = WEFT_OK;
    if (v->task == TRAIN_CLASSIFY) {
        status = classify_find_labels(&v->source, path, v->labels, found->tokenizer, &o, &labels);
        found->labels = o.labels = &labels;
    }
    weft_embed_settings settings = {0};
    if (v->task == TRAIN_EMBED) {
        status = embed_open(path, NULL, &v->embed, &settings);
        o.query_prompt = settings.query_prompt;
        o.passage_prompt = settings.passage_prompt;
        o.length = 1 + embed_length(
                           &settings,
                           cli_is_set(&cli_data, &v->given, cli_option_named(&cli_data, "length")),
                           v->length);
    }
    if (status == WEFT_OK && o.examples == WEFT_EXAMPLES_SCORED)
        status = load_prompts(v, &o, found);
    else if (status == WEFT_OK)
        status = cli_data_load(&v->source, found->tokenizer, &o, v->val_split, &found->data,
                               &found->validation);
    if (status == WEFT_OK)
        status = show(v, found);
    weft_embed_settings_free(&settings);
    weft_labels_free(&labels);
    return status;
}

static weft_status open_tokenizer(const char *model, char *path, size_t size, weft_tokenizer **out)
{
    const weft_status status = cli_tokenizer_path(model, path, size);
    return status == WEFT_OK ? weft_tokenizer_load(path, out) : status;
}

/* Opens the tokenizer of MODEL. Before it DATA was the first argument: both orders are accepted.
 * If neither argument is a model, the message is about the first one that does not exist. */
static weft_status open_model(data_values *v, char *path, size_t size, weft_tokenizer **out)
{
    const char *first = v->model, *second = v->data;
    weft_status status = open_tokenizer(first, path, size, out);
    if (status == WEFT_OK || open_tokenizer(second, path, size, out) == WEFT_OK) {
        v->model = status == WEFT_OK ? first : second;
        v->data = status == WEFT_OK ? second : first;
        return WEFT_OK;
    }
    const bool other = access(first, F_OK) == 0 && access(second, F_OK) != 0;
    return open_tokenizer(other ? second : first, path, size, out);
}

static int run(void *context)
{
    data_values *v = context;
    const char *why = cli_complaint(&cli_data, &v->given, rules, sizeof rules / sizeof *rules, v);
    if (why != NULL)
        return cli_usage("data", "%s", why);
    if (v->mine.out == NULL && mining_option(v))
        return cli_usage("data", "--%s is for --mine-negatives", mining_option(v));
    if (cli_place_complaint(&v->place) != NULL)
        return cli_usage("data", "%s", cli_place_complaint(&v->place));
    v->embed.pooling = -1; /* the checkpoint's */
    char path[4096];
    weft_chat *chat = NULL;
    weft_tokenizer *tokenizer = NULL;
    data_found found = {0};
    weft_status status = open_model(v, path, sizeof path, &tokenizer);
    v->source.paths.at[v->source.paths.n++] = v->data;
    if (status == WEFT_OK && v->mine.out) {
        weft_tokenizer_free(tokenizer);
        return cli_status(data_mine(v));
    }
    if (status == WEFT_OK)
        status = v->source.template_file
                     ? cli_read_template(v->source.template_file, tokenizer, &chat)
                     : cli_load_template(path, NULL, &chat);
    found.tokenizer = tokenizer;
    if (status == WEFT_OK)
        status = load_and_show(v, path, chat, &found);
    weft_dataset_free(found.data);
    weft_dataset_free(found.validation);
    weft_tokenizer_free(tokenizer);
    weft_chat_free(chat);
    return cli_status(status);
}

const cli_command cli_data = {
    .name = "data",
    .summary = "show what training reads from data",
    .description =
        "Shows what weft train would read from DATA (a file, a folder, a pattern or -) with "
        "the tokenizer and the chat template of MODEL, in either order. It prints the formats and "
        "kinds of rows, "
        "the lengths of the samples, the number of duplicates, and the first samples. In those, "
        "tokens that contribute to the loss are on lines that begin with +, in green on a "
        "terminal.\n\n"
        "--mine-negatives writes rows with hard negatives instead: for each anchor, texts whose "
        "vectors are similar to its own without being its positives, chosen as "
        "mine_hard_negatives of sentence-transformers does. OUT is complete or absent.",
    .example = "weft data MODEL chats.jsonl\n"
               "weft data MODEL train/ --length 2048 --show 3\n"
               "weft data MODEL chats.jsonl --jsonl > samples.jsonl\n"
               "weft data MODEL pairs.jsonl --objective dpo\n"
               "weft data MODEL reviews.jsonl --task classify\n"
               "weft data all-MiniLM-L6-v2 pairs.jsonl --mine-negatives triplets.jsonl "
               "--relative-margin 0.05",
    CLI_TABLE(data_values, arguments, options),
    .given = offsetof(data_values, given),
    .run = run,
};
