// The state dict in a pickle of torch.save: the choice of the dict, and the description of each of its tensors.
#pragma once

#include <lockstep/state/pth/pickle.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace lockstep::state {

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

/// More than any model has; bounds the memory for sizes that tensors share.
inline constexpr std::size_t kMaxStoredDimensions = 16;

struct StateDict {
  std::vector<StoredTensor> tensors;  ///< in the order of the file, names unique
  std::string place;  ///< the keys that lead to it, e.g. "state_dict"; empty: the file is the state dict
  /// Descriptions of the other entries by name: "a number", or the reason why a tensor is not read.
  std::map<std::string, std::string, std::less<>> others;
};

/// Sizes of the storages in bytes, by key.
using StorageSizes = std::map<std::string, std::uint64_t, std::less<>>;

/// The state dict is the dict to which the keys of `place` lead ("net", or "model.net"). Without it: the whole pickle,
/// or the dict in it under a key that is usual (state_dict, model_state_dict, model, module, net, ...: the first of
/// them that is there), perhaps several times, or the only dict of tensors there is. Error(data) if that dict has no
/// tensors; the message names its content and a remedy. Error(data) also for tensors that do not fit their storages.
StateDict read_state_dict(const Pickle& pickle, const StorageSizes& storages, const std::string& place,
                          const PthError& wrong);

/// Bytes of one element of each storage that the pickle names, by key; without storages of an unknown class.
std::map<std::string, std::uint32_t, std::less<>> element_bytes_of_storages(const Pickle& pickle);

}  // namespace lockstep::state
