#include <gtest/gtest.h>
#include <lockstep/base/temporary_folder.h>
#include <lockstep/data/check.h>
#include <lockstep/data/format.h>

#include "base/expect_error.h"
#include "data/data_files.h"

namespace lockstep::data {
namespace {

using test::expect_error;
using test::expect_words;

TEST(Check, CountsEveryClass) {
  const TemporaryFolder folder;
  test::write_cifar10(folder.path());
  const CheckReport report = check_dataset("auto", folder.path());
  EXPECT_TRUE(report.ok());
  EXPECT_EQ(report.dataset, "cifar10");
  ASSERT_EQ(report.splits.size(), 2U);
  EXPECT_EQ(report.splits[0].records, 15);
  EXPECT_EQ(report.splits[0].class_counts, (std::vector<std::int64_t>{1, 1, 2, 2, 3, 2, 2, 1, 1, 0}));
  EXPECT_EQ(report.splits[1].records, 6);
  EXPECT_EQ(report.splits[1].class_counts, (std::vector<std::int64_t>{1, 0, 0, 0, 0, 1, 1, 1, 1, 1}));
  expect_words(to_text(report), {"cifar10 in", "train     15 records", "1 1 2 2 3 2 2 1 1 0", "test       6", "ok"});
}

TEST(Check, ListsAllProblemsOfAllFiles) {
  const TemporaryFolder folder;
  test::write_cifar10(folder.path());
  auto bytes = test::cifar10_file(1, 3);
  bytes[0] = 11;
  bytes[2 * 3073] = 255;
  bytes.resize(bytes.size() + 5);
  test::write_bytes(folder.path() / "data_batch_2.bin", bytes);
  test::write_bytes(folder.path() / "data_batch_4.bin", {});
  std::filesystem::remove(folder.path() / "test_batch.bin");

  const CheckReport report = check_dataset("cifar10", folder.path());
  EXPECT_FALSE(report.ok());
  ASSERT_EQ(report.problems.size(), 5U);
  const auto is = [&](std::size_t i, const std::string& file, std::int64_t record) {
    return report.problems[i].file == folder.path() / file && report.problems[i].record == record;
  };
  EXPECT_TRUE(is(0, "data_batch_2.bin", -1)) << to_text(report);
  EXPECT_TRUE(is(1, "data_batch_2.bin", 0)) << to_text(report);
  EXPECT_TRUE(is(2, "data_batch_2.bin", 2)) << to_text(report);
  EXPECT_TRUE(is(3, "data_batch_4.bin", -1)) << to_text(report);
  EXPECT_TRUE(is(4, "test_batch.bin", -1)) << to_text(report);
  expect_words(to_text(report),
               {"5 bytes are left over", "label is 11", "label is 255", "empty", "missing", "5 problems"});
}

TEST(Check, TellsMnistByItsFileNames) {
  const TemporaryFolder folder;
  test::write_mnist(folder.path());
  const CheckReport report = check_dataset("auto", folder.path());
  EXPECT_TRUE(report.ok());
  EXPECT_EQ(report.dataset, "mnist");
  EXPECT_EQ(report.splits[0].records, 7);
}

TEST(Check, OneFileIsEnoughToTellTheDataSet) {
  const TemporaryFolder folder;
  test::write_bytes(folder.path() / "t10k-labels.idx1-ubyte.gz", test::gzip(test::idx_labels(3)));
  const CheckReport report = check_dataset("auto", folder.path());
  EXPECT_EQ(report.dataset, "mnist");
  EXPECT_EQ(report.problems.size(), 3U) << to_text(report);
}

TEST(Check, FoldersThatCannotBeTold) {
  const TemporaryFolder folder;
  expect_error(ErrorKind::invalid_argument,
               {"no data set's files", "data_batch_1.bin", "(cifar10)", "train-images-idx3-ubyte", "(mnist)"},
               [&] { check_dataset("auto", folder.path()); });
  std::filesystem::create_directory(folder.path() / "mnist");
  test::write_mnist(folder.path() / "mnist");
  EXPECT_EQ(check_dataset("auto", folder.path()).root, folder.path() / "mnist");
  std::filesystem::create_directory(folder.path() / "cifar");
  test::write_cifar10(folder.path() / "cifar");
  expect_error(ErrorKind::invalid_argument, {"did you mean", "/cifar (cifar10) or ", "/mnist (mnist)"},
               [&] { check_dataset("auto", folder.path()); });
  test::write_mnist(folder.path());
  test::write_cifar10(folder.path());
  expect_error(ErrorKind::data, {"both cifar10 and mnist"}, [&] { check_dataset("auto", folder.path()); });
  EXPECT_TRUE(check_dataset("mnist", folder.path()).ok());
  expect_error(ErrorKind::invalid_argument, {"/gone", "not a folder"},
               [&] { check_dataset("auto", folder.path() / "gone"); });
  expect_error(ErrorKind::invalid_argument, {"'minst'", "did you mean 'mnist'"},
               [&] { check_dataset("minst", folder.path()); });
}

TEST(MemoryDataset, RefusesContentsThatDoNotFit) {
  const PictureShape shape{1, 2, 2};
  expect_error(ErrorKind::data, {"at least one record"}, [&] { make_memory_pictures(shape, 2, {}); });
  expect_error(ErrorKind::data, {"2 records", "8 bytes", "not 7"}, [&] {
    make_memory_pictures(shape, 2, {test::Bytes(7), {0, 1}});
  });
  expect_error(ErrorKind::data, {"record 1", "label 2", "2 classes"}, [&] {
    make_memory_pictures(shape, 2, {test::Bytes(8), {0, 2}});
  });
}

}  // namespace
}  // namespace lockstep::data
