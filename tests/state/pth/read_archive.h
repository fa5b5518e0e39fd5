// Reading an archive in memory as a whole, for comparisons.
#pragma once

#include <lockstep/base/error.h>
#include <lockstep/state/pth/archive.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <string_view>

namespace lockstep::test {

/// All that a file says.
struct ReadArchive {
  state::StateDict state;
  std::map<std::string, std::string> storages;  ///< their bytes, by key

  bool operator==(const ReadArchive& other) const {
    const auto same = [](const state::StoredTensor& a, const state::StoredTensor& b) {
      return a.name == b.name && a.dtype == b.dtype && a.sizes == b.sizes && a.strides == b.strides &&
             a.offset == b.offset && a.storage == b.storage;
    };
    return std::ranges::equal(state.tensors, other.state.tensors, same) && state.place == other.state.place &&
           state.others == other.state.others && storages == other.storages;
  }
};

inline state::ByteSource source_of(std::string_view bytes) {
  return {bytes.size(), [bytes](std::uint64_t from, std::span<char> into) {
            if (from > bytes.size() || into.size() > bytes.size() - from) throw std::logic_error("read beyond the end");
            if (!into.empty()) std::memcpy(into.data(), bytes.data() + from, into.size());
          }};
}

inline ReadArchive read_archive(std::string_view bytes) {
  const state::PthArchive archive(source_of(bytes), "file.pth");
  ReadArchive read{archive.state(), {}};
  for (const auto& tensor : read.state.tensors) {
    std::string storage(archive.storage_bytes(tensor), '\0');
    archive.read_storage(tensor, storage);
    read.storages[tensor.storage] = storage;
  }
  return read;
}

/// The message of the Error(data), which names the file.
inline std::string error_about(std::string_view bytes) {
  try {
    read_archive(bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::data) << error.what();
    EXPECT_EQ(error.position().file, "file.pth");
    return error.message();
  }
  ADD_FAILURE() << "expected an Error";
  return {};
}

}  // namespace lockstep::test
