// Whatever bytes are taken for the index of weights in several files, parsing it throws an Error or gives names of
// files that stay in its folder.
#include <lockstep/base/error.h>
#include <lockstep/state/safetensors_header.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep::state;
  try {
    const auto files = parse_shard_index({reinterpret_cast<const char*>(data), size}, "model.safetensors.index.json");
    for (const auto& [name, file] : files) {
      const std::filesystem::path path(file);
      if (file.empty() || path.is_absolute()) std::abort();
      for (const auto& part : path) {
        if (part == "..") std::abort();
      }
    }
    if (!files.empty() && parse_shard_index(format_shard_index(files, 1), "again") != files) std::abort();
  } catch (const lockstep::Error&) {
  }
  return 0;
}
