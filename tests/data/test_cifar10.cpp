#include <gtest/gtest.h>
#include <lockstep/base/temporary_folder.h>
#include <lockstep/data/pictures.h>

#include "base/expect_error.h"
#include "data/data_files.h"
#include "support/forks.h"

namespace lockstep::data {
namespace {

using test::expect_error;

class Cifar10 : public testing::Test {
 protected:
  void SetUp() override { test::write_cifar10(root()); }

  std::filesystem::path root() const { return folder_.path(); }
  std::shared_ptr<const Pictures> load(Split split = Split::train) const {
    return load_pictures("cifar10", root(), split);
  }

  TemporaryFolder folder_;
};

TEST_F(Cifar10, LoadsEveryRecordOfBothSplits) {
  for (const Split split : {Split::train, Split::test}) {
    const auto dataset = load(split);
    EXPECT_EQ(dataset->size(), split == Split::train ? 15 : 6);
    EXPECT_EQ(dataset->shape(), (PictureShape{3, 32, 32}));
    EXPECT_EQ(dataset->num_classes(), 10);
    std::int64_t index = 0;
    for (int f = split == Split::train ? 0 : 5; f < (split == Split::train ? 5 : 6); ++f) {
      for (int r = 0; r <= f; ++r, ++index) {
        const Record record = (*dataset)[index];
        EXPECT_EQ(record.label, (f + r) % 10);
        ASSERT_EQ(record.pixels.size(), 3072U);
        for (int k = 0; k < 3072; ++k) ASSERT_EQ(record.pixels[static_cast<std::size_t>(k)], test::pixel(f, r, k));
      }
    }
  }
}

TEST_F(Cifar10, TruncatedFileSaysWhatIsLeftOver) {
  auto bytes = test::cifar10_file(2, 3);
  bytes.resize(bytes.size() - 100);
  test::write_bytes(root() / "data_batch_3.bin", bytes);
  expect_error(ErrorKind::data,
               {"[cifar10]", "data_batch_3.bin", "9119 bytes", "3073", "2973 bytes are left over", "2 whole"},
               [&] { load(); });
}

TEST_F(Cifar10, OversizedFileSaysWhatIsLeftOver) {
  auto bytes = test::cifar10_file(0, 1);
  bytes.push_back(0);
  test::write_bytes(root() / "data_batch_1.bin", bytes);
  expect_error(ErrorKind::data, {"data_batch_1.bin", "3074 bytes", "1 bytes are left over after 1 whole"},
               [&] { load(); });
}

TEST_F(Cifar10, LabelTenNamesFileAndRecord) {
  auto bytes = test::cifar10_file(3, 4);
  bytes[2 * 3073] = 10;
  test::write_bytes(root() / "data_batch_4.bin", bytes);
  expect_error(ErrorKind::data, {"data_batch_4.bin", "record 2", "label is 10", "0 to 9"}, [&] { load(); });
  EXPECT_EQ(load(Split::test)->size(), 6) << "the other split is as good as before";
}

TEST_F(Cifar10, MissingFileSaysWhatAFolderHolds) {
  std::filesystem::remove(root() / "data_batch_5.bin");
  expect_error(ErrorKind::invalid_argument,
               {"data_batch_5.bin", "missing", "data_batch_1.bin to data_batch_5.bin", "test_batch.bin"},
               [&] { load(); });
}

// With one file left above, nobody can tell which folder is meant.
TEST_F(Cifar10, FolderAboveTheRightOneIsRecognised) {
  std::filesystem::create_directory(root() / "cifar-10-batches-bin");
  for (int f = 1; f <= 5; ++f) {
    const std::string file = "data_batch_" + std::to_string(f) + ".bin";
    std::filesystem::rename(root() / file, root() / "cifar-10-batches-bin" / file);
  }
  expect_error(ErrorKind::invalid_argument,
               {"data_batch_1.bin", "did you mean", "cifar-10-batches-bin?", "4 more", "lockstep data check"},
               [&] { load(); });
}

TEST_F(Cifar10, TheOnlyFolderBelowIsTaken) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "a" / "b");
  test::write_cifar10(folder.path() / "a" / "b");
  EXPECT_EQ(load_pictures("cifar10", folder.path(), Split::train)->size(), 15);
  EXPECT_EQ(load_pictures("cifar10", folder.path() / "a" / "b" / "test_batch.bin", Split::train)->size(), 15);
}

TEST_F(Cifar10, OtherFormsOfTheDataSetAreNamed) {
  const TemporaryFolder folder;
  const auto with = [&](const std::string& file, std::initializer_list<std::string_view> words) {
    std::filesystem::create_directories((folder.path() / file).parent_path());
    test::write_bytes(folder.path() / file, {1});
    expect_error(ErrorKind::invalid_argument, words, [&] { load_pictures("cifar10", folder.path(), Split::train); });
    std::filesystem::remove(folder.path() / file);
  };
  with("data_batch_1", {"Python version", "cifar-10-binary.tar.gz"});
  with("cifar-10-batches-mat/data_batch_1.mat", {"Matlab version", "cifar-10-binary.tar.gz"});
  with("cifar-10-python.tar.gz", {"Python version, packed"});
  with("cifar-10-binary.tar.gz", {"is not unpacked yet: tar -xf "});
}

TEST_F(Cifar10, EmptyFileIsNoDataSet) {
  test::write_bytes(root() / "test_batch.bin", {});
  expect_error(ErrorKind::data, {"test_batch.bin", "empty"}, [&] { load(Split::test); });
}

TEST_F(Cifar10, FolderInPlaceOfAFile) {
  std::filesystem::remove(root() / "test_batch.bin");
  std::filesystem::create_directory(root() / "test_batch.bin");
  expect_error(ErrorKind::io, {"test_batch.bin", "not a regular file"}, [&] { load(Split::test); });
}

TEST_F(Cifar10, FileWithoutReadPermissionGivesTheReason) {
  std::filesystem::permissions(root(), std::filesystem::perms::all);
  std::filesystem::permissions(root() / "test_batch.bin", std::filesystem::perms::none);
  test::fork_ranks(1, {}, [&](int) {
    test::drop_root();
    expect_error(ErrorKind::io, {"test_batch.bin", "Permission denied"}, [&] { load(Split::test); });
  });
}

TEST_F(Cifar10, FolderThatDoesNotExist) {
  expect_error(ErrorKind::invalid_argument, {"/nowhere", "not a folder", "lockstep data synthesize cifar10"},
               [&] { load_pictures("cifar10", root() / "nowhere", Split::train); });
}

TEST_F(Cifar10, UnknownNameGetsTheNearest) {
  expect_error(ErrorKind::invalid_argument, {"'cifar-10'", "cifar10, mnist", "did you mean 'cifar10'"},
               [&] { load_pictures("cifar-10", root(), Split::train); });
  EXPECT_EQ(dataset_names(), (std::vector<std::string>{"cifar10", "mnist"}));
}

}  // namespace
}  // namespace lockstep::data
