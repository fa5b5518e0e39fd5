// Whatever bytes are taken for a file of torch.save, reading it throws an Error or gives tensors that lie within their
// storages, and storages that together are no larger than the file.
#include <lockstep/base/error.h>
#include <lockstep/state/pth/archive.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>

#include "byte_source.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep::state;
  const auto source = fuzzed_bytes(data, size);
  try {
    const PthArchive archive(source, "weights.pth");
    std::map<std::string, std::string> storages;
    std::uint64_t bytes = 0;
    for (const auto& tensor : archive.state().tensors) {
      if (storages.contains(tensor.storage)) continue;
      std::string storage(archive.storage_bytes(tensor), '\0');
      archive.read_storage(tensor, storage);
      bytes += storage.size();
      storages.emplace(tensor.storage, std::move(storage));
    }
    if (bytes > size) std::abort();
  } catch (const lockstep::Error&) {
  }
  return 0;
}
