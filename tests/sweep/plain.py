"""The oracle: one model at a time, in plain torch.nn, with textbook attention and an update written out tensor by
tensor."""

import math

import numpy as np
import torch
from torch import nn

from models.packed import INIT_STD
from sweep.trial import Trial
from tasks import TASKS, stream


class Norm(nn.LayerNorm):
    def __init__(self, width):
        super().__init__(width, eps=1e-3)


class Softmax(nn.Module):
    def forward(self, q, k, v):
        return torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), dim=-1) @ v


class Nap(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.nap_gain = nn.Parameter(torch.ones(heads))
        self.nap_bias = nn.Parameter(torch.zeros(heads))

    def forward(self, q, k, v):
        logits = q @ k.transpose(-1, -2)
        deviation = logits.std(dim=-1, keepdim=True, unbiased=False)
        normal = (logits - logits.mean(dim=-1, keepdim=True)) / (deviation + 0.001)
        return (self.nap_gain[:, None, None] * normal + self.nap_bias[:, None, None]) @ v


class Non(nn.Module):
    def forward(self, q, k, v):
        return q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) @ v


class Attention(nn.Module):
    """Multi-head attention of BERT, MTE, NAP and NON."""

    def __init__(self, model, width, heads):
        super().__init__()
        self.model, self.heads = model, heads
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))
        self.core = {"nap": Nap, "non": lambda heads: Non()}.get(model, lambda heads: Softmax())(heads)
        if model in ("nap", "mte"):
            self.mix_norm = Norm(width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (
            layer(x).view(batch, length, self.heads, -1).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        heads = self.core(q, k, v).transpose(1, 2).reshape(batch, length, width)
        if self.model in ("nap", "mte"):
            heads = self.mix_norm(heads)
        if self.model == "non":
            heads = heads / math.sqrt(length)
        if self.model != "bert":
            heads = nn.functional.gelu(heads, approximate="tanh")
        return self.output(heads)


class Pooling(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        pooled = {
            "sum": lambda: x.sum(dim=1, keepdim=True),
            "max": lambda: x.max(dim=1, keepdim=True).values,
            "mean": lambda: x.mean(dim=1, keepdim=True),
            "none": lambda: torch.zeros_like(x),
        }[self.model]()
        return pooled.expand_as(x)


class FeedForward(nn.Module):
    def __init__(self, width, hidden, hidden_norm):
        super().__init__()
        self.add_module("in", nn.Linear(width, hidden))
        self.hidden_norm = Norm(hidden) if hidden_norm else nn.Identity()
        self.out = nn.Linear(hidden, width)
        self.norm = Norm(width)

    def forward(self, x):
        hidden = self.hidden_norm(getattr(self, "in")(x))
        return self.out(nn.functional.gelu(hidden, approximate="tanh"))


ATTENTION, POOLING = ("nap", "non", "mte", "bert"), ("sum", "max", "mean", "none")


class Layer(nn.Module):
    def __init__(self, model, width, heads):
        super().__init__()
        if model not in (*ATTENTION, *POOLING):
            raise NotImplementedError(f"no plain form of {model} is written here yet: add it")
        pooling = model in POOLING
        hidden = round((12 * width + 8) / (2 * width + 1) * width) if pooling else 4 * width
        self.post = model == "bert"
        self.mixing = Pooling(model) if pooling else Attention(model, width, heads)
        self.branch_norm = Norm(width)
        self.feed_forward = FeedForward(width, hidden, model != "bert")

    def forward(self, x):
        if self.post:
            x = self.branch_norm(x + self.mixing(x))
            return self.feed_forward.norm(x + self.feed_forward(x))
        x = x + self.branch_norm(self.mixing(x))
        return x + self.feed_forward.norm(self.feed_forward(x))


class PlainModel(nn.Module):
    """One trial's model, float64, with its initial weights."""

    def __init__(self, trial: Trial, model: str):
        super().__init__()
        self.trial = trial
        task = TASKS[trial.task]
        outputs = 1 if trial.readout == "pointer" else task.classes(trial.length, trial.vocabulary)
        self.embedding = nn.Embedding(trial.vocabulary, trial.width)
        if trial.positions == "learned":
            self.position = nn.Parameter(torch.zeros(trial.length, trial.width))
        self.layers = nn.ModuleList(Layer(model, trial.width, trial.heads or 1) for _ in range(trial.depth))
        self.readout = nn.Linear(trial.width, outputs)
        self.double()
        self.names = {}  # PyTorch's name of a parameter → the packed network's
        for name, p in self.named_parameters():
            own = name.removeprefix("layers.").replace("mixing.core.", "").replace("mixing.", "")
            is_norm = "norm" in own
            own = own.replace("norm.weight", "norm.gain") if is_norm else own.replace("embedding.weight", "embedding")
            self.names[name] = own
            self._start(own, p, is_norm or own.endswith("nap_gain"))

    def _start(self, name, p, one):
        matrix = p.dim() == 2
        with torch.no_grad():
            if not matrix:
                p.fill_(1.0 if one and not name.endswith("bias") else 0.0)
                return
            transposed = name.endswith(".weight")
            shape = p.shape[::-1] if transposed else p.shape
            random = stream(self.trial.seed, f"init/{name}")
            draw = random.standard_normal(tuple(shape))
            while (np.abs(draw) > 2).any():
                outside = np.abs(draw) > 2
                draw[outside] = random.standard_normal(outside.sum())
            draw = draw * INIT_STD * (1.0 if name == "position" else self.trial.init_scale)
            p.copy_(torch.from_numpy(draw.T if transposed else draw))

    def forward(self, tokens):
        self.embedded = self.embedding(tokens)
        x = self.embedded
        if self.trial.positions == "learned":
            x = x + self.position[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x)
        scores = self.readout(x)
        if self.trial.readout == "pointer":
            return scores[..., 0]
        if TASKS[self.trial.task].answers_position:
            scores = scores[..., : tokens.shape[1]]
        return scores[:, 0] if self.trial.readout == "first_token" else scores


def plain_losses(trial: Trial, model: str, tokens: torch.Tensor, labels: torch.Tensor) -> list[float]:
    """Losses before each update of a model trained alone on batches [steps, B, L]."""
    net = PlainModel(trial, model)
    named = list(net.named_parameters())
    mean = {name: torch.zeros_like(p) for name, p in named}
    square = {name: torch.zeros_like(p) for name, p in named}
    losses = []
    for step, (batch, label) in enumerate(zip(tokens, labels)):
        loss = nn.functional.cross_entropy(net(batch).flatten(0, -2), label.flatten())
        losses.append(loss.item())
        *gradients, rows = torch.autograd.grad(loss, [p for _, p in named] + [net.embedded], allow_unused=True)
        factor = 1 - step / trial.steps
        if trial.schedule == "warmup_linear" and step < trial.steps // 10:
            factor = step / (trial.steps // 10)
        for (name, p), gradient in zip(named, gradients):
            if gradient is None:
                gradient = torch.zeros_like(p)
            if trial.clip_norm:
                norm = rows.norm() if name == "embedding.weight" else gradient.norm()
                gradient = gradient * min(1.0, trial.clip_norm / max(norm.item(), 1e-300))
            if net.names[name].endswith(".weight"):
                gradient = gradient + trial.weight_decay * p.detach()
            mean[name] = 0.9 * mean[name] + 0.1 * gradient
            square[name] = 0.999 * square[name] + 0.001 * gradient**2
            rate = trial.learning_rate * factor * math.sqrt(1 - 0.999 ** (step + 1)) / (1 - 0.9 ** (step + 1))
            with torch.no_grad():
                p -= rate * mean[name] / (square[name].sqrt() + 1e-7)
    return losses
