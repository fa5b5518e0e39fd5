// The program of MMEngine's tutorial on distributed training, as a program of Lockstep: ResNet-50 on CIFAR-10, with a
// model, a loss and a metric of one's own, and data by their name. docs/own_model.md has both side by side.
//   lockstep data synthesize cifar10 --out data/cifar10
//   mmengine_cifar10 data.root=data/cifar10
//   lockstep run --nproc-per-node 2 mmengine_cifar10 data.root=data/cifar10
//   lockstep launch --nproc_per_node=2 mmengine_cifar10 --launcher pytorch      as the tutorial has it
#include <lockstep/lockstep.h>
#include <torch/torch.h>

using namespace lockstep;

struct MMResNet50 : torch::nn::Module {
  MMResNet50() : resnet(models::make_classifier({.name = "resnet50"}).module) { register_module("resnet", resnet); }
  torch::Tensor forward(const torch::Tensor& imgs) { return models::classify(*resnet, imgs); }
  std::shared_ptr<torch::nn::Module> resnet;
};

train::Outcome loss_and_accuracy(MMResNet50& model, const samples::Batch& batch) {
  const auto x = model.forward(batch["pictures"]);
  return {.loss = torch::nn::functional::cross_entropy(x, batch["labels"]),
          .sums = {{"accuracy", train::sum_of(x.argmax(1) == batch["labels"])}}};
}

int main(int argc, char** argv) {
  const train::Program program{.name = "MMResNet50",
                               .model = [] { return std::make_shared<MMResNet50>(); },
                               .task = train::make_task<MMResNet50>(loss_and_accuracy)};
  return train_main(argc, argv, program, R"(
    system: {work_dir: ./work_dir}
    data:
      name: cifar10
      root: data/cifar10
      batch_size: 32
      shuffle: true
      train_transforms:
        - random_crop: {size: 32, padding: 4}
        - random_horizontal_flip
        - rescale: {scale: 0.00392156862745098}
        - normalize: {mean: [0.491, 0.482, 0.447], std: [0.202, 0.199, 0.201]}
        - hwc2chw
    optimizer: {name: momentum, lr: 0.001, momentum: 0.9}
    train: {epochs: 2, eval_every: 1}
  )");
}
