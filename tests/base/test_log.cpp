#include <lockstep/base/log.h>
#include <lockstep/base/temporary_folder.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/expect_error.h"
#include "support/forks.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> lines_of(const fs::path& path) {
  std::vector<std::string> lines;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

constexpr std::size_t kTimeLength = std::string_view("2026-01-31 12:00:00.000 ").size();

// A line with all digits as 0.
std::string shape_of(std::string line) {
  for (char& c : line) {
    if (c >= '0' && c <= '9') c = '0';
  }
  return line;
}

// What a process of its own writes to the console.
std::string console_of(const std::function<void()>& body) {
  const auto outcomes = test::fork_outcomes(1, {}, [&](int) { body(); });
  EXPECT_TRUE(outcomes.front().ok()) << outcomes.front().output;
  return outcomes.front().output;
}

// The log of this process, for the scope of a test.
class StartedLog {
 public:
  explicit StartedLog(const LogOptions& options) { start_logging(options); }
  ~StartedLog() { stop_logging(); }
  StartedLog(const StartedLog&) = delete;
  StartedLog& operator=(const StartedLog&) = delete;
};

TEST(Log, BeforeItIsStartedOnlyWarningsAndErrorsShow) {
  EXPECT_EQ(console_of([] {
              log_debug("d {}", 1);
              log_info("i {}", 2);
              log_warning("w {}", 3);
              log_error("e {}", 4);
            }),
            "[warning] w 3\n[error] e 4\n");
}

TEST(Log, ConsoleLinesBeginWithTheRank) {
  EXPECT_EQ(console_of([] {
              start_logging({.rank = 1, .size = 2});
              log_debug("hidden");
              log_info("step {}", 7);
              log_warning("{{}} stays as it is");
              stop_logging();
            }),
            "[info] [rank 1/2] step 7\n[warning] [rank 1/2] {} stays as it is\n");
}

TEST(Log, ASingleProcessHasNoRankPrefix) {
  EXPECT_EQ(console_of([] {
              start_logging({});
              log_info("alone");
            }),
            "[info] alone\n");
}

TEST(Log, FilesHaveTimeLevelAndRank) {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "log" / "rank.0";
  const StartedLog log({.rank = 0, .size = 4, .level = "debug", .file = file, .console = false});
  log_debug("starts");
  log_error("ends with {}", "100%");
  const auto lines = lines_of(file);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(shape_of(lines[0]), "0000-00-00 00:00:00.000 [debug] [rank 0/0] starts");
  EXPECT_EQ(shape_of(lines[1]), "0000-00-00 00:00:00.000 [error] [rank 0/0] ends with 000%");
  EXPECT_TRUE(lines[0].ends_with(" [debug] [rank 0/4] starts")) << lines[0];
  EXPECT_TRUE(lines[1].ends_with(" [error] [rank 0/4] ends with 100%")) << lines[1];
}

TEST(Log, LevelsHideWhatIsBelowThem) {
  const TemporaryFolder folder;
  const std::vector<std::pair<std::string, std::size_t>> cases = {
      {"debug", 4}, {"info", 3}, {"warning", 2}, {"error", 1}, {"off", 0}};
  for (const auto& [level, count] : cases) {
    const fs::path file = folder.path() / level;
    const StartedLog log({.level = level, .file = file, .console = false});
    log_debug("line");
    log_info("line");
    log_warning("line");
    log_error("line");
    EXPECT_EQ(lines_of(file).size(), count) << level;
    EXPECT_EQ(log_enabled(LogLevel::error), level != "off");
  }
}

TEST(Log, IsAppendedToAndReplacedByASecondStart) {
  const TemporaryFolder folder;
  const LogOptions options{.file = folder.path() / "a", .console = false};
  const StartedLog log(options);
  log_info("one");
  start_logging(options);
  log_info("two");
  start_logging({.file = folder.path() / "b", .console = false});
  log_info("three");
  EXPECT_EQ(lines_of(folder.path() / "a").size(), 2u);
  EXPECT_EQ(lines_of(folder.path() / "b").size(), 1u);
}

TEST(Log, AKilledProcessLosesNoLine) {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "log";
  const auto outcomes = test::fork_outcomes(1, {}, [&](int) {
    start_logging({.file = file, .console = false});
    log_info("last words");
    ::kill(::getpid(), SIGKILL);
  });
  EXPECT_EQ(outcomes.front().status.signal, SIGKILL);
  EXPECT_EQ(lines_of(file).size(), 1u);
}

TEST(Log, ThreadsDoNotMixTheirLines) {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "log";
  const StartedLog log({.file = file, .console = false});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 50; ++i) log_info("thread {} line {} end", t, i);
    });
  }
  for (auto& thread : threads) thread.join();
  std::multiset<std::string> expected;
  std::multiset<std::string> found;
  for (int t = 0; t < 4; ++t) {
    for (int i = 0; i < 50; ++i) expected.insert(fmt::format("[info] thread {} line {} end", t, i));
  }
  for (const auto& line : lines_of(file)) found.insert(line.substr(std::min(line.size(), kTimeLength)));
  EXPECT_EQ(found, expected);
}

TEST(Log, AFullDiskStopsNobodyButIsSaid) {
  const std::string console = console_of([] {
    start_logging({.file = "/dev/full"});
    log_info("one");
    log_info("two");
    stop_logging();
  });
  test::expect_words(console, {"[info] one", "[info] two", "/dev/full", "No space left on device"});
}

TEST(Log, NamesALevelThatDoesNotExist) {
  test::expect_error(ErrorKind::invalid_argument,
                     {"'warnin'", "did you mean 'warning'", "debug, info, warning, error, off"},
                     [] { start_logging({.level = "warnin"}); });
}

TEST(Log, NamesAFileThatCannotBeOpened) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "plain") << "x";
  const fs::path below = folder.path() / "plain" / "log";
  test::expect_error(ErrorKind::io, {"log file", below.c_str()}, [&] { start_logging({.file = below}); });
  test::expect_error(ErrorKind::io, {"log file", folder.path().c_str()},
                     [&] { start_logging({.file = folder.path()}); });
}

}  // namespace
}  // namespace lockstep
