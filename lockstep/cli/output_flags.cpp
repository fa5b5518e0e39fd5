#include <lockstep/base/error.h>
#include <lockstep/cli/output_flags.h>
#include <lockstep/cluster/comma_list.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string_view>

namespace lockstep::cli {

void add_output_flags(CLI::App& command, OutputFlags& flags) {
  constexpr const char* kGroup = "Output";
  const auto add = [&](const std::string& name, std::string& value, const std::string& about, const std::string& type) {
    return command.add_option(name, value, about)->type_name(type)->group(kGroup);
  };
  add("--log-dir", flags.log_dir,
      "Error files, and the streams that -r and -t name, go to "
      "DIR/<rdzv_id>_<random>/attempt_<N>/<local rank>/; /dev/null: no files",
      "DIR");
  add("-r,--redirects", flags.redirects,
      "Streams that go to files instead of the console: 0 none, 1 stdout, 2 stderr, 3 both, or for each local rank, as "
      "in 0:3,1:1",
      "STREAMS")
      ->capture_default_str();
  add("-t,--tee", flags.tee, "Streams that go to files and to the console", "STREAMS")->capture_default_str();
  add("--local-ranks-filter", flags.local_ranks_filter, "The console shows only these local ranks; files get all",
      "N,N,...");
  add("--role", flags.role, "ROLE_NAME of the ranks, and part of the prefix; the same on all nodes", "NAME")
      ->capture_default_str();
  command.add_flag("--no-prefix", flags.no_prefix, "Do not put '[rank N] ' before each line of output")->group(kGroup);
}

cluster::OutputOptions output_of(const OutputFlags& flags) {
  cluster::OutputOptions output;
  output.redirects = cluster::parse_stream_choice("--redirects", flags.redirects);
  output.tee = cluster::parse_stream_choice("--tee", flags.tee);
  output.shown = cluster::parse_local_ranks("--local_ranks_filter", flags.local_ranks_filter);
  output.log_dir = flags.log_dir;
  return output;
}

cluster::LinePrefix prefix_of(const OutputFlags& flags, const Environment& environment) {
  if (flags.role.empty())
    fail(ErrorKind::invalid_argument, "run", "--role must not be empty; leave it out for 'default'");
  return {!flags.no_prefix, flags.role, find(environment, "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE").value_or("")};
}

std::vector<std::string> missing_ranks(const cluster::OutputOptions& output, int processes) {
  std::vector<std::string> lines;
  const auto look = [&](std::string_view flag, int highest) {
    if (highest < processes) return;
    lines.push_back(fmt::format("{} names local rank {}, but here they are 0 to {}", flag, highest, processes - 1));
  };
  const auto look_in = [&](std::string_view flag, const cluster::StreamChoice& choice) {
    if (!choice.by_rank.empty()) look(flag, choice.by_rank.rbegin()->first);
  };
  look_in("--redirects", output.redirects);
  look_in("--tee", output.tee);
  if (!output.shown.empty()) look("--local_ranks_filter", *output.shown.rbegin());
  return lines;
}

}  // namespace lockstep::cli
