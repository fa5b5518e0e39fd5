// A user's first Transformer, of libtorch's own layers: it trains the same in every mode, and mode auto can plan it.
#include <lockstep/base/temporary_folder.h>
#include <lockstep/samples/dataset.h>
#include <lockstep/train/program.h>
#include <lockstep/train/run_group.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <nlohmann/json.hpp>

#include "support/ranks.h"
#include "support/read_file.h"
#include "train/small_run.h"

namespace lockstep::test {
namespace {

/// Reads a sentence of numbers, and tells its class.
struct Reader : torch::nn::Module {
  static constexpr std::int64_t kWidth = 16;

  Reader()
      : words(register_module("words", torch::nn::Embedding(12, kWidth))),
        encoder(register_module(
            "encoder", torch::nn::TransformerEncoder(
                           torch::nn::TransformerEncoderLayer(
                               torch::nn::TransformerEncoderLayerOptions(kWidth, 2).dim_feedforward(32).dropout(0.0)),
                           2))),
        classes(register_module("classes", torch::nn::Linear(kWidth, 3))) {}

  torch::Tensor forward(const torch::Tensor& sentences) {
    return classes(encoder(words(sentences).transpose(0, 1)).mean(0));
  }

  torch::nn::Embedding words;
  torch::nn::TransformerEncoder encoder;
  torch::nn::Linear classes;
};

train::Program reader_program() {
  return {.name = "reader",
          .model = [] { return std::make_shared<Reader>(); },
          .task = train::make_task<Reader>([](Reader& net, const samples::Batch& batch) {
            return train::Outcome{.loss = torch::cross_entropy_loss(net.forward(batch["words"]), batch["class"])};
          }),
          .data = [](data::Split split) -> std::shared_ptr<const samples::Dataset> {
            if (split != data::Split::train) return nullptr;
            const auto words = torch::arange(32 * 6).mul(7).remainder(11).add(1).view({32, 6});
            return samples::from_tensors({{"words", words}, {"class", words.select(1, 2).remainder(3)}});
          }};
}

TEST(TransformerRuns, TrainTheSameInEveryMode) {
  const TemporaryFolder folder{"lockstep-transformer"};
  const auto run = [&](int ranks, const std::string& name, std::vector<std::string> keys) {
    SCOPED_TRACE(name);
    keys.insert(keys.end(), {"system.work_dir=" + (folder.path() / name).string(), "data.global_batch_size=8",
                             "optimizer.name=adam", "optimizer.lr=0.01", "train.steps=6", "callbacks.metrics_every=1",
                             "parallel.timeout_s=60", "parallel.start_timeout_s=60"});
    const auto config = train::load_program_config({}, std::nullopt, keys);
    run_ranks(ranks, SmallRun::small_rank_options(), [&](Rank& rank) {
      auto world = rank.world();
      if (world.size == 1) world.rendezvous = Rendezvous::alone;
      train::run_training(config, reader_program(), world);
    });
    std::vector<double> losses;
    std::istringstream lines(read_file(folder.path() / name / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) losses.push_back(nlohmann::json::parse(line)["loss"]);
    return losses;
  };
  const auto alone = run(1, "alone", {});
  ASSERT_EQ(alone.size(), 6U);
  EXPECT_LT(alone.back(), alone.front());
  const std::vector<std::pair<std::string, std::vector<std::string>>> modes{
      {"data_parallel", {"parallel.mode=data_parallel"}},
      {"semi_auto", {"parallel.mode=semi_auto"}},
      {"by_tensor",
       {"parallel.mode=semi_auto", "parallel.mesh={model: 2}",
        "parallel.shard={\"encoder.*.linear1.*\": {model: 0}, \"encoder.*.linear2.weight\": {model: 1}, "
        "\"encoder.*.in_proj_*\": {model: 0}}"}},
      {"fully_sharded", {"parallel.wrapper={type: fully_sharded}"}},
      {"auto", {"parallel.mode=auto"}},
      {"auto_by_tensor",
       {"parallel.mode=auto", "parallel.mesh={model: 2}", "parallel.shard={\"*linear1.*\": {model: 0}}"}}};
  for (const auto& [name, keys] : modes) {
    const auto losses = run(2, name, keys);
    ASSERT_EQ(losses.size(), alone.size()) << name;
    for (std::size_t i = 0; i < losses.size(); ++i)
      EXPECT_NEAR(losses[i], alone[i], 1e-4) << name << ", step " << i + 1;
  }
}

}  // namespace
}  // namespace lockstep::test
