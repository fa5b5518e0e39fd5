// Archives and pickles made by hand: as torch.save writes them, or wrong in one place.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::test {

/// `value` in `width` bytes, little-endian.
std::string little_endian(std::uint64_t value, int width);

std::string joined(std::initializer_list<std::string_view> parts);

/// Parts of a pickle of protocol 2: each puts one value on the stack.
std::string text(std::string_view value);
std::string number(std::int64_t value);
std::string tuple(const std::vector<std::int64_t>& numbers);
std::string name_of(std::string_view module, std::string_view name);

/// What describes a tensor.
struct MadeTensor {
  std::string storage_class = "FloatStorage";
  std::string key = "0";
  std::int64_t elements = 6;
  std::int64_t offset = 0;
  std::vector<std::int64_t> sizes = {2, 3};
  std::vector<std::int64_t> strides = {3, 1};
  std::string more{};  ///< values behind the usual six
};
std::string tensor(const MadeTensor& made);

/// A dict of these keys and values.
std::string dict(const std::vector<std::pair<std::string, std::string>>& items);
/// A whole pickle.
std::string pickle(std::string_view value);

/// An entry of a zip archive. The fields are those of both headers, unless they say otherwise.
struct MadeEntry {
  std::string name;
  std::string bytes;
  std::uint16_t flags = 0;
  std::uint16_t method = 0;
  bool zip64 = false;            ///< sizes and place in the directory's zip64 part
  std::int64_t more_size = 0;    ///< added to the size in the directory
  std::int64_t more_place = 0;   ///< added to the place in the directory
  std::string name_in_header{};  ///< in place of `name`
};
std::string zip(const std::vector<MadeEntry>& entries);
/// The record at an archive's end: the directory's entries, bytes and place.
std::string end_record(std::uint64_t entries, std::uint64_t size, std::uint64_t begin);

/// An archive of a pickle and one storage, "0", of 24 bytes.
std::string archive(std::string_view pickled);

}  // namespace lockstep::test
