// Connecting without a port that is known in advance: rank 0 announces where it listens.
#include <lockstep/base/error.h>
#include <lockstep/base/temporary_folder.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/comm/group.h>

#include "comm/connecting.h"

#include <ATen/ops/full.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;

// The way in which the processes of this test send each other texts: a file that appears complete.
Announcement announced_in(const std::filesystem::path& file) {
  return {[file](const std::string& text) {
            const auto beside = file.string() + ".new";
            std::ofstream(beside) << text;
            std::filesystem::rename(beside, file);
          },
          [file] {
            while (!std::filesystem::exists(file)) std::this_thread::sleep_for(2ms);
            std::ostringstream text;
            text << std::ifstream(file).rdbuf();
            return text.str();
          }};
}

World place(const Rank& rank) {
  World world;
  world.rank = rank.rank();
  world.size = rank.size();
  world.local_rank = -1;
  world.local_size = 0;
  return world;
}

void expect_sum(const Group& group, int size) {
  auto tensor = at::full({3}, group.rank() + 1.0);
  all_reduce(tensor, group);
  EXPECT_EQ(tensor[0].item<double>(), size * (size + 1) / 2.0);
}

TEST(Announcement, SeveralGroupsOfOneProcess) {
  const TemporaryFolder folder;
  run_ranks(3, {}, [&](Rank& rank) {
    const auto first = connect(place(rank), announced_in(folder.path() / "first"), rank.options());
    const auto second = connect(place(rank), announced_in(folder.path() / "second"), rank.options());
    EXPECT_EQ(first.local_size(), 3);
    expect_sum(second, 3);
    expect_sum(first, 3);
  });
}

TEST(Announcement, FailureOfOneGroupLeavesTheOthers) {
  const TemporaryFolder folder;
  run_ranks(2, {}, [&](Rank& rank) {
    const auto kept = connect(place(rank), announced_in(folder.path() / "kept"), rank.options());
    auto failing = connect(place(rank), announced_in(folder.path() / "failing"), rank.options());
    if (rank.rank() == 1) failing.abort("a reason of the test");
    EXPECT_THROW(barrier(failing), Error);
    expect_sum(kept, 2);
  });
}

TEST(Announcement, AloneNothingIsAnnounced) {
  run_ranks(1, {}, [&](Rank& rank) {
    const auto group = connect(place(rank), Announcement{}, rank.options());
    expect_sum(group, 1);
  });
}

TEST(Announcement, AnotherTextIsAnError) {
  run_ranks(1, {}, [&](Rank& rank) {
    auto world = place(rank);
    world.rank = 1;
    world.size = 2;
    try {
      connect(world, {nullptr, [] { return std::string("somewhere"); }}, rank.options());
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
      EXPECT_NE(std::string(error.what()).find("somewhere"), std::string::npos);
    }
  });
}

TEST(Announcement, GivingUpEndsTheWaitForOthers) {
  const TemporaryFolder folder;
  run_ranks(1, {}, [&](Rank& rank) {
    auto world = place(rank);
    world.size = 2;
    auto announcement = announced_in(folder.path() / "text");
    announcement.give_up = [] { throw std::runtime_error("given up"); };
    EXPECT_THROW(connect(world, announcement, rank.options()), std::exception);
  });
}

}  // namespace
}  // namespace lockstep::test
