// The paths of this executable and of the whole program (installed or in the build folder).
#include <lockstep/base/error.h>
#include <lockstep/cli/programs.h>

#include <algorithm>
#include <array>
#include <system_error>

namespace lockstep::cli {

namespace fs = std::filesystem;

namespace {

/// Beside the folder of the small program where it is installed, in that folder where it was built.
std::array<fs::path, 2> places_of_whole_program(const fs::path& small) {
  return {(small.parent_path() / LOCKSTEP_LIBEXEC / "lockstep" / "lockstep").lexically_normal(),
          small.parent_path() / "libexec" / "lockstep" / "lockstep"};
}

}  // namespace

fs::path this_program() { return fs::read_symlink("/proc/self/exe"); }

bool is_this_program(const std::string& name) {
  if (name.find('/') == std::string::npos) return false;
  const fs::path self = this_program();
  std::error_code ignored;
  if (fs::equivalent(name, self, ignored)) return true;
  std::error_code missing;
  const auto small = fs::canonical(name, missing);
  // Other programs of the same folder have the whole program beside them as well.
  if (missing || small.filename() != "lockstep") return false;
  const auto whole = places_of_whole_program(small);
  return std::ranges::any_of(whole, [&](const fs::path& path) { return fs::equivalent(path, self, ignored); });
}

fs::path whole_program_beside() {
  const auto places = places_of_whole_program(this_program());
  std::error_code ignored;
  for (const auto& path : places) {
    if (fs::exists(path, ignored)) return path;
  }
  fail(ErrorKind::io, "lockstep",
       "the main part of this program is missing: there is no {}. Install Lockstep again, or call the program where it "
       "was installed",
       places.front().string());
}

}  // namespace lockstep::cli
