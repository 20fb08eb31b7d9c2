"""A model of a published shape with random weights: config.json and model.safetensors in bfloat16.

    python3 shape.py qwen3-0.6b|llama-3.2-1b|smollm2-135m|tinyllama-1.1b FOLDER

Needs only Python. The model has no tokenizer.
"""
import json
import os
import pathlib
import sys

SHAPES = {
    "qwen3-0.6b": {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 151936,
        "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28,
        "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
        "max_position_embeddings": 40960, "rope_theta": 1000000.0, "rms_norm_eps": 1e-6,
        "hidden_act": "silu", "attention_bias": False, "tie_word_embeddings": True,
        "dtype": "bfloat16", "torch_dtype": "bfloat16"},
    "llama-3.2-1b": {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 128256,
        "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
        "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64,
        "max_position_embeddings": 131072, "rope_theta": 500000.0, "rms_norm_eps": 1e-5,
        "rope_scaling": {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0,
                         "high_freq_factor": 4.0, "original_max_position_embeddings": 8192},
        "hidden_act": "silu", "attention_bias": False, "tie_word_embeddings": True,
        "dtype": "bfloat16", "torch_dtype": "bfloat16"},
    "smollm2-135m": {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 49152,
        "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30,
        "num_attention_heads": 9, "num_key_value_heads": 3, "head_dim": 64,
        "max_position_embeddings": 8192, "rope_theta": 100000.0, "rms_norm_eps": 1e-5,
        "hidden_act": "silu", "attention_bias": False, "tie_word_embeddings": True,
        "dtype": "bfloat16", "torch_dtype": "bfloat16"},
    "tinyllama-1.1b": {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 32000,
        "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22,
        "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 64,
        "max_position_embeddings": 2048, "rope_theta": 10000.0, "rms_norm_eps": 1e-5,
        "hidden_act": "silu", "attention_bias": False, "tie_word_embeddings": False,
        "dtype": "bfloat16", "torch_dtype": "bfloat16"},
    "tiny": {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 1024,
        "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64,
        "max_position_embeddings": 4096, "rope_theta": 1000000.0, "rms_norm_eps": 1e-6,
        "hidden_act": "silu", "attention_bias": False, "tie_word_embeddings": True,
        "dtype": "bfloat16", "torch_dtype": "bfloat16"},
}
CHUNK = 1 << 22  # elements
# The high byte of a bfloat16 of either sign between 2^-7 and 2^-5: the rest of it is random.
HIGH = bytes((0x3C if byte < 128 else 0xBC) for byte in range(256))


def tensors(c):
    """The names and shapes of a Qwen 3 or Llama model."""
    E, F, D = c["hidden_size"], c["intermediate_size"], c["head_dim"]
    H, K = c["num_attention_heads"], c["num_key_value_heads"]
    yield "model.embed_tokens.weight", (c["vocab_size"], E)
    for layer in range(c["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        yield at + "input_layernorm.weight", (E,)
        yield at + "mlp.down_proj.weight", (E, F)
        yield at + "mlp.gate_proj.weight", (F, E)
        yield at + "mlp.up_proj.weight", (F, E)
        yield at + "post_attention_layernorm.weight", (E,)
        if c["model_type"] == "qwen3":
            yield at + "self_attn.k_norm.weight", (D,)
            yield at + "self_attn.q_norm.weight", (D,)
        yield at + "self_attn.k_proj.weight", (K * D, E)
        yield at + "self_attn.o_proj.weight", (E, H * D)
        yield at + "self_attn.q_proj.weight", (H * D, E)
        yield at + "self_attn.v_proj.weight", (K * D, E)
    yield "model.norm.weight", (E,)
    if not c["tie_word_embeddings"]:
        yield "lm_head.weight", (c["vocab_size"], E)


def elements(shape):
    count = 1
    for axis in shape:
        count *= axis
    return count


def write_random(file, count):
    for begin in range(0, count, CHUNK):
        n = min(CHUNK, count - begin)
        values = bytearray(2 * n)
        values[0::2] = os.urandom(n)
        values[1::2] = os.urandom(n).translate(HIGH)
        file.write(values)


def make(name, folder):
    """Writes the model unless it exists."""
    folder = pathlib.Path(folder)
    weights = folder / "model.safetensors"
    if weights.exists():
        return
    config, header, offset = SHAPES[name], {}, 0
    folder.mkdir(parents=True, exist_ok=True)
    for tensor, shape in tensors(config):
        end = offset + 2 * elements(shape)
        header[tensor] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    partial = folder / "partial"
    with open(partial, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor, shape in tensors(config):
            if len(shape) == 1:
                file.write(b"\x80\x3f" * elements(shape))  # 1
            else:
                write_random(file, elements(shape))
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    partial.rename(weights)


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in SHAPES:
        sys.exit(f"shape.py {'|'.join(SHAPES)} FOLDER")
    make(*sys.argv[1:])
