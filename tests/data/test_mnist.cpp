#include <gtest/gtest.h>
#include <lockstep/base/temporary_folder.h>
#include <lockstep/data/pictures.h>

#include "base/expect_error.h"
#include "data/data_files.h"

namespace lockstep::data {
namespace {

using test::expect_error;

constexpr auto kPictures = "train-images-idx3-ubyte";
constexpr auto kLabels = "train-labels-idx1-ubyte";

class Mnist : public testing::Test {
 protected:
  void SetUp() override { test::write_mnist(root()); }

  std::filesystem::path root() const { return folder_.path(); }
  std::shared_ptr<const Pictures> load(Split split = Split::train) const {
    return load_pictures("mnist", root(), split);
  }

  // Puts `bytes` in the place of a plain file, under another name if given.
  void replace(const std::string& plain, const test::Bytes& bytes, const std::string& new_name = {}) {
    std::filesystem::remove(root() / plain);
    test::write_bytes(root() / (new_name.empty() ? plain : new_name), bytes);
  }

  TemporaryFolder folder_;
};

void expect_all_records(const Pictures& dataset, int file, int count) {
  EXPECT_EQ(dataset.size(), count);
  EXPECT_EQ(dataset.shape(), (PictureShape{1, 28, 28}));
  EXPECT_EQ(dataset.num_classes(), 10);
  for (int r = 0; r < count; ++r) {
    const Record record = dataset[r];
    EXPECT_EQ(record.label, r % 10);
    ASSERT_EQ(record.pixels.size(), 784U);
    for (int k = 0; k < 784; ++k) ASSERT_EQ(record.pixels[static_cast<std::size_t>(k)], test::pixel(file, r, k));
  }
}

TEST_F(Mnist, LoadsEveryRecordOfBothSplits) {
  expect_all_records(*load(Split::train), 0, 7);
  expect_all_records(*load(Split::test), 1, 3);
}

TEST_F(Mnist, ReadsEverySpelling) {
  for (const bool packed : {false, true}) {
    for (const std::string joint : {"-", "."}) {
      const TemporaryFolder folder;
      const std::string end = packed ? "-ubyte.gz" : "-ubyte";
      const auto pictures = test::idx_pictures(0, 7);
      const auto labels = test::idx_labels(7);
      test::write_bytes(folder.path() / ("train-images" + joint + "idx3" + end),
                        packed ? test::gzip(pictures) : pictures);
      test::write_bytes(folder.path() / ("train-labels" + joint + "idx1" + end), packed ? test::gzip(labels) : labels);
      expect_all_records(*load_pictures("mnist", folder.path(), Split::train), 0, 7);
    }
  }
}

TEST_F(Mnist, GzipOfSeveralMembersIsOneFile) {
  const auto labels = test::idx_labels(7);
  auto packed = test::gzip({labels.begin(), labels.begin() + 5});
  const auto rest = test::gzip({labels.begin() + 5, labels.end()});
  packed.insert(packed.end(), rest.begin(), rest.end());
  replace(kLabels, packed, std::string(kLabels) + ".gz");
  expect_all_records(*load(), 0, 7);
}

TEST_F(Mnist, TruncatedFileSaysWhatIsMissing) {
  auto bytes = test::idx_pictures(0, 7);
  bytes.resize(bytes.size() - 10);
  replace(kPictures, bytes);
  expect_error(ErrorKind::data,
               {"[mnist]", kPictures, "7 pictures of 28 x 28", "5504 bytes", "5494", "10 bytes are missing"},
               [&] { load(); });
}

TEST_F(Mnist, OversizedFileSaysWhatIsLeftOver) {
  auto bytes = test::idx_labels(7);
  bytes.push_back(1);
  bytes.push_back(1);
  replace(kLabels, bytes);
  expect_error(ErrorKind::data, {kLabels, "7 labels", "2 bytes are left over"}, [&] { load(); });
}

TEST_F(Mnist, HugeCountInTheHeaderIsOnlyAWrongSize) {
  auto bytes = test::idx_pictures(0, 1);
  for (std::size_t i = 4; i < 8; ++i) bytes[i] = 0xff;
  replace(kPictures, bytes);
  expect_error(ErrorKind::data, {kPictures, "4294967295 pictures", "bytes are missing"}, [&] { load(); });
}

TEST_F(Mnist, WrongMagicNumberShowsBoth) {
  replace(kPictures, test::idx_labels(7));
  expect_error(ErrorKind::data, {kPictures, "16"}, [&] { load(); });
  replace(kPictures, test::idx_labels(700));
  expect_error(ErrorKind::data, {kPictures, "0x00000801", "0x00000803"}, [&] { load(); });
}

TEST_F(Mnist, OtherPictureSizesAreNotMnist) {
  auto bytes = test::idx_pictures(0, 7);
  bytes[15] = 32;
  replace(kPictures, bytes);
  expect_error(ErrorKind::data, {kPictures, "28 x 32", "28 x 28"}, [&] { load(); });
}

TEST_F(Mnist, CountsMustAgree) {
  replace(kLabels, test::idx_labels(6));
  expect_error(ErrorKind::data, {kLabels, "6 labels", kPictures, "7 pictures"}, [&] { load(); });
}

TEST_F(Mnist, EmptyFilesAreNoDataSet) {
  replace(kLabels, {});
  expect_error(ErrorKind::data, {kLabels, "0 bytes", "header"}, [&] { load(); });
  replace(kPictures, test::idx_pictures(0, 0));
  replace(kLabels, test::idx_labels(0));
  expect_error(ErrorKind::data, {kPictures, "a count of 0"}, [&] { load(); });
}

TEST_F(Mnist, LabelTenNamesFileAndRecord) {
  auto bytes = test::idx_labels(7);
  bytes[8 + 4] = 10;
  replace(kLabels, bytes);
  expect_error(ErrorKind::data, {kLabels, "record 4", "label is 10"}, [&] { load(); });
}

TEST_F(Mnist, MissingFileSaysWhatAFolderHolds) {
  std::filesystem::remove(root() / kLabels);
  expect_error(ErrorKind::invalid_argument, {kLabels, "missing", "t10k-images-idx3-ubyte", ".gz"}, [&] { load(); });
}

TEST_F(Mnist, GzipIsUnpackedNoFurtherThanItsHeaderPromises) {
  auto pictures = test::idx_pictures(0, 7);
  const std::string gz = std::string(kPictures) + ".gz";
  pictures.push_back(0);
  replace(kPictures, test::gzip(pictures), gz);
  expect_error(ErrorKind::data, {gz, "1 bytes are left over"}, [&] { load(); });
  pictures.resize(std::size_t{16} << 20);
  replace(kPictures, test::gzip(pictures), gz);
  expect_error(ErrorKind::data, {gz, "unpacks to more than the 5504 bytes that its header gives"}, [&] { load(); });
  // Nothing is unpacked for a header that is wrong.
  pictures[3] = 1;
  replace(kPictures, test::gzip(pictures), gz);
  expect_error(ErrorKind::data, {gz, "0x00000801", "0x00000803"}, [&] { load(); });
}

TEST_F(Mnist, DamagedGzip) {
  const auto pictures = test::idx_pictures(0, 7);
  const std::string gz = std::string(kPictures) + ".gz";

  auto packed = test::gzip(pictures);
  packed[packed.size() - 6] ^= 1;  // in the checksum
  replace(kPictures, packed, gz);
  expect_error(ErrorKind::data, {gz, "damaged", "data check"}, [&] { load(); });

  packed = test::gzip(pictures);
  packed.resize(packed.size() / 2);
  replace(kPictures, packed, gz);
  expect_error(ErrorKind::data, {gz, "cut short"}, [&] { load(); });

  packed = test::gzip(pictures);
  packed.push_back('x');
  replace(kPictures, packed, gz);
  expect_error(ErrorKind::data, {gz, "1 bytes follow"}, [&] { load(); });

  replace(kPictures, pictures, gz);
  expect_error(ErrorKind::data, {gz, "damaged", "header"}, [&] { load(); });

  replace(kPictures, {}, gz);
  expect_error(ErrorKind::data, {gz, "cut short"}, [&] { load(); });
}

}  // namespace
}  // namespace lockstep::data
