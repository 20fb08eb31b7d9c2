/* text/chat/marks.h -- the special tokens that delimit parts of an answer. */
#ifndef WEFT_TEXT_CHAT_MARKS_H
#define WEFT_TEXT_CHAT_MARKS_H

#include "weft/chat.h"

/* Whether the parser of this markup must see the special token. */
bool weft__chat_is_mark(const weft_chat_markup *markup, const char *token);

/* Whether answers are messages of channels, as gpt-oss has them; and what begins the message of the
 * final channel, after reasoning or at the start of an answer. */
bool weft__chat_is_harmony(const weft_chat_markup *markup);
const char *weft__harmony_final(bool reasoned);

#endif
