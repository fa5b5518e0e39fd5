// The status page of a rank: its progress in one page of a mapped file, which can be read after the rank has died; and
// that progress as text.
//
// The kernel keeps the last writes of a process in the file, even when the process is killed. Writing is a few plain
// stores: no system call, no lock. An operation (collective, group, and sequence number) is packed into one integer, so
// it is never partially written.
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

struct CollectiveMark {
  std::string op;            ///< "all_reduce"
  std::uint64_t number = 0;  ///< sequence number in the group, from 1; send and receive are counted separately
  std::string group;         ///< name of the group; empty when it could not be recorded

  bool operator==(const CollectiveMark&) const = default;
};

/// The content of a page.
struct RankProgress {
  std::optional<std::int64_t> step;     ///< the last step that the program reported as complete
  std::int64_t backwards = 0;           ///< backward passes whose gradients were all reduced
  std::optional<CollectiveMark> begun;  ///< the last collective that began
  std::optional<CollectiveMark> ended;  ///< the last that has ended; equal to `begun` once that has ended
  std::chrono::milliseconds since_begun{0};

  bool operator==(const RankProgress&) const = default;
};

/// The writer's side of a page. Thread-safe, except open and name_group. Movable.
class StatusPage {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// A page without memory: writes have no effect.
  StatusPage() = default;

  /// Creates an empty page in the file that LOCKSTEP_STATUS_FILE names. Without the variable, or when the file cannot
  /// be opened, the page is in private memory that only this process can read: a missing status file must not make a
  /// rank fail.
  static StatusPage open(const Environment& environment) noexcept;

  /// Registers a group and returns its number, for begin() and end(). A page has room for a few names; further groups
  /// share number 0.
  std::uint8_t name_group(std::string_view name) noexcept;

  void begin(std::uint8_t collective, std::uint8_t group, std::uint64_t number, Time now) noexcept {
    if (!page_) return;
    page_->begun_at.store(now.time_since_epoch().count(), std::memory_order_relaxed);
    page_->begun.store(pack(collective, group, number), std::memory_order_relaxed);
  }
  /// Asynchronous operations may end in another order than they began: the end of an operation that began before the
  /// last one is not recorded after the end of the last one.
  void end(std::uint8_t collective, std::uint8_t group, std::uint64_t number) noexcept {
    if (!page_) return;
    const auto begun = page_->begun.load(std::memory_order_relaxed);
    const auto ended = pack(collective, group, number);
    if (ended == begun || page_->ended.load(std::memory_order_relaxed) != begun) {
      page_->ended.store(ended, std::memory_order_relaxed);
    }
  }
  void complete_step(std::int64_t step) noexcept {
    if (!page_) return;
    page_->step.store(step, std::memory_order_relaxed);
    page_->has_step.store(1, std::memory_order_relaxed);
  }
  void complete_backward() noexcept {
    if (page_) page_->backwards.fetch_add(1, std::memory_order_relaxed);
  }

  /// The content of the page. `since_begun` is the time from the last begin() to `until`.
  RankProgress progress(Time until) const;

 private:
  friend std::optional<RankProgress> read_status_page(const std::filesystem::path& file, Time until);

  static constexpr std::uint64_t kMagic = 0x3130'4547'4150'534c;  // "LSPAGE01" in the bytes of a little-endian machine
  static constexpr std::size_t kNamedGroups = 15;
  static constexpr std::size_t kNameBytes = 64;
  using Number = std::atomic<std::uint64_t>;
  static_assert(Number::is_always_lock_free);

  /// The file's whole content.
  struct Page {
    Number magic{0};                        ///< kMagic once the rest is initialized
    Number begun{0};                        ///< packed, see below
    std::atomic<std::int64_t> begun_at{0};  ///< ticks of steady_clock, which all processes of a machine share
    Number ended{0};
    Number has_step{0};
    std::atomic<std::int64_t> step{0};
    std::atomic<std::int64_t> backwards{0};
    Number groups{0};  ///< number of groups with names
    std::array<std::array<char, kNameBytes>, kNamedGroups> names{};
  };
  struct Unmap {
    void operator()(Page* page) const noexcept;
  };

  /// 8 bits collective, 8 bits group, 48 bits number.
  static constexpr std::uint64_t pack(std::uint8_t collective, std::uint8_t group, std::uint64_t number) {
    return (std::uint64_t{collective} << 56) | (std::uint64_t{group} << 48) | (number & ((std::uint64_t{1} << 48) - 1));
  }
  static std::optional<CollectiveMark> unpack(std::uint64_t packed, const Page& page);
  static RankProgress read(const Page& page, Time until);

  std::unique_ptr<Page, Unmap> page_;
};

/// The content of the page in `file`; nullopt when there is no page. `since_begun` is the time from the last begin() to
/// `until`.
std::optional<RankProgress> read_status_page(const std::filesystem::path& file, StatusPage::Time until);

/// A predicate for the subject "it": "had completed step 12 and was in all_reduce 40 of group "world", which it began
/// 4.2 s before". Empty when no progress was recorded.
std::string describe(const RankProgress& progress);

/// Whether two ranks are at the same step and collective; times are ignored.
bool same_place(const RankProgress& one, const RankProgress& other);

}  // namespace lockstep
