// Pictures that are no good: an error that names them, never a crash. Good ones are compared with PIL's (tests/parity).
#include <lockstep/base/temporary_folder.h>
#include <lockstep/data/files/items.h>
#include <lockstep/data/files/picture_formats.h>
#include <lockstep/data/files/reports.h>
#include <lockstep/data/pictures.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <tuple>
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

TEST(Pictures, WebPBmpAndTiffComeBackAsTheyWere) {
  const auto rgb = pattern(37, 21, 40);
  EXPECT_EQ(decode(webp_of(rgb, 37, 21)).pixels, rgb);
  EXPECT_EQ(decode(bmp_of(rgb, 37, 21)).pixels, rgb);
  for (const int compression : {1, 5, 8, 32773}) {
    for (const auto& form : {TiffForm{.compression = compression}, TiffForm{.compression = compression, .tile = 16},
                             TiffForm{.compression = compression, .separate = true}}) {
      EXPECT_EQ(decode(tiff_of(rgb, 37, 21, form)).pixels, rgb) << compression;
    }
  }
  const auto turned = data::turned({21, 37, 3, rgb}, 6);
  const auto lying = tiff_of(rgb, 37, 21, {.orientation = 6});
  EXPECT_EQ(decode(lying).pixels, turned.pixels);
  EXPECT_EQ(decode(lying).width, 21);
  EXPECT_EQ(decode(lying, {.orientation = false}).pixels, rgb);
  // Alpha is left out, and colours that are multiplied by it become what they were.
  for (const bool separate : {false, true}) {
    EXPECT_EQ(decode(tiff_of({100, 50, 0, 128}, 1, 1, {.alpha = 2, .separate = separate})).pixels,
              (std::vector<std::uint8_t>{100, 50, 0}));
    EXPECT_EQ(decode(tiff_of({100, 50, 0, 128}, 1, 1, {.alpha = 1, .separate = separate})).pixels,
              (std::vector<std::uint8_t>{199, 99, 0}));
  }
  // 0 and 1, from the highest bit.
  EXPECT_EQ(decode(tiff_of({0xa0}, 8, 1, {.compression = 1, .bits = 1}), {.channels = 1}).pixels,
            (std::vector<std::uint8_t>{255, 0, 255, 0, 0, 0, 0, 0}));
}

/// Four pixels in two rows of 4 bits, whose colours are red, green, blue and white.
std::string bmp_with_palette(std::string_view pixels) {
  using namespace std::string_literals;
  return "BM\0\0\0\0\0\0\0\0\x46\0\0\0\x28\0\0\0\2\0\0\0\2\0\0\0\1\0\4\0"s + std::string(16, '\0') +
         "\4\0\0\0\0\0\0\0"s + "\0\0\xff\0\0\xff\0\0\xff\0\0\0\xff\xff\xff\0"s + std::string(pixels);
}

TEST(Pictures, ABmpHasItsPaletteAndDirection) {
  using namespace std::string_literals;
  const auto whole = bmp_with_palette("\x01\0\0\0\x23\0\0\0"s);
  const std::vector<std::uint8_t> low = {255, 0, 0, 0, 255, 0}, high = {0, 0, 255, 255, 255, 255};
  auto expected = high;
  expected.insert(expected.end(), low.begin(), low.end());
  EXPECT_EQ(decode(whole).pixels, expected);
  EXPECT_EQ(decode(whole.substr(0, whole.size() - 3)).pixels, expected) << "the end of the last row is not needed";
  auto from_top = whole;
  from_top.replace(22, 4, "\xfe\xff\xff\xff");
  expected = low;
  expected.insert(expected.end(), high.begin(), high.end());
  EXPECT_EQ(decode(from_top).pixels, expected);
  expect_error(ErrorKind::data, {"it.bin", "damaged BMP", "colour 4 of 4"},
               [] { decode(bmp_with_palette("\x04\0\0\0\x23\0\0\0"s)); });
  for (const auto& [at, byte, words] :
       {std::tuple{28, '\x10', "of 16 bits"}, {30, '\1', "compression 1"}, {14, '\x0c', "OS/2"}}) {
    auto other = whole;
    other[at] = byte;
    expect_error(ErrorKind::data, {"it.bin", words, "PNG"}, [&] { decode(other); });
  }
  auto lowest = whole;
  lowest.replace(22, 4, "\0\0\0\x80"s);
  expect_error(ErrorKind::data, {"it.bin", "2 x 2147483648"}, [&] { decode(lowest); });
}

TEST(Pictures, KindsOfTiffAndWebPThatAreNotReadAreNamed) {
  std::vector<std::uint8_t> deep(64);
  expect_error(ErrorKind::data, {"it.bin", "16 bits for each sample", "PNG"},
               [&] { decode(tiff_of(deep, 8, 4, {.compression = 1, .bits = 16})); });
  using namespace std::string_literals;
  const auto animated = "RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0\x02\0\0\0\x03\0\0\x03\0\0"s;
  expect_error(ErrorKind::data, {"it.bin", "animated WebP"}, [&] { decode(animated); });
  // Nothing of libtiff's reaches the process's standard error.
  testing::internal::CaptureStderr();
  expect_error(ErrorKind::data, {"it.bin", "damaged TIFF"}, [] { decode("II*\0\xff\xff\xff\x7f"s); });
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Pictures, WhateverIsCutOffIsAnError) {
  const auto rgb = pattern(40, 30, 40);
  for (const auto& [whole, format] : {std::pair{jpeg_of(rgb, 40, 30), "JPEG"},
                                      {png_of(rgb, 40, 30), "PNG"},
                                      {webp_of(rgb, 40, 30), "WebP"},
                                      {bmp_of(rgb, 40, 30), "BMP"},
                                      {tiff_of(rgb, 40, 30), "TIFF"},
                                      {tiff_of(rgb, 40, 30, {.compression = 1, .tile = 16}), "TIFF"},
                                      {tiff_of(rgb, 40, 30, {.compression = 7}), "TIFF"}}) {
    EXPECT_EQ(decode(whole).width, 40) << format;
    for (std::size_t size = 12; size + 2 < whole.size(); size += 13) {
      expect_error(ErrorKind::data, {"it.bin", format}, [&, cut = whole.substr(0, size)] { decode(cut); });
    }
  }
}

TEST(Pictures, DamageIsAnErrorOrAPicture) {
  const auto rgb = pattern(40, 30, 40);
  int refused = 0;
  for (const auto& whole : {jpeg_of(rgb, 40, 30), png_of(rgb, 40, 30), webp_of(rgb, 40, 30), bmp_of(rgb, 40, 30),
                            tiff_of(rgb, 40, 30), tiff_of(rgb, 40, 30, {.compression = 1, .tile = 16})}) {
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

  auto bmp = bmp_of(pattern(4, 4, 0), 4, 4);
  bmp.replace(18, 8, std::string("\x60\xea\0\0\x60\xea\0\0", 8));
  expect_error(ErrorKind::data, {"it.bin", "60000 x 60000"}, [&] { decode(bmp); });

  auto tiff = tiff_of(pattern(4, 4, 0), 4, 4);
  for (const auto* tag : {"\x00\x01", "\x01\x01"}) {  // width and height, which are 16 bits wide
    const auto at = tiff.find(std::string(tag, 2) + std::string("\3\0\1\0\0\0\4", 7));
    ASSERT_NE(at, std::string::npos);
    tiff.replace(at + 8, 2, "\x60\xea");
  }
  expect_error(ErrorKind::data, {"it.bin", "60000 x 60000"}, [&] { decode(tiff); });
  expect_error(ErrorKind::data, {"it.bin", "max_pixels"},
               [&] { decode(webp_of(pattern(64, 48, 0), 64, 48), {.max_pixels = 1000}); });
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
  auto tiff = tiff_of(pattern(4, 4, 0), 4, 4);
  for (const auto* tag : {"\x00\x01", "\x01\x01"}) {
    tiff.replace(tiff.find(std::string(tag, 2) + std::string("\3\0\1\0\0\0\4", 7)) + 8, 2, "\xe0\x2e");
  }
  expect_error(ErrorKind::data, {"it.bin", "damaged TIFF", "too few"}, [&] { decode(tiff); });
}

class PictureFolders : public testing::Test {
 protected:
  PictureFolders() {
    for (const auto* name : {"a.jpg", "B.PNG", "e.WebP", "f.bmp", "g.tif", "h.TIFF", "._a.jpg", "c.gif", "notes.txt",
                             "sub/d.jpeg", ".ipynb_checkpoints/e.jpg", "__MACOSX/a.jpg", "sub/.hidden/f.png"}) {
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
  EXPECT_THAT(names(data::FolderDepth::itself, remarks),
              testing::ElementsAre("B.PNG", "a.jpg", "e.WebP", "f.bmp", "g.tif", "h.TIFF"));
  EXPECT_THAT(names(data::FolderDepth::all_below, below),
              testing::ElementsAre("B.PNG", "a.jpg", "e.WebP", "f.bmp", "g.tif", "h.TIFF", "sub/d.jpeg"));
  EXPECT_EQ(below.count_of("hidden or macOS's own files and folders are ignored"), 4);
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
  expect_error(ErrorKind::data, {"it.bin", "no JPEG, PNG, WebP, BMP or TIFF", "empty"}, [] { decode(""); });
  expect_error(ErrorKind::data, {"it.bin", "a GIF"}, [] { decode("GIF89a......"); });
  expect_error(ErrorKind::data, {"it.bin", "none of them"}, [] { decode("hello, world, hello"); });
  expect_error(ErrorKind::data, {"/nowhere.jpg", "No such file"}, [] { data::read_picture("/nowhere.jpg", {}); });
  const TemporaryFolder folder;
  expect_error(ErrorKind::data, {folder.path().string()}, [&] { data::read_picture(folder.path().string(), {}); });
  write_bytes(folder.path() / "a.png", png_of(pattern(4, 4, 0), 4, 4));
  expect_error(ErrorKind::data, {"a.png", ".jpg", "byte 0"},
               [&] { data::read_picture((folder.path() / "a.png").string() + std::string("\0.jpg", 5), {}); });
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
