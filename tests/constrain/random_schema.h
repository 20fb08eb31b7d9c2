/* tests/constrain/random_schema.h -- random schemas, and random values that may match them. */
#ifndef TESTS_CONSTRAIN_RANDOM_SCHEMA_H
#define TESTS_CONSTRAIN_RANDOM_SCHEMA_H

/* A schema with the keywords of weft/constrain.h, some of which contradict each other; the caller
 * frees it. */
char *random_schema(void);

/* A small JSON value in the form that weft/constrain.h writes, with the names and values of random
 * schemas; the caller frees it. */
char *random_value(void);

#endif
