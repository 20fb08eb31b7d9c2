/* tests/support/mining.h -- compares mined negatives with those of sentence-transformers. */
#ifndef TESTS_SUPPORT_MINING_H
#define TESTS_SUPPORT_MINING_H

#include "weft/retrieval.h"

/* Mines negatives for tests/golden/train/mining/NAME.jsonl with the model and compares them with
 * NAME-CASE.jsonl there: a row for each negative or, with `tuples`, for each complete pair. */
void check_mining(const char *model, const char *name, const char *golden,
                  const weft_mine_options *options, bool corpus, bool tuples);

#endif
