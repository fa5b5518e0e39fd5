// Chrome traces: lines, escapes, files of killed processes, and the merge of several ranks.
#include <lockstep/base/temporary_folder.h>
#include <lockstep/train/viewers/trace_file.h>

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <thread>
#include <vector>

#include "base/expect_error.h"
#include "base/small_disk.h"
#include "support/forks.h"
#include "support/read_file.h"

namespace lockstep::train {
namespace {

using nlohmann::json;
using std::chrono::nanoseconds;
using test::expect_error;
using test::read_file;

// As viewers do: without its closing bracket it counts too.
json events_in(std::string text) {
  if (!json::accept(text)) text += "]";
  return json::parse(text);
}

std::vector<json> bars_in(const std::string& text) {
  std::vector<json> bars;
  for (const auto& event : events_in(text)) {
    if (event["ph"] == "X") bars.push_back(event);
  }
  return bars;
}

TEST(TraceFile, IsAnArrayOfEvents) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "trace.json";
  {
    TraceFile file(path, 3);
    file.name_thread(7, "loader");
    file.add({"forward", "step", 7, nanoseconds(1'234'567), nanoseconds(1'500)});
  }
  const auto events = json::parse(read_file(path));
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0], json::parse(R"({"name":"process_name","ph":"M","pid":3,"tid":0,"args":{"name":"rank 3"}})"));
  EXPECT_EQ(events[1],
            json::parse(R"({"name":"process_sort_index","ph":"M","pid":3,"tid":0,"args":{"sort_index":3}})"));
  EXPECT_EQ(events[2], json::parse(R"({"name":"thread_name","ph":"M","pid":3,"tid":7,"args":{"name":"loader"}})"));
  EXPECT_EQ(events[3],
            json::parse(R"({"name":"forward","cat":"step","ph":"X","pid":3,"tid":7,"ts":1234.567,"dur":1.5})"));
}

TEST(TraceFile, HasArgumentsAndARemark) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "trace.json";
  {
    TraceFile file(path, 1);
    file.label("clock \"exact\"");
    file.add({"all_reduce",
              "collective",
              2,
              nanoseconds(1000),
              nanoseconds(2000),
              {{"bytes", std::int64_t{1} << 40}, {"group", "the \"world\""}}});
  }
  const auto events = json::parse(read_file(path));
  EXPECT_EQ(events[2], json::parse(R"({"name":"process_labels","ph":"M","pid":1,"tid":0,
                                       "args":{"labels":"clock \"exact\""}})"));
  EXPECT_EQ(events[3]["args"], json::parse(R"({"bytes":1099511627776,"group":"the \"world\""})"));
  merge_traces(std::vector<RankTrace>{{path}}, folder.path() / "merged.json");
  EXPECT_EQ(json::parse(read_file(folder.path() / "merged.json"))[3]["args"], events[3]["args"]);
}

TEST(TraceFile, EscapesTexts) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "trace.json";
  const std::string odd = "\"quoted\" \\ \n\t\x01 größe";
  {
    TraceFile file(path, 0);
    file.name_thread(0, odd);
    file.add({odd, odd, 0, {}, {}});
    file.add({"bad\xFF", "", 0, {}, {}});
  }
  const auto events = json::parse(read_file(path));
  EXPECT_EQ(events[2]["args"]["name"], odd);
  EXPECT_EQ(events[3]["name"], odd);
  EXPECT_EQ(events[3]["cat"], odd);
  EXPECT_EQ(events[4]["name"], "bad\xEF\xBF\xBD");
}

TEST(TraceFile, KeepsNanosecondsSince1970) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "trace.json";
  {
    TraceFile file(path, 0);
    file.add({"a", "", 0, nanoseconds(1'700'000'000'123'456'789), nanoseconds(1)});
    file.add({"b", "", 0, nanoseconds(-1), nanoseconds(0)});
    file.add({"c", "", 0, nanoseconds::min(), nanoseconds::max()});
  }
  test::expect_words(read_file(path), {R"("ts":1700000000123456.789,"dur":0.001)", R"("ts":-0.001,"dur":0.000)",
                                       R"("ts":-9223372036854775.808,"dur":9223372036854775.807)"});
}

TEST(TraceFile, CanBeReadAfterAKill) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "trace.json";
  const auto outcomes = test::fork_outcomes(1, {}, [&](int) {
    TraceFile file(path, 0);
    file.add({"one", "", 0, {}, {}});
    file.add({"two", "", 0, {}, {}});
    file.flush();
    ::kill(::getpid(), SIGKILL);
  });
  EXPECT_EQ(outcomes.front().status.signal, SIGKILL);
  EXPECT_FALSE(json::accept(read_file(path)));
  EXPECT_EQ(bars_in(read_file(path)).size(), 2u);
}

TEST(TraceFile, TakesBarsOfSeveralThreads) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "trace.json";
  constexpr int kThreads = 4, kBars = 2000;
  test::fork_ranks(1, {}, [&](int) {
    TraceFile file(path, 0);
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&file, thread] {
        for (int i = 0; i < kBars; ++i) file.add({"bar", "", thread, nanoseconds(i), nanoseconds(1)});
      });
    }
    threads.clear();
  });
  EXPECT_EQ(bars_in(read_file(path)).size(), std::size_t{kThreads} * kBars);
}

TEST(TraceFile, SaysThatTheDiskIsFullAndStaysReadable) {
  if (const auto why = test::why_no_small_disk(); !why.empty()) GTEST_SKIP() << "cannot mount a small disk: " << why;
  const TemporaryFolder folder;
  test::fork_ranks(1, {}, [&](int) {
    test::mount_small_disk(folder.path(), 64 << 10);
    const auto path = folder.path() / "trace.json";
    {
      TraceFile file(path, 0);
      file.add({"kept", "", 0, {}, {}});
      file.flush();
      const auto fill = [&] {
        for (int i = 0; i < 10000; ++i) file.add({"lost", "", 0, {}, {}});
      };
      expect_error(ErrorKind::io, {"trace", path.c_str(), "disk is full"}, fill);
      EXPECT_EQ(bars_in(read_file(path)).size(), 1u);
      file.flush();
    }
    EXPECT_TRUE(json::accept(read_file(path)));
  });
  expect_error(ErrorKind::io, {"trace", "/no/such/folder/trace.json"},
               [] { TraceFile("/no/such/folder/trace.json", 0); });
}

// A trace with bars of 1 microsecond that begin at these nanoseconds.
std::filesystem::path write_trace(const std::filesystem::path& path, int rank,
                                  const std::vector<std::int64_t>& begins) {
  TraceFile file(path, rank);
  for (const auto begin : begins) file.add({"bar", "", 0, nanoseconds(begin), nanoseconds(1000)});
  return path;
}

TEST(MergeTraces, PutsRanksOnOneTimeLine) {
  const TemporaryFolder folder;
  // Rank 1's clock is 5 s behind that of rank 0.
  const std::vector<RankTrace> traces{
      {write_trace(folder.path() / "0", 0, {8'000'000'000, 9'000'000'250}), nanoseconds(0)},
      {write_trace(folder.path() / "1", 1, {2'500'000'000, 3'000'000'000}), std::chrono::seconds(5)}};
  merge_traces(traces, folder.path() / "merged.json");
  const auto text = read_file(folder.path() / "merged.json");
  ASSERT_TRUE(json::accept(text));
  std::vector<std::pair<int, double>> begins;
  for (const auto& bar : bars_in(text)) begins.emplace_back(bar["pid"], bar["ts"]);
  EXPECT_EQ(begins, (std::vector<std::pair<int, double>>{{0, 500'000}, {0, 1'500'000.25}, {1, 0}, {1, 500'000}}));
  EXPECT_EQ(std::ranges::count_if(json::parse(text), [](const json& e) { return e["name"] == "process_name"; }), 2);
}

TEST(MergeTraces, TakesFilesThatWereCut) {
  const TemporaryFolder folder;
  const auto first = write_trace(folder.path() / "0", 0, {0, 1000, 2000});
  const auto second = write_trace(folder.path() / "1", 1, {0});
  const auto whole = read_file(first);
  const auto merged = folder.path() / "merged.json";
  const auto bars_of_cut = [&](std::size_t size) {
    std::ofstream(first) << whole.substr(0, size);
    merge_traces(std::vector<RankTrace>{{first}, {second}}, merged);
    return bars_in(read_file(merged)).size();
  };
  const auto line_ends_before = [&](std::size_t size) { return std::count(whole.begin(), whole.begin() + size, '\n'); };
  for (std::size_t size = 1; size < whole.size(); size += 7) {
    const auto complete = std::max<std::int64_t>(0, line_ends_before(size) - 3);  // of the bracket and two titles
    EXPECT_GE(bars_of_cut(size), static_cast<std::size_t>(complete) + 1) << size;
  }
  const std::size_t end = whole.size() - std::string_view("\n]\n").size();
  EXPECT_EQ(bars_of_cut(end), 4u) << "all but the bracket";
  EXPECT_EQ(bars_of_cut(end - 1), 3u) << "within the last bar";
}

TEST(MergeTraces, NamesTheFileThatIsNone) {
  const TemporaryFolder folder;
  const auto merged = folder.path() / "merged.json";
  std::ofstream(folder.path() / "notes") << "hello\n";
  expect_error(ErrorKind::io, {"trace", "/no/such/trace", "No such file"},
               [&] { merge_traces(std::vector<RankTrace>{{"/no/such/trace"}}, merged); });
  expect_error(ErrorKind::data, {"trace", "notes", "not a trace"},
               [&] { merge_traces(std::vector<RankTrace>{{folder.path() / "notes"}}, merged); });
  EXPECT_FALSE(std::filesystem::exists(merged));
  merge_traces({}, merged);
  EXPECT_EQ(json::parse(read_file(merged)).size(), 0u);
}

}  // namespace
}  // namespace lockstep::train
