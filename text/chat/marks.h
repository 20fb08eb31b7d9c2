/* text/chat/marks.h -- the special tokens that delimit parts of an answer. */
#ifndef WEFT_TEXT_CHAT_MARKS_H
#define WEFT_TEXT_CHAT_MARKS_H

#include "weft/chat.h"

/* Whether the parser of this markup must see the special token. */
bool weft__chat_is_mark(const weft_chat_markup *markup, const char *token);

#endif
