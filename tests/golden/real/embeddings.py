"""Writes embeddings.safetensors: the vectors (n, 384) that sentence-transformers computes with the real
all-MiniLM-L6-v2 for the texts of texts.py.

    python tests/golden/real/embeddings.py FOLDER

FOLDER is that of tools/real_models.sh. Made with sentence-transformers 6.2, torch 2.13.
"""
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from sentence_transformers import SentenceTransformer

from texts import TEXTS

model = SentenceTransformer(f"{sys.argv[1]}/all-minilm-l6-v2", device="cpu")
save_file({"embeddings": torch.from_numpy(model.encode(TEXTS))},
          Path(__file__).parent / "embeddings.safetensors")
