"""What variants.py checks of a model: each function gets the command, the model in transformers, its
folder, a random.Random and the seed, and returns (how far off, text). Raises RuntimeError with the message
of `weft` when that refuses.
"""
import json
import subprocess
import sys
from pathlib import Path

import numpy
import torch
from safetensors.numpy import save_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
import peers

LENGTH, LIMIT = 40, 1e-4
TWO_CACHES = ("gemma4_text", "lfm2", "lfm2_moe", "nemotron_h")
ENCODERS = ("bert", "roberta", "xlm-roberta", "modernbert")


def class_of(name):
    return AutoModelForSequenceClassification if name in ENCODERS else AutoModelForCausalLM


def tokens(config, seed, shape=(2, LENGTH)):
    return numpy.random.RandomState(seed).randint(3, config.vocab_size, shape)


def in_float64(model, ids, seeds=()):
    """The logits, and those with weights rounded at random as much as float32 rounds."""
    model.set_experts_implementation("eager")  # the others have no float64
    torch.set_default_dtype(torch.float64)  # also of what is made in the forward pass
    try:
        out = [peers.torch_logits(model.double(), ids)]
        weights = [(p, p.data) for p in model.parameters()]
        for seed in seeds:
            torch.manual_seed(seed)
            for p, x in weights:
                p.data = x * (1 + 2**-24 * torch.randn(x.shape))
            out.append(peers.torch_logits(model, ids))
        for p, x in weights:
            p.data = x
        return out
    finally:
        torch.set_default_dtype(torch.float32)


def logits(weft, model, folder, r, seed):
    ids = tokens(model.config, seed)
    expected = peers.torch_logits(model, ids)
    got = peers.weft_logits(weft, folder, ids, folder)
    if model.config.model_type in ENCODERS:
        got = got[:, 0]
    off = float(numpy.abs(got - expected).max() / expected.std())
    if off <= LIMIT:
        return off, ""
    try:
        exact, *rounded = in_float64(model, ids, range(6))
    except Exception as error:  # an op without float64
        return off, f"; no float64: {error}"
    errors = [float(numpy.abs(x - exact).max() / exact.std()) for x in (got, expected, *rounded)]
    return (0 if errors[0] <= 2 * max(errors[1:]) else off), \
        f"; from float64: weft {errors[0]:.1e}, transformers {errors[1]:.1e}, " \
        f"with rounded weights {max(errors[2:]):.1e}"


# ---- config.json in other words --------------------------------------------------------------------


def older(config, r):
    """Rotations as before transformers 5: rope_theta beside rope_scaling. There null was no scaling,
    which these two classes now take for their own."""
    if config["model_type"] in ("gpt_oss", "ministral3"):
        raise ValueError
    rope = dict(config["rope_parameters"])
    del config["rope_parameters"]
    config["rope_theta"] = rope.pop("rope_theta")
    if "partial_rotary_factor" in rope:
        config["partial_rotary_factor"] = rope.pop("partial_rotary_factor")
    kind = rope.pop("rope_type")
    for key in ("original_max_position_embeddings",) if kind == "longrope" else ():
        config[key] = rope.pop(key)
    config["rope_scaling"] = None if kind == "default" else {r.choice(["type", "rope_type"]): kind} | rope


def changes(config, r):
    """Functions that change config.json; those that transformers does not take are undone."""
    rope = config.get("rope_parameters") or {}
    if "rope_theta" in rope and "full_attention" not in rope:
        yield "older rotation", lambda c: older(c, r)
    yield "torch_dtype", lambda c: c.update(torch_dtype=c.pop("dtype"))
    yield "eos list", lambda c: c.update(eos_token_id=[2, 4])
    yield "other keys", lambda c: c.update(auto_map={"AutoConfig": "x.Y"}, pretraining_tp=1)
    if "sliding_window" in config and config["model_type"] != "exaone4":  # there 0 is a window
        yield "window 0", lambda c: c.update(sliding_window=0)
    keys = sorted(set(config) - {"model_type", "architectures", "dtype", "vocab_size", "eos_token_id",
                                 "max_position_embeddings"})  # dynamic rotations need it
    for key in r.sample(keys, len(keys)):
        how = r.random()
        if how < 0.35:
            yield f"no {key}", lambda c, key=key: c.pop(key)
        elif how < 0.5:
            yield f"{key} null", lambda c, key=key: c.update({key: None})


def everywhere(config, path=()):
    """The paths of all keys, also of those in objects."""
    for key, value in config.items():
        yield (*path, key)
        if isinstance(value, dict):
            yield from everywhere(value, (*path, key))


def edited(config, path, null):
    for key in path[:-1]:
        config = config[key]
    if null:
        config[path[-1]] = None
    else:
        config.pop(path[-1])


def shapes(path, name):
    config = AutoConfig.from_pretrained(path)
    with torch.device("meta"):
        model = class_of(name).from_config(config)
    return {k: tuple(v.shape) for k, v in model.state_dict().items()}


def try_change(path, change, name, first, ids):
    """Whether transformers takes the changed configuration, with all tensors of the same shapes."""
    before = path.read_text()
    now = json.loads(before)
    try:
        change(now)
        path.write_text(json.dumps(now))
        if shapes(path.parent, name) == first:
            reload(path.parent, name)(torch.tensor(ids))
            return True
    except Exception:  # whatever transformers raises
        pass
    path.write_text(before)
    return False


def reload(folder, name):
    model, found = class_of(name).from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    if any(found.values()):
        raise ValueError(found)
    return model.eval()


@torch.no_grad()
def config(weft, model, folder, r, seed):
    """Keys of config.json are left out, null, or in the style of transformers 4. Of a failure, the
    changes that fail alone are named."""
    path, name = Path(folder) / "config.json", model.config.model_type
    original, first, ids = path.read_text(), shapes(folder, name), tokens(model.config, seed, (1, 8))
    done = [(what, change) for what, change in changes(json.loads(original), r)
            if try_change(path, change, name, first, ids)]

    def now():
        try:
            return logits(weft, reload(folder, name), folder, r, seed)
        except RuntimeError as error:
            return 1e9, str(error)[-200:]
    off, text = now()
    text += str([w for w, _ in done]) if off > LIMIT else ""
    if off > LIMIT:
        for what, change in done:
            path.write_text(original)
            try_change(path, change, name, first, ids)
            off_alone, said = now()
            text += f"\n    {what}: {off_alone:.1e} {said}" if off_alone > LIMIT else ""
    return off, text


@torch.no_grad()
def keys(weft, model, folder, r, seed):
    """Each key of config.json removed and each null, one at a time, also those that only the class has:
    `weft` computes what transformers does, or refuses the file."""
    path, name = Path(folder) / "config.json", model.config.model_type
    whole = json.loads(json.dumps(model.config.to_dict())) | json.loads(path.read_text())
    path.write_text(json.dumps(whole))
    original, first, ids = path.read_text(), shapes(folder, name), tokens(model.config, seed, (1, 8))
    worst, said, tried, refused = 0, "", 0, []
    for at in everywhere(whole):
        if at[0] in ("model_type", "architectures", "dtype", "return_dict"):
            continue
        for null in (False, True):
            path.write_text(original)
            what = f"{'.'.join(at)} {'null' if null else 'absent'}"
            if not try_change(path, lambda c: edited(c, at, null), name, first, ids):
                continue
            tried += 1
            try:
                off, more = logits(weft, reload(folder, name), folder, r, seed)
            except RuntimeError as error:
                refused.append(f"{what}: {str(error).split('config.json: ')[-1][-160:]}")
                continue
            worst = max(worst, off)
            said += f"\n    {what}: {off:.1e} {more}" if off > LIMIT else ""
    path.write_text(original)
    return worst, said + f"; {tried} changes" + "".join(f"\n    refused {line}" for line in refused)


# ---- decoding and training -------------------------------------------------------------------------


def greedy(weft, model, folder, r, seed):
    """24 tokens by a cache, as many prompt tokens as drawn. A near tie may go either way."""
    if model.config.model_type in ENCODERS:
        return 0, "encoder"
    n, most = r.choice([1, 5, 13, 30]), 24
    # Where longrope's factors change, transformers' MiniCPM 3 keeps keys of the other ones in its
    # cache; `weft` computes them again, as both do for Phi-3.
    cached = model.config.model_type != "minicpm3"
    ids = tokens(model.config, seed, (1, n))
    with torch.no_grad():
        made = model.generate(torch.tensor(ids), do_sample=False, max_new_tokens=most,
                              eos_token_id=None, pad_token_id=0, use_cache=cached, output_scores=True,
                              return_dict_in_generate=True)
    program = Path(weft).parents[1] / "tests" / "generate_ids"
    out = subprocess.run([program, "native", folder, str(most), "0", *map(str, ids[0])],
                         capture_output=True, text=True)
    if out.returncode:
        raise RuntimeError(f"weft: {out.stderr.strip()[-300:]}")
    got = [int(word) for word in out.stdout.split() if word.lstrip("-").isdigit()][:most]
    expected = made.sequences[0, n:].tolist()
    for i, (a, b) in enumerate(zip(got, expected)):
        if a != b:
            score = made.scores[i][0]
            gap = float((score[b] - score[a]) / score.std())
            return (0 if gap < LIMIT else gap), f"; token {i} of {n} + {most}: {a}, expected {b}"
    ended = len(got) == most or expected[len(got)] == 2
    return (0 if ended else 1), "" if ended else f"; ended after {len(got)}"


def lora(weft, model, folder, r, seed):
    """Losses of three updates from an adapter of PEFT. Updates are plain steps of the gradient."""
    from peft import LoraConfig, get_peft_model
    from outputs import text_modules
    if model.config.model_type in ENCODERS:
        return 0, "encoder"
    folder, rank = Path(folder), r.choice([1, 3])
    ids = tokens(model.config, seed, (3, 2, 20))
    torch.manual_seed(seed)
    # PEFT takes names of dense MLPs beside experts for theirs.
    some = [n for n in text_modules(model) if not hasattr(model.config, "num_experts_per_tok")
            or ".mlp." not in n]
    peft = get_peft_model(model, LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=some))
    trained = [p for p in peft.parameters() if p.requires_grad]
    with torch.no_grad():
        for p in trained:
            p.add_(torch.randn(p.shape) * 0.1)
    peft.save_pretrained(str(folder / "peft"))
    save_file({"batches": ids.astype("int32"), "prompt_lengths": numpy.ones((3, 2), "int32")},
              folder / "batches.safetensors")
    peers.run(weft, "train", folder, "--batches", folder / "batches.safetensors", "--init-adapter",
              folder / "peft", "--optimizer", "sgd", "--lr", "0.1", "--weight-decay", "0", "--out",
              folder / "run", "--dtype", "float32", "--device", "cpu")
    got = [json.loads(line)["loss"] for line in open(folder / "run" / "metrics.jsonl")][:3]
    expected = []
    for batch in torch.tensor(ids):
        out = peft(input_ids=batch[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(out.flatten(0, 1), batch[:, 1:].flatten())
        expected.append(float(loss))
        for p, g in zip(trained, torch.autograd.grad(loss, trained)):
            p.data.sub_(0.1 * g)
    off = max(abs(a - b) / b for a, b in zip(got, expected))
    return off, f"; losses {got}, expected {expected}" if off > LIMIT else ""


# ---- GGUF files ------------------------------------------------------------------------------------


def gguf(weft, model, folder, r, seed):
    """The file in llama.cpp and in `weft`, in F32. Without what llama.cpp does otherwise:
    against_llama_cpp.py says what."""
    if model.config.model_type in ENCODERS:
        return 0, "encoder: encoders_against_llama_cpp.py"
    from against_llama_cpp import llama_logits_apart
    path, c = Path(folder) / "gguf" / "model.gguf", model.config
    ids = tokens(c, seed)
    path.parent.mkdir(exist_ok=True)
    peers.run(weft, "convert", folder, path, "--type", "f32", "--force")
    expected = peers.weft_logits(weft, folder, ids, folder)
    read = peers.weft_logits(weft, path, ids, folder)
    off = float(numpy.abs(read - expected).max() / expected.std())
    if off > LIMIT:
        return off, "; read back"
    seen = getattr(c, "sliding_window", None) if c.model_type in (
        "mistral", "mixtral", "phi3") else None
    act = getattr(c, "hidden_act", None) or getattr(c, "hidden_activation", None) or ""
    limit = 0.1 if "gelu" in act else 2e-4
    if c.model_type == "gpt_oss" and c.rope_parameters.get("truncate") is False:
        return 0, "; llama.cpp rounds yarn's bounds"
    if c.model_type == "phi3" and c.rope_parameters["rope_type"] == "longrope":
        return 0, "; llama.cpp chooses longrope's factors by the context"
    if c.model_type in TWO_CACHES and len({*c.layer_types} - {"mlp", "moe"}) < 2:
        return 0, "; llama.cpp aborts when one of its two caches has no layer"
    for part, module in model.named_modules():
        if part.endswith("_a_layernorm"):  # llama.cpp has the epsilon of other norms for latents
            module.variance_epsilon = c.rms_norm_eps
        if c.model_type == "nemotron_h" and hasattr(module, "time_step_limit"):
            module.time_step_limit = (0.0, float("inf"))  # nor does it limit time steps
    expected = peers.torch_logits(model, ids)
    theirs = llama_logits_apart(path, ids, folder)[..., :expected.shape[-1]]
    off = float(numpy.abs(theirs - expected)[:, :seen].max() / expected.std())
    return (0 if off <= limit else off), f"; llama.cpp {off:.1e}"


CHECKS = {f.__name__: f for f in (logits, config, keys, greedy, lora, gguf)}
