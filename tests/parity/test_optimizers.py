"""Optimizers, parameter groups and schedules, as a configuration names them, beside PyTorch's for 20 steps.

LARS and LAMB are not PyTorch's: their formulas are written out here, from the papers. So is Muon's for versions of
PyTorch that lack it.
"""

import json
import unittest

# Before torch: it sets the number of threads.
from parity_support import MODEL_DEFAULTS, ParityTest, run_program, save_weights

import torch
import torch.nn.functional as F
from torch.optim import lr_scheduler

import safetensors_io
from twins import make_model

STEPS = 20
STEPS_OF_EPOCH = 5  # as in optimizer_steps.cpp
BATCH = 16

LOSS_TOLERANCE = 1e-4
WEIGHT_TOLERANCE = 1e-4  # of the largest value of each tensor
RATE_TOLERANCE = 1e-12

MLP = {"model": "mlp", "shape": [1, 8, 8], "in_features": 64, "hidden": [32, 24]}
# Without batch norm, which would make much of the rounding of norms within some steps.
LENET = {"model": "lenet5", "shape": [1, 28, 28], "in_channels": 1}
RESNET = {"model": "resnet20", "shape": [3, 16, 16]}


class Lars(torch.optim.Optimizer):
    """You et al. 2017, with the learning rate outside of the velocity, as in torch.optim.SGD."""

    def __init__(self, params, lr, momentum=0.9, weight_decay=0.0, trust=0.001, eps=1e-8, adapt_1d=True):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "trust": trust,
                                  "eps": eps, "adapt_1d": adapt_1d})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for w in group["params"]:
                decay, grad = group["weight_decay"], w.grad
                w_norm, g_norm = w.norm().item(), grad.norm().item()
                ratio = 1.0
                if w_norm > 0 and g_norm > 0 and (group["adapt_1d"] or w.dim() > 1):
                    ratio = group["trust"] * w_norm / (g_norm + decay * w_norm + group["eps"])
                v = self.state[w].get("v", torch.zeros_like(w))
                v = group["momentum"] * v + ratio * (grad + decay * w)
                self.state[w]["v"] = v
                w -= group["lr"] * v


class Lamb(torch.optim.Optimizer):
    """You et al. 2020, algorithm 2, with phi(z) = min(z, most)."""

    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, most=10.0, adapt_1d=True):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "most": most,
                                  "adapt_1d": adapt_1d})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for w in group["params"]:
                state = self.state[w]
                t = state["t"] = state.get("t", 0) + 1
                state["m"] = b1 * state.get("m", torch.zeros_like(w)) + (1 - b1) * w.grad
                state["v"] = b2 * state.get("v", torch.zeros_like(w)) + (1 - b2) * w.grad**2
                u = state["m"] / (1 - b1**t) / ((state["v"] / (1 - b2**t)).sqrt() + group["eps"])
                u = u + group["weight_decay"] * w
                w_norm, u_norm = w.norm().item(), u.norm().item()
                ratio = 1.0
                if w_norm > 0 and u_norm > 0 and (group["adapt_1d"] or w.dim() > 1):
                    ratio = min(w_norm, group["most"]) / u_norm
                w -= group["lr"] * ratio * u


class MuonByFormula(torch.optim.Optimizer):
    """torch.optim.Muon of 2.11, with products of bfloat16 numbers that add up in float32."""

    def __init__(self, params, lr, weight_decay=0.1, momentum=0.95, nesterov=True, adjust_lr_fn=None, ns_steps=5):
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
                                  "adjust_lr_fn": adjust_lr_fn, "ns_steps": ns_steps})

    @torch.no_grad()
    def step(self):
        def rounded(tensor):
            return tensor.bfloat16().float()

        for group in self.param_groups:
            share = group["momentum"]
            for w in group["params"]:
                m = self.state[w].setdefault("m", torch.zeros_like(w))
                m.lerp_(w.grad, 1 - share)
                x = rounded(w.grad.lerp(m, share) if group["nesterov"] else m)
                rows, columns = w.shape
                x = x.T if rows > columns else x
                x = rounded(x / rounded(x.norm()).clamp(min=1e-7))
                for _ in range(group["ns_steps"]):
                    square = rounded(x @ x.T)
                    factor = rounded(torch.addmm(square, square, square, beta=-4.7750, alpha=2.0315))
                    x = rounded(torch.addmm(x, factor, x, beta=3.4445))
                x = x.T if rows > columns else x
                ratio = max(1, rows / columns) ** 0.5
                if group["adjust_lr_fn"] == "match_rms_adamw":
                    ratio = 0.2 * max(rows, columns) ** 0.5
                w *= 1 - group["lr"] * group["weight_decay"]
                w -= group["lr"] * ratio * x


class MuonAndAdamW:
    """Muon for the matrices, AdamW for the rest and for those of `adamw`."""

    def __init__(self, model, lr, adamw=(), adamw_lr=None, **options):
        muon = getattr(torch.optim, "Muon", MuonByFormula)
        print(f"muon: compared with {muon.__module__}.{muon.__name__} of torch {torch.__version__}")
        named = list(model.named_parameters())
        matrices = [p for name, p in named if p.dim() == 2 and not name.startswith(tuple(adamw))]
        rest = [p for _, p in named if all(p is not each for each in matrices)]
        decay = options.get("weight_decay", 0.1)
        self.each = [torch.optim.AdamW(rest, lr=lr if adamw_lr is None else adamw_lr, weight_decay=decay),
                     muon(matrices, lr=lr, **options)]
        self.param_groups = self.each[1].param_groups

    def zero_grad(self, set_to_none):
        for each in self.each:
            each.zero_grad(set_to_none=set_to_none)

    def step(self):
        for each in self.each:
            each.step()


def without_1d_decay(model, weight_decay):
    named = list(model.named_parameters())
    return [
        {"params": [p for _, p in named if p.dim() > 1], "weight_decay": weight_decay},
        {"params": [p for _, p in named if p.dim() <= 1], "weight_decay": 0.0},
    ]


def heads_faster(model, lr, weight_decay):
    """optimizer.groups of the case below: fc3 ten times as fast and without decay, biases without decay."""
    named = list(model.named_parameters())
    head = [p for name, p in named if name.startswith("fc3.")]
    biases = [p for name, p in named if name.endswith("bias") and not name.startswith("fc3.")]
    rest = [p for name, p in named if name.endswith("weight") and not name.startswith("fc3.")]
    return [
        {"params": head, "lr": 10 * lr, "weight_decay": 0.0},
        {"params": biases, "weight_decay": 0.0},
        {"params": rest, "weight_decay": weight_decay},
    ]


def frozen(model, names):
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not name.startswith(names))
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def rmsprop(model):
    return torch.optim.RMSprop(
        model.parameters(), lr=0.003, alpha=0.9, momentum=0.5, centered=True, weight_decay=0.01, eps=1e-4)


# By name: the model, keys, PyTorch's optimizer, and its scheduler, which steps after each step unless it is by epoch.
CASES = {
    "rmsprop": (
        MLP,
        "optimizer: {name: rmsprop, lr: 0.003, alpha: 0.9, momentum: 0.5, centered: true, weight_decay: 0.01, eps: 1e-4}",
        rmsprop, None,
    ),
    "rmsprop_plain": (
        MLP, "optimizer: {name: rmsprop, lr: 0.002}",
        lambda model: torch.optim.RMSprop(model.parameters(), lr=0.002), None,
    ),
    "adagrad": (
        MLP, "optimizer: {name: adagrad, lr: 0.05, lr_decay: 0.1, initial_accumulator: 0.1, weight_decay: 0.01}",
        lambda model: torch.optim.Adagrad(
            model.parameters(), lr=0.05, lr_decay=0.1, initial_accumulator_value=0.1, weight_decay=0.01, eps=1e-8),
        None,
    ),
    "lars": (
        LENET, "optimizer: {name: lars, lr: 5, weight_decay: 5e-4, trust_coefficient: 0.002}",
        lambda model: Lars(model.parameters(), lr=5, weight_decay=5e-4, trust=0.002), None,
    ),
    "lars_without_vectors": (
        LENET,
        "optimizer: {name: lars, lr: 0.5, weight_decay: 5e-4, adapt_1d: false, no_decay: [norms, biases]}",
        lambda model: Lars(without_1d_decay(model, 5e-4), lr=0.5, adapt_1d=False), None,
    ),
    "lamb": (
        MLP, "optimizer: {name: lamb, lr: 0.01, weight_decay: 0.01}",
        lambda model: Lamb(model.parameters(), lr=0.01, weight_decay=0.01), None,
    ),
    "lamb_without_vectors": (
        MLP,
        "optimizer: {name: lamb, lr: 0.01, weight_decay: 0.01, adapt_1d: false, max_weight_norm: 2, betas: [0.8, 0.99], "
        "eps: 1e-6, no_decay: [norms, biases]}",
        lambda model: Lamb(
            without_1d_decay(model, 0.01), lr=0.01, adapt_1d=False, most=2.0, betas=(0.8, 0.99), eps=1e-6),
        None,
    ),
    # Small rates: a matrix that differs in the last bit of a float32 may have other bfloat16 numbers, 0.4 % apart.
    "muon": (
        MLP, "optimizer: {name: muon, lr: 0.0002, weight_decay: 0.1}",
        lambda model: MuonAndAdamW(model, lr=0.0002), None,
    ),
    "muon_like_adamw": (
        MLP,
        "optimizer: {name: muon, lr: 0.0001, weight_decay: 0.05, momentum: 0.9, nesterov: false, "
        "adjust_lr: match_rms_adamw, adamw_lr_factor: 0.5, groups: [{match: \"fc3.*\", name: muon, "
        "orthogonalize: false, adamw_lr_factor: 0.5}]}",
        lambda model: MuonAndAdamW(
            model, lr=0.0001, adamw=("fc3.",), adamw_lr=0.00005, weight_decay=0.05, momentum=0.9, nesterov=False,
            adjust_lr_fn="match_rms_adamw"),
        None,
    ),
    "groups": (
        MLP,
        "optimizer: {name: adamw, lr: 0.001, weight_decay: 0.1, no_decay: [biases], groups: [{match: [\"fc3.*\"], "
        "lr_factor: 10, weight_decay: 0}]}\n"
        "scheduler: {name: polynomial, power: 2}",
        lambda model: torch.optim.AdamW(heads_faster(model, 0.001, 0.1), lr=0.001),
        lambda optimizer: lr_scheduler.PolynomialLR(optimizer, total_iters=STEPS, power=2),
    ),
    "freeze": (
        RESNET,
        "optimizer: {name: momentum, lr: 0.01}\n"
        "scheduler: {name: exponential, gamma: 0.9, unit: steps}",
        lambda model: torch.optim.SGD(frozen(model, ("conv1.", "bn1.", "layer1.")), lr=0.01, momentum=0.9),
        lambda optimizer: lr_scheduler.ExponentialLR(optimizer, gamma=0.9),
    ),
    "exponential_by_epochs": (
        MLP, "optimizer: {name: sgd, lr: 0.05}\nscheduler: {name: exponential, gamma: 0.5}",
        lambda model: torch.optim.SGD(model.parameters(), lr=0.05),
        lambda optimizer: lr_scheduler.LambdaLR(optimizer, lambda step: 0.5 ** (step // STEPS_OF_EPOCH)),
    ),
    "one_cycle": (
        MLP, "optimizer: {name: momentum, lr: 0.05}\nscheduler: {name: one_cycle}",
        lambda model: torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9),
        lambda optimizer: lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=STEPS, cycle_momentum=False),
    ),
    "one_cycle_linear": (
        MLP,
        "optimizer: {name: momentum, lr: 0.05}\n"
        "scheduler: {name: one_cycle, pct_start: 0.4, anneal: linear, div_factor: 5, final_div_factor: 100}",
        lambda model: torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9),
        lambda optimizer: lr_scheduler.OneCycleLR(
            optimizer, 0.05, total_steps=STEPS, cycle_momentum=False, pct_start=0.4, anneal_strategy="linear",
            div_factor=5, final_div_factor=100),
    ),
}

MODEL_KEYS = {"freeze": ", freeze: [\"conv1.*\", \"bn1.*\", \"layer1.*\"]"}


def train(model, batches, make_optimizer, make_scheduler):
    optimizer = make_optimizer(model)
    scheduler = make_scheduler(optimizer) if make_scheduler else None
    losses, rates = [], []
    for step in range(STEPS):
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(batches["pictures"][step]), batches["labels"][step])
        loss.backward()
        losses.append(loss.item())
        rates.append(optimizer.param_groups[-1]["lr"])
        optimizer.step()
        if scheduler and step + 1 < STEPS:
            scheduler.step()
    return losses, rates


class LikePythons(ParityTest):
    def prepare(self, name, model, keys):
        torch.manual_seed(7)
        job = {**MODEL_DEFAULTS, **model}
        batches = {
            "pictures": torch.randn([STEPS, BATCH] + job["shape"]),
            "labels": torch.randint(job["num_classes"], [STEPS, BATCH]),
        }
        twin = make_model(job)
        files = {key: str(self.folder / f"{name}.{key}") for key in ("weights", "batches", "out")}
        save_weights(twin, files["weights"])
        safetensors_io.write(files["batches"], batches)
        path = self.write_job(name, **job, **files)
        path.with_suffix(".yaml").write_text(
            f"model: {{name: {job['model']}{MODEL_KEYS.get(name, '')}}}\n"
            f"data: {{name: mnist, root: none}}\ntrain: {{steps: {STEPS}}}\n{keys}\n"
        )
        return path, twin, batches, files["out"]

    def test_20_steps(self):
        prepared = {name: self.prepare(name, model, keys) for name, (model, keys, _, _) in CASES.items()}
        run_program("parity_optimizer_steps", *[path for path, _, _, _ in prepared.values()], folder=self.folder)
        for name, (_, _, make_optimizer, make_scheduler) in CASES.items():
            _, twin, batches, out = prepared[name]
            with self.subTest(name):
                losses, rates = train(twin, batches, make_optimizer, make_scheduler)
                print(f"{name}: largest relative difference {self.compare(twin, losses, rates, out)}")

    def compare(self, twin, losses, rates, out):
        with open(f"{out}.json") as file:
            ours = json.load(file)
        worst = 0.0
        self.assertEqual(len(ours["losses"]), STEPS)
        for step, (a, e) in enumerate(zip(ours["losses"], losses)):
            self.assertLessEqual(abs(a - e), LOSS_TOLERANCE * abs(e), f"step {step}: {a} instead of {e}")
            worst = max(worst, abs(a - e) / abs(e))
        for step, (a, e) in enumerate(zip(ours["rates"], rates)):
            self.assertLessEqual(abs(a - e), RATE_TOLERANCE, f"learning rate of step {step}: {a} instead of {e}")
        weights = self.assert_same_tensors(
            safetensors_io.read(f"{out}.safetensors")[0],
            {name: tensor for name, tensor in twin.state_dict().items()},
            WEIGHT_TOLERANCE,
        )
        return f"{worst:.1e} of losses, {weights:.1e} of weights"


if __name__ == "__main__":
    unittest.main()
