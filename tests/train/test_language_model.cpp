// The GPT on a text: the same on any number of ranks and in any mode, and as libtorch alone computes it.
#include <lockstep/base/error.h>
#include <lockstep/base/temporary_folder.h>
#include <lockstep/models/gpt.h>
#include <lockstep/samples/text.h>
#include <lockstep/train/run_group.h>
#include <lockstep/train/tasks/language_modelling.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/expect_error.h"
#include "train/small_run.h"

namespace lockstep::test {
namespace {

void write_text(const std::filesystem::path& file, std::size_t words) {
  std::ofstream out(file);
  for (std::size_t i = 0; i < words; ++i) out << "word" << i % 17 << (i % 5 == 0 ? ".\n" : " ");
}

class LanguageModel : public testing::Test {
 protected:
  LanguageModel() { write_text(folder_.path() / "text.txt", 300); }

  train::ResolvedRun config(const std::string& name, std::vector<std::string> more = {}) const {
    std::vector<std::string> keys = {"data.file=" + (folder_.path() / "text.txt").string(),
                                     "system.work_dir=" + (folder_.path() / name).string(),
                                     "model.layers=1",
                                     "model.width=32",
                                     "model.context=16",
                                     "data.length=16",
                                     "data.global_batch_size=8",
                                     "task.sample_bytes=4",
                                     "train.epochs=2",
                                     "optimizer.lr=0.01",
                                     "scheduler.warmup_steps=2"};
    keys.insert(keys.end(), more.begin(), more.end());
    return train::load_run_config(LOCKSTEP_CONFIGS "/gpt_tiny_text.yaml", keys);
  }

  nlohmann::json result(const std::string& name) const {
    std::ifstream in(folder_.path() / name / "result.json");
    return nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
  }

  TemporaryFolder folder_;
};

// With dropout each step draws by chance, other numbers on each rank.
TEST_F(LanguageModel, StoppedAndGoneOnWithItDrawsTheSameNumbers) {
  const auto with = [&](const std::string& name, std::vector<std::string> more) {
    more.insert(more.end(), {"model.dropout=0.3", "scheduler.name=constant"});
    return config(name, std::move(more));
  };
  mnist().run(3, with("whole", {}));
  mnist().run(3, with("parts", {"train.steps=5"}));
  mnist().run(3, with("parts", {}));
  EXPECT_EQ(result("whole")["params_sha256"], result("parts")["params_sha256"]);
  EXPECT_EQ(result("whole")["eval_loss"], result("parts")["eval_loss"]);
}

TEST_F(LanguageModel, TrainsTheSameOnAnyNumberOfRanksInAnyMode) {
  mnist().run(1, config("alone"));
  const auto alone = result("alone");
  ASSERT_TRUE(alone.contains("eval_perplexity"));
  EXPECT_NEAR(alone["eval_perplexity"].get<double>(), std::exp(alone["eval_loss"].get<double>()), 1e-9);
  EXPECT_LT(alone["eval_perplexity"], 60);
  struct Case {
    int ranks;
    std::vector<std::string> keys;
  };
  const std::vector<Case> cases = {
      {2, {}},
      {4, {}},
      {2, {"parallel.mode=semi_auto"}},
      {2, {"parallel.mode=auto"}},
      {2,
       {"parallel.mode=semi_auto", "parallel.mesh={model: 2}",
        "parallel.shard={\"blocks.*.attention.query.*\": {model: 0}, \"blocks.*.fc1.*\": {model: 0}, "
        "\"blocks.*.fc2.weight\": {model: 1}}"}}};
  int number = 0;
  for (const auto& each : cases) {
    const auto name = "run" + std::to_string(number++);
    SCOPED_TRACE(name);
    mnist().run(each.ranks, config(name, each.keys));
    const auto got = result(name);
    EXPECT_NEAR(got["eval_loss"].get<double>(), alone["eval_loss"].get<double>(), 1e-4);
    EXPECT_EQ(got["eval_samples"], alone["eval_samples"]);
  }
}

TEST_F(LanguageModel, ReadsTokensOfTwoAndFourBytes) {
  for (const auto& [tokens, width] : {std::pair{"uint16", 2}, {"uint32", 4}}) {
    const auto file = folder_.path() / tokens;
    {
      std::ofstream out(file, std::ios::binary);
      for (int i = 0; i < 50; ++i) {
        for (int byte = 0; byte < width; ++byte) out.put(static_cast<char>((300 + i) >> (8 * byte)));
      }
    }
    const samples::TextOptions options{.file = file.string(), .tokens = tokens, .length = 8, .eval_share = 0.5};
    const auto train = samples::load_text(options, data::Split::train);
    const auto test = samples::load_text(options, data::Split::test);
    ASSERT_EQ(train->size(), 3);  // 25 tokens: each window needs the token behind it
    ASSERT_EQ(test->size(), 3);
    const auto sample = test->get(1, samples::Chance(0, 0, 1));
    EXPECT_EQ(sample.tensors.at("tokens")[0].item<std::int64_t>(), 300 + 25 + 8);
    EXPECT_EQ(sample.tensors.at("next")[7].item<std::int64_t>(), 300 + 25 + 16);
  }
  const samples::TextOptions odd{.file = (folder_.path() / "uint16").string(), .tokens = "uint32", .length = 8};
  EXPECT_NO_THROW(samples::load_text(odd, data::Split::train));
  std::ofstream(folder_.path() / "uint16", std::ios::app) << "x";
  expect_error(ErrorKind::data, {"101 bytes", "uint32"}, [&] { samples::load_text(odd, data::Split::train); });
}

TEST_F(LanguageModel, SaysWhatIsWrongWithATextOrAKey) {
  World alone;
  alone.rendezvous = Rendezvous::alone;
  const auto error = [&](const std::vector<std::string>& keys, std::initializer_list<std::string_view> words) {
    expect_error(ErrorKind::config, words, [&] { train::run_training(config("wrong", keys), alone); });
  };
  error({"data.file=/nowhere.txt"}, {"data.file", "/nowhere.txt"});
  error({"data.length=100000"}, {"data.file", "data.length 100000"});
  error({"model.widht=3"}, {"model.widht", "width"});
  error({"model.hidden=[3]"}, {"model.hidden"});
  error({"data.root=x"}, {"data.root"});
  error({"loss.name=cross_entropy"}, {"loss"});
  error({"model.name=gptt"}, {"gpt"});
  error({"task.name=language_modeling"}, {"language_modelling"});
  error({"model.heads=3"}, {"[model.heads] is 3, and model.width is 32", "set model.width to 33"});
  error({"data.length=32"}, {"[data.length] a sample has 32 tokens, and model.context is 16", "at most 16"});
  error({"callbacks.use=[early_stopping: {metric: perplexty}]"},
        {"no metric 'perplexty'; it has loss, accuracy, perplexity; did you mean 'perplexity'?"});
  // Bytes of letters are above 100, in the first batch already.
  expect_error(ErrorKind::data, {"[model.vocabulary] is 100, and sample ", "in `tokens`", "from 0 to 99"}, [&] {
    train::run_training(config("wrong", {"model.vocabulary=100", "data.workers=0"}), alone);
  });
}

TEST_F(LanguageModel, GoesOnFromItsCheckpoint) {
  const std::vector<std::string> steady = {"scheduler.name=constant"};
  mnist().run(2, config("whole", steady));
  mnist().run(2, config("parts", {"scheduler.name=constant", "train.epochs=1"}));
  mnist().run(2, config("parts", steady));
  EXPECT_EQ(result("parts")["evaluations"].size(), 2U);
  EXPECT_EQ(result("parts")["params_sha256"], result("whole")["params_sha256"]);
}

std::string question(int number) {
  return "what is word" + std::to_string(number % 7) + "? A: word" + std::to_string(3 * number % 7) + " it is\n";
}

// Ranks have other numbers of tokens that count.
TEST_F(LanguageModel, LearnsOnlyWhatIsBehindAMarkerTheSameOnAnyNumberOfRanks) {
  {
    std::ofstream out(folder_.path() / "questions.txt");
    for (int i = 0; i < 60; ++i) out << question(i);
  }
  const auto file = (folder_.path() / "questions.txt").string();
  const auto with = [&](const std::string& name, std::vector<std::string> more) {
    more.insert(more.end(), {"data=null",
                             "data={name: token_stream, train: [" + file + "], eval: [" + file +
                                 "], length: 16, global_batch_size: 4, loss_behind: 'A: '}",
                             "metrics=[accuracy]", "train.epochs=4"});
    return config(name, std::move(more));
  };
  mnist().run(1, with("alone", {}));
  mnist().run(3, with("three", {}));
  const auto alone = result("alone"), three = result("three");
  EXPECT_NEAR(three["eval_loss"].get<double>(), alone["eval_loss"].get<double>(), 1e-4);
  EXPECT_NEAR(three["eval_accuracy"].get<double>(), alone["eval_accuracy"].get<double>(), 1e-6);
  EXPECT_NE(alone["eval_loss"], 0);
  World lone;
  lone.rendezvous = Rendezvous::alone;
  for (const std::string mode : {"semi_auto", "auto"}) {
    expect_error(ErrorKind::config, {"data.loss_behind", "data_parallel"},
                 [&] { train::run_training(with("global", {"parallel.mode=" + mode}), lone); });
  }
}

TEST(LanguageTask, TheLossIsAMeanOverTheTokensThatCount) {
  torch::manual_seed(3);
  const auto model = models::gpt({.vocabulary = 11, .context = 6, .layers = 1, .heads = 1, .width = 8});
  const auto task = train::make_language_modelling({});
  samples::Batch batch;
  batch.count = 2;
  batch.tensors = {{samples::kTokens, torch::randint(11, {2, 6}, torch::kLong)},
                   {samples::kNext, torch::randint(11, {2, 6}, torch::kLong)},
                   {samples::kCounted, torch::tensor({{0, 0, 1, 1, 0, 1}, {0, 0, 0, 0, 0, 1}}).to(torch::kBool)}};
  const auto counted = batch[samples::kCounted];
  const auto outcome = task->run(*model, batch, /*measures=*/true);
  const auto logits = model->forward(batch[samples::kTokens]);
  const auto expected = torch::cross_entropy_loss(logits.index({counted}), batch[samples::kNext].index({counted}));
  EXPECT_NEAR(outcome.loss.item<double>(), expected.item<double>(), 1e-6);
  EXPECT_EQ(outcome.items, 4);
  EXPECT_EQ(outcome.sums.at("accuracy").count, 4);
  EXPECT_EQ(outcome.target.ge(0).sum().item<std::int64_t>(), 4);
  batch.tensors[samples::kCounted] = torch::zeros({2, 6}, torch::kBool);
  const auto nothing = task->run(*model, batch, /*measures=*/false);
  EXPECT_EQ(nothing.loss.item<double>(), 0);
  EXPECT_EQ(nothing.items, 0);
}

TEST(Sampling, DrawsByTemperatureFromTheMostProbableTokens) {
  const std::vector<float> logits = {1, 3, 2, 3, -1};
  const auto chosen = [&](const train::Sampling& sampling) {
    std::vector<std::int64_t> tokens;  // by shares of the draw, each once
    for (int i = 0; i < 1000; ++i) {
      const auto token = train::choose_token(logits, sampling, i / 1000.0);
      if (tokens.empty() || tokens.back() != token) tokens.push_back(token);
    }
    return tokens;
  };
  EXPECT_EQ(chosen({}), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(chosen({.temperature = 1}), (std::vector<std::int64_t>{1, 3, 2, 0, 4}));
  EXPECT_EQ(chosen({.temperature = 1, .top_k = 3}), (std::vector<std::int64_t>{1, 3, 2}));
  EXPECT_EQ(chosen({.temperature = 1, .top_k = 9, .top_p = 0.75}), (std::vector<std::int64_t>{1, 3}));
  EXPECT_EQ(chosen({.temperature = 1, .top_p = 0.01}), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(chosen({.temperature = 0.01}), (std::vector<std::int64_t>{1, 3}));
  // Shares are those of softmax.
  const auto shares = torch::softmax(torch::tensor({1.F, 3.F, 2.F, 3.F, -1.F}) / 2, 0);
  int threes = 0;
  for (int i = 0; i < 10000; ++i) threes += train::choose_token(logits, {.temperature = 2}, i / 10000.0) == 3 ? 1 : 0;
  EXPECT_NEAR(threes / 10000.0, shares[3].item<double>(), 2e-4);
}

}  // namespace
}  // namespace lockstep::test
