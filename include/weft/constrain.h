/* weft/constrain.h -- constrained generation: JSON, or JSON that fits a schema.
 *
 *     weft_constraint *constraint;
 *     status = weft_constraint_new(tokenizer, schema, strlen(schema), "answer.json", &constraint);
 *     ...
 *     for each step:
 *         weft_constraint_mask(constraint, tokens_left, allowed, vocab_size, &complete);
 *         ... sample among the allowed; where `complete`, the text may end here ...
 *         weft_constraint_accept(constraint, id);
 *
 * docs/json-schema.md lists the keywords of JSON Schema (2020-12) and the formats that are
 * followed. Any other keyword or format is WEFT_UNSUPPORTED: an answer that was not held to it
 * would look as if it had been. Annotations say nothing about validity and are ignored.
 *
 * What is generated is a part of what is valid: properties in any order, but each once; no
 * whitespace around the document, and little within it; numbers of at most 15 digits, integers
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

/* A place in a document that is being generated. */
typedef struct weft_constraint weft_constraint;

/* At the start of a document that fits the schema, `length` bytes of JSON; NULL: any JSON value.
 * Messages call the schema `name`. The tokenizer is only read here. WEFT_INVALID when it is no
 * schema, or one that nothing satisfies; WEFT_UNSUPPORTED as above, and where the combinations of
 * anyOf, oneOf, not and if are too many. *out is the caller's. */
WEFT_NODISCARD WEFT_API weft_status weft_constraint_new(const weft_tokenizer *tokenizer,
                                                        const char *schema, size_t length,
                                                        const char *name, weft_constraint **out)
    WEFT_NONNULL(5);
/* Another one at the start of a document of the same schema, which it shares. */
WEFT_NODISCARD WEFT_API weft_status weft_constraint_copy(const weft_constraint *constraint,
                                                         weft_constraint **out) WEFT_NONNULL(1, 2);
WEFT_API void weft_constraint_free(weft_constraint *constraint); /* NULL is accepted */

/* Sets allowed[id] for the n ids of a model's vocabulary: whether the token may come next. Of
 * `remaining` tokens that may still be generated, this one among them, there are always enough left
 * to end the document, as long as there were at the start (weft_constraint_missing) and every byte
 * is a token. *complete (NULL
 * allowed): the document may end here; where it is true and nothing is allowed, it must. */
WEFT_NODISCARD WEFT_API weft_status weft_constraint_mask(weft_constraint *constraint,
                                                         int64_t remaining, bool *allowed,
                                                         int32_t n, bool *complete) WEFT_NONNULL(1);

/* Continues the document with a token or with text. WEFT_INVALID when it does not fit; the
 * constraint is then unchanged. */
WEFT_NODISCARD WEFT_API weft_status weft_constraint_accept(weft_constraint *constraint, int32_t id)
    WEFT_NONNULL(1);
WEFT_NODISCARD WEFT_API weft_status weft_constraint_accept_text(weft_constraint *constraint,
                                                                const char *text, size_t length)
    WEFT_NONNULL(1);

/* Whether what was accepted is a whole document. */
WEFT_API bool weft_constraint_complete(weft_constraint *constraint) WEFT_NONNULL(1);

/* What is missing to the nearest complete document: *bytes, and in *tokens how many tokens it takes
 * at least (the bytes by those of the longest token, rounded up); both 0 where it is complete. */
WEFT_API void weft_constraint_missing(const weft_constraint *constraint, int64_t *bytes,
                                      int64_t *tokens) WEFT_NONNULL(1, 2, 3);

/* Back to the start of a document. */
WEFT_NODISCARD WEFT_API weft_status weft_constraint_reset(weft_constraint *constraint)
    WEFT_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif
