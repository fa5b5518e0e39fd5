// Event files as TensorBoard itself reads them.
#include <lockstep/base/process.h>
#include <lockstep/base/temporary_folder.h>
#include <lockstep/train/viewers/event_file.h>

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "train/viewers/event_reader.h"

namespace lockstep::train {
namespace {

using nlohmann::json;

// The first Python that has TensorBoard; empty where there is none.
std::string find_python() {
  for (const std::string python : {LOCKSTEP_TENSORBOARD_PYTHON, "/usr/bin/python3"}) {
    if (!std::filesystem::exists(python)) continue;
    const ChildOptions options{.arguments = {python, "-c", "import tensorboard, PIL"}};
    if (run_and_capture(options, std::chrono::seconds(60)).status.ok()) return python;
  }
  return "";
}

class TensorBoardReader : public testing::Test {
 protected:
  void SetUp() override {
    static const std::string python = find_python();
    if (python.empty()) {
      GTEST_SKIP() << "no Python with TensorBoard: scripts/install_dependencies.sh test makes one, "
                   << LOCKSTEP_TENSORBOARD_PYTHON << ", where it can reach PyPI";
    }
    python_ = python;
  }

  std::filesystem::path folder() const { return folder_.path(); }

  json read() const {
    const ChildOptions options{.arguments = {python_, LOCKSTEP_READ_EVENTS, folder().string()}};
    const auto captured = run_and_capture(options, std::chrono::seconds(120));
    EXPECT_TRUE(captured.status.ok()) << describe(captured.status) << captured.err;
    return captured.status.ok() ? json::parse(captured.out) : json();
  }

 private:
  TemporaryFolder folder_;
  std::string python_;
};

// The steps of a curve, or of histograms or pictures.
std::vector<std::int64_t> steps_of(const json& events) {
  std::vector<std::int64_t> steps;
  for (const auto& event : events) steps.push_back(event.is_array() ? event[0] : event["step"]);
  return steps;
}

using Steps = std::vector<std::int64_t>;

TEST_F(TensorBoardReader, FindsScalarsHistogramsAndPictures) {
  const std::vector<float> weights{-2, -0.5F, 0, 0.25F, 0.25F, 3};
  const auto made = histogram_of(weights);
  const std::vector<std::uint8_t> grey{0, 50, 100, 150, 200, 250};
  const std::vector<std::uint8_t> coloured{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  {
    EventFile file(folder(), 0);
    for (int step = 1; step <= 100; ++step) file.scalar("train/loss", step, 1.0 / step);
    file.scalar("größe", 7, -1e-30);
    file.histogram("weights", 5, made);
    file.picture("grey", 1, {.width = 3, .height = 2, .channels = 1, .pixels = grey});
    file.picture("grey and alpha", 1, {.width = 3, .height = 1, .channels = 2, .pixels = grey});
    file.picture("colour", 2, {.width = 2, .height = 2, .channels = 3, .pixels = coloured});
    file.picture("colour and alpha", 2, {.width = 1, .height = 3, .channels = 4, .pixels = coloured});
  }
  const auto found = read();
  const auto& loss = found["scalars"]["train/loss"];
  ASSERT_EQ(loss.size(), 100u);
  for (int step = 1; step <= 100; ++step) {
    EXPECT_EQ(loss[step - 1][0], step);
    EXPECT_EQ(loss[step - 1][1].get<float>(), static_cast<float>(1.0 / step));
  }
  EXPECT_EQ(found["scalars"]["größe"][0][1].get<float>(), -1e-30F);

  const auto& histogram = found["histograms"]["weights"][0];
  EXPECT_EQ(histogram["step"], 5);
  EXPECT_EQ(histogram["min"], -2);
  EXPECT_EQ(histogram["max"], 3);
  EXPECT_EQ(histogram["num"], 6);
  EXPECT_EQ(histogram["sum"], 1);
  EXPECT_EQ(histogram["sum_squares"], 4 + 0.25 + 2 * 0.0625 + 9);
  EXPECT_EQ(histogram["bucket_limit"].get<std::vector<double>>(), made.limits);
  EXPECT_EQ(histogram["bucket"].get<std::vector<double>>(), made.counts);

  const auto expect_picture = [&](const char* tag, int width, int height, const char* mode, const auto& pixels) {
    const auto& picture = found["pictures"][tag][0];
    EXPECT_EQ(picture["width"], width) << tag;
    EXPECT_EQ(picture["height"], height) << tag;
    EXPECT_EQ(picture["size"], (std::vector<int>{width, height})) << tag;
    EXPECT_EQ(picture["mode"], mode) << tag;
    EXPECT_EQ(picture["pixels"].template get<std::vector<std::uint8_t>>(), pixels) << tag;
  };
  expect_picture("grey", 3, 2, "L", grey);
  expect_picture("grey and alpha", 3, 1, "LA", grey);
  expect_picture("colour", 2, 2, "RGB", coloured);
  expect_picture("colour and alpha", 1, 3, "RGBA", coloured);
}

TEST_F(TensorBoardReader, DropsWhatIsDoneAgainAfterAResume) {
  {
    EventFile file(folder(), 1);
    for (int step = 1; step <= 10; ++step) file.scalar("loss", step, 1);
    file.scalar("rare", 8, 1);
    file.scalar("rare", 4, 1);
  }
  {
    EventFile file(folder(), 7);  // the checkpoint is of step 6
    for (int step = 7; step <= 12; ++step) file.scalar("loss", step, 2);
  }
  const auto found = read()["scalars"];
  EXPECT_EQ(steps_of(found["loss"]), (Steps{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
  for (int i = 0; i < 12; ++i) EXPECT_EQ(found["loss"][i][1], i < 6 ? 1 : 2) << i;
  EXPECT_EQ(steps_of(found["rare"]), (Steps{4}));
}

TEST_F(TensorBoardReader, ReadsAFileThatWasCutAndTheOneAfterIt) {
  std::filesystem::path first;
  {
    EventFile file(folder(), 1);
    first = file.path();
    for (int step = 1; step <= 10; ++step) file.scalar("loss", step, 1);
  }
  std::filesystem::resize_file(first, std::filesystem::file_size(first) - 10);
  EXPECT_EQ(steps_of(read()["scalars"]["loss"]), (Steps{1, 2, 3, 4, 5, 6, 7, 8, 9}));
  { EventFile(folder(), 10).scalar("loss", 10, 2); }
  EXPECT_EQ(steps_of(read()["scalars"]["loss"]), (Steps{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
}

}  // namespace
}  // namespace lockstep::train
