// The program of MindSpore's tutorial on distributed training (resnet50_distributed_training), as a program of
// Lockstep: ResNet-50 on CIFAR-10 by automatic parallelism. docs/own_model.md has both side by side.
//   lockstep data synthesize cifar10 --out data/cifar10
//   DATA_PATH=data/cifar10 mpirun -n 2 mindspore_resnet50
#include <lockstep/lockstep.h>

#include <cstdlib>
#include <string>

using namespace lockstep;

int main(int argc, char** argv) {
  const char* data_path = std::getenv("DATA_PATH");
  const std::string root = data_path != nullptr ? data_path : "data/cifar10";
  return train_main(argc, argv, {}, R"(
    parallel: {mode: auto, gradients_mean: true}
    model: {name: resnet50, num_classes: 10}
    loss: {name: cross_entropy_expand}
    optimizer: {name: momentum, lr: 0.01, momentum: 0.9}
    callbacks: {loss_every: 1}
    train: {epochs: 10}
    system: {work_dir: out/mindspore_resnet50}
    data:
      name: cifar10
      batch_size: 32
      remainder: drop
      train_transforms:
        - random_crop: {size: 32, padding: 4}
        - random_horizontal_flip
        - resize: {size: 224}
        - rescale: {scale: 0.00392156862745098}
        - normalize: {mean: [0.4465, 0.4822, 0.4914], std: [0.2010, 0.1994, 0.2023]}
        - hwc2chw
      root: ')" + root + "'");
}
