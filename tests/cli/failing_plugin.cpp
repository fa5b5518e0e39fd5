// A plugin with parts of each kind, which fail where they are told to.
#include <lockstep/lockstep.h>
#include <lockstep/models/network.h>
#include <lockstep/train/plugin.h>
#include <torch/torch.h>

#include <cstdlib>
#include <fstream>
#include <stdexcept>

using namespace lockstep;

namespace {

/// Runs when the library is loaded: tells a test that it was.
struct Constructed {
  Constructed() {
    if (const char* file = std::getenv("LOCKSTEP_TEST_LOADED")) std::ofstream(file) << "loaded";
  }
} constructed;

/// What a plugin keeps until the process ends.
std::vector<std::shared_ptr<torch::nn::Module>> kept_models;
std::vector<std::shared_ptr<const samples::Dataset>> kept_data;

struct Fails {
  std::string fails = "never";
};
void describe(ConfigFields& fields, Fails& options) {
  if (std::getenv("LOCKSTEP_TEST_DESCRIBE") != nullptr) throw std::runtime_error("broken in describe");
  fields.field("fails", options.fails, anything(), "where this part throws");
}

void fail_at(const std::string& point, const Fails& options) {
  if (options.fails == point) throw std::runtime_error("broken in " + point);
  if (options.fails == point + " by a number") throw 42;
}

struct Net : torch::nn::Module {
  explicit Net(const Fails& wanted) : options(wanted), out(1, 1) {
    fail_at("make", options);
    register_module("out", out);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    fail_at("forward", options);
    return out(x);
  }
  Fails options;
  torch::nn::Linear out;
};

struct Line : samples::Dataset {
  explicit Line(const Fails& wanted) : options(wanted) { fail_at("load", options); }
  std::int64_t size() const override {
    fail_at("size", options);
    return 16;
  }
  samples::Sample get(std::int64_t index, const samples::Chance&) const override {
    fail_at("get", options);
    const auto x = static_cast<float>(index) / 16;
    return {.tensors = {{"x", torch::tensor({x})}, {"y", torch::tensor({2 * x})}}};
  }
  samples::Batch collate(std::vector<samples::Sample> samples) const override {
    fail_at("collate", options);
    return samples::Dataset::collate(std::move(samples));
  }
  Fails options;
};

struct Squares : train::Task {
  explicit Squares(const Fails& wanted) : options(wanted) { fail_at("task", options); }
  train::Outcome run(torch::nn::Module& model, const samples::Batch& batch, bool) override {
    fail_at("run", options);
    const auto output = dynamic_cast<Net&>(model).forward(batch["x"]);
    return {.loss = (output - batch["y"]).square().mean(), .output = output, .target = batch["y"]};
  }
  train::Values metrics(const train::Sums& sums) const override {
    fail_at("metrics", options);
    return train::Task::metrics(sums);
  }
  Fails options;
};

struct Largest : train::Metric {
  explicit Largest(const Fails& wanted) : options(wanted) { fail_at("metric", options); }
  train::Measures measure(const at::Tensor& output, const at::Tensor&) const override {
    fail_at("measure", options);
    return {{"largest", {.sum = output.max().to(torch::kDouble), .count = 1}}};
  }
  train::Values values(const train::Sums& sums) const override {
    fail_at("values", options);
    return {{"largest", sums.at("largest").sum}};
  }
  Fails options;
};

/// A classifier of pictures that looks at their means alone.
struct Means : models::Network {
  explicit Means(const models::ModelSpec& spec) : out(spec.in_channels, spec.num_classes) {
    register_module("out", out);
  }
  at::Tensor forward(const at::Tensor& pictures) override { return out(pictures.mean({2, 3})); }
  torch::nn::Linear out;
};

struct MomentumOptions : Fails {
  double drag = 0.1;
};
void describe(ConfigFields& fields, MomentumOptions& options) {
  describe(fields, static_cast<Fails&>(options));
  fields.field("drag", options.drag, between(0, 1), "1 - momentum");
}

std::unique_ptr<torch::optim::Optimizer> make_dragged(const std::vector<at::Tensor>& parameters,
                                                      const train::OptimizerConfig& config) {
  const auto& options = config.options.as<MomentumOptions>();
  fail_at("optimizer", options);
  if (options.fails == "nothing") return nullptr;
  return std::make_unique<torch::optim::SGD>(
      parameters, torch::optim::SGDOptions(config.lr).momentum(1 - options.drag).weight_decay(config.weight_decay));
}

struct Watcher final : train::Callback {
  explicit Watcher(Fails wanted) : options(std::move(wanted)) { fail_at("callback", options); }
  void check(const train::ResolvedRun&) const override { fail_at("check", options); }
  void after_step(train::RunView&, const train::StepReport&) override { fail_at("after a step", options); }
  Fails options;
};

}  // namespace

void lockstep_plugin(train::Parts& parts) {
  if (const char* how = std::getenv("LOCKSTEP_TEST_ENTRY")) {
    if (how == std::string("throws")) throw std::runtime_error("no parts today");
    if (how == std::string("throws a number")) throw 42;
    parts.models.push_back({.name = how});
    if (how == std::string("without make")) return;
  }
  parts.models.push_back({.name = "failing_net",
                          .doc = "one linear layer",
                          .options = PartOptions::of(Fails{}),
                          .make =
                              [](const PartOptions& options) {
                                auto net = std::make_shared<Net>(options.as<Fails>());
                                kept_models.push_back(net);
                                return net;
                              },
                          .task = "failing_squares"});
  parts.models.push_back(
      {.name = "means",
       .doc = "a linear layer over the mean of each channel",
       .make = [](const PartOptions&, const models::ModelSpec& spec) { return std::make_shared<Means>(spec); },
       .task = train::kClassification});
  parts.tasks.push_back(
      {.name = "failing_squares", .options = PartOptions::of(Fails{}), .make = [](const PartOptions& options) {
         return std::make_shared<Squares>(options.as<Fails>());
       }});
  parts.data.push_back({.name = "failing_line",
                        .options = PartOptions::of(Fails{}),
                        .load = [](const PartOptions& options, data::Split) {
                          auto line = std::make_shared<Line>(options.as<Fails>());
                          kept_data.push_back(line);
                          return line;
                        }});
  parts.losses.push_back({.name = "failing_loss",
                          .doc = "cross entropy, in its own way",
                          .options = PartOptions::of(Fails{}),
                          .make = [](const train::LossConfig& config) -> train::ClassificationLoss {
                            const auto options = config.options.as<Fails>();
                            fail_at("loss", options);
                            return [options](const at::Tensor& logits, const at::Tensor& labels) {
                              fail_at("compare", options);
                              return torch::cross_entropy_loss(logits, labels);
                            };
                          }});
  parts.optimizers.push_back({.name = "dragged",
                              .doc = "momentum, given by what it loses",
                              .options = PartOptions::of(MomentumOptions{}),
                              .make = make_dragged,
                              .elementwise = true});
  parts.schedules.push_back(
      {.name = "halved",
       .doc = "half of optimizer.lr",
       .options = PartOptions::of(Fails{}),
       .make = [](const PartOptions& given, const train::ScheduleSpan& span) -> std::function<double(std::int64_t)> {
         const auto options = given.as<Fails>();
         fail_at("schedule", options);
         return [options, span](std::int64_t) {
           fail_at("rate", options);
           return options.fails == "negative" ? -1.0 : span.base_lr / 2;
         };
       }});
  parts.metrics.push_back(
      {.name = "failing_largest",
       .doc = "sum of the largest outputs of batches",
       .options = PartOptions::of(Fails{}),
       .make = [](const PartOptions& options) { return std::make_shared<Largest>(options.as<Fails>()); }});
  parts.transforms.push_back(
      {.name = "failing_step",
       .doc = "changes nothing",
       .options = PartOptions::of(Fails{}),
       .make = [](const PartOptions& given, const samples::TransformStep&) -> samples::Transform {
         const auto options = given.as<Fails>();
         fail_at("transform", options);
         if (options.fails == "options") fail(ErrorKind::config, "step", "these options do not go together");
         return [options](samples::Sample sample, const samples::Chance&) {
           fail_at("step", options);
           return sample;
         };
       }});
  parts.callbacks.push_back(
      {.name = "failing_watcher",
       .doc = "watches",
       .options = PartOptions::of(Fails{}),
       .make = [](const PartOptions& options) { return std::make_unique<Watcher>(options.as<Fails>()); }});
  parts.wrappers.push_back({.name = "failing_wrapper",
                            .doc = "divides the weights",
                            .options = PartOptions::of(Fails{}),
                            .settings =
                                [](const PartOptions& options, train::ParallelConfig& config) {
                                  fail_at("settings", options.as<Fails>());
                                  config.mode = "semi_auto";
                                },
                            .place =
                                [](const PartOptions& options, const torch::nn::Module&, const train::MeshLayout&) {
                                  fail_at("place", options.as<Fails>());
                                  return ModulePlan{};
                                },
                            .wrap = [](const PartOptions& options, torch::nn::Module&,
                                       const Group&) { fail_at("wrap", options.as<Fails>()); }});
}
