/* cli/reward_options.h -- the options of weft train for objectives with rewards. */
#ifndef CLI_REWARD_OPTIONS_H
#define CLI_REWARD_OPTIONS_H

/* Options of objectives with rewards. */
#define TRAIN_POLICY_REAL(NAME, FIELD, HELP)                                                       \
    {                                                                                              \
        .name = NAME, .kind = CLI_REAL, .value = "X", .low = 0, .high = CLI_ANY,                   \
        AT(trainer.objective_options.FIELD),                                                       \
        .marks = CLI_ZERO | CLI_NEGATIVE | CLI_FIXED | CLI_OF_OBJECTIVE, .help = HELP              \
    }
#define TRAIN_POLICY_INT(NAME, FIELD, LOW, HIGH, HELP)                                             \
    {                                                                                              \
        .name = NAME, .kind = CLI_INT, .value = "N", .low = LOW, .high = HIGH,                     \
        AT(trainer.objective_options.FIELD),                                                       \
        .marks = CLI_ZERO | CLI_NEGATIVE | CLI_FIXED | CLI_OF_OBJECTIVE, .help = HELP              \
    }
#define TRAIN_POLICY_TEXT(NAME, WORDS, FIELD, HELP)                                                \
    {                                                                                              \
        .name = NAME, .kind = CLI_TEXT, .value = WORDS, AT(trainer.objective_options.FIELD),       \
        .marks = CLI_FIXED | CLI_OF_OBJECTIVE, .help = HELP                                        \
    }

/* Options of the loss. */
#define TRAIN_POLICY_OPTIONS                                                                       \
    TRAIN_POLICY_REAL(                                                                             \
        "epsilon", epsilon,                                                                        \
        "of grpo and its relatives: ratios are clipped at 1 - X, and at 1 + X without "            \
        "--epsilon-high; default: 0.2, of gspo 3e-4"),                                             \
        TRAIN_POLICY_REAL(                                                                         \
            "epsilon-high", epsilon_high,                                                          \
            "of these: ratios are clipped at 1 + X; default: --epsilon, of dapo 0.28, of "         \
            "gspo 4e-4"),                                                                          \
        TRAIN_POLICY_REAL(                                                                         \
            "delta", delta,                                                                        \
            "of these: the largest ratio where clipping does not apply, above 1; 0: none"),        \
        TRAIN_POLICY_REAL("temperature", temperature,                                              \
                          "of these: that of the sampled completions, and the divisor of the "     \
                          "logits in the loss; of distill also of the teacher's; default: 1, "     \
                          "of distill 0.9"),                                                       \
        TRAIN_POLICY_INT("num-generations", num_generations, 2, 1 << 20,                           \
                         "of these: completions of a prompt; default: 8, of rloo 2"),              \
        TRAIN_POLICY_INT("num-iterations", num_iterations, 1, 1 << 20,                             \
                         "of these: consecutive updates on the same completions; default: 1"),     \
        TRAIN_POLICY_INT("max-completion-length", max_completion_length, 1, 1 << 24,               \
                         "of these and distill: most tokens of a completion, and the divisor of "  \
                         "dr_grpo; default: "                                                      \
                         "512"),                                                                   \
        TRAIN_POLICY_INT("mask-truncated", mask_truncated, 0, 1,                                   \
                         "of these: 1: completions that were cut off do not count in the loss; "   \
                         "default: 0, of dapo 1"),                                                 \
        TRAIN_POLICY_TEXT(                                                                         \
            "loss-type", "dapo|grpo|dr_grpo|bnpo", loss_type,                                      \
            "of these: the mean over tokens, the mean of completions' means, the sum by "          \
            "--max-completion-length, or the mean of batches' means over tokens; default: "        \
            "dapo, of dr_grpo dr_grpo, of gspo and rloo grpo"),                                    \
        TRAIN_POLICY_TEXT(                                                                         \
            "importance", "token|sequence|sum", importance,                                        \
            "of these: a ratio for each token, or for each completion from the mean or "           \
            "the sum of its tokens; default: token, of gspo sequence, of rloo sum"),               \
        TRAIN_POLICY_TEXT(                                                                         \
            "scale-rewards", "group|batch|none|leave-one-out", scale_rewards,                      \
            "of these: advantages are divided by the standard deviation of their group or "        \
            "update, or not, or are the difference from the other completions' mean; "             \
            "default: group, of dr_grpo none, of rloo leave-one-out")

/* How completions are sampled and rewarded. */
#define TRAIN_SAMPLING_REAL(NAME, FIELD, LOW, HIGH, HELP)                                          \
    {                                                                                              \
        .name = NAME, .kind = CLI_REAL, .value = "X", .low = LOW, .high = HIGH,                    \
        AT(sampling.FIELD), .marks = CLI_ZERO | CLI_FIXED, .help = HELP                            \
    }

#define TRAIN_REWARD_OPTIONS                                                                       \
    {.name = "reward",                                                                             \
     .kind = CLI_TEXTS,                                                                            \
     .value = "KIND",                                                                              \
     AT(rewards),                                                                                  \
     .marks = CLI_FIXED,                                                                           \
     .help =                                                                                       \
         "of these, for --data with prompts: a reward of the completions that are sampled, and "   \
         "may be given several times. exact[:text|number|boxed|<TAG>]: 1 if this part equals "     \
         "the row's answer. pattern:REGEX. json-schema:FILE. length:SOFT,HARD: falls from 0 at "   \
         "SOFT tokens to -1 at HARD. program:COMMAND: reads JSON lines with id, prompt, "          \
         "completion and row, and writes a line with id and reward for each"},                     \
        {.name = "reward-weights",                                                                 \
         .kind = CLI_TEXT,                                                                         \
         .value = "X,X,...",                                                                       \
         AT(reward_weights),                                                                       \
         .marks = CLI_FIXED,                                                                       \
         .help = "weights of the rewards in their sum; default: 1 each"},                          \
        {.name = "reward-seconds",                                                                 \
         .kind = CLI_REAL,                                                                         \
         .value = "S",                                                                             \
         .fallback = "60",                                                                         \
         .low = CLI_ABOVE_ZERO,                                                                    \
         .high = CLI_ANY,                                                                          \
         AT(reward_seconds),                                                                       \
         .help = "a program of --reward that writes nothing for S seconds is killed, and the run " \
                 "fails"},                                                                         \
        TRAIN_SAMPLING_REAL(                                                                       \
            "top-p", top_p, CLI_ABOVE_ZERO, 1,                                                     \
            "of sampled completions: draw from the most probable tokens that make up "             \
            "this share; default: all"),                                                           \
        TRAIN_SAMPLING_REAL(                                                                       \
            "min-p", min_p, 0, 1,                                                                  \
            "of sampled completions: draw from tokens with at least this share of the "            \
            "largest probability; default: all"),                                                  \
        {.name = "top-k",                                                                          \
         .kind = CLI_INT,                                                                          \
         .value = "K",                                                                             \
         .low = 0,                                                                                 \
         .high = CLI_ANY,                                                                          \
         AT(sampling.top_k),                                                                       \
         .marks = CLI_ZERO | CLI_FIXED,                                                            \
         .help = "of sampled completions: draw from the K most probable tokens; default: all"},    \
    {                                                                                              \
        .name = "sample-rows", .kind = CLI_INT, .value = "N", .fallback = "64", .low = 1,          \
        .high = 4096, AT(sampling.rows), .marks = CLI_FIXED,                                       \
        .help = "completions that are sampled at a time; each needs a KV cache"                    \
    }

#endif
