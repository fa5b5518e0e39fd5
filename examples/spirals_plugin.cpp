// A plugin: a network and a data set of one's own for `lockstep train`, without a program of one's own.
//   c++ or CMake make libspirals_plugin.so of it (docs/own_model.md#plugins), and spirals.yaml names it:
//   lockstep run --nproc-per-node 2 lockstep train --config examples/spirals.yaml
//   plugins=[build/release/examples/libspirals_plugin.so]
#include <lockstep/lockstep.h>
#include <lockstep/train/plugin.h>
#include <torch/torch.h>

using namespace lockstep;

namespace {

struct NetOptions {
  std::int64_t width = 32;
};
void describe(ConfigFields& fields, NetOptions& options) {
  fields.field("width", options.width, between(1, 4096), "hidden units of each of two layers");
}

struct Net : torch::nn::Module {
  explicit Net(std::int64_t width) : in(2, width), middle(width, width), out(width, 2) {
    register_module("in", in), register_module("middle", middle), register_module("out", out);
  }
  torch::Tensor forward(const torch::Tensor& x) { return out(torch::tanh(middle(torch::tanh(in(x))))); }
  torch::nn::Linear in, middle, out;
};

struct SpiralOptions {
  std::int64_t points = 2000;
  double noise = 0.02;
};
void describe(ConfigFields& fields, SpiralOptions& options) {
  fields.field("points", options.points, between(10, 1e6), "of training; a fifth of that for evaluation");
  fields.field("noise", options.noise, between(0, 1), "largest distance from the spiral in each direction");
}

// Two spirals, each turned half around against the other: which of them is a point on?
struct Spirals : samples::Dataset {
  Spirals(const SpiralOptions& wanted, data::Split split)
      : options(wanted), number(split == data::Split::train ? wanted.points : wanted.points / 5) {}
  std::int64_t size() const override { return number; }
  samples::Sample get(std::int64_t index, const samples::Chance& chance) const override {
    const auto label = index % 2;
    const double t = static_cast<double>(index) / static_cast<double>(number);
    const double angle = 6 * t + (label == 0 ? 0 : 3.14159265358979);
    const auto coordinate = [&](const char* step, double exact) {
      return static_cast<float>(t * exact + options.noise * (2 * chance.uniform(step) - 1));
    };
    return {.tensors = {{"x", torch::tensor({coordinate("x", std::cos(angle)), coordinate("y", std::sin(angle))})},
                        {"label", torch::tensor(label)}}};
  }
  SpiralOptions options;
  std::int64_t number;
};

train::Outcome classify(Net& net, const samples::Batch& batch) {
  const auto logits = net.forward(batch["x"]);
  return {.loss = torch::cross_entropy_loss(logits, batch["label"]),
          .sums = {{"accuracy", train::sum_of(logits.argmax(1) == batch["label"])}}};
}

}  // namespace

void lockstep_plugin(train::Parts& parts) {
  parts.models.push_back({.name = "spiral_net",
                          .doc = "three linear layers for points of a plane",
                          .options = PartOptions::of(NetOptions{}),
                          .make = [](const PartOptions& o) { return std::make_shared<Net>(o.as<NetOptions>().width); },
                          .task = "spiral_labels"});
  parts.tasks.push_back({.name = "spiral_labels",
                         .doc = "cross entropy and accuracy of two classes",
                         .make = [](const PartOptions&) { return train::make_task<Net>(classify); },
                         .measures = {{"accuracy"}}});
  parts.data.push_back({.name = "spirals",
                        .doc = "points of two spirals",
                        .options = PartOptions::of(SpiralOptions{}),
                        .load = [](const PartOptions& o, data::Split split) {
                          return std::make_shared<Spirals>(o.as<SpiralOptions>(), split);
                        }});
}
