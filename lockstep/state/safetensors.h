// Tensors in safetensors files, which Python can read too: whole files, and tensor by tensor for files larger than
// memory. The layout is described in safetensors_header.h.
#pragma once

#include <lockstep/base/files.h>
#include <lockstep/state/checkpoint.h>
#include <lockstep/state/safetensors_header.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace at {
class Tensor;
}
namespace c10 {
enum class ScalarType : std::int8_t;
}  // namespace c10

namespace lockstep::state {

/// Writes a new file or replaces an old one as a whole (see AtomicFile). Tensors may have any strides and device;
/// dtypes: float64, float32, float16, bfloat16, int64, int32, int16, int8, uint8, bool. The same tensors and metadata
/// give the same bytes. Error(invalid_argument) naming the tensor for another dtype or a bad name, Error(io).
void save_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                      const SavedMetadata& metadata = {});

/// All tensors, on the CPU, contiguous. Everything is checked before memory is taken: Error(data) names the file, the
/// tensor and the rule broken; Error(io) a missing or unreadable file.
NamedTensors load_safetensors(const std::filesystem::path& path);

/// The metadata that the writer added; reads the header only. Errors as above.
SavedMetadata load_safetensors_metadata(const std::filesystem::path& path);

/// A tensor that no rank has in its memory: float32 [rows, dim], read in blocks.
struct RemoteTensor {
  std::string name;
  std::int64_t rows = 0;
  std::int64_t dim = 0;
  std::function<at::Tensor(std::int64_t first, std::int64_t count)> read{};
};

/// sha256_of (checkpoint.h) of all of them together. Memory: one block.
std::string sha256_of(const NamedTensors& tensors, const std::vector<RemoteTensor>& distant);

/// The file that save_safetensors would write of all of them together. Memory: one block.
void save_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                      const std::vector<RemoteTensor>& distant, const SavedMetadata& metadata);

/// "F32". Error(invalid_argument) naming the tensor unless it is dense and of a dtype of the format.
std::string safetensors_dtype(const std::string& name, const at::Tensor& tensor);
/// The inverse of safetensors_dtype. Error(data) for a dtype that is not one of safetensors_header.h.
c10::ScalarType scalar_type_of(std::string_view dtype);

/// Reads any of the tensors of a file, at any time. Errors as load_safetensors.
class SafetensorsReader {
 public:
  explicit SafetensorsReader(std::filesystem::path path);

  const SafetensorsHeader& header() const { return header_; }
  /// nullptr if there is no tensor of this name.
  const SafetensorsEntry* find(std::string_view name) const;
  /// Reads a tensor, on the CPU, contiguous. `entry` is one of the header's.
  at::Tensor read(const SafetensorsEntry& entry);
  /// The same for some rows of the first dimension, which must exist; reads no other bytes.
  at::Tensor read_rows(const SafetensorsEntry& entry, std::int64_t first, std::int64_t rows);

 private:
  at::Tensor read(const SafetensorsEntry& entry, const std::vector<std::int64_t>& shape, std::uint64_t begin);

  std::filesystem::path path_;
  std::ifstream stream_;
  SafetensorsHeader header_;
  std::map<std::string, std::size_t, std::less<>> by_name_;  ///< numbers of entries
  std::uint64_t data_begin_ = 0;
};

/// Writes a file whose tensors are all described first and then given one by one. `commit` makes the file visible.
/// Errors as save_safetensors.
class SafetensorsWriter {
 public:
  /// Decides the order of the tensors (lay_out).
  SafetensorsWriter(const std::filesystem::path& path, SafetensorsHeader header);

  /// The tensors in the order in which they must be written.
  const std::vector<SafetensorsEntry>& entries() const { return header_.entries; }
  /// The next tensor, of the described shape and dtype; any strides and device.
  void write(const at::Tensor& tensor);
  /// The next rows of the next tensor, in place of all of it; contiguous, on the CPU.
  void write_rows(const at::Tensor& rows);
  /// Must be called after the last tensor.
  void commit();

 private:
  SafetensorsHeader header_;
  AtomicFile file_;
  std::size_t next_ = 0;
  std::uint64_t written_ = 0;  ///< bytes of the rows of the next tensor
};

}  // namespace lockstep::state
