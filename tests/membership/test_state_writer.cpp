// How a scheduler's state gets to where it is kept.
#include <lockstep/base/error.h>
#include <lockstep/base/temporary_folder.h>
#include <lockstep/membership/service/state_writer.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <filesystem>
#include <mutex>

#include "membership/running_server.h"
#include "support/read_file.h"

namespace lockstep::membership {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr auto kLimit = 60s;

TEST(StateWriter, WhatWasPutIsInTheFile) {
  const TemporaryFolder folder("lockstep-state");
  const auto file = folder.path() / "deep" / "state.json";
  const auto place = state_in_file(file);
  EXPECT_EQ(place.load(), std::nullopt);
  StateWriter writer(place);
  writer.put("one");
  EXPECT_TRUE(writer.wait_for(kLimit));
  EXPECT_EQ(place.load(), "one");
  writer.put("two");
  EXPECT_TRUE(writer.wait_for(kLimit));
  EXPECT_EQ(test::read_file(file), "two");
}

TEST(StateWriter, WhatWaitsIsSavedBeforeItGoes) {
  const TemporaryFolder folder("lockstep-state");
  const auto place = state_in_file(folder.path() / "state.json");
  StateWriter(place).put("the end");
  EXPECT_EQ(place.load(), "the end");
}

/// A place that is busy until it is told otherwise.
class BusyPlace {
 public:
  StatePlace place() {
    return {"a busy place", [] { return std::nullopt; },
            [this](const std::string& text) {
              std::unique_lock lock(mutex_);
              saved_.push_back(text);
              changed_.notify_all();
              changed_.wait_for(lock, kLimit, [this] { return free_; });
              return !lost_;
            }};
  }
  void wait_until_busy() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kLimit, [this] { return !saved_.empty(); });
  }
  void free(bool lost = false) {
    const std::lock_guard lock(mutex_);
    free_ = true;
    lost_ = lost;
    changed_.notify_all();
  }
  const std::vector<std::string>& saved() const { return saved_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> saved_;
  bool free_ = false;
  bool lost_ = false;  ///< another service has the place
};

TEST(StateWriter, ASlowPlaceHoldsNobodyUpAndGetsTheNewest) {
  BusyPlace busy;
  {
    StateWriter writer(busy.place());
    writer.put("one");
    busy.wait_until_busy();
    writer.put("two");
    writer.put("three");
    EXPECT_FALSE(writer.wait_for(20ms));
    busy.free();
    EXPECT_TRUE(writer.wait_for(kLimit));
  }
  EXPECT_THAT(busy.saved(), ElementsAre("one", "three"));
}

TEST(StateWriter, NothingIsSavedOnceAnotherServiceHasThePlace) {
  BusyPlace busy;
  std::vector<bool> ends;
  {
    StateWriter writer(busy.place(), [&](bool saved) { ends.push_back(saved); });
    writer.put("one");
    busy.wait_until_busy();
    writer.put("two");
    busy.free(true);
    EXPECT_FALSE(writer.wait_for(20ms));
  }
  EXPECT_THAT(busy.saved(), ElementsAre("one"));
  EXPECT_THAT(ends, ElementsAre(false));
}

TEST(StateWriter, TriesAgainUntilItIsThere) {
  const test::LogLines log;
  const TemporaryFolder folder("lockstep-state");
  const auto file = folder.path() / "state" / "scheduler.json";
  const auto place = state_in_file(file);
  std::filesystem::remove(file.parent_path());
  StateWriter writer(place);
  writer.put("one");
  EXPECT_THAT(log.with("is not saved"), HasSubstr("No such file or directory"));
  EXPECT_FALSE(writer.wait_for(10ms));
  std::filesystem::create_directory(file.parent_path());
  EXPECT_TRUE(writer.wait_for(kLimit));
  EXPECT_EQ(place.load(), "one");
  EXPECT_THAT(log.with("is saved again"), HasSubstr(file.string()));
}

TEST(StateInFile, SaysWhatItCannotRead) {
  const TemporaryFolder folder("lockstep-state");
  const auto place = state_in_file(folder.path() / "state.json");
  std::filesystem::create_symlink("state.json", folder.path() / "state.json");
  EXPECT_THROW(place.load(), Error);
  EXPECT_THROW(state_in_file(folder.path() / "state.json" / "deep" / "state.json"), Error);
}

}  // namespace
}  // namespace lockstep::membership
