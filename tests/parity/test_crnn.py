"""CRNN computes what its twin in Python computes: logits, the loss of CTC, every gradient, BatchNorm's statistics."""

import unittest

from parity_support import ParityTest, run_program, save_weights  # before torch: it sets the number of threads

import torch
import torch.nn.functional as F
from torch import nn

import safetensors_io

TOLERANCE = 1e-4


class ResidualBlock(nn.Module):
    def __init__(self, before, after, rows, first):
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, (rows, 1), 1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        if first:
            pool = [nn.AvgPool2d((rows, 1))] if rows > 1 else []
            self.downsample = nn.Sequential(*pool, nn.Conv2d(before, after, 1, bias=False), nn.BatchNorm2d(after))
        else:
            self.downsample = nn.Identity()

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + self.downsample(x))


def stage(before, after, depth, rows):
    first = ResidualBlock(before, after, rows, True)
    return nn.Sequential(first, *(ResidualBlock(after, after, 1, False) for _ in range(depth - 1)))


class WordResNet(nn.Module):
    def __init__(self, channels):
        super().__init__()
        half = channels // 2
        for i, (before, after) in enumerate([(3, half), (half, half), (half, channels)], start=1):
            setattr(self, f"conv{i}", nn.Conv2d(before, after, 3, 1, 1, bias=False))
            setattr(self, f"bn{i}", nn.BatchNorm2d(after))
        self.layer1 = stage(channels, channels, 3, 1)
        self.layer2 = stage(channels, 2 * channels, 4, 2)
        self.layer3 = stage(2 * channels, 4 * channels, 6, 2)
        self.layer4 = stage(4 * channels, 8 * channels, 3, 2)

    def forward(self, x):
        for i in (1, 2, 3):
            x = F.relu(getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(x)))
        x = F.max_pool2d(F.pad(x, (0, 1, 0, 1), value=float("-inf")), 3, 2)  # MindSpore's "same"
        return F.max_pool2d(self.layer4(self.layer3(self.layer2(self.layer1(x)))), 2)


class WordVgg(nn.Module):
    def __init__(self, channels):
        super().__init__()
        c = channels
        sizes = [(3, c), (c, 2 * c), (2 * c, 4 * c), (4 * c, 4 * c), (4 * c, 8 * c), (8 * c, 8 * c), (8 * c, 8 * c)]
        for i, (before, after) in enumerate(sizes, start=1):
            conv = nn.Conv2d(before, after, 2) if i == 7 else nn.Conv2d(before, after, 3, padding=1)
            setattr(self, f"conv{i}", conv)
        for i in (3, 5, 7):
            setattr(self, f"bn{i}", nn.BatchNorm2d(sizes[i - 1][1], eps=1e-4))

    def forward(self, x):
        pools = {1: (2, 2), 2: (2, 2), 4: (2, 1), 6: (2, 1)}
        for i in range(1, 8):
            x = getattr(self, f"conv{i}")(x)
            if i in (3, 5, 7):
                x = getattr(self, f"bn{i}")(x)
            x = F.relu(x)
            if i in pools:
                x = F.max_pool2d(x, pools[i])
        return x


class Crnn(nn.Module):
    def __init__(self, model, channels, hidden, num_classes):
        super().__init__()
        self.backbone = WordResNet(channels) if model == "crnn_resnet34" else WordVgg(channels)
        self.lstm = nn.LSTM(8 * channels, hidden, num_layers=2, bidirectional=True)
        self.head = nn.Linear(2 * hidden, num_classes)

    def forward(self, pictures):
        columns = self.backbone(pictures)
        assert columns.shape[2] == 1
        return self.head(self.lstm(columns[:, :, 0].permute(2, 0, 1))[0])


def compute(model, pictures, classes, lengths, blank):
    """What `parity_crnn gradients` writes."""
    model.train()
    logits = model(pictures)
    columns = torch.full((pictures.shape[0],), logits.shape[0], dtype=torch.long)
    losses = F.ctc_loss(logits.log_softmax(2), classes, columns, lengths, blank, reduction="none", zero_infinity=True)
    loss = losses.mean()
    loss.backward()
    results = {"logits": logits.detach(), "losses": losses.detach(), "loss": loss.detach()}
    results.update({f"gradient.{name}": parameter.grad for name, parameter in model.named_parameters()})
    results.update({f"buffer.{name}": tensor for name, tensor in model.named_buffers()})
    model.eval()
    with torch.no_grad():
        results["eval_logits"] = model(pictures)
    return results


class CrnnTwins(ParityTest):
    def test_resnet34(self):
        self.compare("crnn_resnet34", blank=36, columns=25)

    def test_vgg7(self):
        self.compare("crnn_vgg7", blank=0, columns=24)

    def test_number_of_parameters(self):
        """Those of the published networks."""
        counts = {"crnn_resnet34": 24_481_029, "crnn_vgg7": 8_725_413}
        for name, expected in counts.items():
            model = Crnn(name, 64, 256, 37)
            self.assertEqual(sum(parameter.numel() for parameter in model.parameters()), expected, name)

    def compare(self, name, blank, columns):
        torch.manual_seed(11)
        model = Crnn(name, channels=16, hidden=32, num_classes=37)
        # Words of 1 to 24 letters, one with equal neighbours; the last does not fit into the columns.
        words = [[3], [1, 2, 2, 2, 9], list(range(1, 25)), [5] * 20]
        pictures = torch.randn(len(words), 3, 32, 100)
        classes = torch.tensor(sum(words, []))
        lengths = torch.tensor([len(word) for word in words])
        files = {key: str(self.folder / f"{key}.safetensors") for key in ("weights", "batch", "out")}
        save_weights(model, files["weights"])
        safetensors_io.write(files["batch"], {"pictures": pictures, "classes": classes, "lengths": lengths})
        job = self.write_job("gradients", model=name, channels=16, hidden=32, num_classes=37, blank=blank, **files)
        run_program("parity_crnn", "gradients", job, folder=self.folder)
        actual, _ = safetensors_io.read(files["out"])
        expected = compute(model, pictures, classes, lengths, blank)
        self.assertEqual(expected["logits"].shape, (columns, len(words), 37))
        self.assertEqual(expected["losses"][3].item(), 0)
        worst = self.assert_same_tensors(actual, expected, TOLERANCE, floor=1e-5)
        print(f"{name}: largest relative difference {worst:.1e}")


if __name__ == "__main__":
    unittest.main()
