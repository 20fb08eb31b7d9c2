/* train/data/chat.h -- conversations of JSON lines as samples. */
#ifndef WEFT_TRAIN_DATASET_CHAT_H
#define WEFT_TRAIN_DATASET_CHAT_H

#include "core/io/json.h"
#include "weft/train.h"

/* Adds a conversation to *out, as weft_dataset_load describes: one sample with every assistant turn
 * trained (only the last one with last_turn), or a sample for each where the chat template renders
 * earlier turns differently later, all in `group`. With learn_prompt there is one sample, the whole
 * conversation. `list` is an array of messages: objects with role and content, or with ShareGPT's
 * from and value; the member "tools" of `line` goes to the template. WEFT_INVALID for a
 * conversation without an assistant turn and for a malformed message. */
weft_status weft__dataset_add_chat(const weft_dataset_options *options,
                                   const weft_tokenizer *tokenizer, const weft__json *line,
                                   const weft__json *list, int64_t group, weft_dataset *out);

#endif
