// Where output goes: the grammars, the files, and the launcher's loop with real processes.
#include <lockstep/base/error.h>
#include <lockstep/base/files.h>
#include <lockstep/base/temporary_folder.h>
#include <lockstep/cluster/failure.h>
#include <lockstep/cluster/flag_values.h>
#include <lockstep/cluster/launch_ranks.h>
#include <lockstep/cluster/output/rank_output.h>
#include <lockstep/cluster/output/rank_stream.h>
#include <lockstep/cluster/rank_start.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

namespace lockstep::cluster {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr Streams kNone{};
constexpr Streams kOut{.out = true, .err = false};
constexpr Streams kErr{.out = false, .err = true};
constexpr Streams kBoth{.out = true, .err = true};

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.message();
  }
  return "(no error)";
}

std::string content(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(StreamChoice, OneValueIsForAllRanks) {
  for (const auto& [text, streams] :
       std::map<std::string, Streams>{{"0", kNone}, {"1", kOut}, {"2", kErr}, {"3", kBoth}}) {
    const StreamChoice choice = parse_stream_choice("--tee", text);
    EXPECT_EQ(choice.of(0), streams) << text;
    EXPECT_EQ(choice.of(17), streams) << text;
    EXPECT_EQ(choice.any(), text != "0");
  }
}

TEST(StreamChoice, RanksThatAMapDoesNotNameHaveNone) {
  const StreamChoice choice = parse_stream_choice("--tee", "0:3,2:1,12:2");
  EXPECT_EQ(choice.of(0), kBoth);
  EXPECT_EQ(choice.of(1), kNone);
  EXPECT_EQ(choice.of(2), kOut);
  EXPECT_EQ(choice.of(12), kErr);
  EXPECT_TRUE(choice.any());
  EXPECT_FALSE(parse_stream_choice("--tee", "0:0").any());
}

TEST(StreamChoice, RefusesTheRest) {
  for (const char* text : {"", "4", "-1", "03", "a", "1,2", "0:", ":1", "0:4", "0:1,", "0:1;1:1", "0:1 ", "-1:1", "x:1",
                           "0:1:2", "99999999999:1"}) {
    EXPECT_THAT(message_of([&] { parse_stream_choice("--redirects", text); }),
                AllOf(StartsWith(fmt::format("--redirects '{}' must be 0 (none)", text)), HasSubstr("0:3,1:1")))
        << text;
  }
  EXPECT_THAT(message_of([] { parse_stream_choice("--tee", "1:0,1:3"); }), HasSubstr("local rank 1 twice"));
}

TEST(LocalRanks, AreNumbersBetweenCommas) {
  EXPECT_THAT(parse_local_ranks("--f", ""), IsEmpty());
  EXPECT_THAT(parse_local_ranks("--f", "2,0,11"), ElementsAre(0, 2, 11));
  for (const char* text : {",", "0,", "a", "-1", "0, 1", "0;1"}) {
    EXPECT_THAT(message_of([&] { parse_local_ranks("--f", text); }), StartsWith(fmt::format("--f '{}' must be", text)));
  }
}

TEST(Signals, AreKnownByTheirNames) {
  EXPECT_THAT(parse_signals("--s", "SIGTERM,SIGUSR1"), ElementsAre(SIGTERM, SIGUSR1));
  for (const char* text : {"", "TERM", "SIGKILL", "SIGCHLD", "15", "SIGTERM,"}) {
    EXPECT_THAT(message_of([&] { parse_signals("--s", text); }),
                AllOf(StartsWith(fmt::format("--s '{}'", text)), HasSubstr("SIGTERM, SIGINT")));
  }
}

TEST(Macros, ReplacesWhatIsKnownOnce) {
  const Macros macros = {{"a", "1"}, {"b", "${a}"}};
  EXPECT_EQ(replace_macros("x${a}y${b}${a}", macros), "x1y${a}1");
  EXPECT_EQ(replace_macros("${c} ${ ${a} $a ${}", macros), "${c} ${ 1 $a ${}");
  EXPECT_EQ(replace_macros("${a", macros), "${a");
  EXPECT_EQ(replace_macros("", macros), "");
}

TEST(LinePrefix, NamesRankAndRole) {
  LinePrefix prefix;
  EXPECT_EQ(prefix.of(5, 1), "[rank 5] ");
  prefix.role = "trainer";
  EXPECT_EQ(prefix.of(5, 1), "[trainer rank 5] ");
  prefix.format = "${role_name}-${rank}.${local_rank}> ";
  EXPECT_EQ(prefix.of(5, 1), "trainer-5.1> ");
  prefix.shown = false;
  EXPECT_EQ(prefix.of(5, 1), "");
}

TEST(Outlets, ARedirectedStreamLeavesTheConsoleAndATeedOneStays) {
  OutputOptions options;
  options.redirects = parse_stream_choice("-r", "0:1,1:3");
  options.tee = parse_stream_choice("-t", "0:2,1:1");
  const RankOutlets first = outlets_of(options, 0, "/f/0");
  EXPECT_FALSE(first.out.console);
  EXPECT_EQ(first.out.file, "/f/0/stdout.log");
  EXPECT_TRUE(first.err.console);
  EXPECT_EQ(first.err.file, "/f/0/stderr.log");
  const RankOutlets second = outlets_of(options, 1, "/f/1");
  EXPECT_TRUE(second.out.console);
  EXPECT_FALSE(second.err.console);
  const RankOutlets third = outlets_of(options, 2, "/f/2");
  EXPECT_TRUE(third.out.console && third.err.console);
  EXPECT_TRUE(third.out.file.empty() && third.err.file.empty());
}

TEST(Outlets, TheFilterIsForTheConsoleOnly) {
  OutputOptions options;
  options.tee = parse_stream_choice("-t", "1");
  options.shown = {1};
  const RankOutlets hidden = outlets_of(options, 0, "/f/0");
  EXPECT_FALSE(hidden.out.console || hidden.err.console);
  EXPECT_EQ(hidden.out.file, "/f/0/stdout.log");
  EXPECT_TRUE(outlets_of(options, 1, "/f/1").err.console);
  const RankOutlets without_files = outlets_of(options, 1, "");
  EXPECT_TRUE(without_files.out.console);
  EXPECT_TRUE(without_files.out.file.empty());
}

TEST(Output, ChosenLinesAreCopiedForAllRanks) {
  EXPECT_THAT(parse_line_filters(""), IsEmpty());
  EXPECT_THAT(parse_line_filters("apple,orange"), ElementsAre("apple", "orange"));
  EXPECT_THAT(parse_line_filters(",a,,b,"), ElementsAre("a,b"));
  const TemporaryFolder folder;
  OutputOptions options;
  options.out_filters = {"loss", "a,b"};
  EXPECT_TRUE(options.wants_files());
  EXPECT_EQ(outlets_of(options, 0, "").out.filtered, "");
  EXPECT_EQ(outlets_of(options, 0, folder.path() / "0").err.filtered, "");
  ConsoleSink sink(-1);
  for (const auto* rank : {"0", "1"}) {
    const auto outlets = outlets_of(options, 0, folder.path() / rank);
    EXPECT_EQ(outlets.out.filtered, folder.path() / "filtered_stdout.log");
    RankStream stream(UniqueFd(), fmt::format("[rank {}] ", rank), sink, nullptr, outlets.out);
    stream.take("loss 1\nnothing\nsay a,");
    stream.take("b\nloss at the end");
    stream.close();
  }
  EXPECT_EQ(read_file(folder.path() / "filtered_stdout.log"),
            "[rank 0] loss 1\n[rank 0] say a,b\n[rank 0] loss at the end\n"
            "[rank 1] loss 1\n[rank 1] say a,b\n[rank 1] loss at the end\n");
}

TEST(LogFile, GetsBytesAsTheyAre) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "log";
  std::ofstream(path) << "old";
  LogFile log(path);
  EXPECT_TRUE(log.append("a\r"));
  EXPECT_TRUE(log.append("\xff\n"));
  EXPECT_EQ(content(path), "a\r\xff\n");
  EXPECT_EQ(log.take_failure(), std::nullopt);
  EXPECT_THAT(message_of([&] { LogFile(folder.path() / "no" / "log"); }), HasSubstr("No such file"));
}

TEST(LogFile, SaysOnceThatTheDiskIsFull) {
  LogFile log("/dev/full");
  EXPECT_FALSE(log.append("x"));
  EXPECT_EQ(log.take_failure(), "/dev/full: No space left on device");
  EXPECT_FALSE(log.append("y"));
  EXPECT_EQ(log.take_failure(), std::nullopt);
}

TEST(LogFolder, IsLaidOutAsTorchrunDoes) {
  const TemporaryFolder folder;
  OutputOptions options;
  options.log_dir = folder.path() / "deep" / "logs";
  std::filesystem::path path;
  {
    const LogFolder logs(options, "job/7");
    path = logs.path();
    EXPECT_EQ(path.parent_path(), options.log_dir);
    EXPECT_THAT(path.filename().string(), testing::MatchesRegex("job_7_[A-Za-z0-9]+"));
    EXPECT_EQ(logs.attempt(2), path / "attempt_2");
    EXPECT_TRUE(logs.stays());
  }
  EXPECT_TRUE(std::filesystem::is_directory(path));
  EXPECT_NE(LogFolder(options, "job/7").path(), path);
}

TEST(LogFolder, IsTemporaryWhereNothingIsToBeKept) {
  std::filesystem::path path;
  {
    const LogFolder logs({}, "job");
    path = logs.path();
    EXPECT_FALSE(logs.stays());
    EXPECT_TRUE(std::filesystem::is_directory(path));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

// A launcher that was killed cannot remove its own.
TEST(LogFolder, TheNextRemovesWhatADeadLauncherLeft) {
  const TemporaryFolder folder;
  const char* const before = ::getenv("TMPDIR");
  const std::string restored = before == nullptr ? "" : before;
  ASSERT_EQ(::setenv("TMPDIR", folder.path().c_str(), 1), 0);
  const auto abandoned = TemporaryFolder("lockstep-run").release();
  std::ofstream(abandoned / "error.json") << "x";
  const auto young = TemporaryFolder("lockstep-run").release();
  const auto other = TemporaryFolder("lockstep-logs").release();
  std::optional<LogFolder> in_use(std::in_place, OutputOptions{}, "job");
  const auto used = in_use->path();
  const auto long_ago = std::filesystem::file_time_type::clock::now() - std::chrono::hours(1);
  for (const auto& path : {abandoned, other, used}) std::filesystem::last_write_time(path, long_ago);
  const LogFolder next({}, "job");
  EXPECT_FALSE(std::filesystem::exists(abandoned));
  for (const auto& path : {young, other, used}) EXPECT_TRUE(std::filesystem::exists(path)) << path;
  in_use.reset();
  EXPECT_FALSE(std::filesystem::exists(used));
  EXPECT_EQ(before == nullptr ? ::unsetenv("TMPDIR") : ::setenv("TMPDIR", restored.c_str(), 1), 0);
}

TEST(LogFolder, StaysForStreamsThatGoToFiles) {
  OutputOptions options;
  options.tee = parse_stream_choice("-t", "3");
  std::filesystem::path path;
  {
    const LogFolder logs(options, "job");
    path = logs.path();
    EXPECT_TRUE(logs.stays());
  }
  EXPECT_TRUE(std::filesystem::is_directory(path));
  std::filesystem::remove_all(path.parent_path());
}

TEST(LogFolder, TheNullDeviceMeansNoFilesAndAnyOtherFileIsAnError) {
  OutputOptions options;
  options.log_dir = "/dev/null";
  const LogFolder none(options, "job");
  EXPECT_TRUE(none.path().empty() && none.attempt(0).empty());
  EXPECT_FALSE(none.stays());

  const TemporaryFolder folder;
  options.log_dir = folder.path() / "file";
  std::ofstream(options.log_dir) << "x";
  EXPECT_THAT(message_of([&] { LogFolder(options, "job"); }),
              AllOf(HasSubstr(options.log_dir.string()), HasSubstr("is a file")));
  options.log_dir /= "below";
  EXPECT_THAT(message_of([&] { LogFolder(options, "job"); }), HasSubstr("cannot make the folder"));
}

// ---- to an outer launcher

nlohmann::json passed_on(const std::string& cause, const ExitStatus& status) {
  const TemporaryFolder folder;
  const auto from = folder.path() / "from.json";
  const auto to = folder.path() / "to.json";
  if (!cause.empty()) std::ofstream(from) << cause;
  pass_on_failure(from, status, "the report", {{"TORCHELASTIC_ERROR_FILE", to.string()}});
  return nlohmann::json::parse(content(to));
}

TEST(PassOnFailure, AddsTheExitCodeToTheRootCause) {
  const auto given = R"({"message": {"message": "ValueError: no", "extraInfo": {"py_callstack": "..."}}})";
  EXPECT_EQ(passed_on(given, {3, 0}), nlohmann::json::parse(R"({"message": {"message": "ValueError: no",
    "extraInfo": {"py_callstack": "..."}, "errorCode": 3}})"));
  EXPECT_EQ(passed_on(given, {0, SIGKILL})["message"]["errorCode"], -9);
  const auto brief = R"({"message": "text", "timestamp": 17})";
  EXPECT_EQ(passed_on(brief, {3, 0}), nlohmann::json::parse(brief));
}

TEST(PassOnFailure, TheReportStandsInForARankThatLeftNothing) {
  for (const char* cause : {"", "{", "[]"}) {
    const auto message = passed_on(cause, {4, 0})["message"];
    EXPECT_EQ(message["message"], "the report") << cause;
    EXPECT_EQ(message["errorCode"], 4);
  }
}

TEST(PassOnFailure, DoesNothingWithoutAnOuterLauncher) {
  const TemporaryFolder folder;
  const auto passed_on = [&](const Environment& environment) {
    pass_on_failure("/no/such/file", {1, 0}, "x", environment);
    return !std::filesystem::is_empty(folder.path());
  };
  EXPECT_FALSE(passed_on({}));
  EXPECT_FALSE(passed_on({{"TORCHELASTIC_ERROR_FILE", ""}}));
  EXPECT_FALSE(passed_on({{"TORCHELASTIC_ERROR_FILE", folder.path() / "no" / "file"}}));
  EXPECT_TRUE(passed_on({{"TORCHELASTIC_ERROR_FILE", folder.path() / "file"}})) << "and so with one";
}

TEST(LastWord, IsTheRootCauseWhereverItsRankRan) {
  const TemporaryFolder folder;
  OutputOptions options;
  options.log_dir = folder.path() / "logs";
  const LogFolder logs(options, "job");
  Launch job;
  job.ranks = 2;
  job.first_rank = 2;
  job.folder = logs.attempt(1);
  make_empty_folder(folder_of_rank(job, 1));
  std::ofstream(error_file_of(job, 1)) << R"({"message": {"message": "disk full"}})";
  const auto to = folder.path() / "to.json";
  const auto word = [&](int first_failed) {
    LaunchResult result;
    result.exit_code = 4;
    result.report = "the report\n";
    result.first_failed = first_failed;
    for (const int rank : {2, 3}) {
      result.ends.emplace_back().rank = rank;
      result.ends.back().status = {rank, 0};
    }
    publish_root_cause(result, job, logs, {{"TORCHELASTIC_ERROR_FILE", to.string()}});
    EXPECT_EQ(result.report, "the report\n  logs: " + logs.path().string() + "\n");
    const auto message = nlohmann::json::parse(content(to))["message"];
    return std::pair(message["message"].get<std::string>(), message["errorCode"].get<int>());
  };
  EXPECT_EQ(word(3), std::pair(std::string("disk full"), 3));
  EXPECT_EQ(word(2), std::pair(std::string("the report\n"), 2)) << "of one that left nothing";
  EXPECT_EQ(word(0), std::pair(std::string("the report\n"), 4)) << "of another node's";
}

}  // namespace
}  // namespace lockstep::cluster
