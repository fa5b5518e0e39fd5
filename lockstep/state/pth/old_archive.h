// A file of torch.save in its form before zip archives (before PyTorch 1.6, and today with
// _use_new_zipfile_serialization=False). Needs no libtorch.
//
// The file begins with five pickles: a magic number; 1001; facts about the writer's machine; the object; the keys of
// its storages. Then, for each of these keys in their order: the number of its elements in 8 bytes, and their bytes,
// both little-endian. There are no gaps and no end mark.
#pragma once

#include <lockstep/state/pth/pickle.h>
#include <lockstep/state/pth/zip_entries.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::state {

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

/// Whether a file that begins with these bytes has that form; 16 are enough.
bool is_old_archive(std::string_view begin);

/// Reads everything except the storages, which lie within the file and do not overlap. Error(data) for another kind of
/// file or a truncated one.
OldArchive read_old_archive(const ByteSource& source, const PthError& wrong);

}  // namespace lockstep::state
