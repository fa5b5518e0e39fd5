// A file of torch.save (.pth, .pt): a zip archive with a pickle, which describes tensors, and an entry for each of
// their storages. Needs no libtorch.
//
// All entries are in one folder, whatever its name: data.pkl; data/KEY for each storage; byteorder (since PyTorch 2.1).
#pragma once

#include <lockstep/train/pth/state_dict.h>
#include <lockstep/train/pth/zip_entries.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::train {

enum class WeightsFormat : std::uint8_t {
  safetensors,  ///< or anything else that is none of the others
  pth,          ///< a zip archive
  old_pth,      ///< what torch.save wrote before PyTorch 1.6
};

/// The format of a file that begins with these bytes; 16 are enough.
WeightsFormat weights_format(std::string_view begin);

/// A file's state dict, and what is needed to read its storages.
class PthArchive {
 public:
  /// Reads and checks all but the storages. Error(data) naming `file` as described in zip_entries.h, pickle.h and
  /// state_dict.h, and for TorchScript archives and big-endian files.
  PthArchive(ByteSource source, const std::filesystem::path& file);

  const StateDict& state() const { return state_; }
  std::uint64_t storage_bytes(const StoredTensor& tensor) const;
  /// Reads the storage of one of the tensors into memory of its size. Error(data) for damage and for bools that are
  /// neither 0 nor 1, which are undefined behaviour wherever they are used.
  void read_storage(const StoredTensor& tensor, std::span<char> into) const;

 private:
  std::string read_entry(const std::string& name, std::uint64_t most) const;
  const ZipEntry& storage_of(const StoredTensor& tensor) const;

  ByteSource source_;
  PthComplaint wrong_;
  ZipEntries entries_;
  std::string folder_;  ///< of all entries, with its slash
  StateDict state_;
};

}  // namespace lockstep::train
