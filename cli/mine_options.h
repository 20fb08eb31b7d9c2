/* cli/mine_options.h -- the options of weft data --mine-negatives. */
#ifndef CLI_MINE_OPTIONS_H
#define CLI_MINE_OPTIONS_H

#define DATA_MINE_REAL(NAME, FIELD, LOW, HELP)                                                     \
    {                                                                                              \
        .name = NAME, .kind = CLI_REAL, .value = "X", .low = LOW, .high = 2, AT(mine.FIELD),       \
        .help = HELP                                                                               \
    }

#define DATA_MINE_COUNT(NAME, FIELD, LOW, ...)                                                     \
    {                                                                                              \
        .name = NAME, .kind = CLI_INT, .value = "N", .low = LOW, .high = INT32_MAX,                \
        AT(mine.FIELD), __VA_ARGS__                                                                \
    }

/* --mine-negatives and all options that are for it alone, which are the last ones. */
#define DATA_MINE_OPTIONS(T)                                                                       \
    {.name = "mine-negatives",                                                                     \
     .kind = CLI_TEXT,                                                                             \
     .value = "OUT",                                                                               \
     AT(mine.out),                                                                                 \
     .help = "find hard negatives with MODEL, an embedder: for the pairs of DATA, rows of weft "   \
             "train --task embed, write rows of anchor, positive and negative to OUT, a file of "  \
             "JSON lines"},                                                                        \
        {.name = "corpus",                                                                         \
         .kind = CLI_TEXTS,                                                                        \
         .value = "FILE",                                                                          \
         AT(mine.corpus),                                                                          \
         .help =                                                                                   \
             "with --mine-negatives: find them also among the texts of these rows, as \"text\" "   \
             "or \"passage\"; default: among the positives; may be given several times"},          \
        DATA_MINE_COUNT("num-negatives", num_negatives, 1, .fallback = "3",                        \
                        .help = "of each pair"),                                                   \
        DATA_MINE_COUNT("range-min", range_min, 0, .fallback = "0",                                \
                        .help = "skip the N most similar candidates"),                             \
        DATA_MINE_COUNT("range-max", range_max, 1,                                                 \
                        .help = "the most candidates of an anchor; default: enough for "           \
                                "--num-negatives, ten times as many with margins or --max-score"), \
        DATA_MINE_REAL("max-score", max_score, -2, "the largest cosine of a negative"),            \
        DATA_MINE_REAL("min-score", min_score, -2, "the smallest cosine of a negative"),           \
        DATA_MINE_REAL("absolute-margin", absolute_margin, -2,                                     \
                       "a negative's cosine is smaller by X than that of the anchor's least "      \
                       "similar positive"),                                                        \
        DATA_MINE_REAL("relative-margin", relative_margin, -2,                                     \
                       "the same by the share X of that cosine, as in 0.05"),                      \
        {.name = "sampling",                                                                       \
         .kind = CLI_CHOICE,                                                                       \
         .value = "top|random",                                                                    \
         .fallback = "top",                                                                        \
         AT(mine.random),                                                                          \
         .help = "take the most similar candidates, or draw from them with --seed"},               \
        {.name = "output-format",                                                                  \
         .kind = CLI_CHOICE,                                                                       \
         .value = "triplet|n-tuple",                                                               \
         .fallback = "triplet",                                                                    \
         AT(mine.tuples),                                                                          \
         .help = "a row for each negative, or one with all of them (negative_1, ...) for each "    \
                 "pair that has --num-negatives"},                                                 \
        {.name = "output-scores",                                                                  \
         .kind = CLI_FLAG,                                                                         \
         AT(mine.scores),                                                                          \
         .help = "add \"cosines\" to the rows: that of the positive and those of the negatives"},  \
        CLI_ADAPTER_OPTION(T), CLI_FORCE_OPTION(T, "replace OUT"), CLI_PLACE_OPTIONS(T),           \
        CLI_ACTIVATIONS_OPTION(T)

#endif
