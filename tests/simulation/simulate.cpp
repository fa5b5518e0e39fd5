// simulate: lives of jobs with faults, each decided by a seed. Ends with 1 at the first life in which something happens
// that must never happen, and prints its seed.
#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cstring>
#include <iostream>
#include <map>
#include <random>

#include "simulation/launchers.h"
#include "simulation/life.h"

namespace {

struct Arguments {
  std::uint64_t lives = 1000;
  std::uint64_t seed = 0;
  double seconds = 0;  ///< 0: no limit
  bool trace = false;
  bool twice = false;
  bool launchers = true;
  bool workers = true;
};

constexpr const char* kUsage =
    "usage: simulate [--lives N] [--seconds S] [--seed S] [--trace] [--twice] [--workers | --launchers]\n"
    "  --lives N    the number of lives, with the seeds S, S+1, ... (1000)\n"
    "  --seconds S  end after that time, at the latest\n"
    "  --seed S     the first seed; without it, a random one\n"
    "  --trace      print each life as a sequence of events\n"
    "  --twice      live each twice, and compare them event by event\n"
    "  --workers    jobs of workers and their service alone, --launchers: jobs of launchers and theirs alone (both, in "
    "turn)\n";

template <typename Number>
Number number_in(const char* text) {
  Number value{};
  const auto* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  if (error == std::errc() && stop == end) return value;
  std::cerr << "simulate: '" << text << "' is no number\n" << kUsage;
  std::exit(2);
}

Arguments parsed(int count, char** words) {
  Arguments arguments;
  arguments.seed = std::random_device{}();
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const bool has_value = i + 1 < count;
    if (word == "--trace") {
      arguments.trace = true;
    } else if (word == "--twice") {
      arguments.twice = true;
    } else if (word == "--workers") {
      arguments.launchers = false;
    } else if (word == "--launchers") {
      arguments.workers = false;
    } else if (word == "--lives" && has_value) {
      arguments.lives = number_in<std::uint64_t>(words[++i]);
    } else if (word == "--seed" && has_value) {
      arguments.seed = number_in<std::uint64_t>(words[++i]);
    } else if (word == "--seconds" && has_value) {
      arguments.seconds = number_in<double>(words[++i]);
    } else {
      std::cerr << (word == "--help" ? "" : "simulate: '" + word + "' is not understood\n") << kUsage;
      std::exit(word == "--help" ? 0 : 2);
    }
  }
  return arguments;
}

}  // namespace

int main(int count, char** words) {
  const auto arguments = parsed(count, words);
  std::cout << "the first seed is " << arguments.seed << "\n";
  const auto begin = std::chrono::steady_clock::now();
  const auto spent = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  std::map<std::string, std::uint64_t> faults;
  std::map<std::string, std::uint64_t> ends;
  std::uint64_t events = 0;
  std::uint64_t lives = 0;
  for (; lives < arguments.lives && (arguments.seconds <= 0 || spent() < arguments.seconds); ++lives) {
    const auto seed = arguments.seed + lives;
    const bool of_launchers = arguments.launchers && (!arguments.workers || seed % 2 == 1);
    const auto live = of_launchers ? lockstep::simulation::live_launchers : lockstep::simulation::live;
    const auto outcome = live(seed, arguments.trace ? &std::cout : nullptr);
    for (const auto& [name, number] : outcome.faults) faults[name] += number;
    events += outcome.events;
    ++ends[outcome.end == "completed" ? "completed" : "given up"];
    if (!outcome.violation.empty()) {
      std::cout << "life " << seed << ": " << outcome.violation << "\nto see it: simulate "
                << (of_launchers ? "--launchers" : "--workers") << " --lives 1 --trace --seed " << seed << "\n";
      return 1;
    }
    if (arguments.twice && live(seed, nullptr).digest != outcome.digest) {
      std::cout << "life " << seed << " is another one the second time\n";
      return 1;
    }
  }
  std::cout << fmt::format("{} lives, {} events, in {:.1f} s\n", lives, events, spent());
  for (const auto& [end, number] : ends) std::cout << fmt::format("{:>10}  {}\n", number, end);
  std::cout << "faults:\n";
  for (const auto& [name, number] : faults) std::cout << fmt::format("{:>10}  {}\n", number, name);
}
