/* text/chat/marks.h -- the marks of a markup. */
#ifndef WEFT_TEXT_CHAT_MARKS_H
#define WEFT_TEXT_CHAT_MARKS_H

#include "weft/chat.h"

/* Whether a special token is one that the parser of this markup is to see. */
bool weft__chat_is_mark(const weft_chat_markup *markup, const char *token);

#endif
