/* train/data/chat.h -- converts conversations to samples. */
#ifndef WEFT_TRAIN_DATASET_CHAT_H
#define WEFT_TRAIN_DATASET_CHAT_H

#include "train/data/members.h"

/* Copies a message, with "role" and "content" instead of ShareGPT's names. The caller frees *out.
 */
weft_status weft__message_copy(const weft__json *message, json_object **out);

/* Takes a member of the row as JSON text. In tables and many datasets it already is a string with
 * JSON. *out belongs to the row, and is NULL if the member is absent. */
weft_status weft__data_row_take_json(weft__data_row *row, weft__member purpose, json_type type,
                                     const char **out);

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
