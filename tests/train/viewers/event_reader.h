// A reader of event files that shares no code with the writer: what it finds is what the format says.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::test {

/// The records of an event file up to the first that is not whole. A checksum that is wrong fails the test.
std::vector<std::string> read_records(const std::filesystem::path& file);

/// A field of a protobuf message: a number as its bits, or bytes.
struct WireField {
  std::uint32_t number = 0;
  std::uint64_t bits = 0;
  std::string bytes{};
};

std::vector<WireField> read_message(std::string_view message);

/// The first field of this number.
std::optional<WireField> field_of(std::string_view message, std::uint32_t number);

/// The fields of a scalar's event.
struct ScalarEvent {
  double wall_time = 0;
  std::int64_t step = 0;
  std::string tag{};
  float value = 0;
};

/// Those events of a file that are scalars.
std::vector<ScalarEvent> read_scalars(const std::filesystem::path& file);

/// The event files of a folder by name.
std::vector<std::filesystem::path> event_files(const std::filesystem::path& folder);

}  // namespace lockstep::test
