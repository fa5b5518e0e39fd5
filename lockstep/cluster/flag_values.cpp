// Strict parsers of comma lists, local ranks, signal names and process counts (N, cpu, gpu, auto).
#include <lockstep/base/error.h>
#include <lockstep/base/process.h>
#include <lockstep/base/text.h>
#include <lockstep/cluster/flag_values.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <limits>
#include <string>

namespace lockstep::cluster {
namespace {

/// Signals whose meaning is left to programs. The other signals cannot be caught, or mean something else to the
/// launcher.
constexpr std::array kEndingSignals = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGXCPU};

std::vector<std::string> names_of_ending_signals() {
  std::vector<std::string> names;
  for (const int signal : kEndingSignals) names.push_back(signal_name(signal));
  return names;
}

}  // namespace

std::vector<std::string_view> split_at_commas(std::string_view text) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto comma = text.find(',');
    parts.push_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

std::vector<std::string> parse_line_filters(std::string_view text) {
  std::vector<std::string> words(1);
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool doubled = text.substr(at).starts_with(",,");
    if (text[at] == ',' && !doubled) {
      words.emplace_back();
      continue;
    }
    words.back() += text[at];
    if (doubled) ++at;
  }
  std::erase(words, "");
  return words;
}

std::set<int> parse_local_ranks(std::string_view flag, std::string_view text) {
  std::set<int> ranks;
  if (text.empty()) return ranks;
  for (const std::string_view part : split_at_commas(text)) {
    const auto rank = parse_integer(part);
    if (!rank || *rank < 0 || *rank > std::numeric_limits<int>::max()) {
      fail(ErrorKind::invalid_argument, "run",
           "{} '{}' must be local ranks with commas between them, as in 0,2; '{}' is "
           "none",
           flag, cut_text(text), cut_text(part));
    }
    ranks.insert(static_cast<int>(*rank));
  }
  return ranks;
}

std::vector<int> parse_signals(std::string_view flag, std::string_view text) {
  std::vector<int> signals;
  for (const std::string_view part : split_at_commas(text)) {
    const auto found = std::find_if(kEndingSignals.begin(), kEndingSignals.end(),
                                    [&](int signal) { return signal_name(signal) == part; });
    if (found == kEndingSignals.end()) {
      fail(ErrorKind::invalid_argument, "run", "{} '{}': '{}' is none of {}", flag, cut_text(text), cut_text(part),
           fmt::join(names_of_ending_signals(), ", "));
    }
    signals.push_back(*found);
  }
  return signals;
}

int parse_process_count(std::string_view text, const Processors& available) {
  if (text == "cpu") return available.cpus;
  if (text == "auto") return available.gpus > 0 ? available.gpus : available.cpus;
  if (text == "gpu") {
    if (available.gpus > 0) return available.gpus;
    fail(ErrorKind::invalid_argument, "nproc_per_node",
         "'gpu' means one rank per GPU, and libtorch finds none ('lockstep doctor', started by itself, shows why); use "
         "'cpu', 'auto' or a number");
  }
  const auto count = parse_integer(text);
  constexpr int kMost = 4096;
  if (!count || *count < 1 || *count > kMost) {
    fail(ErrorKind::invalid_argument, "nproc_per_node", "must be a number from 1 to {}, or cpu, gpu or auto; got '{}'",
         kMost, cut_text(text));
  }
  return static_cast<int>(*count);
}

}  // namespace lockstep::cluster
