#include <gtest/gtest.h>
#include <lockstep/base/temporary_folder.h>
#include <lockstep/data/check.h>
#include <lockstep/data/synthesize.h>

#include <algorithm>
#include <limits>

#include "base/expect_error.h"
#include "base/small_disk.h"
#include "data/data_files.h"
#include "support/forks.h"

namespace lockstep::data {
namespace {

using test::expect_error;

// FNV-1a, to pin bytes down in a few digits.
std::uint64_t fingerprint(const Pictures& dataset) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  const auto add = [&](std::uint8_t byte) { hash = (hash ^ byte) * 0x100000001b3ULL; };
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    add(static_cast<std::uint8_t>(dataset[i].label));
    for (const std::uint8_t byte : dataset[i].pixels) add(byte);
  }
  return hash;
}

bool same_record(const Record& a, const Record& b) {
  return a.label == b.label && std::equal(a.pixels.begin(), a.pixels.end(), b.pixels.begin(), b.pixels.end());
}

// The share of test records whose nearest train record (sum of squared differences) has the same label.
double nearest_neighbour_accuracy(const Pictures& train, const Pictures& test) {
  int right = 0;
  for (std::int64_t i = 0; i < test.size(); ++i) {
    const Record wanted = test[i];
    std::int64_t best = std::numeric_limits<std::int64_t>::max();
    int label = -1;
    for (std::int64_t k = 0; k < train.size(); ++k) {
      const Record candidate = train[k];
      std::int64_t distance = 0;
      for (std::size_t p = 0; p < wanted.pixels.size(); ++p) {
        const int difference = wanted.pixels[p] - candidate.pixels[p];
        distance += difference * difference;
      }
      if (distance < best) {
        best = distance;
        label = candidate.label;
      }
    }
    right += label == wanted.label ? 1 : 0;
  }
  return static_cast<double>(right) / static_cast<double>(test.size());
}

class Synthesize : public testing::TestWithParam<const char*> {
 protected:
  std::filesystem::path path(const std::string& name) const { return folder_.path() / name; }
  TemporaryFolder folder_;
};
INSTANTIATE_TEST_SUITE_P(DataSets, Synthesize, testing::Values("cifar10", "mnist"),
                         [](const auto& set) { return set.param; });

TEST_P(Synthesize, MakesASoundDataSetWithEqualClasses) {
  synthesize(GetParam(), path("a"), 50, 20, 1);
  const CheckReport report = check_dataset("auto", path("a"));
  EXPECT_TRUE(report.ok()) << to_text(report);
  EXPECT_EQ(report.dataset, GetParam());
  EXPECT_EQ(report.splits[0].class_counts, std::vector<std::int64_t>(10, 5));
  EXPECT_EQ(report.splits[1].class_counts, std::vector<std::int64_t>(10, 2));
}

TEST_P(Synthesize, RecordDependsOnSeedSplitAndIndexAlone) {
  synthesize(GetParam(), path("small"), 23, 11, 7);
  synthesize(GetParam(), path("large"), 57, 31, 7);
  synthesize(GetParam(), path("other"), 23, 11, 8);
  for (const Split split : {Split::train, Split::test}) {
    const auto small = load_pictures(GetParam(), path("small"), split);
    const auto large = load_pictures(GetParam(), path("large"), split);
    const auto other = load_pictures(GetParam(), path("other"), split);
    for (std::int64_t i = 0; i < small->size(); ++i) {
      EXPECT_TRUE(same_record((*small)[i], (*large)[i])) << i;
      EXPECT_FALSE(same_record((*small)[i], (*other)[i])) << i;
    }
  }
  const auto train = load_pictures(GetParam(), path("small"), Split::train);
  const auto test = load_pictures(GetParam(), path("small"), Split::test);
  EXPECT_FALSE(same_record((*train)[0], (*test)[0]));
}

TEST_P(Synthesize, BytesAreTheSameOnEveryMachine) {
  synthesize(GetParam(), path("a"), 40, 1, 3);
  const std::uint64_t expected =
      std::string_view(GetParam()) == "cifar10" ? 888287319926931156ULL : 12313970099556958949ULL;
  EXPECT_EQ(fingerprint(*load_pictures(GetParam(), path("a"), Split::train)), expected);
}

// The nearest neighbour in pixels is a weak learner: it must do far better than guessing (10%), and cifar10's shapes,
// which move and change colour, must leave a network something to learn.
TEST_P(Synthesize, PicturesCanBeLearnt) {
  synthesize(GetParam(), path("a"), 1000, 200, 1);
  const double accuracy = nearest_neighbour_accuracy(*load_pictures(GetParam(), path("a"), Split::train),
                                                     *load_pictures(GetParam(), path("a"), Split::test));
  if (std::string_view(GetParam()) == "cifar10") {
    EXPECT_GT(accuracy, 0.6);
    EXPECT_LT(accuracy, 0.9);
  } else {
    EXPECT_GT(accuracy, 0.9);
    EXPECT_LT(accuracy, 1.0);
  }
}

TEST_P(Synthesize, ReplacesItsOwnFilesButNoOthers) {
  synthesize(GetParam(), path("a"), 20, 10, 1);
  synthesize(GetParam(), path("a"), 30, 10, 1);
  EXPECT_EQ(load_pictures(GetParam(), path("a"), Split::train)->size(), 30);

  std::filesystem::remove(path("a") / "SYNTHETIC.txt");
  expect_error(ErrorKind::invalid_argument, {GetParam(), "possibly real", "SYNTHETIC.txt", "another folder"},
               [&] { synthesize(GetParam(), path("a"), 40, 10, 1); });
  EXPECT_EQ(load_pictures(GetParam(), path("a"), Split::train)->size(), 30);
}

TEST_P(Synthesize, RefusesCountsOutOfRange) {
  expect_error(ErrorKind::invalid_argument, {"train records is 0", GetParam()},
               [&] { synthesize(GetParam(), path("a"), 0, 10, 1); });
  expect_error(ErrorKind::invalid_argument, {"test records is -1", "1 to 10000000"},
               [&] { synthesize(GetParam(), path("a"), 10, -1, 1); });
  expect_error(ErrorKind::invalid_argument, {"10000001"}, [&] { synthesize(GetParam(), path("a"), 10000001, 1, 1); });
  EXPECT_FALSE(std::filesystem::exists(path("a")));
}

TEST_P(Synthesize, FullDiskLeavesOnlyWholeFiles) {
  if (const std::string why = test::why_no_small_disk(); !why.empty()) GTEST_SKIP() << "no small disk here: " << why;
  std::filesystem::create_directory(path("disk"));
  test::fork_ranks(1, {}, [&](int) {
    test::mount_small_disk(path("disk"), 1 << 20);
    expect_error(ErrorKind::io, {path("disk").string(), "the disk is full"},
                 [&] { synthesize(GetParam(), path("disk"), 5000, 100, 1); });
    // What is there is whole: the check finds files missing, and nothing else wrong.
    const CheckReport report = check_dataset(GetParam(), path("disk"));
    EXPECT_FALSE(report.ok());
    for (const Problem& problem : report.problems)
      EXPECT_NE(problem.rule.find("missing"), std::string::npos) << to_text(report);
    for (const auto& entry : std::filesystem::directory_iterator(path("disk"))) {
      EXPECT_FALSE(entry.path().filename().string().starts_with(".")) << entry;
    }
  });
}

TEST_P(Synthesize, FolderWithoutWritePermission) {
  std::filesystem::permissions(folder_.path(), std::filesystem::perms::owner_all | std::filesystem::perms::others_exec |
                                                   std::filesystem::perms::others_read);
  std::filesystem::create_directory(path("locked"));
  std::filesystem::permissions(path("locked"), std::filesystem::perms(0555));
  test::fork_ranks(1, {}, [&](int) {
    test::drop_root();
    expect_error(ErrorKind::io, {path("locked").string(), "Permission denied"},
                 [&] { synthesize(GetParam(), path("locked"), 10, 10, 1); });
    expect_error(ErrorKind::io, {"cannot make the folder", path("locked/new").string(), "Permission denied"},
                 [&] { synthesize(GetParam(), path("locked/new"), 10, 10, 1); });
  });
}

TEST(SynthesizeOnce, Cifar10SpreadsRecordsOverFiveFiles) {
  const TemporaryFolder folder;
  synthesize("cifar10", folder.path(), 12, 3, 1);
  const std::vector<std::uintmax_t> records{2, 2, 3, 2, 3};
  for (std::size_t f = 0; f < 5; ++f) {
    const auto file = folder.path() / ("data_batch_" + std::to_string(f + 1) + ".bin");
    EXPECT_EQ(std::filesystem::file_size(file), records[f] * 3073);
  }
  EXPECT_EQ(std::filesystem::file_size(folder.path() / "test_batch.bin"), 3U * 3073);
  const auto names = test::read_bytes(folder.path() / "batches.meta.txt");
  EXPECT_EQ(std::count(names.begin(), names.end(), '\n'), 10);
  expect_error(ErrorKind::invalid_argument, {"train records is 4", "5 to"},
               [&] { synthesize("cifar10", folder.path(), 4, 1, 1); });
}

TEST(SynthesizeOnce, OneFolderHoldsOneDataSet) {
  const TemporaryFolder folder;
  synthesize("cifar10", folder.path(), 10, 10, 1);
  expect_error(ErrorKind::invalid_argument, {"already holds cifar10 files"},
               [&] { synthesize("mnist", folder.path(), 10, 10, 1); });
  EXPECT_TRUE(check_dataset("auto", folder.path()).ok());
  expect_error(ErrorKind::invalid_argument, {"'cifar100'", "did you mean 'cifar10'"},
               [&] { synthesize("cifar100", folder.path(), 10, 10, 1); });
}

}  // namespace
}  // namespace lockstep::data
