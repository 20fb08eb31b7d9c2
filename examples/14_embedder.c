/* examples/14_embedder.c -- teaches a model which answer belongs to which question: its vectors are
 * trained on pairs, and the nearest answers are counted before and after. At the end it shows
 * the hardest negatives, which further training could push away.
 *
 *     build/examples/14_embedder FOLDER      examples/storyteller, or another model
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weft/weft.h"

enum { PAIRS = 6 };

static const char *const questions[PAIRS] = {
    "Who lives in the forest?", "What does the king wear?", "Where do ships sleep?",
    "When does the owl wake?",  "Why is the baker tired?",  "What did the crow steal?"};
static const char *const answers[PAIRS] = {
    "The old wolf and her cubs.", "A crown of gold.", "In the harbor.", "After sunset.",
    "He rose before the sun.",    "A silver spoon."};

/* A sample has the tokens of a text and one more id, the only target, which marks the end. */
static weft_status add_pair(weft_dataset *data, const weft_tokenizer *tokenizer, int i)
{
    enum { MOST = 64 };
    int32_t ids[2][MOST] = {{0}};
    float weights[2][MOST] = {{0}};
    weft_sample texts[2];
    for (int k = 0; k < 2; k++) {
        const char *text = k == 0 ? questions[i] : answers[i];
        int32_t *found = NULL;
        size_t n = 0;
        const weft_status status = weft_tokenizer_encode(tokenizer, text, strlen(text),
                                                         WEFT_TOKENIZER_ADD_SPECIAL, &found, &n);
        if (status != WEFT_OK)
            return status;
        n = n < MOST ? n : MOST - 1;
        memcpy(ids[k], found, n * sizeof *found);
        weights[k][n] = 1;
        texts[k] = (weft_sample){.ids = ids[k], .weights = weights[k], .length = (int64_t)n + 1};
        weft_free(found);
    }
    return weft_dataset_add_texts(data, texts, 2, NULL);
}

/* The number of questions whose nearest vector among the answers is that of their own. */
static int count_nearest(weft_model *model, const weft_dataset *data)
{
    weft_prompt prompts[2 * PAIRS];
    weft_embedded vectors[2 * PAIRS];
    int right = 0;
    for (int i = 0; i < 2 * PAIRS; i++) {
        const weft_sample text = weft_dataset_at(data, i);
        prompts[i] = (weft_prompt){text.ids, (size_t)text.length - 1};
    }
    if (weft_embed(model, prompts, 2 * PAIRS, &(weft_embed_options){.normalize = true}, vectors) !=
        WEFT_OK)
        return -1;
    for (int i = 0; i < PAIRS; i++) {
        int best = 0;
        double most = -2;
        for (int k = 0; k < PAIRS; k++) {
            const weft_embedded *q = &vectors[2 * i], *a = &vectors[2 * k + 1];
            double cosine = 0;
            for (size_t j = 0; q->values && a->values && j < q->n; j++)
                cosine += (double)q->values[j] * (double)a->values[j];
            best = cosine > most ? k : best;
            most = cosine > most ? cosine : most;
        }
        right += best == i;
    }
    weft_embedded_free(vectors, 2 * PAIRS);
    return right;
}

/* The wrong answer that is nearest to each question: a hard negative. */
static weft_status show_negatives(weft_model *model, const weft_tokenizer *tokenizer)
{
    const weft_mine_texts texts = {.anchors = questions, .positives = answers, .n = PAIRS};
    const weft_mine_options one = {.num_negatives = 1};
    weft_mined found;
    const weft_status status = weft_mine_negatives(model, tokenizer, &texts, &one, &found);
    for (int64_t i = 0; i < found.n; i++)
        printf("%s %s (%.2f), not %s (%.2f)\n", found.anchors[i], found.positives[i],
               (double)found.positive_scores[i], found.negatives[i], (double)found.scores[i]);
    weft_mined_free(&found);
    return status;
}

int main(int argc, char **argv)
{
    weft_model *model = NULL;
    weft_tokenizer *tokenizer = NULL;
    weft_dataset *data = NULL;
    weft_batches *batches = NULL;
    weft_trainer *trainer = NULL;
    weft_train_result result = {0};
    int before = -1, after = -1;
    if (argc < 2) {
        fprintf(stderr, "usage: 14_embedder FOLDER\n");
        return EXIT_FAILURE;
    }
    weft_status status = weft_model_load(argv[1], NULL, &model);
    if (status == WEFT_OK)
        status = weft_tokenizer_load(argv[1], &tokenizer);
    if (status == WEFT_OK)
        status = weft_dataset_new(0, &data);
    for (int i = 0; status == WEFT_OK && i < PAIRS; i++)
        status = add_pair(data, tokenizer, i);
    if (status == WEFT_OK)
        before = count_nearest(model, data);

    /* Each question's own answer is to be nearer than the others of the batch, which are all. */
    static const char *const targets[] = {WEFT_LORA_ALL_LINEAR};
    if (status == WEFT_OK)
        status = weft_nn_lora_inject(
            weft_model_module(model),
            &(weft_nn_lora_options){.rank = 8, .targets = targets, .n_targets = 1});
    if (status == WEFT_OK)
        status = weft_batches_new(data, PAIRS, 0, &batches);
    if (status == WEFT_OK)
        status = weft_trainer_new(
            model,
            &(weft_trainer_options){.objective = &weft_objective_ranking, .steps = 20, .lr = 5e-3},
            &trainer);
    if (status == WEFT_OK)
        status = weft_trainer_run(trainer, batches, NULL, &result);
    if (status == WEFT_OK)
        after = count_nearest(model, data);
    if (status == WEFT_OK)
        status = show_negatives(model, tokenizer);
    if (status == WEFT_OK)
        printf("nearest answers: %d of %d before, %d after; loss %.4f\n", before, PAIRS, after,
               result.loss);
    else
        fprintf(stderr, "%s\n", weft_error_message());
    weft_trainer_free(trainer);
    weft_batches_free(batches);
    weft_dataset_free(data);
    weft_tokenizer_free(tokenizer);
    weft_model_free(model);
    return after == PAIRS ? EXIT_SUCCESS : EXIT_FAILURE;
}
