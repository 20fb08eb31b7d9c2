/* train/data/chat.h -- converts conversations to samples. */
#ifndef WEFT_TRAIN_DATASET_CHAT_H
#define WEFT_TRAIN_DATASET_CHAT_H

#include "train/data/members.h"

/* Adds a conversation to *out, as weft_dataset_load describes. All its samples are in `group`.
 * There is one sample with all assistant turns trained (with last_turn only the last one), or one
 * sample for each turn if the chat template renders earlier turns differently later. With
 * learn_prompt there is one sample with the whole conversation trained. `list` is an array of
 * messages, objects with "role" and "content" or with ShareGPT's "from" and "value". Takes the
 * row's tools and template variables. WEFT_INVALID for a conversation without an assistant turn and
 * for a malformed message. */
weft_status weft__dataset_add_chat(const weft_dataset_options *options,
                                   const weft_tokenizer *tokenizer, weft__data_row *row,
                                   const weft__json *list, int64_t group, weft_dataset *out);

#endif
