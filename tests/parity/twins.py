"""The models in Python: torchvision's where it has them, written by hand from the papers where it has not."""

import torch
import torch.nn.functional as F
import torchvision
from torch import nn


class CifarBlock(nn.Module):
    def __init__(self, in_channels, channels, stride):
        super().__init__()
        self.stride = stride
        self.conv1 = nn.Conv2d(in_channels, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        shortcut = x[:, :, :: self.stride, :: self.stride]
        missing = out.shape[1] - shortcut.shape[1]
        zeros = torch.zeros(shortcut.shape[0], missing, *shortcut.shape[2:], dtype=x.dtype, device=x.device)
        return F.relu(out + torch.cat([shortcut, zeros], dim=1))


class CifarResNet20(nn.Module):
    def __init__(self, num_classes, in_channels):
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = nn.Sequential(*[CifarBlock(16, 16, 1) for _ in range(3)])
        self.layer2 = nn.Sequential(CifarBlock(16, 32, 2), CifarBlock(32, 32, 1), CifarBlock(32, 32, 1))
        self.layer3 = nn.Sequential(CifarBlock(32, 64, 2), CifarBlock(64, 64, 1), CifarBlock(64, 64, 1))
        self.fc = nn.Linear(64, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(x.mean(dim=(2, 3)))


class Mlp(nn.Module):
    def __init__(self, in_features, hidden, num_classes):
        super().__init__()
        sizes = [in_features, *hidden, num_classes]
        self.depth = len(sizes) - 1
        for i in range(self.depth):
            self.add_module(f"fc{i + 1}", nn.Linear(sizes[i], sizes[i + 1]))

    def forward(self, x):
        x = x.flatten(1)
        for i in range(1, self.depth):
            x = F.relu(getattr(self, f"fc{i}")(x))
        return getattr(self, f"fc{self.depth}")(x)


class LeNet5(nn.Module):
    def __init__(self, num_classes, in_channels):
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, 6, 5)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(400, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, num_classes)

    def forward(self, x):
        if x.shape[-1] == 28:
            x = F.pad(x, (2, 2, 2, 2))
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(x.flatten(1)))
        return self.fc3(F.relu(self.fc2(x)))


class TwoHeads(nn.Module):
    """One of two heads takes part in each step, a third layer never does. `route` says which head."""

    def __init__(self, in_features, num_classes):
        super().__init__()
        self.route = 0
        self.body = nn.Linear(in_features, 16)
        self.spare = nn.Linear(16, 16)
        self.head0 = nn.Linear(16, num_classes)
        self.head1 = nn.Linear(16, num_classes)

    def forward(self, x):
        x = torch.tanh(self.body(x.flatten(1)))
        return self.head1(x) if self.route else self.head0(x)


class Tied(nn.Module):
    """One layer under two names, used twice."""

    def __init__(self, in_features, num_classes):
        super().__init__()
        self.first = nn.Linear(in_features, 16)
        self.mix1 = nn.Linear(16, 16)
        self.mix2 = self.mix1
        self.last = nn.Linear(16, num_classes)

    def forward(self, x):
        x = torch.tanh(self.first(x.flatten(1)))
        return self.last(torch.tanh(self.mix2(torch.tanh(self.mix1(x)))))


def make_model(job):
    """The model that a job file (see jobs.h) asks for."""
    name = job["model"]
    if name in ("resnet18", "resnet34", "resnet50"):
        model = getattr(torchvision.models, name)(num_classes=job["num_classes"])
        if job.get("stem") == "cifar":  # as MMEngine's ResNet_CIFAR
            model.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
            model.maxpool = nn.Identity()
        return model
    if name == "resnet20":
        return CifarResNet20(job["num_classes"], job["in_channels"])
    if name == "mlp":
        return Mlp(job["in_features"], job["hidden"], job["num_classes"])
    if name == "lenet5":
        return LeNet5(job["num_classes"], job["in_channels"])
    return {"two_heads": TwoHeads, "tied": Tied}[name](job["in_features"], job["num_classes"])
