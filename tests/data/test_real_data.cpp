// The real data sets, where somebody has them: LOCKSTEP_TEST_DATA holds cifar-10-batches-bin/ and mnist/.
#include <gtest/gtest.h>
#include <lockstep/base/environment.h>
#include <lockstep/data/check.h>

#include <algorithm>
#include <numeric>

namespace lockstep::data {
namespace {

std::filesystem::path real_data() { return find(current_environment(), "LOCKSTEP_TEST_DATA").value_or(""); }

constexpr auto kNoData = "LOCKSTEP_TEST_DATA names no folder with the real data; synthetic data is tested alone";

TEST(RealData, Cifar10) {
  if (real_data().empty()) GTEST_SKIP() << kNoData;
  const auto root = real_data() / "cifar-10-batches-bin";
  const CheckReport report = check_dataset("auto", root);
  EXPECT_TRUE(report.ok()) << to_text(report);
  EXPECT_EQ(report.dataset, "cifar10");
  for (const SplitSummary& split : report.splits) {
    // The data set and its usual excerpts hold every class equally often.
    EXPECT_EQ(split.class_counts, std::vector<std::int64_t>(10, split.records / 10)) << to_text(report);
    EXPECT_EQ(load_pictures("cifar10", root, split.split)->size(), split.records);
  }
  EXPECT_EQ(report.splits[0].records, 5 * report.splits[1].records);
}

TEST(RealData, Mnist) {
  if (real_data().empty()) GTEST_SKIP() << kNoData;
  const CheckReport report = check_dataset("auto", real_data() / "mnist");
  EXPECT_TRUE(report.ok()) << to_text(report);
  EXPECT_EQ(report.dataset, "mnist");
  EXPECT_EQ(report.splits[0].class_counts,
            (std::vector<std::int64_t>{5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949}));
  EXPECT_EQ(report.splits[1].class_counts,
            (std::vector<std::int64_t>{980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009}));

  // The known mean of the train pictures, 0.1307 of full brightness.
  const auto train = load_pictures("mnist", real_data() / "mnist", Split::train);
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < train->size(); ++i) {
    const auto pixels = (*train)[i].pixels;
    sum = std::accumulate(pixels.begin(), pixels.end(), sum);
  }
  EXPECT_NEAR(static_cast<double>(sum) / (60000.0 * 784 * 255), 0.1307, 0.00005);
  EXPECT_EQ((*train)[0].label, 5);
}

}  // namespace
}  // namespace lockstep::data
