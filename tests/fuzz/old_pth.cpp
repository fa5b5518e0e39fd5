// Whatever bytes are taken for a file of torch.save in its form before zip archives, reading it throws an Error or
// gives storages that lie in the file behind each other, and tensors within them.
#include <lockstep/base/error.h>
#include <lockstep/state/pth/archive.h>
#include <lockstep/state/pth/state_dict.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "byte_source.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep::state;
  const auto source = fuzzed_bytes(data, size);
  try {
    const PthError wrong("weights.pth");
    const auto archive = read_old_archive(source, wrong);
    StorageSizes storages;
    std::uint64_t bytes = 0;
    for (const auto& [key, range] : archive.storages) {
      if (range.begin > size || range.bytes > size - range.begin) std::abort();
      bytes += range.bytes;
      storages.emplace(key, range.bytes);
    }
    if (bytes > size) std::abort();
    const auto state = read_state_dict(archive.pickle, storages, "", wrong);
    for (const auto& tensor : state.tensors) {
      if (tensor.offset < 0 || !storages.contains(tensor.storage)) std::abort();
    }
  } catch (const lockstep::Error&) {
  }
  return 0;
}
