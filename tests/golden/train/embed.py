"""Writes embed/NAME.safetensors: sentence-transformers' losses of vectors over several updates.

    python3 tests/golden/train/embed.py [NAME...]

8 updates of all parameters of ../models/bert or ../models/embedder-qwen3 with torch's AdamW (learning
rate 1e-3, weight decay 0.01), without dropout, from random ids. Every file has ids (steps, rows, L), of
each step first the anchors, then the positives, then each negative; lengths (steps, rows); scores
(steps, examples) where the loss needs them; and loss and grad_norm (steps). "equal" has equal positives
in a batch: sentence-transformers 6.2 counts them as negatives, so there the scores of the other ones are
set to -inf, with torch. Made with sentence-transformers 6.2.0, transformers 5.24.0 and torch 2.13 on the
CPU.
"""
import pathlib
import random
import sys

import torch
from safetensors.torch import save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.util import cos_sim

here = pathlib.Path(__file__).parent
STEPS, EXAMPLES, VOCABULARY = 8, 5, 400


class Equal(torch.nn.Module):
    """Ranking without the texts that are equal to an anchor's own positive."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, features, labels):
        a, p = (self.model(f)["sentence_embedding"] for f in features)
        ids = features[1]["input_ids"]
        same = (ids[:, None] == ids[None]).all(-1) & ~torch.eye(len(ids), dtype=bool)
        scores = (20 * cos_sim(a, p)).masked_fill(same, -torch.inf)
        return torch.nn.functional.cross_entropy(scores, torch.arange(len(ids)))


def ranking(model):
    return losses.MultipleNegativesRankingLoss(model)


RUNS = {  # the loss, the texts of an example, whether it has a score
    "ranking": (ranking, 2, False),
    "negatives": (ranking, 4, False),
    "equal": (Equal, 2, False),
    "cached": (lambda m: losses.CachedMultipleNegativesRankingLoss(m, mini_batch_size=2), 3, False),
    "triplet": (losses.TripletLoss, 3, False),
    "cosent": (losses.CoSENTLoss, 2, True),
    "cosine": (losses.CosineSimilarityLoss, 2, True),
    "dimensions": (lambda m: losses.MatryoshkaLoss(m, ranking(m), [32, 16, 8]), 2, False),
    "decoder": (ranking, 3, False),
}


def texts(name, n):
    """Ids of random lengths, as (rows, L) and lengths."""
    rows = [[random.randrange(3, VOCABULARY) for _ in range(random.randint(2, 12))]
            for _ in range(n * EXAMPLES)]
    if name == "equal":
        rows[EXAMPLES + 3] = rows[EXAMPLES + 1]
    width = max(map(len, rows))
    return (torch.tensor([r + [0] * (width - len(r)) for r in rows]),
            torch.tensor([len(r) for r in rows]))


def main(name):
    make, n, scored = RUNS[name]
    random.seed(3)
    path = here / ".." / "models" / ("embedder-qwen3" if name == "decoder" else "bert")
    model = SentenceTransformer(str(path), device="cpu")
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    loss_of = make(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    model.train()
    steps = [texts(name, n) for _ in range(STEPS)]
    scores = torch.tensor([[random.randint(0, 4) / 4 for _ in range(EXAMPLES)] for _ in steps])
    found, norms = [], []
    for (ids, lengths), score in zip(steps, scores):
        features = []
        for k in range(n):
            part = slice(k * EXAMPLES, (k + 1) * EXAMPLES)
            mask = (torch.arange(ids.shape[1]) < lengths[part, None]).long()
            features.append({"input_ids": ids[part], "attention_mask": mask})
        optimizer.zero_grad()
        loss = loss_of(features, score)
        loss.backward()
        norms.append(float(torch.sqrt(sum((p.grad.double() ** 2).sum() for p in model.parameters()
                                          if p.grad is not None))))
        optimizer.step()
        found.append(float(loss.detach()))
    width = max(ids.shape[1] for ids, _ in steps)
    tensors = {
        "ids": torch.stack([torch.nn.functional.pad(i, (0, width - i.shape[1])) for i, _ in steps]),
        "lengths": torch.stack([k for _, k in steps]),
        "loss": torch.tensor(found, dtype=torch.float64),
        "grad_norm": torch.tensor(norms, dtype=torch.float64),
    }
    tensors = {k: v.int() if v.dtype == torch.int64 else v for k, v in tensors.items()}
    if scored:
        tensors["scores"] = scores
    (here / "embed").mkdir(exist_ok=True)
    save_file(tensors, here / "embed" / f"{name}.safetensors")
    print(name, found)


for one in sys.argv[1:] or RUNS:
    main(one)
