#include <lockstep/base/error.h>
#include <lockstep/base/process.h>
#include <lockstep/cluster/comma_list.h>
#include <lockstep/cluster/signal_list.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <string>

namespace lockstep::cluster {
namespace {

/// Those whose meaning is left to programs. The others cannot be caught, or mean something else to the launcher.
constexpr std::array kEndingSignals = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGXCPU};

std::vector<std::string> names_of_ending_signals() {
  std::vector<std::string> names;
  for (const int signal : kEndingSignals) names.push_back(signal_name(signal));
  return names;
}

}  // namespace

std::vector<int> parse_signals(std::string_view flag, std::string_view text) {
  std::vector<int> signals;
  for (const std::string_view part : split_at_commas(text)) {
    const auto found = std::find_if(kEndingSignals.begin(), kEndingSignals.end(),
                                    [&](int signal) { return signal_name(signal) == part; });
    if (found == kEndingSignals.end()) {
      fail(ErrorKind::invalid_argument, "run", "{} '{}': '{}' is none of {}", flag, text, part,
           fmt::join(names_of_ending_signals(), ", "));
    }
    signals.push_back(*found);
  }
  return signals;
}

}  // namespace lockstep::cluster
