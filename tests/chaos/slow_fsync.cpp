// A slow disk, for a program that is started with this in LD_PRELOAD: fsync of what lies below SLOW_FSYNC_FOLDER takes
// as many milliseconds longer as the file SLOW_FSYNC_DELAY says. Real devices that can be told to be slow need modules
// of the kernel; what a process sees of one is an fsync that takes long, because writes go to memory.
#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>

namespace {

std::string path_of(int descriptor) {
  std::array<char, 4096> path{};
  const auto link = "/proc/self/fd/" + std::to_string(descriptor);
  const auto length = ::readlink(link.c_str(), path.data(), path.size());
  return length > 0 ? std::string(path.data(), static_cast<std::size_t>(length)) : std::string();
}

std::chrono::milliseconds delay_of(int descriptor) {
  const char* folder = std::getenv("SLOW_FSYNC_FOLDER");
  const char* file = std::getenv("SLOW_FSYNC_DELAY");
  if (folder == nullptr || file == nullptr || !path_of(descriptor).starts_with(folder)) return {};
  std::ifstream in(file);
  int milliseconds = 0;
  in >> milliseconds;
  return std::chrono::milliseconds(milliseconds);
}

}  // namespace

extern "C" int fsync(int descriptor) {
  std::this_thread::sleep_for(delay_of(descriptor));
  using Fsync = int (*)(int);
  static const auto real = reinterpret_cast<Fsync>(::dlsym(RTLD_NEXT, "fsync"));
  return real(descriptor);
}
