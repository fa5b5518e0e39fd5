// Values of flags of `lockstep run` that are lists or have names: local ranks, signals, the number of processes.
#pragma once

#include <lockstep/base/this_host.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cluster {

/// The parts between commas, empty ones too: "a,,b" has three, "" has one.
std::vector<std::string_view> split_at_commas(std::string_view text);

/// The words of torchrun's `--duplicate-stdout-filters`: "apple,orange", in which ",," is a comma of a word; none for
/// "".
std::vector<std::string> parse_line_filters(std::string_view text);

/// "0,2" as `--local_ranks_filter` takes it; nothing for "". Error(invalid_argument) naming `flag` when a part is not a
/// number of at least 0.
std::set<int> parse_local_ranks(std::string_view flag, std::string_view text);

/// "SIGTERM,SIGINT" as numbers. Error(invalid_argument) naming `flag` for a word that is not the name of a signal that
/// a launcher can take as a request to end.
std::vector<int> parse_signals(std::string_view flag, std::string_view text);

/// The CPUs and GPUs of this machine.
struct Processors {
  int cpus = 1;  ///< the number that this process may run on
  int gpus = 0;
};

/// A number of at least 1, or "cpu" (one rank per CPU), "gpu" (one per GPU), "auto" (per GPU, else per CPU).
/// Error(invalid_argument) for anything else, and for "gpu" without a GPU.
int parse_process_count(std::string_view text, const Processors& available);

}  // namespace lockstep::cluster
