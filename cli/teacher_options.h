/* cli/teacher_options.h -- the options of weft train for distillation. */
#ifndef CLI_TEACHER_OPTIONS_H
#define CLI_TEACHER_OPTIONS_H

#define TRAIN_TEACHER_OPTIONS                                                                      \
    {.name = "teacher",                                                                            \
     .kind = CLI_TEXT,                                                                             \
     .value = "MODEL",                                                                             \
     AT(teacher),                                                                                  \
     .marks = CLI_FIXED,                                                                           \
     .help = "of distill: the model whose distributions are learned; it has the same tokenizer"},  \
        {.name = "teacher-system",                                                                 \
         .kind = CLI_TEXT,                                                                         \
         .value = "TEXT",                                                                          \
         AT(teacher_system),                                                                       \
         .marks = CLI_FIXED,                                                                       \
         .help = "of distill: a system text that only the teacher reads, in rows without one; "    \
                 "without --teacher the teacher is MODEL itself, as it is before training"},       \
        {.name = "teacher-file",                                                                   \
         .kind = CLI_TEXT,                                                                         \
         .value = "FILE",                                                                          \
         AT(teacher_file),                                                                         \
         .marks = CLI_FIXED,                                                                       \
         .help = "of distill: with --teacher: store its 64 most probable ids of each target in "   \
                 "FILE, then free the teacher; without it: read FILE"},                            \
    {                                                                                              \
        .name = "lmbda", .kind = CLI_REAL, .value = "SHARE", .low = 0, .high = 1,                  \
        AT(trainer.objective_options.lmbda), .marks = CLI_ZERO | CLI_FIXED | CLI_OF_OBJECTIVE,     \
        .unset = "0",                                                                              \
        .help = "of distill: share of the updates whose completions the model samples, of at "     \
                "most --max-completion-length tokens; default: 0"                                  \
    }

#endif
