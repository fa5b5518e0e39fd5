// `lockstep doctor` on this machine and under launchers.
#include "cli/doctor_report.h"
#include "cli/two_nodes.h"
#include "support/port.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <future>
#include <nlohmann/json.hpp>

namespace lockstep::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// ---- alone

TEST(Doctor, ExaminesThisMachine) {
  const auto ran = lockstep({"doctor"});
  EXPECT_TRUE(ran.status.ok()) << ran.out << ran.err;
  EXPECT_THAT(ran.out,
              AllOf(StartsWith(kDoctor), HasSubstr("open files, /dev/shm"), HasSubstr("fine: 1 rank, 1 host")));
  EXPECT_EQ(ran.err, "");
  EXPECT_LE(lines_of(ran.out).size(), 48u);
}

TEST(Doctor, PrintsOneObject) {
  const auto ran = lockstep({"doctor", "--json"});
  EXPECT_EQ(lines_of(ran.out).size(), 1u);
  const auto report = nlohmann::json::parse(ran.out);
  EXPECT_EQ(report["sound"], true);
  EXPECT_EQ(report["ranks"][0]["lockstep"], LOCKSTEP_VERSION);
}

TEST(Doctor, NamesWhoHoldsThePort) {
  const auto port = reserve_port();
  const auto held = listen_on(port);
  ASSERT_GE(held.get(), 0);
  const auto holder = fmt::format("(pid {})", ::getpid());
  const auto ran = lockstep({"doctor"}, {{"MASTER_PORT", std::to_string(port)}});
  EXPECT_EQ(ran.status, kUnsound);
  EXPECT_THAT(ran.out,
              AllOf(HasSubstr("ERROR  port  host "), HasSubstr("port " + std::to_string(port)), HasSubstr(holder)));
  // The same for the rank of a job that would open it.
  const auto rank = lockstep(
      {"doctor"},
      {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", std::to_string(port)}});
  EXPECT_EQ(rank.status, kUnsound);
  EXPECT_THAT(rank.out, AllOf(HasSubstr("ERROR  port  host "), HasSubstr(holder)));
}

TEST(Doctor, FilesMustBeThere) {
  const Workbench bench;
  EXPECT_TRUE(lockstep({"doctor", "--config", bench.config(), "--same", LOCKSTEP_BINARY}).status.ok());
  const auto ran = lockstep({"doctor", "--same", "/no/such/file"});
  EXPECT_EQ(ran.status, kUnsound);
  EXPECT_THAT(ran.out, HasSubstr("/no/such/file cannot be read"));
}

// In a shell of its own, after `preparation`.
Captured after(const std::string& preparation) {
  return run_program({"sh", "-c", preparation + " && exec " + LOCKSTEP_BINARY + " doctor"}, plain_environment());
}

TEST(Doctor, FewOpenFiles) {
  const auto ran = after("ulimit -n 150");
  EXPECT_EQ(ran.status, kUnsound);
  EXPECT_THAT(ran.out, AllOf(HasSubstr("ERROR  open_files"), HasSubstr("may open 150 files")));
}

TEST(Doctor, LittleSharedMemory) {
  if (!run_program({"unshare", "--mount", "true"}).status.ok()) GTEST_SKIP() << "mounting needs root";
  const auto ran =
      run_program({"unshare", "--mount", "sh", "-c",
                   std::string("mount -t tmpfs -o size=32m none /dev/shm && exec ") + LOCKSTEP_BINARY + " doctor"},
                  plain_environment());
  EXPECT_TRUE(ran.status.ok()) << ran.out << ran.err;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("WARNING  shared_memory"), HasSubstr("/dev/shm has 32 MiB")));
}

TEST(Doctor, MistakesAreNotFindings) {
  const auto ran = lockstep({"doctor", "--wait", "never"});
  EXPECT_EQ(ran.status, (ExitStatus{2, 0}));
  EXPECT_THAT(ran.err, HasSubstr("--wait"));
  EXPECT_EQ(lockstep({"doctor"}, {{"RANK", "0"}}).status, (ExitStatus{2, 0}));
}

// ---- under launchers

TEST(Doctor, UnderLockstepRun) {
  const auto ran = under_lockstep_run(2, {"lockstep", "doctor"});
  EXPECT_TRUE(ran.status.ok()) << ran.out << ran.err;
  EXPECT_THAT(ran.out, AllOf(StartsWith(std::string("[rank 0] ") + kDoctor), HasSubstr("fine: 2 ranks, 1 host"),
                             Not(HasSubstr("[rank 1]"))));
}

TEST(Doctor, MeetsInAFileOfItsOwn) {
  const TemporaryFolder folder;
  const auto store = folder.path() / "store";
  const auto rank = [&](int number, const std::string& wait) {
    return lockstep({"doctor", "--wait", wait}, {{"RANK", std::to_string(number)},
                                                 {"WORLD_SIZE", "2"},
                                                 {"LOCAL_RANK", std::to_string(number)},
                                                 {"LOCAL_WORLD_SIZE", "2"},
                                                 {"LOCKSTEP_INIT_METHOD", "file://" + store.string()}});
  };
  // Twice: what a rank alone has left there must not be taken for it the next time.
  EXPECT_EQ(rank(0, "0.2").status, kUnsound);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  auto second = std::async(std::launch::async, [&] { return rank(1, "30"); });
  const auto first = rank(0, "30");
  EXPECT_TRUE(first.status.ok()) << first.out << first.err;
  EXPECT_TRUE(second.get().status.ok());
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

// "A proxy that does not work": nothing of ours goes through it.
TEST(Doctor, ProxiesDoNotDisturb) {
  const Environment proxies = {{"http_proxy", "http://me:secret@127.0.0.1:9"}, {"ALL_PROXY", "socks://127.0.0.1:9"}};
  const auto ran = lockstep({"run", "--no-prefix", "--nproc-per-node", "2", "lockstep", "doctor", "--json"}, proxies);
  EXPECT_TRUE(ran.status.ok()) << ran.out << ran.err;
  EXPECT_THAT(findings_in(ran.out), testing::Contains("warning proxies"));
  EXPECT_THAT(ran.out, Not(HasSubstr("secret")));
}

TEST(Doctor, UnderMpirun) {
  if (!LOCKSTEP_HAS_MPI) GTEST_SKIP() << "built without MPI";
  const auto ran = under_mpirun(2, {LOCKSTEP_BINARY, "doctor"});
  EXPECT_TRUE(ran.status.ok()) << ran.out << ran.err;
  EXPECT_THAT(ran.out, AllOf(StartsWith(kDoctor), HasSubstr("fine: 2 ranks, 1 host")));
}

}  // namespace
}  // namespace lockstep::test
