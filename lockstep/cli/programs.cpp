// The paths of this executable and of the whole program (installed or in the build folder).
#include <lockstep/base/error.h>
#include <lockstep/cli/programs.h>

#include <system_error>

namespace lockstep::cli {

namespace fs = std::filesystem;

fs::path this_program() { return fs::read_symlink("/proc/self/exe"); }

bool is_this_program(const std::string& name) {
  std::error_code ignored;
  return name.find('/') != std::string::npos && fs::equivalent(name, this_program(), ignored);
}

fs::path whole_program_beside() {
  const fs::path self = this_program();
  // If installed: next to the folder of this program. In a build: in the same folder.
  const auto installed = (self.parent_path() / LOCKSTEP_LIBEXEC / "lockstep" / "lockstep").lexically_normal();
  const auto built = self.parent_path() / "libexec" / "lockstep" / "lockstep";
  std::error_code ignored;
  for (const auto& path : {installed, built}) {
    if (fs::exists(path, ignored)) return path;
  }
  fail(ErrorKind::io, "lockstep",
       "the main part of this program is missing: there is no {}. Install Lockstep again, or call the program where it "
       "was installed",
       installed.string());
}

}  // namespace lockstep::cli
