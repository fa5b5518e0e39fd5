// Which programs may be loaded once.
#include <lockstep/base/temporary_folder.h>
#include <lockstep/cluster/fork_server/can_fork.h>

#include "support/read_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::cluster {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::IsEmpty;
using testing::Not;

TEST(NeededLibraries, AreThoseThatAProgramNamesItself) {
  EXPECT_THAT(needed_libraries(LOCKSTEP_FORKABLE_PROGRAM), AllOf(Contains(LOCKSTEP_LIBRARY), Contains("libc.so.6")));
  EXPECT_THAT(needed_libraries(LOCKSTEP_RANK_PROGRAM), AllOf(Not(Contains(LOCKSTEP_LIBRARY)), Contains("libc.so.6")));
}

TEST(NeededLibraries, AreNoneOfWhatIsNoProgram) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "file";
  EXPECT_THAT(needed_libraries(path), IsEmpty());
  EXPECT_THAT(needed_libraries(folder.path()), IsEmpty());
  std::ofstream(path) << "#!/bin/sh\n# " LOCKSTEP_LIBRARY "\n";
  EXPECT_THAT(needed_libraries(path), IsEmpty());
}

TEST(NeededLibraries, SayWhoMayNeedTheStoreOfC10d) {
  const auto may_need = [](const std::string& program) {
    LaunchOptions options;
    options.program.command = {program};
    return may_need_c10d_store(options);
  };
  EXPECT_FALSE(may_need(LOCKSTEP_FORKABLE_PROGRAM));
  for (const auto* other : {LOCKSTEP_RANK_PROGRAM, "sh", "train.py", "no_such_program"}) EXPECT_TRUE(may_need(other));
  const TemporaryFolder folder;
  const auto path = folder.path() / "file";
  auto whole = test::read_file(LOCKSTEP_FORKABLE_PROGRAM);
  // The name of a symbol of its own becomes that of the store's constructor.
  const std::string name = "_ZN4c10d8TCPStoreC1E";
  const auto at = whole.find("_ZN8lockstep4base");
  const auto place = at == std::string::npos ? whole.find("_ZN8lockstep") : at;
  ASSERT_NE(place, std::string::npos);
  std::ofstream(path, std::ios::binary) << whole.replace(place, name.size(), name);
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  EXPECT_TRUE(may_need(path));
}

TEST(NeededLibraries, EndureProgramsThatAreCutOff) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "file";
  const std::string whole = test::read_file(LOCKSTEP_FORKABLE_PROGRAM);
  for (std::size_t size = 0; size < 1500; size += 7) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << whole.substr(0, size);
    EXPECT_THAT(needed_libraries(path), Not(Contains(LOCKSTEP_LIBRARY))) << size;
  }
}

}  // namespace
}  // namespace lockstep::cluster
