// Whatever pickle is in a file of torch.save, reading it throws an Error or gives tensors that lie within their
// storages. (Without the archive, whose checksums would keep the fuzzer out.)
#include <lockstep/base/error.h>
#include <lockstep/state/pth/state_dict.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace {

using namespace lockstep::state;
__extension__ using Wide = __int128;  // holds any product of two sizes

bool lies_within(const StoredTensor& tensor, std::uint64_t bytes) {
  if (tensor.sizes.size() != tensor.strides.size()) return false;
  if (std::ranges::find(tensor.sizes, 0) != tensor.sizes.end()) return true;
  Wide last = tensor.offset;
  for (std::size_t i = 0; i < tensor.sizes.size(); ++i) last += Wide(tensor.sizes[i] - 1) * tensor.strides[i];
  return tensor.offset >= 0 && (last + 1) * tensor.element_bytes <= Wide(bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const StorageSizes storages = {{"0", 80}, {"1", 4}, {"2", 8},  {"3", 0},  {"4", 96}, {"5", 24}, {"6", 12},
                                 {"7", 6},  {"8", 8}, {"9", 48}, {"10", 2}, {"11", 1}, {"12", 8}};
  try {
    const PthError wrong("weights.pth");
    const auto state = read_state_dict(read_pickle(text, wrong), storages, "", wrong);
    for (const auto& tensor : state.tensors) {
      if (!lies_within(tensor, storages.at(tensor.storage))) std::abort();
    }
  } catch (const lockstep::Error&) {
  }
  return 0;
}
