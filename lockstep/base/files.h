// Whole files: reading one, and replacing one so that it has, after a crash or on a full disk, either its complete old
// content or its complete new content. Also a test of the path before the work that fills the file, and reasons for
// failed writes.
#pragma once

#include <lockstep/base/unique_fd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// The bytes of `file`; nullopt, and the reason in errno, when it cannot be opened or read to its end.
std::optional<std::string> read_file(const std::filesystem::path& file);

/// Writes to a temporary file beside `path`; `commit` renames it to `path`, on disk (fsync of file and folder). Without
/// commit, or after an error, the temporary is removed and an old `path` stays unchanged. Where `path` is a link, its
/// target is replaced. A device, a pipe or an open file (/dev/stdout) is written at once, in place. Every failure is an
/// Error(io) naming the path, the bytes wanted and the reason; on a full disk also the bytes free. Not thread-safe.
/// Nothing of an old file (mode, owner) is kept; the new one gets 0666 minus the umask.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  /// Appends all of the bytes.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);

  /// Call it at most once, as the last call.
  void commit();

  std::uint64_t bytes_written() const noexcept { return written_; }

 private:
  [[noreturn]] void give_up(std::string_view step, int error, std::uint64_t wanted);
  void remove_temporary() noexcept;

  std::filesystem::path path_;
  std::filesystem::path temporary_;  ///< empty where no temporary exists
  bool in_place_ = false;
  UniqueFd fd_;
  std::uint64_t written_ = 0;
};

void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes);
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// Whether `path` is a device, a pipe, a socket or a file that this process has open (/dev/stdout, /dev/fd/3).
bool is_stream(const std::filesystem::path& path);

/// Removes temporaries in `folder` whose writer was killed; those of running writers stay (they hold a lock). Returns
/// how many were removed; 0 for a missing folder.
std::size_t remove_abandoned_temporaries(const std::filesystem::path& folder);

/// For a file that long work will fill. Error(invalid_argument) naming `flag`, the source of the path, where no file
/// can be written: it is a folder, or its folder is missing or does not accept a file. Leaves no file.
void require_writable_file(const std::filesystem::path& path, std::string_view flag);

/// The text of `error`, an errno; for a full disk or quota also the number of free bytes at `path`, and a remedy.
std::string disk_reason(int error, const std::filesystem::path& path);

}  // namespace lockstep
