"""Logits of transformers for configurations that are read in an uncommon way, over the weights of fixtures in this
folder: written to configs.json. A case without logits is refused by transformers.

    python configs.py
"""
import json
import pathlib
import shutil
import tempfile

import torch
import transformers

HERE = pathlib.Path(__file__).parent
SHARES = [{"partial_rotary_factor": 0.5}, {"rope_parameters": {"rope_theta": 5000.0, "rope_type": "default",
                                                              "partial_rotary_factor": 0.25}}]
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "rope_theta": 1e4}
MINISTRAL = {"model_type": "ministral3", "architectures": ["Ministral3ForCausalLM"], "sliding_window": None}
# What config.json says in the older style, or with keys of the family's own.
RELATIVES = [
    ("olmo3", {"rope_theta": 500000.0, "layer_types": None, "rope_scaling": {
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}}, ["rope_parameters"]),
    ("glm4", {"rope_theta": 5000.0}, ["rope_parameters"]),
    ("glm4", {"rope_theta": 5000.0, "partial_rotary_factor": 0.25}, ["rope_parameters"]),
    ("hunyuan_v1_dense", {"rope_theta": 5000.0, "rope_scaling": {
        "type": "dynamic", "alpha": 1000.0, "factor": 1.0, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0,
        "mscale_all_dim": 1.0}}, ["rope_parameters"]),
    ("smollm3", {"no_rope_layers": [0, 1, 1, 0]}, []),
    ("smollm3", {"no_rope_layer_interval": 2, "no_rope_layers": None}, []),
    ("exaone4-hybrid", {"sliding_window_pattern": "LLLG"}, []),
    ("exaone4-hybrid", {"sliding_window_pattern": 2, "layer_types": None}, []),
    ("cohere2", {"sliding_window_pattern": 2, "layer_types": None, "layer_norm_eps": 0.01}, []),
    ("lfm2", {"full_attn_idxs": None, "norm_eps": 0.01, "layer_types": [
        "conv", "full_attention", "conv", "full_attention"]}, []),
    ("lfm2", {"block_ff_dim": 24, "block_ffn_dim_multiplier": 3.01, "block_multiple_of": 1,
              "rope_parameters": {"rope_theta": 5000.0, "rope_type": "default"}}, []),
    ("lfm2", {"block_ff_dim": None, "intermediate_size": 48, "block_auto_adjust_ff_dim": False}, []),
    ("granite", {"attention_multiplier": None, "residual_multiplier": None}, []),
    ("llama", {"hidden_act": "gelu"}, []),
    ("qwen3", {"hidden_act": "relu"}, []),
    ("lfm2", {"hidden_act": "gelu"}, []),
    ("granite4", {"hidden_act": "gelu"}, []),
    ("falcon-h1", {"hidden_act": "relu"}, []),
    ("qwen3-next", {"hidden_act": "gelu_pytorch_tanh"}, []),
    # Defaults of the family's own class.
    ("mixtral", {"rms_norm_eps": None}, []),
    ("lfm3", {}, ["rope_parameters"]),
    ("gemma4-dense", {}, ["rope_parameters"]),
    ("gpt-oss", {}, ["rope_parameters"]),
    ("mistral", MINISTRAL, ["rope_parameters", "rope_scaling", "rope_theta"]),
    # Parts of the rotation that are absent, and null as a bool.
    ("llama", {"max_position_embeddings": 64, "rope_parameters": {
        "rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}},
     []),
    ("olmo3", {"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "full_attention": None,
                                   "sliding_attention": {"rope_type": "default", "rope_theta": 5e5}}}, []),
    ("lfm3", {"rope_parameters": {"full_attention": {"rope_theta": 5000.0, "partial_rotary_factor": 0.5},
                                  "sliding_attention": {"rope_type": "default"}}}, []),
    ("gemma4-dense", {"rope_parameters": {
        "full_attention": {"rope_theta": 5000.0, "partial_rotary_factor": 0.25},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}}, []),
    ("mistral", {**MINISTRAL, "rope_parameters": {**YARN, "truncate": None, "llama_4_scaling_beta": 0.1}}, []),
    ("falcon-h1-norm", {"mamba_norm_before_gate": None}, []),
    # Two original lengths, or none.
    ("llama", {"original_max_position_embeddings": 16, "rope_parameters": YARN}, []),
    ("phi3-longrope", {"original_max_position_embeddings": None}, []),
    ("olmo3", {"original_max_position_embeddings": 16, "rope_parameters": {
        "full_attention": YARN, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}}, []),
]
FIXTURES = ["llama", "mistral", "qwen2", "qwen3"]


def cases():
    for base in FIXTURES:
        yield base, {"model_type": None}, []
        for share in SHARES:
            yield base, share, []
        yield base, {"rope_parameters": {**YARN, "partial_rotary_factor": 0.5}}, ["rope_scaling"]
        yield base, {"rope_parameters": {**YARN, "partial_rotary_factor": 1.0}}, ["rope_scaling"]
    yield "qwen3-next", {"partial_rotary_factor": 0.5}, []
    yield "qwen3-next", {"model_type": None}, []
    long = json.loads((HERE / "rope-longrope" / "config.json").read_text())["rope_scaling"]
    for factor in (1.5, 16.0):
        yield "rope-longrope", {"rope_scaling": {**long, "factor": factor}}, []
    yield "rope-longrope", {"rope_scaling": {**long, "factor": 2.0, "attention_factor": 1.25}}, []
    yield from RELATIVES


def logits(base, config, ids):
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(HERE / base / "model.safetensors", folder)
        pathlib.Path(folder, "config.json").write_text(json.dumps(config))
        model_class = getattr(transformers, config["architectures"][0])
        model = model_class.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
        with torch.no_grad():
            return [round(x, 5) for x in model(torch.tensor([ids])).logits[0, -1, :48].tolist()]


def main():
    out = []
    for base, changes, without in cases():
        config = json.loads((HERE / base / "config.json").read_text())
        if base != "rope-longrope":
            for key in ["rope_parameters", "rope_scaling"] if "rope_parameters" in changes else without:
                config.pop(key, None)
        name = {"mistral": "Mistral", "llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3",
                "qwen3-next": "Qwen3Next", "rope-longrope": "Llama", "olmo3": "Olmo3", "glm4": "Glm4",
                "hunyuan_v1_dense": "HunYuanDenseV1", "smollm3": "SmolLM3", "granite": "Granite",
                "exaone4-hybrid": "Exaone4", "cohere2": "Cohere2", "lfm2": "Lfm2", "lfm3": "Lfm3", "mixtral": "Mixtral",
                "granite4": "GraniteMoeHybrid", "falcon-h1": "FalconH1",
                "gemma4-dense": "Gemma4", "gpt-oss": "GptOss", "phi3-longrope": "Phi3",
                "falcon-h1-norm": "FalconH1"}[base]
        config["architectures"] = [name + "ForCausalLM"]
        config.update(changes)
        config = {k: v for k, v in config.items() if v is not None or k in ("sliding_window", "mamba_norm_before_gate")}
        ids = [(7 * i + 3) % (config["vocab_size"] - 3) + 3 for i in range(30)]
        case = {"fixture": base, "config": config, "ids": ids}
        try:
            case["logits"] = logits(base, config, ids)
        except Exception as error:
            print(base, changes, type(error).__name__, str(error)[:80])
        out.append(case)
    text = ",\n".join(json.dumps(c, separators=(",", ":")) for c in out)
    (HERE / "configs.json").write_text("[\n" + text + "\n]\n")


main()
