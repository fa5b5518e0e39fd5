// A trained run in a program, without the session of a run: its predictions are those that the run measured.
#include <lockstep/samples/pictures.h>
#include <lockstep/train/trained_run.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/expect_error.h"
#include "support/ranks.h"
#include "train/small_run.h"

namespace lockstep::train {
namespace {

using test::mnist;
using test::SmallRun;

TEST(TrainedRun, PredictsAsTheRunMeasured) {
  mnist().run(1, mnist().config("trained"));
  const auto folder = mnist().work_dir("trained");
  const double accuracy = mnist().result("trained")["eval_accuracy"];
  test::run_ranks(1, SmallRun::small_rank_options(), [&](test::Rank&) {
    const TrainedRun run(folder / "config.yaml", (folder / "model.safetensors").string());
    const auto data =
        samples::from_pictures(data::load_pictures("mnist", (mnist().folder() / "data").string(), data::Split::test));
    const auto expected = [&](std::int64_t i) {
      return data->get(i, {0, 0, i}).tensors.at(samples::kLabels).item<std::int64_t>();
    };
    std::int64_t right = 0;
    for (std::int64_t begin = 0; begin < data->size(); begin += 20) {
      std::vector<samples::Sample> samples;
      for (auto i = begin; i < std::min(begin + 20, data->size()); ++i) {
        samples.emplace_back().tensors[samples::kPictures] = data->get(i, {0, 0, i}).tensors.at(samples::kPictures);
      }
      const auto count = static_cast<std::int64_t>(samples.size());
      const auto classes = run.predict(std::move(samples), begin).tensors.at("class");
      ASSERT_EQ(classes.size(0), count);
      for (std::int64_t i = 0; i < count; ++i) right += classes[i].item<std::int64_t>() == expected(begin + i);
    }
    EXPECT_EQ(static_cast<double>(right) / static_cast<double>(data->size()), accuracy);
    EXPECT_FALSE(run.model().is_training());
  });
}

TEST(TrainedRun, NamesWeightsOfAnotherModel) {
  mnist().run(1, mnist().config("other", {"model.hidden=[8]"}));
  mnist().run(1, mnist().config("wide", {"train.epochs=1"}));
  test::run_ranks(1, SmallRun::small_rank_options(), [&](test::Rank&) {
    const auto weights = (mnist().work_dir("other") / "model.safetensors").string();
    test::expect_error(ErrorKind::config, {"model.weights", "shape"},
                       [&] { TrainedRun(mnist().work_dir("wide") / "config.yaml", weights); });
    test::expect_error(ErrorKind::config, {"model.weights", "nowhere"},
                       [&] { TrainedRun(mnist().work_dir("wide") / "config.yaml", "/nowhere.safetensors"); });
  });
}

}  // namespace
}  // namespace lockstep::train
