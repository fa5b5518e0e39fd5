// Whole models, trained by plans written by hand, are on a mesh what they are on one device.
#include <lockstep/models/gpt.h>
#include <lockstep/models/picture_models.h>

#include "support/devices.h"
#include "support/ranks.h"
#include "trained_model.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using test::devices_here;
using test::Plan;
using test::Rank;
using test::RankOptions;
using test::TrainedModel;

/// The models' batch of five is uneven on two ranks, and on three.
TrainedModel mlp_model() {
  torch::manual_seed(5);
  return {.name = "MLP",
          .make =
              [] {
                return std::make_shared<models::Mlp>(12, std::vector<std::int64_t>{16, 10}, 7);
              },
          .forward = [](torch::nn::Module& module,
                        const torch::Tensor& in) { return dynamic_cast<models::Mlp&>(module).forward(in); },
          .inputs = torch::randn({5, 12}, torch::kDouble),
          .targets = torch::randint(7, {5}, torch::kLong)};
}

TrainedModel resnet_model() {
  torch::manual_seed(6);
  return {.name = "ResNet-20",
          .make = [] { return models::resnet20(10, 3); },
          .forward = [](torch::nn::Module& module,
                        const torch::Tensor& in) { return dynamic_cast<models::Network&>(module).forward(in); },
          .inputs = torch::randn({5, 3, 12, 12}, torch::kDouble),
          .targets = torch::randint(10, {5}, torch::kLong)};
}

/// The same with pictures and weights in that memory format.
TrainedModel resnet_model_with_channels_last() {
  constexpr auto kFormat = at::MemoryFormat::ChannelsLast;
  TrainedModel model = resnet_model();
  model.name += ", channels last";
  model.make = [make = model.make] {
    auto module = make();
    for (auto& each : module->parameters()) {
      if (each.dim() == 4) each.set_data(each.data().contiguous(kFormat));
    }
    return module;
  };
  model.inputs = model.inputs.contiguous(kFormat);
  return model;
}

TrainedModel gpt_model(bool tied) {
  torch::manual_seed(7);
  const models::GptShape shape{
      .vocabulary = 19, .context = 8, .layers = 2, .heads = 4, .width = 16, .dropout = 0.0, .tied_head = tied};
  return {
      .name = tied ? "GPT" : "GPT with a head of its own",
      .make = [shape] { return models::gpt(shape); },
      .forward = [](torch::nn::Module& module,
                    const torch::Tensor& in) { return dynamic_cast<models::Gpt&>(module).forward(in).transpose(1, 2); },
      .inputs = torch::randint(19, {5, 6}, torch::kLong),
      .targets = torch::randint(19, {5, 6}, torch::kLong)};
}

struct LstmClassifier : torch::nn::Module {
  LstmClassifier()
      : words(register_module("words", torch::nn::Embedding(11, 6))),
        lstm(register_module("lstm", torch::nn::LSTM(torch::nn::LSTMOptions(6, 8).num_layers(2).batch_first(true)))),
        classes(register_module("classes", torch::nn::Linear(8, 4))) {}
  torch::Tensor forward(const torch::Tensor& in) {
    return classes(std::get<0>(lstm(words(in))).select(1, in.size(1) - 1));
  }
  torch::nn::Embedding words;
  torch::nn::LSTM lstm;
  torch::nn::Linear classes;
};

TrainedModel lstm_model() {
  torch::manual_seed(8);
  return {.name = "LSTM classifier",
          .make = [] { return std::make_shared<LstmClassifier>(); },
          .forward = [](torch::nn::Module& module,
                        const torch::Tensor& in) { return dynamic_cast<LstmClassifier&>(module).forward(in); },
          .inputs = torch::randint(11, {5, 4}, torch::kLong),
          .targets = torch::randint(4, {5}, torch::kLong)};
}

/// Words and targets, an encoder whose padding is masked, and a decoder that does not see the words to come.
struct Translator : torch::nn::Module {
  static constexpr std::int64_t kWidth = 8;

  Translator()
      : words(register_module("words", torch::nn::Embedding(11, kWidth))),
        encoder(register_module(
            "encoder", torch::nn::TransformerEncoder(
                           torch::nn::TransformerEncoderLayer(
                               torch::nn::TransformerEncoderLayerOptions(kWidth, 2).dim_feedforward(12).dropout(0.0)),
                           2))),
        decoder(register_module(
            "decoder", torch::nn::TransformerDecoder(
                           torch::nn::TransformerDecoderLayer(
                               torch::nn::TransformerDecoderLayerOptions(kWidth, 2).dim_feedforward(12).dropout(0.0)),
                           2))),
        classes(register_module("classes", torch::nn::Linear(kWidth, 4))) {}

  torch::Tensor forward(const torch::Tensor& in) {
    const auto source = words(in).transpose(0, 1);
    const auto wanted = words(in.flip(1)).transpose(0, 1);
    const auto steps = in.size(1);
    const auto later = torch::ones({steps, steps}, in.options().dtype(torch::kBool)).triu(1);
    const auto masked = torch::zeros({steps, steps}, in.options().dtype(torch::kDouble)).masked_fill(later, -1e9);
    const auto padding = in.eq(0).logical_and(torch::arange(steps, in.options()).ge(2));
    const auto memory = encoder(source, masked, padding);
    return classes(decoder(wanted, memory, masked, torch::Tensor(), torch::Tensor(), padding)).permute({1, 2, 0});
  }

  torch::nn::Embedding words;
  torch::nn::TransformerEncoder encoder;
  torch::nn::TransformerDecoder decoder;
  torch::nn::Linear classes;
};

TrainedModel transformer_model() {
  torch::manual_seed(9);
  return {.name = "Transformer of libtorch",
          .make = [] { return std::make_shared<Translator>(); },
          .forward = [](torch::nn::Module& module,
                        const torch::Tensor& in) { return dynamic_cast<Translator&>(module).forward(in); },
          .inputs = torch::randint(11, {5, 6}, torch::kLong),
          .targets = torch::randint(4, {5, 6}, torch::kLong)};
}

/// The pattern's placements on the model axis of a mesh {data, model}, or on a mesh of that axis alone.
ModulePlan on_model_axis(const std::vector<std::pair<std::string, Placement>>& patterns, bool beside_data) {
  ModulePlan plan;
  for (const auto& [pattern, placement] : patterns) {
    plan.emplace_back(pattern, beside_data ? Placements{Replicate(), placement} : Placements{placement});
  }
  return plan;
}

using Patterns = std::vector<std::pair<std::string, Placement>>;
// Columns, then rows: what the first layer divides, the second adds up.
const Patterns kMlpByTensor{{"fc1.*", Shard(0)}, {"fc2.weight", Shard(1)}, {"fc3.*", Shard(0)}};
const Patterns kResNetByTensor{{"*conv1.weight", Shard(0)},  {"*bn1.weight", Shard(0)},   {"*bn1.bias", Shard(0)},
                               {"*bn1.running_*", Shard(0)}, {"*conv2.weight", Shard(1)}, {"fc.*", Shard(0)}};
const Patterns kGptByTensor{{"*query.*", Shard(0)},       {"*key.*", Shard(0)},     {"*value.*", Shard(0)},
                            {"*output.weight", Shard(1)}, {"*fc1.*", Shard(0)},     {"*fc2.weight", Shard(1)},
                            {"token.weight", Shard(0)},   {"head.weight", Shard(0)}};
const Patterns kLstmByTensor{
    {"words.weight", Shard(0)}, {"lstm.weight_ih*", Shard(0)}, {"lstm.weight_hh*", Shard(1)}, {"classes.*", Shard(0)}};

/// Each rank keeps a part of everything, as ZeRO's third stage does.
const Patterns kSharded{{"*weight*", Shard(0)}, {"*bias*", Shard(0)}, {"*running_*", Shard(0)}};

/// Without the patterns that name what this model does not have.
ModulePlan for_model(ModulePlan plan, const torch::nn::Module& module) {
  std::vector<std::string> names;
  for (const auto& each : module.named_parameters()) names.push_back(each.key());
  for (const auto& each : module.named_buffers()) names.push_back(each.key());
  std::erase_if(plan, [&](const auto& each) {
    return std::none_of(names.begin(), names.end(), [&](const auto& name) { return fits(name, each.first); });
  });
  return plan;
}

/// `device`: where the parts lie; ranks may share one.
void expect_all_plans(const TrainedModel& model, const Patterns& by_tensor, const std::string& device = "cpu") {
  RankOptions options{.deadline = std::chrono::seconds(300), .group = RankOptions::test_group_options("shm")};
  options.group.device = device;
  const auto module = model.make();
  const auto plan_of = [&](const Patterns& patterns, bool beside_data) {
    return for_model(on_model_axis(patterns, beside_data), *module);
  };
  const Plan data{.name = "data", .parameters = {}, .batch = {Shard(0)}};
  const Plan tensor{.name = "tensor", .parameters = plan_of(by_tensor, false), .batch = {Replicate()}};
  const Plan sharded{.name = "sharded parameters", .parameters = plan_of(kSharded, false), .batch = {Shard(0)}};
  const Plan both{.name = "data and tensor", .parameters = plan_of(by_tensor, true), .batch = {Shard(0), Replicate()}};
  test::run_ranks(2, options, [&](Rank& rank) {
    torch::set_num_threads(1);
    const Mesh mesh(rank.group());
    for (const auto& plan : {data, tensor, sharded}) test::expect_trained_as_on_one_device(model, mesh, plan);
  });
  test::run_ranks(4, options, [&](Rank& rank) {
    torch::set_num_threads(1);
    test::expect_trained_as_on_one_device(model, Mesh(rank.group(), {2, 2}, {"data", "model"}), both);
  });
}

TEST(GlobalTrainedModels, Mlp) { expect_all_plans(mlp_model(), kMlpByTensor); }
TEST(GlobalTrainedModels, ResNet20) { expect_all_plans(resnet_model(), kResNetByTensor); }
TEST(GlobalTrainedModels, ResNet20ChannelsLast) {
  expect_all_plans(resnet_model_with_channels_last(), kResNetByTensor);
}
TEST(GlobalTrainedModels, Gpt) { expect_all_plans(gpt_model(true), kGptByTensor); }
TEST(GlobalTrainedModels, GptWithItsOwnHead) { expect_all_plans(gpt_model(false), kGptByTensor); }
TEST(GlobalTrainedModels, LstmClassifier) { expect_all_plans(lstm_model(), kLstmByTensor); }

TEST(GlobalTrainedModels, TransformerOfLibtorch) {
  const auto model = transformer_model();
  const Plan data{.name = "data", .parameters = {}, .batch = {Shard(0)}};
  const Plan replicated{.name = "replicated", .parameters = {}, .batch = {Replicate()}};
  const Plan sharded{.name = "sharded parameters",
                     .parameters = for_model(on_model_axis(kSharded, false), *model.make()),
                     .batch = {Shard(0)}};
  const RankOptions options{.deadline = std::chrono::seconds(300), .group = RankOptions::test_group_options("shm")};
  for (const int ranks : {1, 2, 4}) {
    test::run_ranks(ranks, options, [&](Rank& rank) {
      torch::set_num_threads(1);
      const Mesh mesh(rank.group());
      for (const auto& plan : {data, replicated, sharded}) test::expect_trained_as_on_one_device(model, mesh, plan);
    });
  }
}

// What needs a device (`ctest -L gpu`).

TEST(GlobalTrainedModelsOnGpu, Mlp) {
  SKIP_WITHOUT_DEVICE();
  expect_all_plans(mlp_model(), kMlpByTensor, "cuda");
}

TEST(GlobalTrainedModelsOnGpu, ResNet20) {
  SKIP_WITHOUT_DEVICE();
  expect_all_plans(resnet_model(), kResNetByTensor, "cuda");
}

TEST(GlobalTrainedModelsOnGpu, Gpt) {
  SKIP_WITHOUT_DEVICE();
  expect_all_plans(gpt_model(true), kGptByTensor, "cuda");
}

}  // namespace
}  // namespace lockstep
