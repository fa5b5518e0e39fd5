// Event files, byte by byte: frames, messages, names, failures.
#include <lockstep/base/temporary_folder.h>
#include <lockstep/base/this_host.h>
#include <lockstep/train/viewers/event_file.h>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <png.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <limits>
#include <numeric>
#include <tuple>

#include "base/expect_error.h"
#include "base/small_disk.h"
#include "support/forks.h"
#include "support/read_file.h"
#include "train/viewers/event_reader.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::field_of;
using test::read_file;
using test::read_records;
using test::read_scalars;

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

// RFC 3720, B.4, and the usual check value.
TEST(Crc32c, KnownValues) {
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43u);
}

TEST(EventFile, BeginsWithItsVersionAndTheStepWhereItGoesOn) {
  const TemporaryFolder folder;
  const EventFile file(folder.path() / "deep/board", 41);
  const auto records = read_records(file.path());
  ASSERT_EQ(records.size(), 2u) << "without a flush";
  EXPECT_EQ(field_of(records[0], 3).value().bytes, "brain.Event:2");
  EXPECT_EQ(field_of(field_of(records[0], 10).value().bytes, 1).value().bytes, "lockstep");
  EXPECT_EQ(field_of(records[1], 2).value().bits, 41u);
  EXPECT_EQ(field_of(field_of(records[1], 7).value().bytes, 1).value().bits, 1u) << "SessionLog.START";
}

TEST(EventFile, HasTheNameThatTensorBoardLooksFor) {
  const TemporaryFolder folder;
  const auto before = static_cast<std::int64_t>(now());
  const EventFile file(folder.path(), 0);
  const auto name = file.path().filename().string();
  const auto time = std::stoll(name.substr(std::string_view("events.out.tfevents.").size(), 10));
  EXPECT_EQ(name, fmt::format("events.out.tfevents.{:010}.{}.{}", time, host_name().value(), ::getpid()));
  EXPECT_GE(time, before);
  EXPECT_LE(static_cast<double>(time), now());
}

// TensorBoard reads files by name, so one that goes on must come last: also when the clock of the host before was
// ahead.
TEST(EventFile, SortsBehindAllThatAreThere) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "events.out.tfevents.8000000000.ahead.7") << "";
  std::ofstream(folder.path() / "events.out.tfevents.99999999999999999999.odd.7") << "";
  std::ofstream(folder.path() / "events.out.tfevents.abc") << "";
  std::ofstream(folder.path() / "zebra") << "";
  const EventFile second(folder.path(), 0);
  const EventFile third(folder.path(), 0);
  EXPECT_TRUE(second.path().filename().string().starts_with("events.out.tfevents.8000000001."));
  EXPECT_TRUE(third.path().filename().string().starts_with("events.out.tfevents.8000000002."));
}

TEST(EventFile, Scalars) {
  const TemporaryFolder folder;
  EventFile file(folder.path(), 0);
  const auto before = now();
  file.scalar("train/loss", 1, 2.5);
  file.scalar("größe, \"quoted\"", 3'000'000'000'000, -1e-3);
  file.scalar("train/loss", 2, std::numeric_limits<double>::quiet_NaN());
  file.scalar("train/loss", 3, 1e300);
  file.flush();
  const auto scalars = read_scalars(file.path());
  ASSERT_EQ(scalars.size(), 4u);
  EXPECT_EQ(scalars[0].tag, "train/loss");
  EXPECT_EQ(scalars[0].step, 1);
  EXPECT_EQ(scalars[0].value, 2.5F);
  EXPECT_GE(scalars[0].wall_time, before);
  EXPECT_LE(scalars[0].wall_time, now());
  EXPECT_EQ(scalars[1].tag, "größe, \"quoted\"");
  EXPECT_EQ(scalars[1].step, 3'000'000'000'000);
  EXPECT_EQ(scalars[1].value, -1e-3F);
  EXPECT_TRUE(std::isnan(scalars[2].value));
  EXPECT_TRUE(std::isinf(scalars[3].value));
}

TEST(EventFile, WritesAtTheEndWhatWasNotFlushed) {
  const TemporaryFolder folder;
  { EventFile(folder.path(), 0).scalar("a", 1, 1); }
  EXPECT_EQ(read_scalars(test::event_files(folder.path()).front()).size(), 1u);
}

TEST(EventFile, RefusesTagsThatReadersCannotRead) {
  const TemporaryFolder folder;
  EventFile file(folder.path(), 0);
  expect_error(ErrorKind::invalid_argument, {"empty"}, [&] { file.scalar("", 1, 1); });
  expect_error(ErrorKind::invalid_argument, {"loss", "UTF-8"}, [&] { file.scalar("loss\xFF", 1, 1); });
  file.flush();
  EXPECT_EQ(read_records(file.path()).size(), 2u);
}

TEST(EventFile, CutAnywhereItGivesTheRecordsBefore) {
  const TemporaryFolder folder;
  EventFile file(folder.path(), 0);
  std::vector<std::size_t> ends;
  for (int step = 1; step <= 5; ++step) {
    file.scalar("loss", step, step);
    file.flush();
    ends.push_back(fs::file_size(file.path()));
  }
  const auto whole = read_file(file.path());
  const auto cut = folder.path() / "cut";
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    std::ofstream(cut, std::ios::binary) << whole.substr(0, size);
    const auto complete = std::ranges::count_if(ends, [&](std::size_t end) { return end <= size; });
    ASSERT_EQ(std::ssize(read_scalars(cut)), complete) << size;
  }
}

TEST(EventFile, SaysThatTheDiskIsFullAndStaysReadable) {
  if (const auto why = test::why_no_small_disk(); !why.empty()) GTEST_SKIP() << "cannot mount a small disk: " << why;
  const TemporaryFolder folder;
  test::fork_ranks(1, {}, [&](int) {
    test::mount_small_disk(folder.path(), 64 << 10);
    EventFile file(folder.path(), 0);
    file.scalar("loss", 1, 1);
    file.flush();
    const auto fill = [&] {
      for (int step = 2; step < 10000; ++step) file.scalar("loss", step, 1);
      file.flush();
    };
    expect_error(ErrorKind::io, {"tensorboard", file.path().c_str(), "disk is full", "bytes free"}, fill);
    EXPECT_EQ(read_scalars(file.path()).size(), 1u);

    // There is room again, as half a record went: what comes next can be read.
    file.scalar("loss", 10001, 1);
    file.flush();
    const auto scalars = read_scalars(file.path());
    ASSERT_EQ(scalars.size(), 2u);
    EXPECT_EQ(scalars.back().step, 10001);
  });
}

TEST(EventFile, NamesTheFolderThatItCannotMake) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "taken") << "x";
  expect_error(ErrorKind::io, {"tensorboard", "taken/board", "Not a directory"},
               [&] { EventFile(folder.path() / "taken/board", 0); });
  expect_error(ErrorKind::io, {"tensorboard", "taken"}, [&] { EventFile(folder.path() / "taken", 0); });
}

TEST(EventFile, ARunThatBeginsAnewRemovesEventFilesAlone) {
  const TemporaryFolder folder;
  { const EventFile file(folder.path(), 0); }
  { const EventFile file(folder.path(), 0); }
  std::ofstream(folder.path() / "notes.txt") << "mine";
  remove_event_files(folder.path());
  EXPECT_EQ(test::event_files(folder.path()), std::vector<fs::path>{folder.path() / "notes.txt"});
  remove_event_files("/no/such/folder");
}

TEST(Histogram, CountsEachValueInItsBucket) {
  const std::vector<double> values{-3, -1e-13, 0, 0, 1e-6, 2, 1e30, std::numeric_limits<double>::max()};
  const auto made = histogram_of(values);
  EXPECT_EQ(made.min, -3);
  EXPECT_EQ(made.max, std::numeric_limits<double>::max());
  EXPECT_EQ(made.num, 8);
  ASSERT_EQ(made.limits.size(), made.counts.size());
  EXPECT_EQ(std::accumulate(made.counts.begin(), made.counts.end(), 0.0), 8);
  EXPECT_EQ(made.counts.front(), 1) << "the bucket of -3";
  EXPECT_GT(made.limits.front(), -3);
  EXPECT_LT(made.limits.front(), -3 / 1.1);
  for (std::size_t i = 1; i < made.limits.size(); ++i) {
    const auto inside = [&](double value) { return value >= made.limits[i - 1] && value < made.limits[i]; };
    const auto largest = i + 1 == made.limits.size() ? 1 : 0;  // the limit itself
    ASSERT_EQ(made.counts[i], std::ranges::count_if(values, inside) + largest) << i;
  }
}

TEST(Histogram, LimitsAreATenthApartAndHaveBothSigns) {
  const auto limits = histogram_limits();
  const auto zero = limits.size() / 2 - 1;
  ASSERT_EQ(limits[zero], 0);
  EXPECT_EQ(limits[zero + 1], 1e-12);
  EXPECT_EQ(limits[zero - 1], -1e-12);
  EXPECT_NEAR(limits[zero + 11] / limits[zero + 10], 1.1, 1e-9);
  EXPECT_LT(limits[limits.size() - 2], 1e20);
  EXPECT_GT(limits[limits.size() - 2] * 1.1, 1e20);
  EXPECT_TRUE(std::ranges::is_sorted(limits));
}

TEST(Histogram, LeavesOutWhatIsNotFinite) {
  constexpr auto kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> values{1, kInfinity, std::nanf(""), -kInfinity, 2};
  const auto made = histogram_of(values);
  EXPECT_EQ(made.num, 2);
  EXPECT_EQ(made.min, 1);
  EXPECT_EQ(made.max, 2);
  EXPECT_EQ(made.sum, 3);
  EXPECT_EQ(made.sum_squares, 5);
  EXPECT_TRUE(histogram_of(std::span<const float>()).limits.empty());
  EXPECT_EQ(histogram_of(std::vector<double>{std::nan("")}).num, 0);
}

TEST(Histogram, OfACallerMustHaveAscendingLimits) {
  const TemporaryFolder folder;
  EventFile file(folder.path(), 0);
  expect_error(ErrorKind::invalid_argument, {"weights", "2 limits", "1 counts"}, [&] {
    file.histogram("weights", 1, {.limits = {1, 2}, .counts = {1}});
  });
  expect_error(ErrorKind::invalid_argument, {"do not ascend"}, [&] {
    file.histogram("weights", 1, {.limits = {2, 2}, .counts = {1, 1}});
  });
}

// The pixels of a PNG file, read by libpng.
std::vector<std::uint8_t> pixels_in(const std::string& png) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  EXPECT_NE(png_image_begin_read_from_memory(&image, png.data(), png.size()), 0) << image.message;
  std::vector<std::uint8_t> pixels(PNG_IMAGE_SIZE(image));
  EXPECT_NE(png_image_finish_read(&image, nullptr, pixels.data(), 0, nullptr), 0) << image.message;
  return pixels;
}

TEST(Png, HasTheRowsOfThePicture) {
  const std::vector<std::uint8_t> pixels{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  for (const auto& [width, channels, colour] : {std::tuple{6, 1, 0}, {3, 2, 4}, {2, 3, 2}}) {
    const auto png = png_of({.width = width, .height = 2, .channels = channels, .pixels = pixels});
    EXPECT_TRUE(png.starts_with("\x89PNG\r\n\x1a\n"));
    const std::string header{0, 0, 0, static_cast<char>(width), 0, 0, 0, 2, 8, static_cast<char>(colour)};
    EXPECT_EQ(png.substr(16, 10), header) << "sizes, bits, colour";
    EXPECT_EQ(pixels_in(png), pixels) << channels;
  }
  const auto with_alpha = png_of({.width = 1, .height = 3, .channels = 4, .pixels = pixels});
  EXPECT_EQ(with_alpha.substr(16, 10), std::string("\0\0\0\1\0\0\0\3\x08\x06", 10));
  EXPECT_EQ(pixels_in(with_alpha), pixels);
}

TEST(Png, AnySizeIsWhole) {
  std::vector<std::uint8_t> pixels;
  for (std::uint32_t i = 0; i < 300 * 211 * 3; ++i) pixels.push_back(static_cast<std::uint8_t>(i * i >> 5));
  EXPECT_EQ(pixels_in(png_of({.width = 300, .height = 211, .channels = 3, .pixels = pixels})), pixels);
}

TEST(Png, RefusesWhatIsNoPicture) {
  const std::vector<std::uint8_t> pixels(12);
  const auto expect_refused = [&](std::int64_t width, std::int64_t height, std::int64_t channels) {
    expect_error(ErrorKind::invalid_argument, {"picture", "12 bytes", fmt::format("{} wide", width)}, [&] {
      png_of({width, height, channels, pixels});
    });
  };
  expect_refused(2, 2, 2);
  expect_refused(0, 2, 3);
  expect_refused(-2, -2, 3);
  expect_refused(1, 2, 6);
  expect_refused(std::int64_t{1} << 62, 4, 3);
  expect_refused(65536, 1, 1);
}

}  // namespace
}  // namespace lockstep::train
