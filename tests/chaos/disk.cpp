#include "chaos/disk.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <array>

#include <lockstep/base/unique_fd.h>

#include "base/small_disk.h"
#include "cli/program.h"

namespace lockstep::test {
namespace {

// Some checkpoints of the job (0.4 MB each), the one that is being written, and the state.
constexpr std::size_t kBytes = 4 << 20;

}  // namespace

Disk::Disk(std::filesystem::path folder) : folder_(std::move(folder)), delay_(folder_.string() + ".delay_ms") {
  std::filesystem::create_directories(folder_);
  obstacle_ = why_no_small_disk();
  if (obstacle_.empty()) mount_small_disk(folder_, kBytes);
  delay_each_sync({});
}

Disk::~Disk() {
  if (obstacle_.empty()) ::umount2(folder_.c_str(), MNT_DETACH);
}

void Disk::fill() {
  if (!obstacle_.empty()) return;
  const UniqueFd file(::open(ballast().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  static constexpr std::array<char, 4096> kBlock{};
  while (::write(file.get(), kBlock.data(), kBlock.size()) > 0) {
  }
}

void Disk::free() { std::filesystem::remove(ballast()); }

Environment Disk::variables() const {
  return {{"LD_PRELOAD", LOCKSTEP_SLOW_FSYNC}, {"SLOW_FSYNC_FOLDER", folder_}, {"SLOW_FSYNC_DELAY", delay_}};
}

void Disk::delay_each_sync(std::chrono::milliseconds time) { write_file(delay_, std::to_string(time.count()) + "\n"); }

}  // namespace lockstep::test
