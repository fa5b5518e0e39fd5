// The memory that a save needs beyond the state itself: what docs/configuration.md promises.
#include <lockstep/base/temporary_folder.h>
#include <lockstep/state/sharded/save.h>

#include <gtest/gtest.h>
#include <malloc.h>
#include <torch/torch.h>

#include <fstream>
#include <iostream>
#include <string>

#include "support/ranks.h"

namespace lockstep::state {
namespace {

using lockstep::test::Rank;
using lockstep::test::RankOptions;
using lockstep::test::run_ranks;

constexpr int kRanks = 2;
constexpr double kStateMb = 384;

double status_mb(const std::string& key) {
  std::ifstream lines("/proc/self/status");
  std::string word;
  while (lines >> word) {
    double kilobytes = 0;
    if (word == key + ":" && lines >> kilobytes) return kilobytes / 1024;
  }
  return 0;
}

/// The most memory of this process during `work`, beyond what it has when that begins.
template <typename Work>
double growth_mb(const Work& work) {
  ::malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";  // the high-water mark starts from the beginning
  const double before = status_mb("VmRSS");
  work();
  return status_mb("VmHWM") - before;
}

/// A state that all ranks hold, in tensors of half its size.
SavedState replicated(const Group& group) {
  const auto rows = static_cast<std::int64_t>(kStateMb / 2) * 256;  // of 4 KiB
  return {.group = group,
          .mesh = {.sizes = {group.size()}, .names = {"data"}},
          .tensors = {{"a", torch::ones({rows, 1024})}, {"b", torch::ones({rows, 1024})}},
          .in_parts = {}};
}

double growth_of_a_save(Rank& rank, const std::filesystem::path& folder, SavedValues values) {
  const auto& group = rank.group();
  auto state = replicated(group);
  const auto growth = growth_mb([&] {
    ShardedSave save(folder, state, {}, values);
    save.write();
    save.commit();
  });
  std::cout << "rank " << rank.rank() << ": a state of " << kStateMb << " MiB on " << kRanks << " ranks, "
            << (values == SavedValues::copied ? "copied" : "in place") << ": " << growth << " MiB more\n";
  return growth;
}

TEST(SaveMemory, IsOnePartOfATensorAtATime) {
  const TemporaryFolder folder;
  run_ranks(kRanks, {.group = RankOptions::test_group_options("shm")},
            [&](Rank& rank) { EXPECT_LT(growth_of_a_save(rank, folder.path(), SavedValues::in_place), 64 + 32); });
}

TEST(SaveMemory, InTheBackgroundIsACopyOfWhatThisRankWrites) {
  const TemporaryFolder folder;
  run_ranks(kRanks, {.group = RankOptions::test_group_options("shm")}, [&](Rank& rank) {
    const auto growth = growth_of_a_save(rank, folder.path(), SavedValues::copied);
    EXPECT_LT(growth, kStateMb / kRanks + 64 + 32);
    EXPECT_GT(growth, kStateMb / kRanks - 64) << "the measurement sees no copy";
  });
}

}  // namespace
}  // namespace lockstep::state
