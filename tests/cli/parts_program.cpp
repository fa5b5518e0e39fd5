// A program that adds parts of its own, which configuration files name; some of them fail on purpose.
#include <lockstep/lockstep.h>
#include <torch/torch.h>

#include <stdexcept>

using namespace lockstep;

namespace {

struct NetOptions {
  std::int64_t width = 8;
  std::string fails = "never";
};

void describe(ConfigFields& fields, NetOptions& options) {
  fields.field("width", options.width, between(1, 64), "hidden units");
  fields.field("fails", options.fails, one_of({"never", "make", "forward", "shape", "detached"}),
               "where this part is wrong");
}

struct Net : torch::nn::Module {
  explicit Net(const NetOptions& wanted) : options(wanted), in(1, wanted.width), out(wanted.width, 1) {
    if (options.fails == "make") throw std::runtime_error("the net cannot be made");
    register_module("in", in), register_module("out", out);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    if (options.fails == "forward") throw std::runtime_error("the net cannot compute");
    if (options.fails == "shape") return out(x);
    const auto y = out(torch::tanh(in(x)));
    return options.fails == "detached" ? y.detach() : y;
  }
  NetOptions options;
  torch::nn::Linear in, out;
};

struct LineOptions {
  double slope = 2;
  std::int64_t broken_at = -1;
};

void describe(ConfigFields& fields, LineOptions& options) {
  fields.field("slope", options.slope, between(-10, 10), "of the line");
  fields.field("broken_at", options.broken_at, at_least(-1), "sample that throws; -1: none");
}

struct Line : samples::Dataset {
  Line(const LineOptions& wanted, data::Split split) : options(wanted), number(split == data::Split::train ? 64 : 16) {}
  std::int64_t size() const override { return number; }
  samples::Sample get(std::int64_t index, const samples::Chance&) const override {
    if (index == options.broken_at) throw std::runtime_error("sample " + std::to_string(index) + " is broken");
    const auto x = static_cast<float>(index) / 64;
    return {.tensors = {{"x", torch::tensor({x})}, {"y", torch::tensor({static_cast<float>(options.slope) * x})}}};
  }
  LineOptions options;
  std::int64_t number;
};

/// Half of the samples count: what the loss is a mean over differs from rank to rank.
train::Outcome weighted(Net& net, const samples::Batch& batch) {
  const auto weights = (batch["x"] > 0.1).to(torch::kFloat);
  const auto squares = (net.forward(batch["x"]) - batch["y"]).square() * weights;
  const auto items = weights.sum().item<double>();
  return {.loss = squares.sum() / std::max(items, 1.0),
          .sums = {{"error", {.sum = squares.detach().sum(torch::kDouble), .count = items}}},
          .items = items};
}

struct RowsOptions {
  std::string of = "in.*";
};

void describe(ConfigFields& fields, RowsOptions& options) {
  fields.field("of", options.of, anything(), "the parameters that are divided by their rows");
}

}  // namespace

int main(int argc, char** argv) {
  train::Parts parts = train::shipped_parts();
  parts.models.push_back(
      {.name = "net",
       .doc = "two linear layers",
       .options = PartOptions::of(NetOptions{}),
       .make = [](const PartOptions& options) { return std::make_shared<Net>(options.as<NetOptions>()); },
       .task = "weighted"});
  parts.data.push_back({.name = "line",
                        .doc = "points of a line",
                        .options = PartOptions::of(LineOptions{}),
                        .load = [](const PartOptions& options, data::Split split) {
                          return std::make_shared<Line>(options.as<LineOptions>(), split);
                        }});
  parts.tasks.push_back({.name = "weighted",
                         .doc = "squares of the samples that count",
                         .make = [](const PartOptions&) { return train::make_task<Net>(weighted); }});
  parts.wrappers.push_back(
      {.name = "rows",
       .doc = "some parameters divided by rows",
       .options = PartOptions::of(RowsOptions{}),
       .settings = [](const PartOptions&, train::ParallelConfig& config) { config.mode = "semi_auto"; },
       .place =
           [](const PartOptions& options, const torch::nn::Module&, const train::MeshLayout& mesh) {
             return ModulePlan{{options.as<RowsOptions>().of, Placements(mesh.names.size(), Shard(0))}};
           }});
  parts.wrappers.push_back({.name = "from_zero",
                            .doc = "biases that begin at 0",
                            .wrap = [](const PartOptions&, torch::nn::Module& module, const Group&) {
                              const torch::NoGradGuard no_grad;
                              for (auto& parameter : module.named_parameters()) {
                                if (parameter.key().ends_with("bias")) parameter.value().zero_();
                              }
                            }});
  return train_main(argc, argv, std::move(parts));
}
