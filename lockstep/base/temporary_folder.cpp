// A folder made by mkdtemp(3) in TMPDIR or a given parent, and removed with its content in the destructor.
#include <lockstep/base/error.h>
#include <lockstep/base/temporary_folder.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>
#include <utility>

namespace lockstep {
namespace {

std::filesystem::path default_parent() {
  std::error_code error;
  auto path = std::filesystem::temp_directory_path(error);
  if (error) fail(ErrorKind::io, "temporary folder", "TMPDIR does not name a folder: {}", error.message());
  return path;
}

}  // namespace

TemporaryFolder::TemporaryFolder(std::string_view prefix, const std::filesystem::path& parent) {
  const auto where = parent.empty() ? default_parent() : parent;
  std::string name = (where / (std::string(prefix) + "-XXXXXX")).string();
  if (::mkdtemp(name.data()) == nullptr) {
    fail(ErrorKind::io, "temporary folder", "cannot make a folder in {}: {}", where.string(),
         std::generic_category().message(errno));
  }
  path_ = name;
}

TemporaryFolder::TemporaryFolder(TemporaryFolder&& other) noexcept : path_(other.release()) {}

TemporaryFolder& TemporaryFolder::operator=(TemporaryFolder&& other) noexcept {
  if (this != &other) {
    remove();
    path_ = other.release();
  }
  return *this;
}

TemporaryFolder::~TemporaryFolder() { remove(); }

std::filesystem::path TemporaryFolder::release() noexcept { return std::exchange(path_, {}); }

void TemporaryFolder::remove() noexcept {
  if (path_.empty()) return;
  std::error_code ignored;  // a destructor cannot report errors
  std::filesystem::remove_all(path_, ignored);
  path_.clear();
}

}  // namespace lockstep
