// The comparison of ranks' last calls by their numbers in each group, as text; and the reader of a folder of logs.
#include <lockstep/base/error.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/cluster/last_calls.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <system_error>
#include <utility>

namespace lockstep::cluster {
namespace {

using Time = StatusPage::Time;

constexpr std::size_t kNamedRanks = 8;
constexpr int kDeepestFolder = 4;

double seconds(Time::duration time) { return std::max(0.0, std::chrono::duration<double>(time).count()); }

std::string size_of(const CallRecord& call) {
  if (call.element.empty()) return "";
  if (call.bytes < 1024) return fmt::format("{} bytes of {}", call.bytes, call.element);
  constexpr std::uint64_t kMega = 1024 * 1024;
  const bool small = call.bytes < kMega;
  return fmt::format("{:.4g} {} of {}", static_cast<double>(call.bytes) / (small ? 1024 : kMega), small ? "KiB" : "MiB",
                     call.element);
}

std::string name_of(const CallRecord& call) { return fmt::format("{} {}", call.op, call.number); }

/// "all_reduce 41 (16 KiB of float32, the gradient of fc2.weight (bucket 0))".
std::string describe(const CallRecord& call) {
  std::vector<std::string> details;
  if (auto size = size_of(call); !size.empty()) details.push_back(std::move(size));
  if (!call.place.empty()) details.push_back(call.place);
  return details.empty() ? name_of(call) : fmt::format("{} ({})", name_of(call), fmt::join(details, ", "));
}

std::string named(const std::string& group) {
  return group.empty() ? "other groups" : fmt::format("group \"{}\"", group);
}

/// One rank's collectives in one group.
struct Side {
  const RankCalls* rank = nullptr;
  std::map<std::uint64_t, const CallRecord*> calls;  ///< by number

  std::uint64_t last() const { return calls.empty() ? 0 : calls.rbegin()->first; }
  const CallRecord* call(std::uint64_t number) const {
    const auto found = calls.find(number);
    return found == calls.end() ? nullptr : found->second;
  }
};

std::vector<Side> sides_of(std::span<const RankCalls> ranks, const std::string& group) {
  std::vector<Side> sides;
  for (const auto& rank : ranks) {
    const auto found = std::ranges::find(rank.groups, group, &GroupCalls::group);
    if (found == rank.groups.end()) continue;
    auto& side = sides.emplace_back(Side{&rank, {}});
    for (const auto& call : found->calls) {
      if (!call.is_message()) side.calls[call.number] = &call;
    }
  }
  return sides;
}

/// "its last call was all_reduce 40, which it had completed 12.3 s before", of any group.
std::string describe_last(const RankCalls& rank, const std::string& group) {
  const CallRecord* last = nullptr;
  const std::string* of = nullptr;
  for (const auto& each : rank.groups) {
    for (const auto& call : each.calls) {
      if (last && call.asked < last->asked) continue;
      last = &call;
      of = &each.group;
    }
  }
  if (!last) return "it has made no call";
  const auto where = *of == group ? "" : fmt::format(" of {}", named(*of));
  if (last->completed) {
    return fmt::format("its last call was {}{}, which it had completed {:.1f} s before", describe(*last), where,
                       seconds(rank.until - *last->completed));
  }
  return fmt::format("it is in {}{}, since {:.1f} s", describe(*last), where, seconds(rank.until - last->asked));
}

/// The first number for which two ranks have recorded different operations.
std::optional<std::uint64_t> first_mismatch(const std::vector<Side>& sides) {
  std::map<std::uint64_t, std::set<std::string>> operations;
  for (const auto& side : sides) {
    for (const auto& [number, call] : side.calls) operations[number].insert(call->op);
  }
  const auto found = std::ranges::find_if(operations, [](const auto& each) { return each.second.size() > 1; });
  return found == operations.end() ? std::nullopt : std::optional(found->first);
}

std::string describe_mismatch(const std::string& group, const std::vector<Side>& sides, std::uint64_t number) {
  std::map<std::string, std::vector<int>> by_call;
  for (const auto& side : sides) {
    if (const auto* call = side.call(number)) by_call[describe(*call)].push_back(side.rank->rank);
  }
  auto text = fmt::format("{}: call {} is not the same on all ranks\n", named(group), number);
  for (const auto& [call, ranks] : by_call) text += fmt::format("  {}: {}\n", names_of_ranks(ranks), call);
  return text;
}

/// Of the ranks that have made the call `number`.
std::string describe_made(const std::vector<Side>& sides, std::uint64_t number) {
  std::vector<int> inside;
  std::vector<int> complete;
  std::vector<int> further;
  double longest = 0;
  for (const auto& side : sides) {
    const auto* call = side.call(number);
    if (side.last() < number) continue;
    auto& ranks = !call ? further : call->completed ? complete : inside;
    ranks.push_back(side.rank->rank);
    if (call && !call->completed) longest = std::max(longest, seconds(side.rank->until - call->asked));
  }
  std::string text;
  const auto is = [](const auto& ranks) { return ranks.size() == 1 ? "is" : "are"; };
  if (!inside.empty())
    text += fmt::format("  {} {} in it, since {:.1f} s\n", names_of_ranks(inside), is(inside), longest);
  const auto has = [](const auto& ranks) { return ranks.size() == 1 ? "has" : "have"; };
  if (!complete.empty()) text += fmt::format("  {} {} completed it\n", names_of_ranks(complete), has(complete));
  if (!further.empty()) text += fmt::format("  {} {} made it, and later ones\n", names_of_ranks(further), has(further));
  return text;
}

/// The longest time since a call began that is not complete.
Time::duration longest_wait(const std::vector<Side>& sides) {
  Time::duration longest{0};
  for (const auto& side : sides) {
    for (const auto& [number, call] : side.calls) {
      if (!call->completed) longest = std::max(longest, side.rank->until - call->asked);
    }
  }
  return longest;
}

std::string describe_group(const std::string& group, const std::vector<Side>& sides) {
  if (sides.size() < 2) return "";
  if (const auto number = first_mismatch(sides)) return describe_mismatch(group, sides, *number);
  const auto last = [](const Side& side) { return side.last(); };
  const auto [least, most] = std::ranges::minmax(sides, {}, last);
  if (least.last() == most.last()) return "";
  const auto number = least.last() + 1;
  const auto knows = std::ranges::find_if(sides, [&](const Side& side) { return side.call(number) != nullptr; });
  auto text = fmt::format("{}: not all ranks have made {}\n", named(group),
                          knows == sides.end() ? fmt::format("call {}", number) : describe(*knows->call(number)));
  text += describe_made(sides, number);
  std::size_t told = 0;
  for (const auto& side : sides) {
    if (side.last() >= number || told++ >= kNamedRanks) continue;
    text += fmt::format("  rank {} has not made it; {}\n", side.rank->rank, describe_last(*side.rank, group));
  }
  if (told > kNamedRanks) text += fmt::format("  and {} more ranks have not made it\n", told - kNamedRanks);
  return text;
}

/// The status pages below a folder, by the folder of their start ("attempt_0").
void find_pages(const std::filesystem::path& folder, int depth, std::vector<std::filesystem::path>& pages) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.is_directory(error) && !entry.is_symlink(error)) {
      if (depth < kDeepestFolder) find_pages(entry.path(), depth + 1, pages);
    } else if (entry.path().filename() == "status") {
      pages.push_back(entry.path());
    }
  }
}

/// The folder of the start of all ranks to which a page belongs; empty: the page is not in one.
std::filesystem::path attempt_of(std::filesystem::path page) {
  while (page.has_relative_path() && !page.filename().string().starts_with("attempt_")) page = page.parent_path();
  return page.has_relative_path() ? page : std::filesystem::path();
}

}  // namespace

std::vector<GroupCalls> newest_calls(const std::vector<GroupCalls>& groups, std::size_t most, std::size_t most_groups) {
  std::vector<GroupCalls> kept;
  for (const auto& group : groups) {
    const auto from = group.calls.size() - std::min(group.calls.size(), most);
    kept.push_back({group.group, {group.calls.begin() + static_cast<std::ptrdiff_t>(from), group.calls.end()}});
  }
  if (kept.size() <= most_groups) return kept;
  const auto newest = [](const GroupCalls& group) { return group.calls.empty() ? Time() : group.calls.back().asked; };
  std::ranges::stable_sort(kept, std::ranges::greater(), newest);
  kept.resize(most_groups);
  return kept;
}

std::string compare_calls(std::span<const RankCalls> ranks, std::chrono::milliseconds least_wait) {
  std::vector<std::string> groups;  // in the order in which they were made
  for (const auto& rank : ranks) {
    for (const auto& each : rank.groups) {
      // The calls of groups without a name have no common order.
      const bool is_new = std::ranges::find(groups, each.group) == groups.end();
      if (is_new && !each.group.empty()) groups.push_back(each.group);
    }
  }
  std::string text;
  for (const auto& group : groups) {
    const auto sides = sides_of(ranks, group);
    if (longest_wait(sides) >= least_wait) text += describe_group(group, sides);
  }
  return text;
}

std::vector<RankCalls> read_calls_in(const std::filesystem::path& folder) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    fail(ErrorKind::io, "status", "{} is not a folder of logs; `lockstep run --log-dir` makes one", folder.string());
  }
  std::vector<std::filesystem::path> pages;
  find_pages(folder, 0, pages);
  // Several starts of ranks may have left their pages, and ranks that were replaced: the newest count.
  std::ranges::sort(pages, {}, [](const auto& page) {
    std::error_code unknown;
    return std::filesystem::last_write_time(page, unknown);
  });
  std::map<int, RankCalls> by_rank;
  for (const auto& page : pages) {
    if (attempt_of(page) != attempt_of(pages.back())) continue;
    if (auto calls = read_calls(page, std::chrono::steady_clock::now())) by_rank[calls->rank] = std::move(*calls);
  }
  if (by_rank.empty()) {
    fail(ErrorKind::invalid_argument, "status",
         "no rank has left a status page in {}: no rank has connected yet, or the folder is not one of `lockstep run`",
         folder.string());
  }
  std::vector<RankCalls> ranks;
  for (auto& [rank, calls] : by_rank) ranks.push_back(std::move(calls));
  return ranks;
}

std::string table_of_calls(std::span<const RankCalls> ranks, std::size_t most) {
  std::string text;
  for (const auto& rank : ranks) {
    for (const auto& group : rank.groups) {
      if (group.calls.empty()) continue;
      text += fmt::format("rank {}, {}:\n", rank.rank, named(group.group));
      const auto first = group.calls.size() - std::min(group.calls.size(), most);
      for (auto i = first; i < group.calls.size(); ++i) {
        const auto& call = group.calls[i];
        const auto age = seconds(rank.until - call.asked);
        const auto took = call.completed
                              ? fmt::format("took {:.3f} ms", 1000 * seconds(*call.completed - call.asked))
                              : std::string(call.begun ? "not complete" : "not begun: arguments are compared");
        text += fmt::format("  {:>10.3f} s ago, step {:>6}: {}, {}\n", age,
                            call.step ? fmt::format("{}", *call.step) : "-", describe(call), took);
      }
    }
  }
  return text;
}

}  // namespace lockstep::cluster
