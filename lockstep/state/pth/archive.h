// A file of torch.save (.pth, .pt): a pickle, which describes tensors, and their storages. Needs no libtorch.
//
// It is a zip archive, in which all entries are in one folder, whatever its name: data.pkl; data/KEY for each storage;
// byteorder (since PyTorch 2.1).
//
// Or it has the form before zip archives (before PyTorch 1.6, and today with _use_new_zipfile_serialization=False),
// which begins with five pickles: a magic number; 1001; facts about the writer's machine; the object; the keys of its
// storages. Then, for each of these keys in their order: the number of its elements in 8 bytes, and their bytes, both
// little-endian. There are no gaps and no end mark.
#pragma once

#include <lockstep/state/pth/pickle.h>
#include <lockstep/state/pth/state_dict.h>
#include <lockstep/state/pth/zip_entries.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::state {

enum class WeightsFormat : std::uint8_t {
  safetensors,  ///< or any other file
  pth,          ///< a zip archive
  old_pth,      ///< the form of torch.save before PyTorch 1.6
  oldest_pth,   ///< the form before PyTorch 0.1.10: a tar archive, which is not supported
  mindspore,    ///< a checkpoint of MindSpore (mindspore.h), perhaps encrypted
};

/// The number of first bytes that weights_format() needs.
inline constexpr std::size_t kFormatBytes = 512;
WeightsFormat weights_format(std::string_view begin);

/// The range of a storage in the file.
struct StoredRange {
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
};

struct OldArchive {
  std::vector<char> text;  ///< the beginning of the file; the pickle's texts are views of it
  Pickle pickle;
  std::map<std::string, StoredRange, std::less<>> storages;
};

/// Reads everything except the storages, which lie within the file and do not overlap. Error(data) for another kind of
/// file or a truncated one.
OldArchive read_old_archive(const ByteSource& source, const PthError& wrong);

/// A file's state dict, and the reader of its storages.
class PthArchive {
 public:
  /// Reads and checks all but the storages. `place`: the keys of the state dict in it (read_state_dict). Error(data)
  /// naming `file` as described in zip_entries.h, pickle.h and state_dict.h, and for TorchScript archives and
  /// big-endian files.
  PthArchive(ByteSource source, const std::filesystem::path& file, const std::string& place = {});

  const StateDict& state() const { return state_; }
  std::uint64_t storage_bytes(const StoredTensor& tensor) const;
  /// Reads the storage of one of the tensors into memory of its size. Error(data) for damage and, where the tensor is
  /// of bools, for bytes that are neither 0 nor 1, which are undefined behaviour wherever they are used.
  void read_storage(const StoredTensor& tensor, std::span<char> into) const;

 private:
  void read_zip(const std::string& place);
  void read_old(const std::string& place);
  std::string read_entry(const std::string& name, std::uint64_t most) const;
  const ZipEntry& storage_of(const StoredTensor& tensor) const;

  ByteSource source_;
  PthError wrong_;
  ZipEntries entries_;                                      ///< of a zip archive
  std::string folder_;                                      ///< of all entries, with its slash
  std::map<std::string, StoredRange, std::less<>> ranges_;  ///< of the older form
  StateDict state_;
};

}  // namespace lockstep::state
