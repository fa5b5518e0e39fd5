// A ring of the last operators with a running hash, its notes as JSON, and the first difference between ranks' notes.
#include <lockstep/base/shown_text.h>
#include <lockstep/comm/operator_trace.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

namespace lockstep {
namespace {

thread_local OperatorTrace* current = nullptr;
thread_local std::uint32_t place_now = 0;

constexpr std::size_t kFailuresRemembered = 8;

/// The bytes of a text as hexadecimal digits.
std::string as_digits(const std::string& bytes) {
  std::string digits;
  digits.reserve(2 * bytes.size());
  for (const char each : bytes) fmt::format_to(std::back_inserter(digits), "{:02x}", static_cast<unsigned char>(each));
  return digits;
}

}  // namespace

OperatorTrace::OperatorTrace(std::string name, Surroundings surroundings)
    : name_(std::move(name)), surroundings_(std::move(surroundings)) {}

void OperatorTrace::begin_anew(Failure failure) {
  const std::lock_guard lock(mutex_);
  last_failures_.push_back(std::move(failure));
  if (last_failures_.size() > kFailuresRemembered) last_failures_.pop_front();
  const auto count = failures() + 1;
  steps_[0].text.store(nullptr, std::memory_order_relaxed);
  number_.store(0, std::memory_order_relaxed);
  hash_.store(count * 0x9e3779b97f4a7c15U, std::memory_order_relaxed);
  failures_.store(count, std::memory_order_relaxed);
}

void OperatorTrace::fail(int rank, ErrorKind kind, std::string_view error) {
  begin_anew({.number = failures() + 1,
              .kind = kind,
              .text = fmt::format("rank {} failed in {}: {}", rank, here(), error),
              .surroundings = surroundings_.save ? surroundings_.save() : ""});
}

void OperatorTrace::follow(const Failure& failure) {
  begin_anew(
      {.number = failures() + 1, .kind = failure.kind, .text = failure.text, .surroundings = failure.surroundings});
  if (surroundings_.restore && !failure.surroundings.empty()) surroundings_.restore(failure.surroundings);
}

std::string OperatorTrace::here() const {
  const auto last = number();
  const auto* text = steps_[last % kRemembered].text.load(std::memory_order_relaxed);
  return fmt::format("global operator {}{}{}", last, text ? ", " : "", text ? *text : "");
}

std::string OperatorTrace::notes() const {
  const auto last = number();
  const auto first = last > kRemembered ? last - kRemembered + 1 : std::min<std::uint64_t>(last, 1);
  auto steps = nlohmann::json::array();
  for (auto each = first; each != 0 && each <= last; ++each) {
    const auto& step = steps_[each % kRemembered];
    const auto* text = step.text.load(std::memory_order_relaxed);
    steps.push_back({step.hash.load(std::memory_order_relaxed), text ? *text : ""});
  }
  auto failed = nlohmann::json::array();
  const std::lock_guard lock(mutex_);
  for (const auto& each : last_failures_) {
    failed.push_back({each.number, static_cast<int>(each.kind), each.text, as_digits(each.surroundings)});
  }
  const nlohmann::json notes{{"first", first}, {"steps", steps}, {"failures", failures()}, {"failed", failed}};
  return notes.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

OperatorTraceScope::OperatorTraceScope(OperatorTrace* trace) noexcept : before_(current) {
  if (trace != nullptr) current = trace;
}

OperatorTraceScope::~OperatorTraceScope() { current = before_; }

OperatorTrace* current_trace() noexcept { return current; }

CallPlace::CallPlace(std::uint32_t place) noexcept : before_(place_now) { place_now = place; }

CallPlace::~CallPlace() { place_now = before_; }

std::uint32_t current_place() noexcept { return place_now; }

namespace detail {
namespace {

struct StepsOfRank {
  int rank = 0;
  std::uint64_t first = 0;
  std::vector<std::pair<std::uint64_t, std::string>> steps;

  std::uint64_t last() const { return first + steps.size() - (steps.empty() ? 0 : 1); }
  bool knows(std::uint64_t number) const { return number >= first && number - first < steps.size(); }
  const auto& step(std::uint64_t number) const { return steps[number - first]; }
};

std::string from_digits(const std::string& digits) {
  const auto value = [](char digit) { return digit <= '9' ? digit - '0' : digit - 'a' + 10; };
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    bytes.push_back(static_cast<char>(value(digits[i]) * 16 + value(digits[i + 1])));
  }
  return bytes;
}

StepsOfRank read(const NotesOfRank& of_rank) {
  const auto parsed = nlohmann::json::parse(of_rank.notes);
  StepsOfRank read{.rank = of_rank.rank, .first = parsed.at("first"), .steps = {}};
  for (const auto& step : parsed.at("steps")) read.steps.emplace_back(step.at(0), step.at(1));
  return read;
}

/// The steps of each rank with this `number`; ranks with equal steps are named together, in the order of their first
/// ranks.
std::string side_by_side(const std::vector<StepsOfRank>& all, std::uint64_t number) {
  std::vector<std::pair<std::string, std::vector<int>>> kinds;
  for (const auto& each : all) {
    const auto text = each.knows(number) ? each.step(number).second
                                         : fmt::format("did not reach it; its last was {}{}{}", each.last(),
                                                       each.steps.empty() ? "" : ", ",
                                                       each.steps.empty() ? "" : each.steps.back().second);
    auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const auto& one) { return one.first == text; });
    if (kind == kinds.end()) kind = kinds.insert(kinds.end(), {text, {}});
    kind->second.push_back(each.rank);
  }
  std::vector<std::string> parts;
  for (const auto& [text, ranks] : kinds) {
    parts.push_back(fmt::format("{}: {}", names_of_ranks(ranks), text));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace

Failures failures_in(const std::vector<NotesOfRank>& all, std::uint64_t own) {
  Failures found;
  for (const auto& each : all) {
    if (each.notes.empty()) {
      found.some_silent = true;
      continue;
    }
    const auto parsed = nlohmann::json::parse(each.notes);
    const std::uint64_t theirs = parsed.at("failures");
    found.others_behind = found.others_behind || theirs < own;
    if (theirs <= own || found.next) continue;
    found.next =
        OperatorTrace::Failure{.number = own + 1,
                               .text = fmt::format("rank {} failed; the reason is no longer in its records", each.rank),
                               .surroundings = {}};
    for (const auto& one : parsed.at("failed")) {
      if (one.at(0) != own + 1) continue;
      found.next->kind = static_cast<ErrorKind>(one.at(1).get<int>());
      found.next->text = one.at(2);
      found.next->surroundings = from_digits(one.at(3));
    }
  }
  return found;
}

std::optional<std::string> first_difference(const std::vector<NotesOfRank>& all) {
  std::vector<StepsOfRank> known;
  for (const auto& each : all) {
    if (!each.notes.empty()) known.push_back(read(each));
  }
  if (known.size() < 2) return std::nullopt;
  std::uint64_t oldest = 0;  // that all ranks remember, or never took
  std::uint64_t last = 0;
  for (const auto& each : known) {
    oldest = std::max(oldest, each.first);
    last = std::max(last, each.last());
  }
  for (auto number = std::max<std::uint64_t>(oldest, 1); number <= last; ++number) {
    const bool everywhere = std::all_of(known.begin(), known.end(), [&](const auto& one) { return one.knows(number); });
    const bool equal = everywhere && std::all_of(known.begin(), known.end(), [&](const auto& one) {
                         return one.step(number).first == known.front().step(number).first;
                       });
    if (equal) continue;
    // Equal texts with different hashes: the difference began before the oldest remembered step.
    const bool began_before = number == oldest && number > 1;
    return fmt::format(
        "{} global operator {}: {}",
        began_before ? "They have differed for long; the oldest that all have recorded is" : "The first difference is",
        number, side_by_side(known, number));
  }
  return std::nullopt;
}

}  // namespace detail
}  // namespace lockstep
