// The writer of TensorBoard events: TFRecord framing with masked CRC-32C, fields in protobuf's wire format, names that
// sort by time; and histograms whose limits grow by 10 % from 1e-12 on both sides of 0.
#include <lockstep/base/error.h>
#include <lockstep/base/files.h>
#include <lockstep/base/text.h>
#include <lockstep/base/this_host.h>
#include <lockstep/train/viewers/event_file.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <boost/crc.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::train {
namespace {

static_assert(std::numeric_limits<float>::is_iec559 && std::numeric_limits<double>::is_iec559);

enum WireType : std::uint32_t { kVarint = 0, kEightBytes = 1, kLengthFirst = 2, kFourBytes = 5 };

template <typename Unsigned>
void append_little_endian(std::string& bytes, Unsigned value) {
  for (std::size_t i = 0; i < sizeof(value); ++i) bytes += static_cast<char>(value >> (8 * i) & 0xFF);
}

// Seven bits per byte, lowest first; the eighth bit marks that more bytes follow.
void append_varint(std::string& bytes, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>((value & 0x7F) | 0x80);
  bytes += static_cast<char>(value);
}

void append_key(std::string& bytes, std::uint32_t field, WireType type) {
  append_varint(bytes, std::uint64_t{field} << 3 | type);
}

std::vector<double> make_limits() {
  constexpr double kSmallest = 1e-12, kLargest = 1e20, kRatio = 1.1;
  std::vector<double> positive;
  for (double limit = kSmallest; limit < kLargest; limit *= kRatio) positive.push_back(limit);
  std::vector<double> limits;
  std::transform(positive.rbegin(), positive.rend(), std::back_inserter(limits), std::negate());
  limits.push_back(0);
  limits.insert(limits.end(), positive.begin(), positive.end());
  limits.push_back(std::numeric_limits<double>::max());
  return limits;
}

std::size_t bucket_of(double value, std::span<const double> limits) {
  const auto above = std::ranges::upper_bound(limits, value);
  // Nothing is above the largest double.
  return std::min(static_cast<std::size_t>(above - limits.begin()), limits.size() - 1);
}

template <typename Real>
Histogram make_histogram(std::span<const Real> values) {
  const auto limits = histogram_limits();
  Histogram made;
  std::vector<double> counts(limits.size());
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    made.min = made.num == 0 ? value : std::min(made.min, value);
    made.max = made.num == 0 ? value : std::max(made.max, value);
    made.num += 1;
    made.sum += value;
    made.sum_squares += value * value;
    counts[bucket_of(value, limits)] += 1;
  }
  if (made.num == 0) return made;
  const auto first = static_cast<std::ptrdiff_t>(bucket_of(made.min, limits));
  const auto end = static_cast<std::ptrdiff_t>(bucket_of(made.max, limits)) + 1;
  made.limits.assign(limits.begin() + first, limits.begin() + end);
  made.counts.assign(counts.begin() + first, counts.begin() + end);
  return made;
}

namespace fs = std::filesystem;

constexpr const char* kWhere = "tensorboard";
constexpr std::string_view kPrefix = "events.out.tfevents.";

// The numbers of fields in the .proto files of TensorFlow and TensorBoard.
namespace event {
constexpr std::uint32_t kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7, kSourceMetadata = 10;
}
namespace session_log {
constexpr std::uint32_t kStatus = 1;
constexpr std::int64_t kStart = 1;
}  // namespace session_log
namespace source_metadata {
constexpr std::uint32_t kWriter = 1;
}
namespace summary {
constexpr std::uint32_t kValue = 1;
}
namespace value {
constexpr std::uint32_t kTag = 1, kSimpleValue = 2, kImage = 4, kHistogram = 5;
}
namespace image {
constexpr std::uint32_t kHeight = 1, kWidth = 2, kColorspace = 3, kEncoded = 4;
}
namespace histogram_proto {
constexpr std::uint32_t kMin = 1, kMax = 2, kNum = 3, kSum = 4, kSumSquares = 5, kLimits = 6, kCounts = 7;
}

// Runs of zeros have odd checksums, and data that contains checksums must not weaken them: so they are rotated and
// moved.
std::uint32_t masked_checksum(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xA282EAD8;
}

/// The bytes of one message (protobuf.dev/programming-guides/encoding). Each call appends a field; the numbers of
/// fields are at least 1. Texts must be UTF-8, or readers refuse the message.
class ProtobufMessage {
 public:
  ProtobufMessage& integer(std::uint32_t field, std::int64_t value) {
    append_key(text_, field, kVarint);
    append_varint(text_, static_cast<std::uint64_t>(value));
    return *this;
  }  ///< int32, int64, enum
  ProtobufMessage& number(std::uint32_t field, float value) {
    append_key(text_, field, kFourBytes);
    append_little_endian(text_, std::bit_cast<std::uint32_t>(value));
    return *this;
  }

  ProtobufMessage& number(std::uint32_t field, double value) {
    append_key(text_, field, kEightBytes);
    append_little_endian(text_, std::bit_cast<std::uint64_t>(value));
    return *this;
  }

  ProtobufMessage& bytes(std::uint32_t field, std::string_view value) {
    append_key(text_, field, kLengthFirst);
    append_varint(text_, value.size());
    text_ += value;
    return *this;
  }

  ProtobufMessage& message(std::uint32_t field, const ProtobufMessage& value) { return bytes(field, value.text()); }

  ProtobufMessage& numbers(std::uint32_t field, std::span<const double> values) {
    append_key(text_, field, kLengthFirst);
    append_varint(text_, values.size() * sizeof(double));
    for (const double value : values) append_little_endian(text_, std::bit_cast<std::uint64_t>(value));
    return *this;
  }  ///< repeated double, packed

  const std::string& text() const noexcept { return text_; }

 private:
  std::string text_;
};

std::string record_of(std::string_view data) {
  std::string record;
  append_little_endian(record, data.size());
  append_little_endian(record, masked_checksum(record));
  record += data;
  append_little_endian(record, masked_checksum(data));
  return record;
}

ProtobufMessage new_event() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return ProtobufMessage().number(event::kWallTime, std::chrono::duration<double>(now).count());
}

// Only UTF-8 can be printed as JSON.
bool is_utf8(std::string_view text) {
  try {
    const auto printed = nlohmann::json(text).dump();
    return true;
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

ProtobufMessage value_of(std::string_view tag) {
  if (tag.empty()) fail(ErrorKind::invalid_argument, kWhere, "a tag is empty; give it a name, such as train/loss");
  if (!is_utf8(tag)) {
    fail(ErrorKind::invalid_argument, kWhere, "the tag {} is not UTF-8 text",
         nlohmann::json(tag).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  return ProtobufMessage().bytes(value::kTag, tag);
}

std::string record_of_value(std::int64_t step, const ProtobufMessage& value) {
  auto event = new_event();
  event.integer(event::kStep, step);
  event.message(event::kSummary, ProtobufMessage().message(summary::kValue, value));
  return record_of(event.text());
}

// Both mark the beginning. Readers use session logs only with this version.
std::string first_records(std::int64_t first_step) {
  auto version = new_event();
  version.bytes(event::kFileVersion, "brain.Event:2");
  version.message(event::kSourceMetadata, ProtobufMessage().bytes(source_metadata::kWriter, "lockstep"));
  auto start = new_event();
  start.integer(event::kStep, first_step);
  start.message(event::kSessionLog, ProtobufMessage().integer(session_log::kStatus, session_log::kStart));
  return record_of(version.text()) + record_of(start.text());
}

// The event files of a folder; none when it is missing.
std::vector<fs::path> event_files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed)) {
    if (entry->path().filename().string().starts_with(kPrefix)) files.push_back(entry->path());
  }
  if (failed && failed != std::errc::no_such_file_or_directory) {
    fail(ErrorKind::io, kWhere, "cannot list the folder {}: {}", folder.string(), failed.message());
  }
  return files;
}

// The time in the name of an event file; 0 when there is none of ten digits.
std::int64_t time_in_name(const fs::path& file) {
  constexpr std::size_t kDigits = 10;
  const auto rest = file.filename().string().substr(kPrefix.size());
  if (rest.find('.') != kDigits) return 0;
  return parse_integer(std::string_view(rest).substr(0, kDigits)).value_or(0);
}

// A replaced process may have had another pid, host and clock, and may have started in the same second.
std::int64_t time_behind_all(const fs::path& folder) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  std::int64_t time = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  for (const auto& file : event_files_in(folder)) time = std::max(time, time_in_name(file) + 1);
  return time;
}

GrowingFile open_new(const fs::path& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) fail(ErrorKind::io, kWhere, "cannot make the folder {}: {}", folder.string(), failed.message());
  const auto name =
      fmt::format("{}{:010}.{}.{}", kPrefix, time_behind_all(folder), host_name().value_or("host"), ::getpid());
  const auto path = folder / name;
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666));
  if (!fd) fail(ErrorKind::io, kWhere, "cannot create {}: {}", path.string(), disk_reason(errno, path));
  return {std::move(fd), path, kWhere};
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

std::span<const double> histogram_limits() {
  static const std::vector<double> limits = make_limits();
  return limits;
}

Histogram histogram_of(std::span<const float> values) { return make_histogram(values); }

Histogram histogram_of(std::span<const double> values) { return make_histogram(values); }

EventFile::EventFile(const fs::path& folder, std::int64_t first_step) : file_(open_new(folder)) {
  file_.add(first_records(first_step));
  file_.flush();
}

void EventFile::scalar(std::string_view tag, std::int64_t step, double number) {
  file_.add(record_of_value(step, value_of(tag).number(value::kSimpleValue, static_cast<float>(number))));
}

void EventFile::histogram(std::string_view tag, std::int64_t step, const Histogram& histogram) {
  const bool ascend =
      std::ranges::adjacent_find(histogram.limits, std::ranges::greater_equal()) == histogram.limits.end();
  if (histogram.limits.size() != histogram.counts.size() || !ascend) {
    fail(ErrorKind::invalid_argument, kWhere,
         "the histogram '{}' has {} limits{} and {} counts; each bucket needs one count and a limit above that of the "
         "bucket before",
         tag, histogram.limits.size(), ascend ? "" : " that do not ascend", histogram.counts.size());
  }
  ProtobufMessage proto;
  proto.number(histogram_proto::kMin, histogram.min);
  proto.number(histogram_proto::kMax, histogram.max);
  proto.number(histogram_proto::kNum, histogram.num);
  proto.number(histogram_proto::kSum, histogram.sum);
  proto.number(histogram_proto::kSumSquares, histogram.sum_squares);
  proto.numbers(histogram_proto::kLimits, histogram.limits);
  proto.numbers(histogram_proto::kCounts, histogram.counts);
  file_.add(record_of_value(step, value_of(tag).message(value::kHistogram, proto)));
}

void EventFile::picture(std::string_view tag, std::int64_t step, const Picture& picture) {
  ProtobufMessage proto;
  proto.integer(image::kHeight, picture.height);
  proto.integer(image::kWidth, picture.width);
  proto.integer(image::kColorspace, picture.channels);
  proto.bytes(image::kEncoded, png_of(picture));
  file_.add(record_of_value(step, value_of(tag).message(value::kImage, proto)));
}

void remove_event_files(const fs::path& folder) {
  for (const auto& file : event_files_in(folder)) {
    std::error_code failed;
    fs::remove(file, failed);
    if (failed) fail(ErrorKind::io, kWhere, "cannot remove {}: {}", file.string(), failed.message());
  }
}

}  // namespace lockstep::train
