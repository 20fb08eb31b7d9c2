/* tests/constrain/random_schema.h -- random schemas, and random values that may match them. */
#ifndef TESTS_CONSTRAIN_RANDOM_SCHEMA_H
#define TESTS_CONSTRAIN_RANDOM_SCHEMA_H

/* A schema with the keywords of weft/constrain.h, some of which contradict each other; the caller's
 * (free). */
char *random_schema(void);

/* A small JSON value as weft/constrain.h writes it, of the names and values that random schemas
 * have; the caller's (free). */
char *random_value(void);

#endif
