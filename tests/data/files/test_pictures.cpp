// Pictures that are no good: an error that names them, never a crash. Good ones are compared with PIL's (tests/parity).
#include <lockstep/base/temporary_folder.h>
#include <lockstep/data/files/exif.h>
#include <lockstep/data/files/picture.h>
#include <lockstep/data/files/picture_folder.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/expect_error.h"
#include "data/files/picture_files.h"

namespace lockstep::test {
namespace {

data::Picture decode(const std::string& bytes, const data::DecodeOptions& options = {}) {
  return data::decode_picture({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}, options, "it.bin");
}

TEST(Pictures, APngComesBackAsItWasAndAJpegNearly) {
  const auto rgb = pattern(7, 5, 40);
  const auto png = decode(png_of(rgb, 7, 5));
  EXPECT_EQ(png.height, 5);
  EXPECT_EQ(png.width, 7);
  EXPECT_EQ(png.channels, 3);
  EXPECT_EQ(png.pixels, rgb);
  const auto jpeg = decode(jpeg_of(rgb, 7, 5));
  ASSERT_EQ(jpeg.pixels.size(), rgb.size());
  for (std::size_t i = 0; i < rgb.size(); ++i) EXPECT_NEAR(jpeg.pixels[i], rgb[i], 8);
  const auto grey = decode(png_of(rgb, 7, 5), {.channels = 1});
  ASSERT_EQ(grey.pixels.size(), 35U);
  EXPECT_NEAR(grey.pixels[0], 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2], 0.6);
}

TEST(Pictures, WhateverIsCutOffIsAnError) {
  const auto rgb = pattern(40, 30, 40);
  for (const auto& [whole, format] : {std::pair{jpeg_of(rgb, 40, 30), "JPEG"}, {png_of(rgb, 40, 30), "PNG"}}) {
    for (std::size_t size = 8; size + 2 < whole.size(); size += 13) {
      expect_error(ErrorKind::data, {"it.bin", format}, [&, cut = whole.substr(0, size)] { decode(cut); });
    }
  }
}

TEST(Pictures, DamageIsAnErrorOrAPicture) {
  const auto rgb = pattern(40, 30, 40);
  int refused = 0;
  for (const auto& whole : {jpeg_of(rgb, 40, 30), png_of(rgb, 40, 30)}) {
    for (std::size_t at = 2; at < whole.size(); at += 3) {
      auto bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ 0x5a);
      try {
        const auto picture = decode(bytes);
        EXPECT_EQ(picture.pixels.size(), static_cast<std::size_t>(picture.height) *
                                             static_cast<std::size_t>(picture.width) *
                                             static_cast<std::size_t>(picture.channels));
      } catch (const Error& error) {
        ++refused;
        EXPECT_EQ(error.kind(), ErrorKind::data) << error.what();
        expect_words(error.what(), {"it.bin"});
      }
    }
  }
  EXPECT_GT(refused, 10);
}

/// Width and height of a PNG's header become `size`, four bytes.
void set_png_size(std::string& png, const std::string& size) {
  png.replace(16, 4, size).replace(20, 4, size);
  // The checksum of the header chunk, for those numbers.
  std::uint32_t crc = 0xffffffff;
  for (std::size_t i = 12; i < 29; ++i) {
    crc ^= static_cast<unsigned char>(png[i]);
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? crc >> 1 ^ 0xedb88320 : crc >> 1;
  }
  crc = ~crc;
  for (std::size_t i = 0; i < 4; ++i) png[29 + i] = static_cast<char>(crc >> (24 - 8 * i));
}

// A header of 60000 x 60000 pixels is refused before memory is taken.
TEST(Pictures, AHugeHeaderIsRefused) {
  auto png = png_of(pattern(4, 4, 0), 4, 4);
  const std::string size("\x00\x00\xea\x60", 4);
  set_png_size(png, size);
  expect_error(ErrorKind::data, {"it.bin", "60000 x 60000", "178956970"}, [&] { decode(png); });

  auto jpeg = jpeg_of(pattern(16, 16, 0), 16, 16);
  const auto frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  jpeg.replace(frame + 5, 4, "\xea\x60\xea\x60");
  expect_error(ErrorKind::data, {"it.bin", "60000 x 60000"}, [&] { decode(jpeg); });
}

// Each scan goes over the whole picture, so that a small file could take minutes.
TEST(Pictures, AJpegOfManyScansIsRefusedUnread) {
  const auto rgb = pattern(64, 48, 5);
  const auto progressive = progressive_jpeg_of(rgb, 64, 48);
  EXPECT_EQ(decode(progressive).width, 64);
  expect_error(ErrorKind::data, {"it.bin", "scans", "up to 3", "max_scans"},
               [&] { decode(progressive, {.max_scans = 3}); });
  const auto last = progressive.rfind("\xff\xda");
  ASSERT_NE(last, std::string::npos);
  const auto scan = progressive.substr(last, progressive.size() - 2 - last);
  auto many = progressive.substr(0, last);
  for (int i = 0; i < 2000; ++i) many += scan;
  many += "\xff\xd9";
  expect_error(ErrorKind::data, {"it.bin", "scans", "max_scans"}, [&] { decode(many); });
  // A thumbnail in a segment of its own counts for nothing.
  const auto segment = std::string("\xff\xe1\x01\x02", 4) + std::string(0x100, '\xda').replace(0, 2, "\xff\xda");
  EXPECT_EQ(decode(progressive.substr(0, 2) + segment + progressive.substr(2)).height, 48);
}

// A few bytes cannot hold a large picture: memory is not taken to see that they are cut off.
TEST(Pictures, AHeaderOfMoreThanTheFileCanHoldIsRefusedUnread) {
  auto jpeg = jpeg_of(pattern(16, 16, 0), 16, 16);
  jpeg.replace(jpeg.find("\xff\xc0") + 5, 4, "\x2e\xe0\x2e\xe0");
  expect_error(ErrorKind::data, {"it.bin", "damaged JPEG", "too few", "144000000"}, [&] { decode(jpeg); });
  expect_error(ErrorKind::data, {"it.bin", "12000 x 12000", "max_pixels"}, [&] { decode(jpeg, {.max_pixels = 1000}); });
  // One colour is the most that a byte can hold.
  const auto plain = jpeg_of(std::vector<std::uint8_t>(3 * 2000 * 2000, 90), 2000, 2000);
  EXPECT_EQ(decode(plain).width, 2000);
  const auto flat = png_of(std::vector<std::uint8_t>(3 * 2000 * 2000, 90), 2000, 2000);
  EXPECT_EQ(decode(flat).width, 2000);
  auto png = png_of(pattern(4, 4, 0), 4, 4);
  set_png_size(png, std::string("\x00\x00\x2e\xe0", 4));
  expect_error(ErrorKind::data, {"it.bin", "damaged PNG", "too few"}, [&] { decode(png); });
}

class PictureFolders : public testing::Test {
 protected:
  PictureFolders() {
    for (const auto* name : {"a.jpg", "B.PNG", "._a.jpg", "c.gif", "notes.txt", "sub/d.jpeg",
                             ".ipynb_checkpoints/e.jpg", "__MACOSX/a.jpg", "sub/.hidden/f.png"}) {
      write_bytes(root() / name, "x");
    }
  }
  std::filesystem::path root() const { return folder_.path(); }
  TemporaryFolder folder_;
};

TEST_F(PictureFolders, HaveOneRuleAndSayWhatTheyPassOver) {
  const auto names = [&](data::FolderDepth depth, data::CountedRemarks& remarks) {
    std::vector<std::string> found;
    for (const auto& path : data::pictures_in(root(), depth, "data", remarks)) {
      found.push_back(std::filesystem::path(path).lexically_relative(root()).string());
    }
    return found;
  };
  data::CountedRemarks remarks, below;
  EXPECT_THAT(names(data::FolderDepth::itself, remarks), testing::ElementsAre("B.PNG", "a.jpg"));
  EXPECT_THAT(names(data::FolderDepth::all_below, below), testing::ElementsAre("B.PNG", "a.jpg", "sub/d.jpeg"));
  EXPECT_EQ(below.count_of("hidden or macOS's own files and folders are passed over"), 4);
  EXPECT_EQ(below.count_of("files are not pictures by their names and are not read"), 1);
  const data::HeardReports heard;
  below.report("pictures");
  ASSERT_EQ(heard.lines().size(), 1U);  // what may have been meant
  EXPECT_THAT(heard.lines()[0], testing::AllOf(testing::HasSubstr("pictures: 1 "), testing::HasSubstr("c.gif")));
  EXPECT_THAT(data::folders_in(root(), "data", remarks), testing::ElementsAre("sub"));
  expect_error(ErrorKind::io, {"data.train", "/nowhere"}, [] {
    data::CountedRemarks none;
    data::pictures_in("/nowhere", data::FolderDepth::itself, "data.train", none);
  });
}

TEST(Pictures, OtherFilesAreNamed) {
  expect_error(ErrorKind::data, {"it.bin", "no JPEG and no PNG", "empty"}, [] { decode(""); });
  expect_error(ErrorKind::data, {"it.bin", "a GIF"}, [] { decode("GIF89a......"); });
  expect_error(ErrorKind::data, {"it.bin", "neither"}, [] { decode("hello, world, hello"); });
  expect_error(ErrorKind::data, {"/nowhere.jpg", "No such file"}, [] { data::read_picture("/nowhere.jpg", {}); });
  const TemporaryFolder folder;
  expect_error(ErrorKind::data, {folder.path().string()}, [&] { data::read_picture(folder.path().string(), {}); });
}

TEST(Exif, OrientationIsReadInBothByteOrdersAndDamageIsUpright) {
  const auto tiff = [](const std::string& text) {
    return data::exif_orientation({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  };
  const std::string big("MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0", 26);
  const std::string little("II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x08\0\0\0\0\0\0\0", 26);
  EXPECT_EQ(tiff(big), 6);
  EXPECT_EQ(tiff(little), 8);
  for (std::size_t size = 0; size < 18; ++size) EXPECT_EQ(tiff(big.substr(0, size)), 1) << size;
  auto nine = big;
  nine[19] = 9;
  EXPECT_EQ(tiff(nine), 1);
}

TEST(Exif, APictureIsTurned) {
  // 1 2 3
  // 4 5 6
  const auto seen = [](int orientation) {
    const auto out = data::turned({2, 3, 1, {1, 2, 3, 4, 5, 6}}, orientation);
    std::string text = std::to_string(out.height) + "x" + std::to_string(out.width) + ":";
    for (const auto pixel : out.pixels) text += std::to_string(pixel);
    return text;
  };
  EXPECT_EQ(seen(1), "2x3:123456");
  EXPECT_EQ(seen(2), "2x3:321654");
  EXPECT_EQ(seen(3), "2x3:654321");
  EXPECT_EQ(seen(4), "2x3:456123");
  EXPECT_EQ(seen(5), "3x2:142536");
  EXPECT_EQ(seen(6), "3x2:415263");
  EXPECT_EQ(seen(7), "3x2:635241");
  EXPECT_EQ(seen(8), "3x2:362514");
}

}  // namespace
}  // namespace lockstep::test
