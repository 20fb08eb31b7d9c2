/* cli/embed_options.h -- the options of weft train --task embed that say how texts become vectors.
 */
#ifndef CLI_EMBED_OPTIONS_H
#define CLI_EMBED_OPTIONS_H

#define TRAIN_EMBED_OPTIONS                                                                        \
    {.name = "query-prompt",                                                                       \
     .kind = CLI_TEXT,                                                                             \
     .value = "TEXT",                                                                              \
     AT(embed.query_prompt),                                                                       \
     .marks = CLI_FIXED,                                                                           \
     .help = "of --task embed: put TEXT before the first text of each row, as in \"query: \"; "    \
             "default: the checkpoint's prompt of this kind, if it has one"},                      \
        {.name = "passage-prompt",                                                                 \
         .kind = CLI_TEXT,                                                                         \
         .value = "TEXT",                                                                          \
         AT(embed.passage_prompt),                                                                 \
         .marks = CLI_FIXED,                                                                       \
         .help = "the same for the other texts"},                                                  \
        {.name = "pooling",                                                                        \
         .kind = CLI_CHOICE,                                                                       \
         .value = "mean|last|cls|max",                                                             \
         AT(embed.pooling),                                                                        \
         .marks = CLI_FIXED,                                                                       \
         .help = "of --task embed: the hidden states that make the vector, as in weft embed; "     \
                 "default: "                                                                       \
                 "as the checkpoint's modules.json says, else mean"},                              \
    {                                                                                              \
        .name = "dimensions", .kind = CLI_TEXT, .value = "N,N,...", AT(dimensions),                \
        .marks = CLI_FIXED | CLI_OF_OBJECTIVE,                                                     \
        .help = "of --task embed (Matryoshka): add up the losses of the first N elements of the "  \
                "vectors for each N, so that vectors can be cut to these lengths"                  \
    }

#endif
