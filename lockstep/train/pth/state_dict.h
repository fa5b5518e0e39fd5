// The state dict in a pickle of torch.save: which dict it is, and what each of its tensors is made of.
#pragma once

#include <lockstep/train/pth/pickle.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lockstep::train {

/// A tensor: a view of a storage that it may share with others. All its elements lie within the storage.
struct StoredTensor {
  std::string name;
  std::string dtype;                  ///< as in safetensors_header.h: F32, BF16, I64, ...
  std::uint32_t element_bytes = 0;    ///< bytes of one element
  std::vector<std::int64_t> sizes;    ///< at most kMaxStoredDimensions; the tensor's bytes are counted by 64 bits
  std::vector<std::int64_t> strides;  ///< in elements, as many as sizes, from 0
  std::int64_t offset = 0;            ///< of the first element
  std::string storage;                ///< the storage's key
};

/// More than any model's; bounds what the sizes that tensors share can take.
inline constexpr std::size_t kMaxStoredDimensions = 16;

struct StateDict {
  std::vector<StoredTensor> tensors;  ///< in the order of the file, names unique
  std::string place;                ///< the keys that lead to it, e.g. "state_dict"; empty: the file is the state dict
  std::vector<std::string> others;  ///< keys beside the tensors whose values are none
};

/// Sizes of the storages in bytes, by key.
using StorageSizes = std::map<std::string, std::uint64_t, std::less<>>;

/// The state dict is the whole pickle, or a dict in it under the key state_dict, model_state_dict, model or module (the
/// first of them that is there), perhaps several times. Error(data) where that holds no tensors, names what it holds
/// and a remedy, and for tensors that do not fit their storages.
StateDict read_state_dict(const Pickle& pickle, const StorageSizes& storages, const PthComplaint& wrong);

}  // namespace lockstep::train
