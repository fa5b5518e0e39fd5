// Criteo's clicks as a data set.
#include <lockstep/base/temporary_folder.h>
#include <lockstep/data/criteo.h>
#include <lockstep/data/synthesize.h>
#include <lockstep/samples/criteo.h>
#include <lockstep/samples/table.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <fstream>

#include "base/expect_error.h"

namespace lockstep::test {
namespace {

using data::Split;
using samples::Chance;

class CriteoSamples : public testing::Test {
 protected:
  CriteoSamples() {
    data::synthesize_criteo(root(), {.rows = 1000, .test_rows = 200, .scale = 0.001, .seed = 1});
    options_.root = root().string();
    options_.min_count = 20;
  }
  std::filesystem::path root() const { return folder_.path() / "criteo"; }
  samples::Sample sample(Split split, std::int64_t index) const {
    return samples::load_criteo(options_, split)->get(index, Chance(0, 0, index));
  }

  TemporaryFolder folder_;
  samples::CriteoOptions options_;
};

TEST_F(CriteoSamples, AreIdsAndWeightsOf39Fields) {
  const auto train = samples::load_criteo(options_, Split::train);
  ASSERT_EQ(train->size(), 1000);
  ASSERT_EQ(samples::load_criteo(options_, Split::test)->size(), 200);
  const auto batch = train->example();
  EXPECT_EQ(batch[samples::kIds].sizes(), (std::vector<std::int64_t>{1, 39}));
  EXPECT_EQ(batch[samples::kWeights].sizes(), (std::vector<std::int64_t>{1, 39}));
  EXPECT_EQ(batch[samples::kTargets].sizes(), (std::vector<std::int64_t>{1, 1}));
  const auto without_data = samples::criteo_example();
  for (const auto& [name, tensor] : batch.tensors) {
    EXPECT_EQ(without_data[name].sizes(), tensor.sizes());
    EXPECT_EQ(without_data[name].dtype(), tensor.dtype());
  }
}

TEST_F(CriteoSamples, HaveTheRowsOfTheTrainingFilesVocabularyInBothSplits) {
  std::ifstream file(root() / data::kCriteoTest);
  std::string line;
  std::getline(file, line);
  const auto row = data::parse_criteo_line(line, {});
  const data::LineFile lines(root() / data::kCriteoTrain, "data.root", root(), "data.root");
  const data::CriteoVocabulary vocabulary(lines, 1000, 20, false, root(), "data.root");
  const auto fields =
      data::fields_of(row, [&](auto column, auto category) { return vocabulary.row_of(column, category); });
  const auto ids = sample(Split::test, 0).tensors.at(samples::kIds);
  for (std::int64_t i = 0; i < 39; ++i)
    EXPECT_EQ(ids[i].item<std::int64_t>(), fields.rows[static_cast<std::size_t>(i)]);
}

TEST_F(CriteoSamples, CanBeHashedAndDivided) {
  options_.ids = "hash";
  options_.rows = 500;
  options_.eval_share = 0.25;
  options_.cache = (folder_.path() / "cache").string();
  std::filesystem::create_directories(options_.cache);
  EXPECT_EQ(samples::load_criteo(options_, Split::train)->size(), 750);
  EXPECT_EQ(samples::load_criteo(options_, Split::test)->size(), 250);
  EXPECT_LT(sample(Split::train, 3).tensors.at(samples::kIds).max().item<std::int64_t>(), 500);
  EXPECT_TRUE(std::filesystem::exists(options_.cache + "/train.txt.lines"));
  EXPECT_FALSE(std::filesystem::exists(root() / "train.txt.lines"));
}

TEST_F(CriteoSamples, SayWhatIsWrong) {
  options_.rows = 100;
  expect_error(ErrorKind::config, {"data.rows", "is 100", "need", "model.rows", "data.min_count"},
               [&] { samples::load_criteo(options_, Split::train); });
  options_.rows = 100'000;
  options_.eval_share = 0.999;
  options_.root = (folder_.path() / "none").string();
  expect_error(ErrorKind::config, {"data.root", "none"}, [&] { samples::load_criteo(options_, Split::train); });
}

TEST_F(CriteoSamples, ThatCannotBeReadAreNamedByFileLineAndColumnOrLeftOut) {
  std::ofstream(root() / data::kCriteoTrain, std::ios::app) << "1\tx" << std::string(38, '\t') << "\n";
  options_.ids = "hash";
  const auto train = samples::load_criteo(options_, Split::train);
  expect_error(ErrorKind::data, {"train.txt:1001", "column 2", "'x'"}, [&] { train->get(1000, Chance(0, 0, 1000)); });
  EXPECT_FALSE(train->leaves_out_errors());
  options_.ids = "counts";
  expect_error(ErrorKind::data, {"train.txt:1001", "column 2"}, [&] { samples::load_criteo(options_, Split::train); });
  options_.on_error = "skip";
  EXPECT_TRUE(samples::load_criteo(options_, Split::train)->leaves_out_errors());
}

TEST_F(CriteoSamples, HaveNoEvaluationWithoutATestFile) {
  std::filesystem::remove(root() / data::kCriteoTest);
  EXPECT_EQ(samples::load_criteo(options_, Split::test), nullptr);
}

}  // namespace
}  // namespace lockstep::test
