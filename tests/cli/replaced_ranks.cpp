#include "cli/replaced_ranks.h"

#include "cli/supervised_job.h"

#include <lockstep/base/text.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sstream>
#include <utility>

namespace lockstep::test {

Words keys_with(Words keys) {
  keys.insert(keys.begin(), kRun.begin(), kRun.end());
  return keys;
}

Words launched(int ranks, const Words& flags, const Words& program) {
  Words words = {LOCKSTEP_BINARY, "run", "--nproc-per-node", std::to_string(ranks)};
  words.insert(words.end(), flags.begin(), flags.end());
  words.insert(words.end(), program.begin(), program.end());
  return words;
}

std::string hash_of_peace(int ranks, const Words& keys) {
  static std::map<std::pair<int, Words>, std::string> known;
  auto& hash = known[{ranks, keys}];
  if (!hash.empty()) return hash;
  const Workbench bench;
  const auto ran = run_program(launched(ranks, {"--max-restarts", "0"}, bench.train(keys)));
  EXPECT_TRUE(ran.status.ok()) << ran.err;
  return hash = hash_in(bench.work_dir());
}

std::string log_of(const Workbench& bench, int rank) {
  return read_file(bench.work_dir() / "log" / fmt::format("rank.{}", rank));
}

bool has_made_steps(const Workbench& bench, int steps) {
  std::istringstream lines(read_file(bench.work_dir() / "metrics.jsonl"));
  int count = 0;
  for (std::string line; std::getline(lines, line);) ++count;
  return count >= steps;
}

std::map<int, pid_t> ranks_below(pid_t launcher) {
  std::map<int, pid_t> ranks;
  std::istringstream children(read_file(fmt::format("/proc/{0}/task/{0}/children", launcher)));
  for (pid_t pid = 0; children >> pid;) {
    const auto words = read_file(fmt::format("/proc/{}/environ", pid));
    const auto at = words.find(std::string("\0RANK=", 6));
    if (at == std::string::npos || words.find("LOCKSTEP_SESSION_FILE=") == std::string::npos) continue;
    if (const auto rank = parse_integer(std::string(words.c_str() + at + 6))) ranks[static_cast<int>(*rank)] = pid;
  }
  return ranks;
}

}  // namespace lockstep::test
