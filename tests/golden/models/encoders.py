"""Tiny random encoders as sentence-transformers saves them, with what it and transformers compute.

    python encoders.py [NAME...]

Each folder NAME gets a checkpoint with its tokenizer, and reference.safetensors: `input_ids` (2, L)
of texts with `lengths` (2), padded, `hidden` (2, L, E), and `embeddings` (n, E) of the texts in
texts.json. The checkpoints differ in what files differ in: the names of tensors, the style of the
modules' files, pooling, normalization, prompts.
"""
import json
import pathlib
import shutil
import sys

import torch
from safetensors.torch import save_file
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).parent
CORPUS = [line for name in ("README.md", "docs/architecture.md", "docs/style.md")
          for line in (HERE.parents[2] / name).read_text().splitlines()]
TEXTS = ["A king.", "A queen is not a king, and Zürich is no Éclair!", "",
         "  spaces around 12345 unbelievable\ttokens [MASK] <mask>  ",
         "北京 is a city 🙂; don't e-mail x@y.org.", "one two three four five six seven " * 12]
SIZES = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4)
VOCABULARY, LENGTH, SHORT = 400, 24, 9


def special(tokenizer, cls, sep):
    ids = [(t, tokenizer.token_to_id(t)) for t in (cls, sep)]
    return processors.TemplateProcessing(single=f"{cls} $A {sep}", pair=f"{cls} $A {sep} $B {sep}",
                                         special_tokens=ids)


def word_piece():
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=True)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    t.train_from_iterator(CORPUS, trainers.WordPieceTrainer(
        vocab_size=VOCABULARY, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
    t.post_processor = special(t, "[CLS]", "[SEP]")
    return t, dict(cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]", unk_token="[UNK]",
                   mask_token="[MASK]")


MARKS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
NAMED = dict(bos_token="<s>", cls_token="<s>", eos_token="</s>", sep_token="</s>",
             pad_token="<pad>", unk_token="<unk>", mask_token="<mask>")


def byte_level():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=MARKS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True,
                                                    add_prefix_space=False)
    return t, NAMED


def unigram():
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(" {2,}", " ")])
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.decoder = decoders.Metaspace()
    t.train_from_iterator(CORPUS, trainers.UnigramTrainer(vocab_size=VOCABULARY, unk_token="<unk>",
                                                          special_tokens=MARKS))
    t.post_processor = special(t, "<s>", "</s>")
    return t, NAMED


def randomize(model, seed):
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            gain = name.endswith("LayerNorm.weight") or name.endswith("norm.weight")
            p.copy_(torch.randn_like(p) * 0.2 + (1.0 if gain else 0.0))
    return model.float().eval()


def write_json(folder, name, value):
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(value, indent=1) + "\n")


def dense(folder, path, sizes, activation, bias, seed):
    """A linear after the pooling."""
    torch.manual_seed(seed)
    write_json(folder, path + "/config.json", {
        "in_features": sizes[0], "out_features": sizes[1], "bias": bias,
        "activation_function": "torch.nn.modules." + activation})
    state = {"linear.weight": torch.randn(sizes[1], sizes[0]) * 0.2}
    if bias:
        state["linear.bias"] = torch.randn(sizes[1]) * 0.2
    save_file(state, folder / path / "model.safetensors")


def modules(folder, old, pooling, normalize, denses=(), **prompts):
    """In the style of version 2 or of version 6."""
    kinds = [("", "Transformer", "base.modules.transformer"),
             ("1_Pooling", "Pooling", "sentence_transformer.modules.pooling")]
    for name in denses:
        kinds.append((name, "Dense", "base.modules.dense"))
    if normalize:
        kinds.append((f"{len(kinds)}_Normalize", "Normalize", "base.modules.normalize"))
    write_json(folder, "modules.json", [
        {"idx": i, "name": str(i), "path": path,
         "type": f"sentence_transformers.{'models' if old else module}.{kind}"}
        for i, (path, kind, module) in enumerate(kinds)])
    E = SIZES["hidden_size"]
    flags = {"cls": "cls_token", "mean": "mean_tokens", "max": "max_tokens"}
    write_json(folder, "1_Pooling/config.json",
               {"word_embedding_dimension": E} | {f"pooling_mode_{flag}": pooling == kind
                                                  for kind, flag in flags.items()}
               if old else {"embedding_dimension": E, "pooling_mode": pooling})
    write_json(folder, "config_sentence_transformers.json", prompts)


def bert(folder):
    from transformers import BertConfig, BertModel
    t, named = word_piece()
    config = BertConfig(vocab_size=t.get_vocab_size(), max_position_embeddings=64, **SIZES)
    randomize(BertModel(config), 1).save_pretrained(folder)
    modules(folder, True, "mean", True, prompts={"query": "query: "})
    write_json(folder, "sentence_bert_config.json", {"max_seq_length": 32, "do_lower_case": False})
    return t, named | {"model_max_length": 64}


def roberta(folder):
    """Stored with the head of its pretraining, without a pooler."""
    from transformers import RobertaConfig, RobertaForMaskedLM
    t, named = byte_level()
    config = RobertaConfig(vocab_size=t.get_vocab_size(), max_position_embeddings=66,
                           type_vocab_size=1, layer_norm_eps=1e-5, hidden_act="gelu_new", **SIZES)
    randomize(RobertaForMaskedLM(config), 2).save_pretrained(folder)
    modules(folder, False, "cls", False)
    return t, named | {"model_max_length": 64}


def xlm_roberta(folder):
    from transformers import XLMRobertaConfig, XLMRobertaModel
    t, named = unigram()
    config = XLMRobertaConfig(vocab_size=t.get_vocab_size(), max_position_embeddings=66,
                              type_vocab_size=1, layer_norm_eps=1e-5, **SIZES)
    randomize(XLMRobertaModel(config), 3).save_pretrained(folder)
    modules(folder, False, "lasttoken", True, default_prompt_name="passage",
            prompts={"query": "query: ", "passage": "passage: "})
    return t, named | {"model_max_length": 40}


def modern(folder, kind, seed, **more):
    """Windows that texts are longer than, in all layers but every third."""
    import transformers
    t, named = byte_level()
    config = transformers.ModernBertConfig(
        vocab_size=t.get_vocab_size(), max_position_embeddings=64, local_attention=8,
        pad_token_id=1, bos_token_id=0, cls_token_id=0, eos_token_id=2, sep_token_id=2,
        **{**SIZES, "num_hidden_layers": 4}, **more)
    randomize(getattr(transformers, kind)(config), seed).save_pretrained(folder)
    modules(folder, False, "mean", True)
    return t, named | {"model_max_length": 64}


def modernbert(folder):
    return modern(folder, "ModernBertModel", 4)


def modernbert_old(folder):
    """config.json in the style of the published checkpoints, and their tensors' names."""
    out = modern(folder, "ModernBertForMaskedLM", 5, norm_bias=True, attention_bias=True,
                 mlp_bias=True, global_attn_every_n_layers=2)
    config = json.loads((folder / "config.json").read_text())
    del config["layer_types"], config["rope_parameters"]
    write_json(folder, "config.json", config | {
        "global_attn_every_n_layers": 2, "global_rope_theta": 5000.0, "local_rope_theta": 1000.0})
    return out


DECODER = dict(num_key_value_heads=2, head_dim=16, max_position_embeddings=64, pad_token_id=1,
               bos_token_id=0, eos_token_id=2)


def qwen3(folder):
    """A decoder whose last token has the embedding."""
    from transformers import Qwen3Config, Qwen3Model
    t, named = byte_level()
    config = Qwen3Config(vocab_size=t.get_vocab_size(), tie_word_embeddings=True, **SIZES, **DECODER)
    randomize(Qwen3Model(config), 6).save_pretrained(folder)
    modules(folder, False, "lasttoken", True, prompts={"query": "Instruct: find\nQuery:"})
    return t, named | {"model_max_length": 64}


def gemma3(folder, plain=False):
    """Attention in both directions, with windows, and two linears; or plain ones, as published."""
    from transformers import Gemma3TextConfig, Gemma3TextModel
    t, named = byte_level()
    config = Gemma3TextConfig(
        vocab_size=t.get_vocab_size(), use_bidirectional_attention=True, sliding_window=8,
        query_pre_attn_scalar=16, layer_types=["sliding_attention", "full_attention"], **SIZES,
        **DECODER)
    randomize(Gemma3TextModel(config), 7).save_pretrained(folder)
    E = SIZES["hidden_size"]
    dense(folder, "2_Dense", (E, 48), "linear.Identity", False, 8)
    dense(folder, "3_Dense", (48, E), "linear.Identity" if plain else "activation.Tanh", not plain, 9)
    modules(folder, False, "mean", True, ["2_Dense", "3_Dense"])
    return t, named | {"model_max_length": 64}


@torch.no_grad()
def reference(folder):
    st = SentenceTransformer(str(folder), device="cpu")
    model = st[0].model
    pad = model.config.pad_token_id
    ids = torch.randint(5, model.config.vocab_size, (2, LENGTH))
    ids[1, SHORT:] = pad
    ids[0, 3] = pad  # inside of a text
    mask = torch.ones_like(ids)
    mask[1, SHORT:] = 0
    hidden = model(input_ids=ids, attention_mask=mask).last_hidden_state
    hidden[1, SHORT:] = 0
    return {"input_ids": ids.int(), "lengths": torch.tensor([LENGTH, SHORT], dtype=torch.int32),
            "hidden": hidden, "embeddings": torch.from_numpy(st.encode(TEXTS))}


MAKERS = {"bert": bert, "roberta": roberta, "xlm-roberta": xlm_roberta, "modernbert": modernbert,
          "modernbert-old": modernbert_old, "embedder-qwen3": qwen3, "embedder-gemma3": gemma3,
          "embedder-gemma3-plain": lambda folder: gemma3(folder, plain=True)}


def main(names):
    for name in names or MAKERS:
        folder = HERE / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        tokenizer, config = MAKERS[name](folder)
        tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
        write_json(folder, "tokenizer_config.json",
                   {"tokenizer_class": "PreTrainedTokenizerFast"} | config)
        write_json(folder, "texts.json", TEXTS)
        expected = reference(folder)
        save_file(expected, folder / "reference.safetensors")
        print(name, sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) // 1024, "KiB")


if __name__ == "__main__":
    main(sys.argv[1:])
