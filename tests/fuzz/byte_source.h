// The bytes of a fuzzer as what the readers of weights read; reading beyond their end is a finding.
#pragma once

#include <lockstep/state/pth/zip_entries.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>

namespace lockstep::state {

/// `data` outlives it.
inline ByteSource fuzzed_bytes(const std::uint8_t* data, std::size_t size) {
  return {size, [data, size](std::uint64_t from, std::span<char> into) {
            if (from > size || into.size() > size - from) std::abort();
            if (!into.empty()) std::memcpy(into.data(), data + from, into.size());
          }};
}

}  // namespace lockstep::state
