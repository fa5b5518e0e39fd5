// The status page of a rank: its progress and its last calls in one mapped file, which can be read after the rank has
// died; and that progress as text.
//
// The kernel keeps the last writes of a process in the file, even when the process is killed. Writing is a few plain
// stores: no system call, no lock. Each value is one atomic number, so it is never partially written; the values of one
// call are written one after another, and a reader leaves out a call that changes while it reads.
#pragma once

#include <lockstep/base/environment.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Collectives by their number in a page; 0 means none. The order is part of the page's layout: add new ones at the
/// end.
inline constexpr std::array<std::string_view, 15> kCollectiveNames = {
    "",        "all_reduce", "reduce",   "broadcast", "all_gather", "reduce_scatter", "all_to_all", "gather",
    "scatter", "barrier",    "allocate", "subgroup",  "send",       "receive",        "connect"};

/// The number of a collective; 0 for an unknown name.
constexpr std::uint8_t number_of_collective(std::string_view name) {
  for (std::size_t i = 1; i < kCollectiveNames.size(); ++i) {
    if (kCollectiveNames.at(i) == name) return static_cast<std::uint8_t>(i);
  }
  return 0;
}

/// The dtypes of calls by their number in a page, in the same way; 0: none, or one without a number.
inline constexpr std::array<std::string_view, 16> kElementNames = {
    "",         "bool",    "uint8",   "int8",      "int16",      "int32",         "int64",       "float16",
    "bfloat16", "float32", "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2", "other"};

constexpr std::uint8_t number_of_element(std::string_view name) {
  for (std::size_t i = 1; i < kElementNames.size(); ++i) {
    if (kElementNames.at(i) == name) return static_cast<std::uint8_t>(i);
  }
  return static_cast<std::uint8_t>(kElementNames.size() - 1);
}

/// The parts into which the time of a run divides, by their number in a page.
inline constexpr std::array<std::string_view, 9> kTimeParts = {"start", "data", "compute",  "communicate", "wait",
                                                               "save",  "lost", "evaluate", "other"};
enum class TimePart : std::uint8_t { start, data, compute, communicate, wait, save, lost, evaluate, other };
/// The parts of steps: their share of the time is the effective training time ratio (ETTR).
inline constexpr std::array kPartsOfSteps = {TimePart::data, TimePart::compute, TimePart::communicate, TimePart::wait};

/// One call of a collective or message.
struct CallRecord {
  using Time = std::chrono::steady_clock::time_point;

  std::string op{};                    ///< "all_reduce"
  std::uint64_t number = 0;            ///< in its group, from 1; messages are counted separately
  std::string element{};               ///< "float32"; empty: no tensor
  std::uint64_t bytes = 0;             ///< of this rank's tensor
  std::optional<std::int64_t> step{};  ///< that was complete then
  std::string place{};                 ///< "global operator 15, aten::relu of ..."; empty: not known
  Time asked{};                        ///< when the program made the call
  std::optional<Time> begun{};         ///< when the backend began it, after the comparison of arguments
  std::optional<Time> completed{};     ///< when this rank had waited for its result

  bool is_message() const { return op == "send" || op == "receive"; }
  bool operator==(const CallRecord&) const = default;
};

/// The last calls of a rank in one group, the oldest first; none where it has made none yet.
struct GroupCalls {
  std::string group;  ///< its name; empty: the calls of all groups without a name in the page
  std::vector<CallRecord> calls;

  bool operator==(const GroupCalls&) const = default;
};

/// The last calls of a rank, as they were at the time `until`.
struct RankCalls {
  using Time = CallRecord::Time;

  int rank = -1;                   ///< -1: not known
  std::vector<GroupCalls> groups;  ///< in the order in which they were made
  Time until;

  bool operator==(const RankCalls&) const = default;
};

struct CollectiveMark {
  std::string op;            ///< "all_reduce"
  std::uint64_t number = 0;  ///< sequence number in the group, from 1; send and receive are counted separately
  std::string group;         ///< name of the group; empty when it could not be recorded

  bool operator==(const CollectiveMark&) const = default;
};

/// The last value of a metric.
struct MetricValue {
  std::string name;  ///< "loss"
  std::int64_t step = 0;
  double value = 0;

  bool operator==(const MetricValue&) const = default;
};

/// What a training program reports of itself, for people who look at the job.
struct TrainingProgress {
  std::optional<std::int64_t> total_steps{};  ///< at the end of the run
  std::optional<std::int64_t> epoch{};
  std::optional<std::int64_t> saved_step{};  ///< of the newest checkpoint
  std::int64_t samples = 0;                  ///< of all ranks together, since this process began
  std::chrono::nanoseconds blocked{0};       ///< the time that this rank was blocked in collectives
  std::optional<TimePart> doing{};           ///< what this rank does now
  std::array<std::chrono::nanoseconds, kTimeParts.size()>
      times{};  ///< see TimePart; of this process, up to the last completed step
  std::vector<MetricValue> metrics{};
  std::string work_dir{};  ///< system.work_dir; empty: none, or not known
  bool serves = false;     ///< a parameter server: it serves the steps of others

  bool operator==(const TrainingProgress&) const = default;
};

/// The content of a page, but the calls.
struct RankProgress {
  std::optional<std::int64_t> step;     ///< the last step that the program reported as complete
  std::int64_t backwards = 0;           ///< backward passes whose gradients were all reduced
  std::optional<CollectiveMark> begun;  ///< the call for which the program waits: the first one that is not complete;
                                        ///< else equal to `ended`
  std::optional<CollectiveMark> ended;  ///< the last call that is complete
  std::chrono::milliseconds since_begun{0};

  bool operator==(const RankProgress&) const = default;
};

/// A page without its calls.
struct PageContent {
  RankProgress progress;
  TrainingProgress training;

  bool operator==(const PageContent&) const = default;
};

/// The writer's side of a page. Thread-safe, except open and name_group; one thread at a time makes calls of one group.
/// Movable.
class StatusPage {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::size_t kNamedGroups = 15;
  static constexpr std::size_t kRemembered = 1023;  ///< calls of a group

  /// A page without memory: writes have no effect.
  StatusPage() = default;

  /// Creates an empty page in the file that LOCKSTEP_STATUS_FILE names, or goes on with the page there if this process
  /// made it: the jobs of a process share it. Without the variable, or when the file cannot be opened, the page is in
  /// private memory that only this process can read: a missing status file must not make a rank fail.
  static StatusPage open(const Environment& environment) noexcept;

  /// Registers a group and returns its number, for ask(), and forgets the calls of an earlier group with this name. A
  /// page has room for a few groups; further groups share number 0, which has no name.
  std::uint8_t name_group(std::string_view name) noexcept;

  /// The number of a text that says where in the program calls are made, for ask(); 0 when there is no room for it.
  /// Takes a lock: keep the number.
  std::uint32_t name_place(std::string_view text) noexcept;

  /// A call, for ask().
  struct Call {
    std::uint8_t op = 0;       ///< number_of_collective()
    std::uint8_t element = 0;  ///< number_of_element()
    std::uint64_t number = 0;  ///< below 2^48
    std::uint64_t bytes = 0;
    std::uint32_t place = 0;  ///< name_place()
  };
  /// The record of a call. After kRemembered further calls of the group it belongs to another one, and its times do not
  /// change that.
  struct Slot;
  struct Record {
    Slot* slot = nullptr;  ///< of this page, which must exist; nullptr: the call is not recorded
    std::uint64_t mark = 0;
  };

  /// The program makes a call.
  Record ask(std::uint8_t group, const Call& call, Time now) noexcept;
  /// The backend begins it; this rank has its result.
  static void begin(const Record& record, Time now) noexcept;
  static void complete(const Record& record, Time now) noexcept;

  /// The rank of this process in its first job, for readers.
  void name_rank(int rank) noexcept;
  void complete_step(std::int64_t step) noexcept;
  void complete_backward() noexcept;

  /// Replaces the report of the training program. One thread calls it.
  void report(const TrainingProgress& training) noexcept;

  /// The content of the page. `since_begun` is the time from the last call to `until`.
  PageContent content(Time until) const;
  std::vector<GroupCalls> calls() const;

 private:
  struct Mapping;
  struct Unmap {
    void operator()(Mapping* mapping) const noexcept;
  };
  std::unique_ptr<Mapping, Unmap> mapping_;
};

/// The content of the page in `file`; nullopt when there is no page. `since_begun` is the time from the last call to
/// `until`.
std::optional<RankProgress> read_status_page(const std::filesystem::path& file, StatusPage::Time until);

/// The same, and what the training program reported, by one read of the file.
std::optional<PageContent> read_page(const std::filesystem::path& file, StatusPage::Time until);

/// The calls in `file`, as they are now, with `until` for the reader; nullopt when there is no page.
std::optional<RankCalls> read_calls(const std::filesystem::path& file, StatusPage::Time until);

/// A predicate for the subject "it": "had completed step 12 and was in all_reduce 40 of group "world", which it began
/// 4.2 s before". Empty when no progress was recorded.
std::string describe(const RankProgress& progress);

/// Whether two ranks are at the same step and collective; times are ignored.
bool same_place(const RankProgress& one, const RankProgress& other);

}  // namespace lockstep
