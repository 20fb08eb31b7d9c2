/* cli/train_options.c -- the options of weft train, and its help. */
#include <stddef.h>

#include "cli/commands.h"
#include "cli/embed_options.h"
#include "cli/reward_options.h"
#include "cli/shared.h"
#include "cli/teacher_options.h"
#include "cli/train.h"

#define AT(field) .offset = offsetof(train_values, field)

/* The two weights of KTO's loss. */
#define TRAIN_KTO_OPTION(NAME, FIELD)                                                              \
    {                                                                                              \
        .name = NAME, .kind = CLI_REAL, .value = "X", .low = 0, .high = CLI_ANY, AT(FIELD),        \
        .marks = CLI_ZERO | CLI_NEGATIVE | CLI_FIXED | CLI_OF_OBJECTIVE,                           \
        .help = "of kto: such completions count X times"                                           \
    }

static const char *optimizer_name(int i)
{
    const weft_optim_type *type = weft_optim_type_at(i);
    return type ? type->name : NULL;
}

static const cli_argument arguments[] = {{"MODEL", offsetof(train_values, model), true}};

static const cli_option options[] = {
    CLI_DATA_PATHS_OPTION(train_values),
    CLI_DATA_MIX_OPTION(train_values),
    CLI_DATA_READING_OPTIONS(train_values),
    CLI_DATA_CHAT_OPTIONS(train_values),
    {.name = "batches",
     .kind = CLI_TEXT,
     .value = "FILE",
     AT(batches),
     .help = "instead of --data: exactly these batches, one update each; a safetensors file with "
             "int32 batches (steps, B, L) and prompt_lengths (steps, B)"},
    {.name = "completions",
     .kind = CLI_TEXT,
     .value = "FILE",
     AT(completions),
     .marks = CLI_FIXED,
     .help = "instead of --data: sampled completions and their rewards, for --objective grpo and "
             "its relatives; JSON lines with prompt_ids, completion_ids, reward (or null) and, if "
             "it was cut off, truncated; the completions of a prompt follow each other"},
    {.name = "out",
     .letter = 'o',
     .kind = CLI_TEXT,
     .value = "DIR",
     .fallback = "weft-run",
     AT(out),
     .marks = CLI_TRANSIENT,
     .help = "folder for adapters, metrics and loss curve"},
    {.name = "val-split",
     .kind = CLI_REAL,
     .value = "SHARE",
     .low = 0,
     .high = 0.999,
     AT(val_split),
     .marks = CLI_FIXED | CLI_OF_DATA,
     .unset = "the default",
     .help = "share of the data to validate on, not to train on; 0: none; default: 0.05, at most "
             "100 samples, of data with at least 200 samples"},
    {.name = "val-data",
     .kind = CLI_TEXT,
     .value = "FILE",
     AT(val_data),
     .help = "a file to validate on"},
    {.name = "val-every",
     .kind = CLI_INT,
     .value = "N",
     .low = 0,
     .high = CLI_ANY,
     AT(val_every),
     .help =
         "validate every N updates, 0: before the first and after the last; default: ten times, or "
         "less often if the validation data is large"},
    {.name = "save-every",
     .kind = CLI_INT,
     .value = "N",
     .fallback = "0",
     .low = 0,
     .high = CLI_ANY,
     AT(trainer.save_every),
     .help = "save every N updates too; 0: by --save-minutes alone"},
    {.name = "save-minutes",
     .kind = CLI_REAL,
     .value = "M",
     .fallback = "10",
     .low = 0,
     .high = CLI_ANY,
     AT(trainer.save_minutes),
     .marks = CLI_NEGATIVE,
     .help = "save when M minutes have passed since the last save; 0: never"},
    {.name = "keep",
     .kind = CLI_INT,
     .value = "N",
     .fallback = "2",
     .low = 1,
     .high = CLI_ANY,
     AT(trainer.keep),
     .help = "keep the newest N checkpoints"},
    {.name = "resume",
     .kind = CLI_FLAG,
     AT(trainer.resume),
     .marks = CLI_TRANSIENT,
     .help = "continue the run that --out has from its newest checkpoint, with the options that it "
             "began with; begin one where there is none"},
    {.name = "overwrite",
     .kind = CLI_FLAG,
     AT(trainer.overwrite),
     .marks = CLI_TRANSIENT,
     .help = "delete the run that --out has; without this and --resume it is refused"},

    {.name = "epochs",
     .letter = 'e',
     .kind = CLI_REAL,
     .value = "E",
     .low = CLI_ABOVE_ZERO,
     .high = CLI_ANY,
     AT(trainer.epochs),
     .marks = CLI_ZERO,
     .help = "epochs; default: 1, or as many as make 100 updates"},
    {.name = "steps",
     .kind = CLI_INT,
     .value = "N",
     .low = 1,
     .high = CLI_ANY,
     AT(trainer.steps),
     .marks = CLI_ZERO,
     .help = "updates, instead of --epochs"},
    {.name = "batch-size",
     .letter = 'b',
     .kind = CLI_INT,
     .value = "N",
     .fallback = "4",
     .low = 1,
     .high = 1 << 20,
     AT(batch_size),
     .marks = CLI_FIXED | CLI_OF_DATA,
     .help = "samples, or prompts with all their completions, in a batch; with --task embed per "
             "process: all processes compare their texts"},
    {.name = "micro-batch",
     .kind = CLI_INT,
     .value = "N",
     .low = 1,
     .high = 1 << 20,
     AT(trainer.micro_batch),
     .marks = CLI_ZERO,
     .help = "samples of a batch that are computed at a time, with the same gradients; default: "
             "all, or as many as memory allows"},
    {.name = "accumulate",
     .kind = CLI_INT,
     .value = "N",
     .low = 1,
     .high = 1 << 20,
     AT(trainer.accumulate),
     .marks = CLI_ZERO | CLI_FIXED,
     .help = "batches in an update, which the ranks share; default: one for each rank, with --task "
             "embed one for all"},
    {.name = "length",
     .kind = CLI_INT,
     .value = "N",
     .fallback = "512",
     .low = 2,
     .high = 1 << 24,
     AT(length),
     .marks = CLI_FIXED | CLI_OF_VALIDATION,
     .help = "most tokens of a sample; a text is cut into windows"},
    {.name = "pack",
     .kind = CLI_FLAG,
     AT(pack),
     .marks = CLI_FIXED,
     .help = "pack samples into rows of --length tokens (pairs: of twice as many), in which none "
             "sees another: less padding"},
    {.name = "train-on",
     .kind = CLI_CHOICE,
     .value = "turns|last|everything",
     AT(train_on),
     .marks = CLI_FIXED | CLI_OF_VALIDATION,
     .unset = "turns",
     .help = "what contributes to the loss: completions and every assistant turn of a conversation "
             "(the default), only the last turn of each conversation, or prompts too"},

    {.name = "task",
     .kind = CLI_CHOICE,
     .value = "generate|classify|embed",
     .fallback = "generate",
     AT(task),
     .marks = CLI_FIXED,
     .unset = "generate",
     .help = "classify: rows have text and label, and a head on the last token predicts the label. "
             "embed: rows have texts whose vectors are compared: anchor (or query) and positive "
             "(or passage), optional negatives, or two texts and a score"},
    TRAIN_EMBED_OPTIONS,
    {.name = "scale",
     .kind = CLI_REAL,
     .value = "X",
     .low = CLI_ABOVE_ZERO,
     .high = CLI_ANY,
     AT(trainer.objective_options.scale),
     .marks = CLI_ZERO | CLI_FIXED | CLI_OF_OBJECTIVE,
     .help = "of ranking and cosent: cosines are multiplied by X; default: 20"},
    {.name = "margin",
     .kind = CLI_REAL,
     .value = "X",
     .low = 0,
     .high = CLI_ANY,
     AT(trainer.objective_options.margin),
     .marks = CLI_ZERO | CLI_NEGATIVE | CLI_FIXED | CLI_OF_OBJECTIVE,
     .help = "of triplet: the negative is to be farther by X than the positive; default: 5"},
    CLI_TEXT_OPTION(
        "labels", "A,B,C", AT(labels), .marks = CLI_FIXED,
        .help = "of --task classify: the labels in this order; default: those of MODEL, if it is a "
                "classifier, else those of the data, sorted"),
    {.name = "objective",
     .kind = CLI_CHOICE,
     .word = train_objective_name,
     .fallback = "supervised",
     AT(objective),
     .marks = CLI_FIXED,
     .help = "the training objective. dpo, orpo and simpo need preference pairs (chosen, "
             "rejected, optional prompt); kto also accepts rows with prompt, completion and "
             "label. dpo and kto first compute reference log-probabilities. grpo, dapo, dr_grpo, "
             "gspo and rloo sample completions of the prompts in --data and compute their "
             "--reward, or read "
             "--completions. distill learns the distributions of a --teacher. With --task embed: "
             "ranking (the default) takes the other texts of a batch as negatives, triplet needs "
             "one negative, cosent and cosine need pairs with a score"},
    {.name = "beta",
     .kind = CLI_REAL,
     .value = "X",
     .low = 0,
     .high = CLI_ANY,
     AT(trainer.objective_options.beta),
     .marks = CLI_ZERO | CLI_NEGATIVE | CLI_FIXED | CLI_OF_OBJECTIVE,
     .help =
         "of the objective: the scale of rewards (of orpo: the weight of the odds ratio); "
         "default: 0.1, of simpo 2. Of grpo and its relatives: the weight of the KL "
         "divergence from the start, default: 0, of rloo 0.05. Of distill: between 0, KL(teacher | "
         "model), and 1, KL(model | teacher); default: 0.5"},
    {.name = "gamma",
     .kind = CLI_REAL,
     .value = "X",
     .low = 0,
     .high = CLI_ANY,
     AT(trainer.objective_options.gamma),
     .marks = CLI_ZERO | CLI_NEGATIVE | CLI_FIXED | CLI_OF_OBJECTIVE,
     .help = "of simpo: the margin between rewards; default: 0.5"},
    TRAIN_KTO_OPTION("desirable-weight", trainer.objective_options.desirable_weight),
    TRAIN_KTO_OPTION("undesirable-weight", trainer.objective_options.undesirable_weight),
    {.name = "label-smoothing",
     .kind = CLI_REAL,
     .value = "SHARE",
     .low = 0,
     .high = 0.499,
     AT(trainer.objective_options.label_smoothing),
     .marks = CLI_ZERO | CLI_FIXED | CLI_OF_OBJECTIVE,
     .unset = "0",
     .help = "of dpo (robust DPO) and simpo: share of pairs labeled the wrong way; default: 0"},
    TRAIN_POLICY_OPTIONS,
    TRAIN_REWARD_OPTIONS,
    TRAIN_TEACHER_OPTIONS,
    {.name = "lr",
     .kind = CLI_REAL,
     .value = "X",
     .fallback = "2e-4",
     .low = CLI_ABOVE_ZERO,
     .high = CLI_ANY,
     AT(trainer.lr),
     .help = "learning rate"},
    {.name = "optimizer",
     .kind = CLI_CHOICE,
     .word = optimizer_name,
     .fallback = "adamw",
     AT(optimizer),
     .marks = CLI_FIXED,
     .help =
         "the optimizer; adam, adamw and adamax correct the bias, adafactor uses --lr as it is, "
         "adamw16bit has no float32 copies of bfloat16 weights"},
    {.name = "optimizer-options",
     .kind = CLI_TEXT,
     .value = "NAME=X,...",
     .fallback = "",
     AT(optimizer_options),
     .help = "its other numbers, as in beta2=0.95,eps=1e-6 or momentum=0.9,nesterov=true"},
    {.name = "lora-plus",
     .kind = CLI_REAL,
     .value = "X",
     .low = CLI_ABOVE_ZERO,
     .high = CLI_ANY,
     AT(trainer.lora_plus),
     .marks = CLI_ZERO | CLI_FIXED | CLI_NOT_OF_FULL,
     .help = "LoRA+: the rate of B is X times that of A, as in 16"},
    {.name = "weight-decay",
     .kind = CLI_REAL,
     .value = "X",
     .fallback = "0.01",
     .low = 0,
     .high = CLI_ANY,
     AT(trainer.weight_decay),
     .marks = CLI_NEGATIVE,
     .help = "weight decay, of an optimizer that has it"},
    {.name = "schedule",
     .kind = CLI_TEXT,
     .value = "constant|linear|cosine|wsd|exponential|step",
     AT(trainer.schedule),
     .help = "the learning rate over the run. linear and cosine fall to 0, or with cosine:0.1 to "
             "a tenth of --lr. wsd:0.2 is constant, then falls to 0 over the last 20%. Also "
             "exponential:RATE and step:RATE:SIZE. linear:0.1@100,cosine joins two. Default: "
             "cosine, or constant with --batches and --completions"},
    {.name = "warmup",
     .kind = CLI_INT,
     .value = "W",
     .low = 0,
     .high = CLI_ANY,
     AT(warmup),
     .help = "updates until the full learning rate, at which --schedule begins; default: 3% of "
             "them, or 0 with --batches and --completions"},
    {.name = "clip",
     .kind = CLI_REAL,
     .value = "X",
     .low = 0,
     .high = CLI_ANY,
     AT(clip),
     .help = "largest norm of the gradient, 0: off; default: 1, or 0 with --batches and "
             "--completions"},
    {.name = "neftune",
     .kind = CLI_REAL,
     .value = "ALPHA",
     .fallback = "0",
     .low = 0,
     .high = CLI_ANY,
     AT(trainer.neftune),
     .marks = CLI_FIXED,
     .help = "NEFTune: while training, add noise uniform in +-ALPHA / sqrt(L E) to the embeddings "
             "(L tokens in a row, E elements in an embedding), as in 5; 0: none"},
    {.name = "seed",
     .letter = 's',
     .kind = CLI_INT,
     .value = "N",
     .fallback = "0",
     .low = 0,
     .high = CLI_ANY,
     AT(trainer.seed),
     .marks = CLI_FIXED,
     .help = "of the adapter's start, the data's order, dropout and noise"},
    {.name = "checkpoint",
     .kind = CLI_FLAG,
     AT(trainer.checkpoint),
     .help = "gradient checkpointing: less memory, more time"},
    {.name = "compile",
     .kind = CLI_FLAG,
     AT(trainer.compile),
     .help = "compile the computation of a batch: less work for the host, for small models"},

    {.name = "rank",
     .letter = 'r',
     .kind = CLI_INT,
     .value = "R",
     .fallback = "8",
     .low = 1,
     .high = 65536,
     AT(lora.rank),
     .marks = CLI_FIXED | CLI_OF_ADAPTER,
     .help = "rank of the adapter"},
    {.name = "alpha",
     .kind = CLI_REAL,
     .value = "X",
     .low = CLI_ABOVE_ZERO,
     .high = CLI_ANY,
     AT(lora.alpha),
     .marks = CLI_ZERO | CLI_FIXED | CLI_OF_ADAPTER,
     .help = "scale the adapter by alpha / rank; default: twice the rank"},
    {.name = "rslora",
     .kind = CLI_FLAG,
     AT(lora.rslora),
     .marks = CLI_FIXED | CLI_OF_ADAPTER,
     .help = "scale it by alpha / sqrt(rank)"},
    {.name = "dora",
     .kind = CLI_FLAG,
     AT(lora.dora),
     .marks = CLI_FIXED | CLI_OF_ADAPTER,
     .help = "train DoRA adapters, which have a magnitude for each row of a matrix"},
    {.name = "pissa",
     .kind = CLI_FLAG,
     AT(lora.pissa),
     .marks = CLI_FIXED | CLI_OF_ADAPTER,
     .help = "start at the largest singular values of each matrix (PiSSA); saved as LoRA of twice "
             "the rank"},
    {.name = "rank-pattern",
     .kind = CLI_TEXT,
     .value = "NAME=R,...",
     AT(rank_pattern),
     .marks = CLI_FIXED | CLI_OF_ADAPTER,
     .help = "another rank for adapted modules of that name or path, as in v_proj=16"},
    {.name = "alpha-pattern",
     .kind = CLI_TEXT,
     .value = "NAME=X,...",
     AT(alpha_pattern),
     .marks = CLI_FIXED | CLI_OF_ADAPTER,
     .help = "another alpha for adapted modules of that name or path"},
    {.name = "layers",
     .kind = CLI_INT,
     .value = "N",
     .low = 1,
     .high = 1 << 20,
     AT(layers),
     .marks = CLI_FIXED | CLI_OF_ADAPTER,
     .help = "adapt the last N layers only; default: all"},
    {.name = "dropout",
     .kind = CLI_REAL,
     .value = "P",
     .fallback = "0",
     .low = 0,
     .high = 0.999,
     AT(lora.dropout),
     .marks = CLI_FIXED | CLI_OF_ADAPTER,
     .help = "dropout in front of the adapter"},
    {.name = "targets",
     .kind = CLI_TEXT,
     .value = "NAMES",
     .fallback = WEFT_LORA_ALL_LINEAR,
     AT(targets),
     .marks = CLI_FIXED | CLI_OF_ADAPTER,
     .help = "linears and embeddings to adapt, as in q_proj,v_proj,embed_tokens"},
    {.name = "full",
     .kind = CLI_FLAG,
     AT(full),
     .marks = CLI_FIXED,
     .help =
         "train all parameters instead of an adapter: last and best are then complete models. "
         "This needs the memory of several copies of the weights, and usually a --lr near 1e-5"},
    {.name = "modules-to-save",
     .kind = CLI_TEXT,
     .value = "NAMES",
     AT(whole),
     .marks = CLI_FIXED | CLI_OF_ADAPTER,
     .help = "modules that are trained whole beside the adapters, as in lm_head"},
    {.name = "train-tokens",
     .kind = CLI_TEXT,
     .value = "TOKENS",
     AT(train_tokens),
     .marks = CLI_FIXED | CLI_OF_ADAPTER,
     .help = "train the embeddings of these tokens too, and their rows in the head, as in "
             "<tool>,</tool>"},
    {.name = "add-tokens",
     .kind = CLI_TEXT,
     .value = "FILE|TOKENS",
     AT(add_tokens),
     .marks = CLI_FIXED | CLI_OF_ADAPTER,
     .help = "add these tokens to the vocabulary (a file with one per line, or as in "
             "<tool>,</tool>) and train their rows in embedding and head; the new tokenizer is "
             "saved with the adapter"},
    {.name = "adapter-dtype",
     .kind = CLI_CHOICE,
     .value = "float32|bfloat16",
     .fallback = "float32",
     AT(adapter_dtype),
     .marks = CLI_FIXED | CLI_NOT_OF_FULL,
     .help = "dtype of the adapter"},
    {.name = "init-adapter",
     .kind = CLI_TEXT,
     .value = "DIR",
     AT(init_adapter),
     .marks = CLI_FIXED | CLI_NOT_OF_FULL,
     .help = "start from this PEFT adapter, with its rank, alpha and targets"},
    {.name = "config",
     .kind = CLI_TEXT,
     .value = "FILE",
     AT(config),
     .marks = CLI_TRANSIENT,
     .help = "read options from a file, YAML (.yaml, .yml) or a JSON object, by their long names, "
             "and MODEL "
             "as \"model\"; those of the command line replace them"},
    {.name = "dry-run",
     .kind = CLI_FLAG,
     AT(dry_run),
     .marks = CLI_TRANSIENT,
     .help = "train nothing: measure memory and time with the largest batch, show a sample "
             "with its loss mask, and refuse what does not fit in memory"},
    {.name = "max-memory",
     .kind = CLI_REAL,
     .value = "GB",
     .low = CLI_ABOVE_ZERO,
     .high = CLI_ANY,
     AT(max_memory),
     .marks = CLI_TRANSIENT,
     .help = "the memory that the arrays of the run may take, of several processes each; default: "
             "that of the device, in equal parts of the processes on it"},
    CLI_TEXT_OPTION(
        "general-text", "FILE", AT(general), .marks = CLI_FIXED,
        .help = "measure the loss of this text before and after the run, to see what the model "
                "forgets; default: a text of 2 kB about many things; none: measure nothing"),
    {.name = "patience",
     .kind = CLI_INT,
     .value = "N",
     .fallback = "0",
     .low = 0,
     .high = CLI_ANY,
     AT(trainer.patience),
     .help = "end the run after N validations without a lower loss; 0: never"},
    {.name = "sample-prompt",
     .kind = CLI_TEXTS,
     .value = "TEXT",
     AT(sample_prompts),
     .help = "generate up to 48 tokens from TEXT after every validation, for metrics.jsonl and "
             "report.html; if the data has conversations, as the answer to TEXT in a chat; may be "
             "given several times"},
    CLI_JSON_OPTION(train_values, "print the result as one JSON object"),
    CLI_PLACE_OPTIONS(train_values),
};

const cli_command cli_train = {
    .name = "train",
    .summary = "fine-tune a model with LoRA",
    .description =
        "Trains a LoRA adapter and saves it in PEFT format as DIR/last and, with validation "
        "data, DIR/best. DIR/metrics.jsonl has a line for every update, DIR/report.html the "
        "curves, settings and samples, DIR/config.json the options.\n\n"
        "Defaults: all linear layers, rank 8, AdamW with learning rate 2e-4, 3% warmup and a "
        "cosine schedule. --full trains the whole model instead.\n\n"
        "A checkpoint, DIR/step-N, has the adapter, the optimizer and the position in the "
        "run. It is saved every 10 minutes (--save-minutes) and at the end. weft train --out "
        "DIR --resume continues from the newest one with the options of the run, as if it had "
        "not stopped. Options on the command line replace them, except those that would "
        "change the model, the data or the adapter.\n\n"
        "Ctrl-C, SIGTERM, SIGHUP and SIGUSR1 finish the current update, save, and exit with "
        "status 130, 143, 129 or 138. A second Ctrl-C or SIGTERM ends at once and leaves the "
        "latest checkpoint.\n\n"
        "--objective dpo, orpo, simpo or kto trains on preferences. The line of an update and "
        "metrics.jsonl then also have the share of pairs whose chosen completion has the "
        "larger reward, and the mean margin.\n\n"
        "--objective grpo, dapo, dr_grpo, gspo or rloo trains with rewards of sampled completions "
        "(--completions). The line of an update then has the mean reward, and metrics.jsonl also "
        "its deviation, KL, entropy, ratio and the clipped shares.\n\n"
        "Processes that an MPI launcher starts, on one machine or several, train one adapter "
        "together, as in mpirun -n 4 --bind-to none weft train .... They share the batches of "
        "each update and validation, and the losses are those of one process with the same "
        "options. On each machine they share the devices of --device vulkan and the cores. "
        "One process prints and writes DIR. Resume a run with the same number of processes. "
        "After SIGINT and SIGTERM to mpirun, Open MPI gives the processes at most a second; "
        "SIGUSR1 gives them the time they need.",
    .example = "weft train storyteller --data book.txt --val-split 0.1\n"
               "weft train MODEL --task embed --data pairs.jsonl --batch-size 64 --micro-batch 16\n"
               "weft train MODEL --data chats.jsonl --epochs 3 --rank 16 --out run\n"
               "weft train MODEL --batches batches.safetensors --init-adapter start --out run\n"
               "weft train MODEL --completions sampled.jsonl --objective grpo --out run\n"
               "weft train --out run --resume\n"
               "mpirun -n 4 --bind-to none weft train MODEL --data chats.jsonl --out run",
    CLI_TABLE(train_values, arguments, options),
    .given = offsetof(train_values, given),
    .run = train_command,
};
