/* core/tape_codes.h -- names, arity and classes of the tape codes. */
#ifndef CORE_TAPE_CODES_H
#define CORE_TAPE_CODES_H

#include "weft/tape.h"

enum {
    TAPE_REAL = 1 << WEFT_CLASS_REAL,
    TAPE_INTEGER = 1 << WEFT_CLASS_INTEGER,
    TAPE_BOOL = 1 << WEFT_CLASS_BOOL,
    TAPE_COMPLEX = 1 << WEFT_CLASS_COMPLEX,
    TAPE_ORDERED = TAPE_REAL | TAPE_INTEGER,
    TAPE_TRUTH = TAPE_ORDERED | TAPE_BOOL,
    TAPE_ALL = TAPE_TRUTH | TAPE_COMPLEX
};

typedef struct weft__tape_code_info {
    const char *name;
    unsigned char arity;
    unsigned char classes; /* the classes whose formulas may contain it */
    bool function;         /* written as name(...) in formulas */
} weft__tape_code_info;

extern const weft__tape_code_info weft__tape_codes[WEFT_TAPE_CODE_COUNT];

#endif
