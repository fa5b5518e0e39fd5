// A program whose configuration is made in code: one case for each word of the command line.
//   configured_program CASE WORK_DIR [FILE]     FILE: the data set's folder, or the plugin
#include <lockstep/lockstep.h>
#include <lockstep/train/part_settings.h>
#include <torch/torch.h>

#include <iostream>

using namespace lockstep;

namespace {

std::shared_ptr<const samples::Dataset> line(std::int64_t points) {
  const auto x = torch::linspace(0, 1, points).unsqueeze(1);
  return samples::from_tensors({{"x", x}, {"y", 2 * x}});
}

/// Model, task and data of the program.
train::Program regression() {
  return {.model = [] { return std::make_shared<torch::nn::LinearImpl>(1, 1); },
          .task = train::supervised<torch::nn::LinearImpl>(
              [](const torch::Tensor& output, const torch::Tensor& target) { return torch::mse_loss(output, target); }),
          .data = {line(64), line(16)}};
}

int run(const std::string& name, const std::string& work_dir, const std::string& file) {
  train::RunConfig config;
  config.system.work_dir = work_dir;
  config.train.epochs = 2;
  config.optimizer.lr = 0.1;
  config.data.batch_size = 4;
  auto program = regression();
  if (name == "no_rate") {
    config.optimizer.lr = 0;
  } else if (name == "wrong_mode") {
    config.parallel.mode = "data_paralel";
    config.train.accumulate = -1;
  } else if (name == "wrong_betas") {
    train::choose(config.optimizer, "adam", train::AdamSettings{.betas = {0.9, 1.5}});
  } else if (name == "wrong_options") {
    train::choose(config.optimizer, "adam", train::SgdSettings{});
  } else if (name == "other_options") {
    train::choose(config.scheduler, "cosine", train::StepSettings{});
  } else if (name == "later_name") {
    train::choose(config.optimizer, "adamw", train::AdamSettings{.betas = {0.5, 0.6}});
    config.optimizer.name = "adam";
  } else if (name == "unused_loss") {
    config.loss.label_smoothing = 0.3;
  } else if (name == "unused_transforms") {
    config.data.train_transforms = parse_yaml("[to_tensor]");
  } else if (name == "two_optimizers" || name == "foreign_optimizer") {
    if (name == "two_optimizers") config.optimizer.weight_decay = 0.5;
    program.optimizer = [foreign = name == "foreign_optimizer"](const std::vector<torch::Tensor>& parameters) {
      const auto tensors = foreign ? std::vector{torch::zeros({1}, torch::requires_grad())} : parameters;
      return std::make_unique<torch::optim::SGD>(tensors, 0.1);
    };
  } else if (name == "nothing_watches") {
    program.callbacks = [](int) { return train::Callbacks(1); };
  } else if (name == "wrapped") {
    train::choose(config.parallel.wrapper, "fully_sharded", train::FullyShardedSettings{.threshold_kb = 0});
  } else if (name == "own_optimizer" || name == "other_optimizer") {
    config.optimizer.lr = 0;
    config.train.epochs = name == "own_optimizer" ? 2 : 3;
    program.optimizer = [betas = name == "own_optimizer" ? 0.8 : 0.7](const std::vector<torch::Tensor>& parameters) {
      return std::make_unique<torch::optim::AdamW>(
          parameters, torch::optim::AdamWOptions(0.01).betas({betas, 0.9}).weight_decay(0.05));
    };
  } else if (name == "names") {  // model and data by their names
    program = {};
    config.model.name = "mlp";
    config.model.hidden = {8};
    config.data.name = "mnist";
    config.data.root = file;
    config.data.train_transforms = parse_yaml("[to_tensor]");
  } else if (name == "plugin") {
    program = {};
    config.plugins = {file};
    config.model.name = "failing_net";
    config.data.name = "failing_line";
  } else if (name == "evaluates") {
    config.optimizer.lr = 0;
    config.train.epochs.reset();
    Trainer trainer(program, config);
    std::cout << "loss " << trainer.evaluate().loss << '\n';
    return trainer.exit_code();
  }
  Trainer trainer(program, config);
  trainer.train();
  return trainer.exit_code();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argv[1], argv[2], argc > 3 ? argv[3] : "");
  } catch (const std::exception& error) {
    lockstep::cluster::report_failure(error);
    std::cerr << error.what() << '\n';
    return 1;
  }
}
