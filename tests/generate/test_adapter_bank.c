/* tests/generate/test_adapter_bank.c -- nn/lora_bank.c, nn/lora_mixed.c: sequences of a batch with
 * different adapters get what they get alone, with PEFT's adapters of tests/golden/lora. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "generate/batch.h"
#include "generate/prompt_cache/files.h"
#include "nn/lora_bank.h"
#include "tests/check.h"
#include "tests/train/recipes.h"
#include "weft/adapter.h"
#include "weft/io.h"

enum { ADAPTERS = 5, PROMPTS = 2, TOKENS = 16, PROMPT = 9 };

/* Adapters of one model; all but the last two tables have linears alone. */
static const char *const groups[][ADAPTERS + 1] = {
    {"lora-qwen3", "lora-qwen3-rs", "lora-qwen3-dora", "lora-qwen3-patterns"},
    {"lora-llama", "lora-llama-embeddings", "lora-llama-plus"},
    {"lora-gemma2"},
    {"lora-gemma3"},
    {"lora-qwen2-tied"},
    {"lora-lfm2"},
    {"lora-granite4"},
    {"lora-falcon-h1"},
    {"lora-nemotron-h"},
    {"lora-minicpm3"},
    {"lora-glm4-moe-lite"},
    {"lora-mixtral"},
    {"lora-qwen3-moe"},
};
enum { GROUPS = sizeof groups / sizeof *groups };

typedef struct loaded {
    weft_model *model;
    weft_nn_lora_bank *bank;
    weft_nn_lora_member *members[ADAPTERS + 1]; /* the first is NULL: no adapter */
    int n;
} loaded;

static bool load(const char *const *folders, loaded *out)
{
    *out = (loaded){.model = recipe_model(recipe_named(folders[0]), NULL), .n = 1};
    if (out->model == NULL ||
        !CHECK_OK(weft_nn_lora_bank_new(weft_model_module(out->model), &out->bank)))
        return false;
    for (; folders[out->n - 1]; out->n++) {
        int32_t eos;
        const char *path = recipe_path(recipe_named(folders[out->n - 1]), "final");
        if (!CHECK_OK(weft_adapter_load_member(out->model, path, NULL, out->bank,
                                               &out->members[out->n], &eos)))
            return false;
        CHECK_EQ_INT(weft_nn_lora_count(weft_model_module(out->model)), 0);
    }
    return true;
}

static void unload(loaded *l)
{
    weft_nn_lora_bank_free(l->bank);
    weft_model_free(l->model);
}

static void fill_prompt(int k, weft_model *model, int32_t *ids)
{
    uint32_t state = 77u + (uint32_t)k;
    for (int i = 0; i < PROMPT; i++) {
        state = state * 1664525u + 1013904223u;
        ids[i] = (int32_t)((state >> 8) % (uint32_t)weft_model_info_of(model)->vocab_size);
    }
}

static const weft_generate_options greedy = {
    .max_tokens = TOKENS, .ignore_eos = true, .logprobs = true};

/* What a model generates alone. */
static void generate(weft_model *model, int k, weft_generated_row *out)
{
    int32_t ids[PROMPT];
    const weft_generate_request request = {.prompt = {ids, PROMPT}, .options = &greedy};
    fill_prompt(k, model, ids);
    CHECK_OK(weft_generate_batch(model, NULL, &request, 1, NULL, NULL, NULL, out));
    CHECK_EQ_INT(out->n, TOKENS);
}

static bool same_tokens(const weft_generated_row *a, const weft_generated_row *b)
{
    return a->n == b->n && memcmp(a->ids, b->ids, a->n * sizeof *a->ids) == 0;
}

/* A model of its own with the adapter i - 1 of a group; 0: without. */
static void expected(const char *const *folders, int i, weft_generated_row *rows)
{
    weft_model *model = recipe_model(recipe_named(folders[i > 0 ? i - 1 : 0]), i ? "final" : NULL);
    for (int k = 0; model && k < PROMPTS; k++)
        generate(model, k, &rows[k]);
    weft_model_free(model);
}

static void one_adapter_gives_its_own_bits(void)
{
    for (int g = 0; g < GROUPS; g++) {
        loaded l;
        bool differs = false;
        weft_generated_row plain[PROMPTS] = {{0}};
        bool fine = load(groups[g], &l);
        for (int i = 0; fine && i < l.n; i++) {
            weft_generated_row alone[PROMPTS] = {{0}}, row = {0};
            expected(groups[g], i, alone);
            weft_nn_lora_bank_use(l.bank, l.members[i]);
            generate(l.model, 1, &row);
            CHECK(same_tokens(&row, &alone[1]));
            CHECK(row.n == alone[1].n &&
                  memcmp(row.logprobs, alone[1].logprobs, row.n * sizeof *row.logprobs) == 0);
            if (i == 0)
                expected(groups[g], 0, plain);
            differs = differs ||
                      memcmp(row.logprobs, plain[1].logprobs, row.n * sizeof *row.logprobs) != 0;
            weft_generated_rows_free(&row, 1);
            weft_generated_rows_free(alone, PROMPTS);
        }
        CHECK(differs);
        weft_generated_rows_free(plain, PROMPTS);
        unload(&l);
    }
}

/* ---- batches -------------------------------------------------------------------------------- */

typedef struct batch {
    int32_t ids[PROMPTS][PROMPT];
    weft_generated_row rows[(ADAPTERS + 1) * PROMPTS];
    bool mixed; /* a compiled step had rows with different adapters */
} batch;

/* All adapters of the group, and none, with every prompt. */
static void run_batch(const loaded *l, batch *out)
{
    weft_running_batch *b = NULL;
    bool more = true;
    const weft_generate_batch_options options = {.adapters = l->bank};
    *out = (batch){.mixed = false};
    CHECK_OK(weft_running_batch_new(l->model, NULL, &options, &b));
    for (int k = 0; b && k < PROMPTS; k++) {
        fill_prompt(k, l->model, out->ids[k]);
        for (int i = 0; i < l->n; i++) {
            const weft_generate_request request = {
                .prompt = {out->ids[k], PROMPT}, .options = &greedy, .adapter = l->members[i]};
            CHECK_OK(weft_running_batch_add(b, &request, NULL, NULL,
                                            &out->rows[k * (ADAPTERS + 1) + i]));
        }
    }
    while (b && more) {
        CHECK_OK(weft_running_batch_advance(b, &more));
        out->mixed = out->mixed || (b->steps[0].compiled && b->steps[0].adapter == WEFT__MIXED);
    }
    weft_running_batch_free(b);
}

static void rows_with_different_adapters_share_steps(void)
{
    for (int g = 0; g < GROUPS; g++) {
        loaded l;
        batch b;
        const bool fine = load(groups[g], &l);
        if (fine)
            run_batch(&l, &b);
        for (int i = 0; fine && i < l.n; i++) {
            weft_generated_row alone[PROMPTS] = {{0}};
            expected(groups[g], i, alone);
            for (int k = 0; k < PROMPTS; k++) {
                const weft_generated_row *row = &b.rows[k * (ADAPTERS + 1) + i];
                CHECK_OK(row->status);
                CHECK(same_tokens(row, &alone[k]));
                for (size_t t = 0; t < row->n && t < alone[k].n; t++)
                    CHECK_CLOSE(row->logprobs[t], alone[k].logprobs[t], 2e-5);
            }
            weft_generated_rows_free(alone, PROMPTS);
        }
        /* Adapters of experts are computed after those without. */
        CHECK(!fine || b.mixed == !l.members[1]->alone);
        if (fine)
            weft_generated_rows_free(b.rows, (ADAPTERS + 1) * PROMPTS);
        unload(&l);
    }
}

static void members_come_and_go(void)
{
    loaded l;
    batch b;
    weft_generated_row alone[PROMPTS] = {{0}};
    int32_t eos;
    if (!load(groups[0], &l)) {
        unload(&l);
        return;
    }
    run_batch(&l, &b);
    weft_generated_rows_free(b.rows, (ADAPTERS + 1) * PROMPTS);
    weft_nn_lora_bank_drop(l.bank, l.members[1]);
    weft_nn_lora_bank_drop(l.bank, l.members[2]);
    const char *path = recipe_path(recipe_named("lora-qwen3-rs"), "final");
    CHECK_OK(weft_adapter_load_member(l.model, path, NULL, l.bank, &l.members[1], &eos));
    CHECK_EQ_INT(eos, -1);
    l.members[2] = l.members[3];
    l.n = 3;
    run_batch(&l, &b);
    expected(groups[0], 2, alone);
    CHECK(b.mixed && same_tokens(&b.rows[1], &alone[0]));
    weft_generated_rows_free(alone, PROMPTS);
    expected(groups[0], 3, alone);
    CHECK(same_tokens(&b.rows[2], &alone[0]));
    weft_generated_rows_free(alone, PROMPTS);
    weft_generated_rows_free(b.rows, (ADAPTERS + 1) * PROMPTS);
    unload(&l);
}

static void prompts_are_kept_for_each_adapter(void)
{
    loaded l;
    weft_prompt_cache *cache = NULL;
    const weft_prompt_cache_options few = {.min_tokens = 1};
    int32_t ids[PROMPT];
    if (load(groups[0], &l) && CHECK_OK(weft_prompt_cache_new(l.model, &few, &cache))) {
        weft_generate_options o = greedy;
        const weft_generate_batch_options options = {.adapters = l.bank};
        o.prompt_cache = cache;
        fill_prompt(0, l.model, ids);
        for (int i = 0; i < 2 * l.n; i++) {
            weft_generated_row row = {0};
            const weft_generate_request request = {
                .prompt = {ids, PROMPT}, .options = &o, .adapter = l.members[i % l.n]};
            CHECK_OK(weft_generate_batch(l.model, NULL, &request, 1, &options, NULL, NULL, &row));
            CHECK_EQ_INT(row.stats.cached_tokens, i < l.n ? 0 : PROMPT - 1);
            weft_generated_rows_free(&row, 1);
        }
    }
    weft_prompt_cache_free(cache);
    unload(&l);
}

static void copy(const char *from, const char *folder, const char *name)
{
    char path[1024], *data = NULL;
    size_t n = 0;
    snprintf(path, sizeof path, "%s/%s", from, name);
    CHECK_OK(weft_file_read(path, 1 << 24, &data, &n));
    snprintf(path, sizeof path, "%s/%s", folder, name);
    CHECK_OK(weft_file_write(path, data, n));
    weft_free(data);
}

/* The eos_token of an adapter's tokenizer ends its sequences and not those of others. */
static void end_of_an_adapter_is_its_own(void)
{
    static const char config[] = "{\"eos_token\": \"<pad>\"}"; /* not the model's */
    const char *folder = check_temporary("with-tokenizer");
    const char *path = recipe_path(recipe_named("lora-llama"), "final");
    char file[1024];
    loaded l;
    weft_nn_lora_member *member = NULL;
    int32_t eos = -1;
    int before = 0, after = 0;
    CHECK(mkdir(folder, 0700) == 0);
    copy(path, folder, "adapter_config.json");
    copy(path, folder, "adapter_model.safetensors");
    copy(check_source("tests/golden/lora/lora-llama-chat"), folder, "tokenizer.json");
    snprintf(file, sizeof file, "%s/tokenizer_config.json", folder);
    CHECK_OK(weft_file_write(file, config, strlen(config)));
    if (load(groups[1], &l)) {
        weft_model_eos(l.model, &before);
        CHECK_OK(weft_adapter_load_member(l.model, folder, NULL, l.bank, &member, &eos));
        weft_model_eos(l.model, &after);
        CHECK_EQ_INT(after, before);
        CHECK_EQ_INT(eos, 0);
    }
    unload(&l);
}

/* ---- failures ------------------------------------------------------------------------------- */

static void what_cannot_be_switched_is_refused(void)
{
    loaded l;
    weft_nn_lora_member *member = NULL;
    int32_t eos = 0;
    if (load(groups[1], &l)) {
        const char *const folders[] = {"lora-llama-saved", "lora-llama-tokens", "lora-llama-new"};
        for (size_t i = 0; i < 3; i++) {
            const char *path = recipe_path(recipe_named(folders[i]), "final");
            CHECK_STATUS(weft_adapter_load_member(l.model, path, NULL, l.bank, &member, &eos),
                         WEFT_UNSUPPORTED);
            CHECK(member == NULL);
        }
        CHECK_STATUS(weft_adapter_load_member(l.model, "/nowhere", NULL, l.bank, &member, &eos),
                     WEFT_IO);
        CHECK_STATUS(weft_nn_lora_bank_take(l.bank, &member), WEFT_INVALID);
        CHECK_EQ_INT(l.bank->n, l.n - 1);
        weft_running_batch *b = NULL;
        weft_generated_row row = {0};
        const weft_generate_request request = {.options = &greedy, .adapter = l.members[1]};
        CHECK_OK(weft_running_batch_new(l.model, NULL, NULL, &b));
        CHECK_STATUS(weft_running_batch_add(b, &request, NULL, NULL, &row), WEFT_INVALID);
        weft_running_batch_free(b);
    }
    unload(&l);
}

/* Of sequences with equal texts, those with the same adapter share pages of keys and values. */
static void adapters_share_no_pages(void)
{
    enum { ROWS = 3, LONG = 270 };
    loaded l;
    int32_t ids[LONG];
    weft_running_batch *b = NULL;
    weft_generated_row rows[ROWS] = {{0}};
    bool more = true;
    if (!load(groups[0], &l))
        return;
    for (int i = 0; i < LONG; i++)
        ids[i] = i * i % (int32_t)weft_model_info_of(l.model)->vocab_size;
    const weft_generate_batch_options o = {.rows = 4, .adapters = l.bank};
    CHECK_OK(weft_running_batch_new(l.model, NULL, &o, &b));
    for (int i = 0; i < ROWS; i++) {
        const weft_generate_request request = {
            .prompt = {ids, LONG}, .options = &greedy, .adapter = l.members[i % 2]};
        CHECK_OK(weft_running_batch_add(b, &request, NULL, NULL, &rows[i]));
    }
    CHECK_OK(weft_running_batch_advance(b, &more));
    CHECK_EQ_INT(weft_running_batch_cache(b).used, 5 * WEFT__PAGE); /* 1 of two sequences */
    while (more)
        CHECK_OK(weft_running_batch_advance(b, &more));
    weft_running_batch_free(b);
    for (int i = 0; i < ROWS; i++) {
        weft_generated_row alone = {0};
        const weft_generate_request request = {.prompt = {ids, LONG}, .options = &greedy};
        weft_nn_lora_bank_use(l.bank, l.members[i % 2]);
        CHECK_OK(weft_generate_batch(l.model, NULL, &request, 1, NULL, NULL, NULL, &alone));
        CHECK(same_tokens(&rows[i], &alone));
        weft_generated_rows_free(&alone, 1);
    }
    weft_generated_rows_free(rows, ROWS);
    unload(&l);
}

/* With pages for two of three sequences the oldest two get them, although only the youngest has the
 * adapter of the oldest. */
static void older_sequences_get_pages_first(void)
{
    enum { ROWS = 3 };
    loaded l;
    int32_t ids[ROWS][PROMPT];
    weft_running_batch *b = NULL;
    weft_generated_row rows[ROWS] = {{0}};
    bool more = true;
    if (!load(groups[0], &l))
        return;
    const weft_generate_batch_options o = {
        .rows = 4, .adapters = l.bank, .cache_tokens = 2 * WEFT__PAGE};
    CHECK_OK(weft_running_batch_new(l.model, NULL, &o, &b));
    for (int i = 0; i < ROWS; i++) {
        const weft_generate_request request = {
            .prompt = {ids[i], PROMPT}, .options = &greedy, .adapter = l.members[i % 2]};
        fill_prompt(i, l.model, ids[i]);
        CHECK_OK(weft_running_batch_add(b, &request, NULL, NULL, &rows[i]));
    }
    CHECK_OK(weft_running_batch_advance(b, &more));
    CHECK(rows[0].n > 0 && rows[1].n > 0);
    CHECK_EQ_INT(rows[2].n, 0);
    while (more)
        CHECK_OK(weft_running_batch_advance(b, &more));
    CHECK_EQ_INT(weft_running_batch_cache(b).set_back, 0);
    weft_running_batch_free(b);
    for (int i = 0; i < ROWS; i++)
        CHECK_EQ_INT(rows[i].n, TOKENS);
    weft_generated_rows_free(rows, ROWS);
    unload(&l);
}

/* ---- fingerprints --------------------------------------------------------------------------- */

static weft_status find_adapter(void *found, const char *path, weft_module **field)
{
    (void)path;
    if (weft__is_lora(*field))
        *(weft_nn_lora_linear **)found = (weft_nn_lora_linear *)*field;
    return WEFT_OK;
}

static uint64_t fingerprint(weft_model *model)
{
    uint64_t hash = 0;
    CHECK_OK(weft__fingerprint_adapter(model, &hash));
    return hash;
}

/* Prompt caches ask for the fingerprint of the adapter twice for each text. Contents that were
 * hashed are not read again until a parameter changes. */
static void adapters_are_hashed_once(void)
{
    loaded l;
    weft_nn_lora_linear *m = NULL;
    if (!load(groups[0], &l))
        return;
    weft_module *tree = weft_model_module(l.model);
    CHECK(fingerprint(l.model) == 0);
    for (int i = 1; i < l.n; i++) {
        weft_nn_lora_bank_use(l.bank, l.members[i]);
        CHECK_OK(weft_nn_visit_modules(tree, find_adapter, &m));
        if (!CHECK(m != NULL && m->hashed[0].to == 0))
            break;
        const uint64_t first = fingerprint(l.model);
        CHECK(m->hashed[0].to != 0 && m->hashed[1].to != 0);
        CHECK(fingerprint(l.model) == first);
        m->hashed[1].to ^= 1; /* taken instead of the contents */
        CHECK(fingerprint(l.model) != first);
        weft_array *B = weft_keep(m->lora_B), *other = weft_keep(weft_add_scalar(B, 1));
        CHECK_OK(weft_set(&m->lora_B, other));
        const uint64_t changed = fingerprint(l.model);
        CHECK_OK(weft__lora_settle(tree));
        CHECK(changed != first && fingerprint(l.model) == changed &&
              fingerprint(l.model) == changed);
        CHECK_OK(weft_set(&m->lora_B, B));
        CHECK(fingerprint(l.model) == first);
        CHECK_OK(weft__lora_settle(tree));
        CHECK(fingerprint(l.model) == first);
        weft_drop(B);
        weft_drop(other);
        weft_nn_lora_bank_use(l.bank, NULL);
    }
    unload(&l);
}

CHECK_MAIN("adapter_bank", CHECK_CASE(adapters_are_hashed_once),
           CHECK_CASE(one_adapter_gives_its_own_bits),
           CHECK_CASE(rows_with_different_adapters_share_steps),
           CHECK_CASE(adapters_share_no_pages), CHECK_CASE(older_sequences_get_pages_first),
           CHECK_CASE(members_come_and_go), CHECK_CASE(prompts_are_kept_for_each_adapter),
           CHECK_CASE(end_of_an_adapter_is_its_own), CHECK_CASE(what_cannot_be_switched_is_refused))
