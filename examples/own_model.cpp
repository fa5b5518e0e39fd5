// A network, a data set and a metric of one's own, with everything that `lockstep train` has.
//   own_model                                              trains by itself; --help, --help-keys, --dry-run explain
//   own_model train.epochs=5 program.width=64 optimizer.lr=0.05
//   lockstep run --nproc-per-node 2 own_model              on two ranks; killed and started again, it goes on
#include <lockstep/lockstep.h>
#include <torch/torch.h>

using namespace lockstep;

struct Options {
  std::int64_t width = 32;
};
void describe(ConfigFields& fields, Options& options) {
  fields.field("width", options.width, between(1, 4096), "hidden units");
}

// Two inputs: a point, and which of four curves it is to be on.
struct Net : torch::nn::Module {
  explicit Net(std::int64_t width) : curve(4, width), in(1, width), out(width, 1) {
    register_module("curve", curve), register_module("in", in), register_module("out", out);
  }
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& which) {
    return out(torch::tanh(in(x) + curve(which)));
  }
  torch::nn::Embedding curve;
  torch::nn::Linear in, out;
};

struct Curves : samples::Dataset {
  explicit Curves(data::Split split) : points(split == data::Split::train ? 2000 : 400) {}
  std::int64_t size() const override { return points; }
  samples::Sample get(std::int64_t index, const samples::Chance& chance) const override {
    const auto x = static_cast<float>(2 * chance.uniform("x") - 1);
    const auto which = index % 4;
    const auto y = std::sin(static_cast<float>(which + 1) * x);
    return {.tensors = {{"x", torch::tensor({x})}, {"which", torch::tensor(which)}, {"y", torch::tensor({y})}}};
  }
  std::int64_t points;
};

train::Outcome loss(Net& net, const samples::Batch& batch) {
  const auto error = net.forward(batch["x"], batch["which"]) - batch["y"];
  return {.loss = error.square().mean(), .sums = {{"within_0.1", train::sum_of(error.abs() < 0.1)}}};
}

int main(int argc, char** argv) {
  train::RunConfig defaults;
  defaults.optimizer.name = "adam";
  defaults.optimizer.lr = 0.01;
  defaults.train.epochs = 20;
  defaults.system.work_dir = "out/own_model";
  const auto make = [](const train::RunConfig& config) {
    const auto options = read_config<Options>(config.program, "program");
    return train::Program{.name = "curves",
                          .model = [options] { return std::make_shared<Net>(options.width); },
                          .task = train::make_task<Net>(loss),
                          .data = [](data::Split split) { return std::make_shared<Curves>(split); }};
  };
  return train_main(argc, argv, make, defaults);
}
