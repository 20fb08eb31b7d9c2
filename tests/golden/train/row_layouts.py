"""Writes row_layouts.json: what TRL, mlx-lm, LLaMA-Factory, Axolotl and Unsloth train on the rows of
row_layouts.jsonl.

    PYTHONPATH=FOLDER python3 tests/golden/train/row_layouts.py

FOLDER has the packages llamafactory (0.9.5), axolotl (0.19.0) and unsloth_zoo, unpacked; TRL 1.16 and
mlx-lm 0.32 are installed. Modules that they import and rows do not need are replaced by stubs. Every
program uses the storyteller's tokenizer and ChatML.

Each line of row_layouts.jsonl has a row, the program, how it is configured ("as"), and the objective.
Where Weft differs on purpose, "weft" has what it trains and "why" the reason. The samples are lists
of pieces, [text, 1 if trained], without the text after the last trained token: for pairs the chosen
and the rejected sample. LLaMA-Factory and Unsloth also train the line break after a turn, which no
model generates: here it is not trained.
"""
import itertools
import json
import logging
import pathlib
import sys
import types
from importlib.machinery import ModuleSpec
from unittest import mock


class Stub(types.ModuleType):
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return mock.MagicMock(name=name)


for name in ("torchaudio", "av", "librosa"):
    sys.modules[name] = Stub(name)
    sys.modules[name].__spec__ = ModuleSpec(name, None)

import datasets
import datasets.fingerprint
from transformers import AutoTokenizer

here = pathlib.Path(__file__).parent
datasets.disable_progress_bars()
logging.disable(logging.WARNING)
fingerprints = itertools.count()
datasets.fingerprint.Hasher.hash = staticmethod(lambda value: str(next(fingerprints)))
tokenizer = AutoTokenizer.from_pretrained(here.parents[2] / "examples/storyteller")
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' }}"
    "{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] + '<|im_end|>' }}"
    "{% endgeneration %}{% else %}{{ message['content'] + '<|im_end|>' }}{% endif %}{{ '\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
tokenizer.chat_template = CHATML


def pieces(ids, weights):
    """The sample as texts with one weight each."""
    out = []
    while weights and not weights[-1]:
        ids, weights = ids[:-1], weights[:-1]
    for weight, group in itertools.groupby(zip(ids, weights), key=lambda pair: int(pair[1])):
        out.append([tokenizer.decode([pair[0] for pair in group]), weight])
    for i, piece in enumerate(out):  # a line break after a turn is not trained
        if piece[1] and piece[0].endswith("<|im_end|>\n"):
            piece[0] = piece[0][:-1]
            if i + 1 < len(out):
                out[i + 1][0] = "\n" + out[i + 1][0]
    return out


# ---- TRL ------------------------------------------------------------------------------------


def trl(row, objective, options):
    from trl import DPOTrainer, SFTTrainer
    from trl.trainer.kto_trainer import KTOTrainer
    self = types.SimpleNamespace(_tokenizer=tokenizer, calculate_KL=False, desirable_weight=1,
                                 undesirable_weight=1, chat_template=None, _is_vlm=False,
                                 completion_only_loss=True)
    args = types.SimpleNamespace(dataset_num_proc=None, max_length=None, truncation_mode="keep_end",
                                 dataset_text_field="text", shuffle_dataset=False,
                                 assistant_only_loss="messages" in row or "conversations" in row)
    trainer = {"supervised": SFTTrainer, "dpo": DPOTrainer, "kto": KTOTrainer}[objective]
    more = {"packing": False, "formatting_func": None} if trainer is SFTTrainer else {}
    [made] = trainer._prepare_dataset(self, datasets.Dataset.from_list([row]), tokenizer, args,
                                      dataset_name="train", **more)
    if objective == "supervised":
        return [pieces(made["input_ids"], [label != -100 for label in made["labels"]])]
    sides = ("chosen", "rejected") if objective == "dpo" else ("completion",)
    return [pieces(made["prompt_ids"] + made[side + "_ids"],
                   [0] * len(made["prompt_ids"]) + [1] * len(made[side + "_ids"])) for side in sides]


# ---- mlx-lm ---------------------------------------------------------------------------------


def mlx(row, objective, options):
    from mlx_lm.tuner.datasets import create_dataset
    config = types.SimpleNamespace(mask_prompt="text" not in row, **options)
    ids, offset = create_dataset([row], tokenizer, config).process(row)
    return [pieces(ids, [0] * offset + [1] * (len(ids) - offset))]


# ---- LLaMA-Factory --------------------------------------------------------------------------


def llamafactory(row, objective, options):
    from llamafactory.data.converter import get_dataset_converter
    from llamafactory.data.parser import DatasetAttr
    from llamafactory.data.template import TEMPLATES
    attributes = DatasetAttr("file", "rows", ranking=objective == "dpo")
    for key, value in options.items():
        setattr(attributes, key, value)
    made = get_dataset_converter(attributes.formatting, attributes, None)(row)
    answers = made["_response"]
    if objective == "kto":
        answers = [answer for answer in answers if answer["content"]]
    samples = []
    for answer in answers:
        ids, weights = [], []
        turns = TEMPLATES["chatml"].encode_multiturn(tokenizer, made["_prompt"] + [answer],
                                                     made["_system"], made["_tools"])
        for i, (prompt, turn) in enumerate(turns):
            trained = objective == "supervised" or i == len(turns) - 1
            ids += prompt + turn
            weights += [0] * len(prompt) + [int(trained)] * len(turn)
        samples.append(pieces(ids, weights))
    return samples


# ---- Axolotl --------------------------------------------------------------------------------


def axolotl(row, objective, options):
    import importlib
    from axolotl.utils.dict import DictDefault
    cfg = DictDefault({"sequence_len": 4096, "train_on_inputs": False,
                       "eot_tokens": ["<|im_end|>"], "chat_template": "tokenizer_default",
                       "datasets": [{"type": options["type"]}]})
    options = dict(options)
    kind, _, function = options.pop("type").partition(":")
    if objective == "dpo":
        module = importlib.import_module("axolotl.prompt_strategies.dpo." + kind)
        transform = getattr(module, function)(cfg, dataset_idx=0)
        if isinstance(transform, tuple):
            transform = transform[0]
        try:
            made = transform(dict(row), tokenizer=tokenizer)
        except TypeError:
            made = transform(dict(row))
        return [[[made["prompt"], 0], [made[side].removesuffix("\n"), 1]]
                for side in ("chosen", "rejected")]
    if kind == "chat_template":
        from axolotl.prompt_strategies.chat_template import StrategyLoader
        strategy = StrategyLoader()(tokenizer, cfg, options)
    else:
        module = importlib.import_module("axolotl.prompt_strategies." + kind)
        strategy = getattr(module, function or "load")(tokenizer, cfg)
    if kind == "completion":
        made = strategy.tokenize_prompt({key: [value] for key, value in row.items()})
        made = {key: values[0] for key, values in made.items()}
    else:
        made = strategy.tokenize_prompt(dict(row))
    return [pieces(made["input_ids"], [label != -100 for label in made["labels"]])]


# ---- Unsloth --------------------------------------------------------------------------------


def unsloth(row, objective, options):
    import importlib.util
    if "unsloth_zoo" not in sys.modules:  # its __init__ needs a GPU
        package = types.ModuleType("unsloth_zoo")
        package.__path__ = importlib.util.find_spec("unsloth_zoo").submodule_search_locations
        sys.modules["unsloth_zoo"] = package
    from unsloth_zoo import dataset_utils
    made = datasets.Dataset.from_list([row])
    if "conversations" in row:
        made = dataset_utils.standardize_data_formats(made, tokenizer=tokenizer, num_proc=None)
    [made] = made
    messages = made.get("conversations") or made.get("messages")
    if messages is None:
        ids = tokenizer(made["text"])["input_ids"]
        return [pieces(ids, [1] * len(ids))]
    ids = tokenizer.apply_chat_template(messages, return_dict=False)
    mask = dataset_utils.train_on_responses_only(
        None, "<|im_start|>user\n", "<|im_start|>assistant\n", tokenizer=tokenizer,
        return_function=True)
    labels = mask({"input_ids": [ids]})["labels"][0]
    return [pieces(ids, [label != -100 for label in labels])]


programs = {"TRL": trl, "mlx-lm": mlx, "LLaMA-Factory": llamafactory, "Axolotl": axolotl,
            "Unsloth": unsloth}
lines = [json.loads(line) for line in (here / "row_layouts.jsonl").read_text().splitlines()]
out = []
for line in lines:
    try:
        out.append(programs[line["program"]](json.loads(json.dumps(line["row"])), line["objective"],
                                             line.get("as", {})))
    except Exception as error:
        print(line["program"], line["layout"], type(error).__name__, str(error)[:300],
              file=sys.stderr)
        out.append(None)
(here / "row_layouts.json").write_text("[" + ",\n".join(json.dumps(samples) for samples in out) + "]\n")
