/* weft/constrain.h -- constrained generation: JSON, or JSON that fits a schema.
 *
 *     weft_constraint *constraint;
 *     status =
 *         weft_constraint_new(tokenizer, schema, strlen(schema), "answer.json", NULL, &constraint);
 *     ...
 *     for each step:
 *         weft_constraint_mask(constraint, tokens_left, allowed, vocab_size, &complete);
 *         ... sample among the allowed; where `complete`, the text may end here ...
 *         weft_constraint_accept(constraint, id);
 *
 * docs/json-schema.md lists the keywords of JSON Schema (2020-12) and the formats that are
 * followed. Other keywords of the standard are WEFT_UNSUPPORTED. Annotations are ignored; keywords
 * and formats that the standard does not define are ignored with a note (weft_constraint_notes).
 *
 * What is generated is a part of what is valid: an object has only the properties that its schema
 * declares, in the declared order (unless the schema says what others may be, or requires others);
 * no whitespace around the document, and little within it; numbers of at most 15 digits, integers
 * without fraction and exponent; literals of enum and const as the schema writes them. Where more
 * than 1024 combinations of alternatives are possible at one point of the document, those with the
 * shortest ends are followed.
 */
#ifndef WEFT_CONSTRAIN_H
#define WEFT_CONSTRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/status.h"
#include "weft/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The state of a document that is being generated. */
typedef struct weft_constraint weft_constraint;

/* All zero: the default. */
typedef struct weft_constraint_options {
    bool open; /* objects may have any properties that the standard allows, in any order */
} weft_constraint_options;

/* Creates a constraint at the start of a document that conforms to a schema, `length` bytes of
 * JSON: the schema, or an object with the schema in it, in the form that chat APIs take. NULL:
 * any JSON value. NULL options: all zero. Free *out with weft_constraint_free. Messages use `name`
 * for the schema. The tokenizer is only used during this call. WEFT_INVALID for a malformed or
 * unsatisfiable schema; WEFT_UNSUPPORTED as above, and for too many combinations of anyOf, oneOf,
 * not and if. */
WEFT_NODISCARD WEFT_API weft_status weft_constraint_new(const weft_tokenizer *tokenizer,
                                                        const char *schema, size_t length,
                                                        const char *name,
                                                        const weft_constraint_options *options,
                                                        weft_constraint **out) WEFT_NONNULL(6);
/* What is ignored in the schema, one line for each keyword or format; NULL: nothing. Belongs to the
 * constraint. */
WEFT_API const char *weft_constraint_notes(const weft_constraint *constraint) WEFT_NONNULL(1);
/* Creates a constraint at the start of a new document, sharing the compiled schema; free it with
 * weft_constraint_free. Fails only when out of memory. */
WEFT_NODISCARD WEFT_API weft_status weft_constraint_copy(const weft_constraint *constraint,
                                                         weft_constraint **out) WEFT_NONNULL(1, 2);
WEFT_API void weft_constraint_free(weft_constraint *constraint); /* NULL is accepted */

/* Sets allowed[id] for the n ids of a model's vocabulary: whether the token may come next.
 * *complete (may be NULL): whether the document may end here; it must if no token is allowed.
 * `remaining` is the number of tokens that may still be generated, including this one. Tokens after
 * which the document could not be completed in time are excluded, provided that every byte is a
 * token and there was enough at the start (weft_constraint_missing). Fails only when out of memory.
 */
WEFT_NODISCARD WEFT_API weft_status weft_constraint_mask(weft_constraint *constraint,
                                                         int64_t remaining, bool *allowed,
                                                         int32_t n, bool *complete) WEFT_NONNULL(1);

/* Continues the document with a token or text. WEFT_INVALID, without a change, if it does not
 * conform. */
WEFT_NODISCARD WEFT_API weft_status weft_constraint_accept(weft_constraint *constraint, int32_t id)
    WEFT_NONNULL(1);
WEFT_NODISCARD WEFT_API weft_status weft_constraint_accept_text(weft_constraint *constraint,
                                                                const char *text, size_t length)
    WEFT_NONNULL(1);

/* Whether the accepted text is a complete document. */
WEFT_API bool weft_constraint_complete(const weft_constraint *constraint) WEFT_NONNULL(1);

/* The distance to the nearest complete document: *bytes, and *tokens, a lower bound from the length
 * of the longest token. Both are 0 for a complete document. */
WEFT_API void weft_constraint_missing(const weft_constraint *constraint, int64_t *bytes,
                                      int64_t *tokens) WEFT_NONNULL(1, 2, 3);

/* Returns to the start of a document. Fails only when out of memory. */
WEFT_NODISCARD WEFT_API weft_status weft_constraint_reset(weft_constraint *constraint)
    WEFT_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif
