// A checkpoint of MindSpore (.ckpt). Needs no libtorch.
//
// The file is a message of protobuf: Checkpoint { repeated Value value = 1 }, with Value { string tag = 1; TensorProto
// tensor = 2 or MapTensorProto maptensor = 3 } and TensorProto { repeated int64 dims = 1; string tensor_type = 2; bytes
// tensor_content = 3 }. Its writer appends one Checkpoint for each piece of a parameter, and a concatenation of such
// messages is one message, too. Pieces of a large tensor are consecutive under one tag, each with the sizes of the
// whole tensor. With crc_check the file ends with "crc_num" and 10 bytes: the CRC-32 of all before, highest byte first.
#pragma once

#include <lockstep/state/pth/pth_error.h>
#include <lockstep/state/pth/zip_entries.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lockstep::state {

struct MindsporeTensor {
  std::string name;
  std::string dtype;                ///< as in safetensors_header.h
  std::vector<std::int64_t> sizes;  ///< at most kMostMindsporeSizes; the pieces have as many bytes as needed
  struct Piece {
    std::uint64_t begin = 0;
    std::uint64_t bytes = 0;
  };
  std::vector<Piece> pieces;  ///< in the file, row-major when concatenated
};

inline constexpr std::size_t kMostMindsporeSizes = 16;

struct MindsporeFile {
  std::vector<MindsporeTensor> tensors;  ///< in the order of the file, names unique
  /// Descriptions of the other entries by name, e.g. "a text".
  std::map<std::string, std::string, std::less<>> others;
};

/// Whether a file that begins with these bytes was encrypted by MindSpore; 4 bytes are enough.
bool is_encrypted_mindspore(std::string_view begin);

/// Reads everything except the tensors' bytes, whose pieces do not overlap. Error(data) for an invalid format, for a
/// file that is truncated or encrypted, and for a wrong checksum, if there is one.
MindsporeFile read_mindspore_file(const ByteSource& source, const PthError& wrong);

}  // namespace lockstep::state
