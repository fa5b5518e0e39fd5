// The options of `lockstep run` about the output of ranks: files, console, and prefix.
#pragma once

#include <lockstep/base/environment.h>
#include <lockstep/cluster/line_prefix.h>
#include <lockstep/cluster/rank_output.h>

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace lockstep::cli {

struct OutputFlags {
  std::string log_dir;
  std::string redirects = "0";
  std::string tee = "0";
  std::string local_ranks_filter;
  std::string role = "default";
  bool no_prefix = false;
};

void add_output_flags(CLI::App& command, OutputFlags& flags);

/// Error(invalid_argument) for values that are none.
cluster::OutputOptions output_of(const OutputFlags& flags);

/// Reads TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE too.
cluster::LinePrefix prefix_of(const OutputFlags& flags, const Environment& environment);

/// One line for each flag that names local ranks which are not among `processes`: on another node they may be.
std::vector<std::string> missing_ranks(const cluster::OutputOptions& output, int processes);

}  // namespace lockstep::cli
