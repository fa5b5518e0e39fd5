// What TensorBoardLog leaves, over the parts of a run that was stopped and resumed.
#include <lockstep/base/temporary_folder.h>
#include <lockstep/train/output/run_files.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <string>

#include "base/expect_error.h"
#include "train/still_run.h"
#include "train/viewers/event_reader.h"

namespace lockstep::train {
namespace {

using test::event_files;
using test::read_scalars;

StepReport step_of_run(std::int64_t step, double loss) {
  return {.epoch = 1, .epochs = 1, .step = step, .loss = loss, .lr = 0.5, .samples = 64, .seconds = 0.25};
}

using Curve = std::vector<std::pair<std::int64_t, float>>;

// The curves of one file, by tag.
std::map<std::string, Curve> curves_in(const std::filesystem::path& file) {
  std::map<std::string, Curve> curves;
  for (const auto& scalar : read_scalars(file)) curves[scalar.tag].emplace_back(scalar.step, scalar.value);
  return curves;
}

TEST(TensorBoardLog, HasTheValuesOfTheMetricsAndOfEvaluations) {
  const TemporaryFolder folder;
  test::StillRun run;
  TensorBoardLog log(folder.path(), 2);
  log.before_run(run);
  for (std::int64_t step = 1; step <= 5; ++step) log.after_step(run, step_of_run(step, static_cast<double>(step)));
  log.after_evaluation(run, {.epoch = 1, .step = 5, .loss = 1.5, .metrics = {{"accuracy", 0.75}}});
  const auto files = event_files(folder.path());
  ASSERT_EQ(files.size(), 1u);
  const std::map<std::string, Curve> expected{{"train/loss", {{2, 2.F}, {4, 4.F}}},
                                              {"train/lr", {{2, 0.5F}, {4, 0.5F}}},
                                              {"train/samples_per_s", {{2, 256.F}, {4, 256.F}}},
                                              {"evaluation/loss", {{5, 1.5F}}},
                                              {"evaluation/accuracy", {{5, 0.75F}}}};
  EXPECT_EQ(curves_in(files.front()), expected) << "while the run goes on";
}

TEST(TensorBoardLog, WithoutMetricsHasEvaluationsAlone) {
  const TemporaryFolder folder;
  test::StillRun run;
  TensorBoardLog log(folder.path(), 0);
  log.before_run(run);
  log.after_step(run, step_of_run(1, 1));
  log.after_evaluation(run, {.epoch = 1, .step = 1, .loss = 1.5, .metrics = {{"accuracy", 0.75}}});
  EXPECT_EQ(curves_in(event_files(folder.path()).front()).size(), 2u);
}

// The process before died: perhaps before it could write its last step, perhaps after some that are done again.
TEST(TensorBoardLog, GoesOnFromTheStateOfARun) {
  const TemporaryFolder folder;
  test::StillRun run;
  TensorBoardLog(folder.path(), 2).before_run(run);
  run.steps_done = 5;
  run.logged_step = step_of_run(4, 4);
  run.evaluated = {{.epoch = 1, .step = 3, .loss = 3}, {.epoch = 2, .step = 5, .loss = 5}};
  TensorBoardLog log(folder.path(), 2);
  log.before_run(run);
  log.after_step(run, step_of_run(6, 6));
  const auto files = event_files(folder.path());
  ASSERT_EQ(files.size(), 2u);
  const auto start = test::read_records(files.back()).at(1);
  EXPECT_EQ(test::field_of(start, 2).value().bits, 4u) << "viewers drop older values from there on";
  const auto curves = curves_in(files.back());
  EXPECT_EQ(curves.at("train/loss"), (Curve{{4, 4.F}, {6, 6.F}}));
  EXPECT_EQ(curves.at("train/samples_per_s"), (Curve{{4, 256.F}, {6, 256.F}}));
  EXPECT_EQ(curves.at("evaluation/loss"), (Curve{{5, 5.F}}));
}

TEST(TensorBoardLog, ARunThatBeginsAnewTakesThePlaceOfAnother) {
  const TemporaryFolder folder;
  test::StillRun run;
  {
    TensorBoardLog log(folder.path(), 1);
    log.before_run(run);
    log.after_step(run, step_of_run(1, 7));
  }
  TensorBoardLog log(folder.path(), 1);
  log.before_run(run);
  log.after_step(run, step_of_run(1, 8));
  const auto files = event_files(folder.path());
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(curves_in(files.front()).at("train/loss"), (Curve{{1, 8.F}}));
}

TEST(TensorBoardLog, AFolderThatCannotBeMadeEndsNoRun) {
  const TemporaryFolder folder;
  const auto place = folder.path() / "tensorboard";
  std::ofstream(place) << "a file";
  test::StillRun run;
  TensorBoardLog log(place, 1);
  log.before_run(run);
  log.after_step(run, step_of_run(1, 1));
  ASSERT_EQ(run.told.size(), 1u);
  test::expect_words(run.told.front(), {"warning: training goes on without tensorboard/", place.c_str()});
  std::filesystem::remove(place);
  log.after_step(run, step_of_run(2, 2));
  EXPECT_EQ(curves_in(event_files(place).front()).at("train/loss"), (Curve{{2, 2.F}}));
}

}  // namespace
}  // namespace lockstep::train
