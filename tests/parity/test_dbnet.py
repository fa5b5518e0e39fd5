"""DBNet computes what its twin in Python computes: maps, loss, every gradient."""

import unittest

from parity_support import ParityTest, run_program, save_weights  # before torch: it sets the number of threads

import torch
import torch.nn.functional as F
import torchvision
from torch import nn

import safetensors_io

TOLERANCE = 1e-4


class Pyramid(nn.Module):
    def __init__(self, widths, channels):
        super().__init__()
        for i, width in enumerate(widths, start=2):
            setattr(self, f"lateral{i}", nn.Conv2d(width, channels, 1, bias=False))
            setattr(self, f"out{i}", nn.Conv2d(channels, channels // 4, 3, padding=1, bias=False))

    def forward(self, levels):
        p2, p3, p4, p5 = (getattr(self, f"lateral{i}")(x) for i, x in enumerate(levels, start=2))
        p4 = p4 + F.interpolate(p5, size=p4.shape[2:])
        p3 = p3 + F.interpolate(p4, size=p3.shape[2:])
        p2 = p2 + F.interpolate(p3, size=p2.shape[2:])
        outs = [self.out5(p5), self.out4(p4), self.out3(p3), self.out2(p2)]
        return torch.cat([F.interpolate(x, size=p2.shape[2:]) for x in outs], 1)


def head(channels):
    inner = channels // 4
    return nn.Sequential(
        nn.Conv2d(channels, inner, 3, padding=1, bias=False), nn.BatchNorm2d(inner), nn.ReLU(),
        nn.ConvTranspose2d(inner, inner, 2, 2), nn.BatchNorm2d(inner), nn.ReLU(),
        nn.ConvTranspose2d(inner, 1, 2, 2),
    )


class Dbnet(nn.Module):
    def __init__(self, depth, channels):
        super().__init__()
        self.backbone = {18: torchvision.models.resnet18, 50: torchvision.models.resnet50}[depth]()
        del self.backbone.fc
        widths = [64, 128, 256, 512] if depth == 18 else [256, 512, 1024, 2048]
        self.fpn = Pyramid(widths, channels)
        self.head = nn.ModuleDict({"segm": head(channels), "thresh": head(channels)})

    def forward(self, x):
        b = self.backbone
        x = b.maxpool(F.relu(b.bn1(b.conv1(x))))
        levels = []
        for stage in (b.layer1, b.layer2, b.layer3, b.layer4):
            x = stage(x)
            levels.append(x)
        features = self.fpn(levels)
        probability = torch.sigmoid(self.head["segm"](features)).squeeze(1)
        threshold = torch.sigmoid(self.head["thresh"](features)).squeeze(1)
        return probability, threshold, torch.sigmoid(50 * (probability - threshold))


def loss_of(probability, threshold, binary, text, mask, threshold_map, threshold_mask):
    """The definition, with a sort."""
    eps = 1e-6
    entropy = F.binary_cross_entropy(probability, text, reduction="none")
    total, count = 0, 0
    for i in range(len(text)):
        positive, negative = text[i] * mask[i] > 0, (1 - text[i]) * mask[i] > 0
        kept = min(int(negative.sum()), max(3 * int(positive.sum()), 10))
        hardest = entropy[i][negative].sort(descending=True).values[:kept]
        total = total + entropy[i][positive].sum() + hardest.sum()
        count += int(positive.sum()) + kept
    l1 = ((threshold - threshold_map).abs() * threshold_mask).sum() / (threshold_mask.sum() + eps)
    dice = 1 - 2 * (binary * text * mask).sum() / ((binary * mask).sum() + (text * mask).sum() + eps)
    return dice + 10 * l1 + 5 * total / (count + eps)


class DbnetTwins(ParityTest):
    def test_resnet18(self):
        self.compare(18, channels=32)

    def test_resnet50(self):
        self.compare(50, channels=16)

    def compare(self, depth, channels):
        torch.manual_seed(7)
        model = Dbnet(depth, channels)
        pictures = torch.randn(3, 3, 64, 96)
        text = (F.interpolate(torch.rand(3, 1, 8, 12), size=(64, 96)) > 0.8).squeeze(1)
        text[2] = False  # a picture without text
        mask, border = torch.rand(3, 64, 96) > 0.1, torch.rand(3, 64, 96) * 0.4 + 0.3
        border_mask = torch.rand(3, 64, 96) > 0.6
        files = {key: str(self.folder / f"{key}.safetensors") for key in ("weights", "batch", "out")}
        save_weights(model, files["weights"])
        batch = {"pictures": pictures, "text": text.byte(), "mask": mask.byte(), "threshold": border,
                 "threshold_mask": border_mask.byte()}
        safetensors_io.write(files["batch"], batch)
        job = self.write_job("gradients", depth=depth, channels=channels, **files)
        run_program("parity_dbnet", "gradients", job, folder=self.folder)
        actual, _ = safetensors_io.read(files["out"])

        maps = model(pictures)
        loss = loss_of(*maps, text.float(), mask.float(), border, border_mask.float())
        loss.backward()
        expected = dict(zip(("probability", "threshold", "binary"), (m.detach() for m in maps)), loss=loss.detach())
        expected.update({f"gradient.{name}": parameter.grad for name, parameter in model.named_parameters()})
        expected.update({f"buffer.{name}": tensor for name, tensor in model.named_buffers()})
        model.eval()
        with torch.no_grad():
            expected["eval_probability"] = model(pictures)[0]
        for branch in ("segm", "thresh"):  # a bias in front of a batch norm: its gradient is 0, but for rounding
            for gradients in (actual, expected):
                self.assertLess(gradients.pop(f"gradient.head.{branch}.3.bias").abs().max().item(), 1e-5)
        worst = self.assert_same_tensors(actual, expected, TOLERANCE, floor=1e-5)
        print(f"ResNet-{depth}: largest relative difference {worst:.1e}")


if __name__ == "__main__":
    unittest.main()
