// Whatever bytes are taken for a checkpoint of MindSpore, reading it throws an Error or gives tensors whose pieces lie
// in the file, do not overlap, and have the bytes that their sizes need.
#include <lockstep/base/error.h>
#include <lockstep/state/pth/mindspore.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "byte_source.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep::state;
  const auto source = fuzzed_bytes(data, size);
  try {
    const auto file = read_mindspore_file(source, PthError("weights.ckpt"));
    std::uint64_t bytes = 0;
    for (const auto& tensor : file.tensors) {
      if (tensor.sizes.size() > kMostMindsporeSizes) std::abort();
      for (const auto& piece : tensor.pieces) {
        if (piece.begin > size || piece.bytes > size - piece.begin) std::abort();
        bytes += piece.bytes;
      }
    }
    if (bytes > size) std::abort();
  } catch (const lockstep::Error&) {
  }
  return 0;
}
