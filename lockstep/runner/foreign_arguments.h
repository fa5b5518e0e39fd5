// Flags of MMEngine's and MindOCR's training scripts that are accepted beside ours (docs/coming_from.md).
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace lockstep::runner {

struct ForeignArguments {
  std::vector<std::string> options;  ///< KEY=VALUE
  std::string work_dir;
  std::vector<std::string> resume;  ///< nothing, or one file, or a KEY=VALUE that follows the flag
  bool resumes = false;
  bool scales_lr = false;
  std::string local_rank;        ///< ignored: the rank is read from the environment
  bool ignores_unknown = false;  ///< unknown arguments, which a platform may add, are ignored with a warning
};

/// Adds the flags; `arguments` outlives `app`, which then throws CLI::ExtrasError for unknown arguments, unless
/// --ignore-unknown is given.
void add_foreign_options(CLI::App& app, ForeignArguments& arguments);

/// `overrides`, followed by the flags as KEY=VALUE. With --ignore-unknown, arguments that are not KEY=VALUE are left
/// out, with a warning on stderr.
std::vector<std::string> with_foreign(const std::vector<std::string>& overrides, const ForeignArguments& arguments);

}  // namespace lockstep::runner
