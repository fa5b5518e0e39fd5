#include <lockstep/base/parse.h>
#include <lockstep/world/slurm_syntax.h>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace lockstep::detail {
namespace {

constexpr std::size_t kMost = 65536;

using Names = std::vector<std::string>;

bool all_digits(std::string_view text) {
  constexpr std::size_t kLongest = 9;
  return !text.empty() && text.size() <= kLongest &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Calls `part` for each piece between commas outside brackets; false as soon as it returns false.
template <typename Part>
bool for_each_part(std::string_view text, Part part) {
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    if (c == '[') ++depth;
    if (c == ']') --depth;
    if (c != ',' || (depth != 0 && i < text.size())) continue;
    if (!part(text.substr(begin, i - begin))) return false;
    begin = i + 1;
  }
  return true;
}

// "01-03" or "7"; the width of the lower bound is kept.
bool expand_range(std::string_view range, Names& numbers) {
  const auto dash = range.find('-');
  const auto low_text = range.substr(0, dash);
  const auto high_text = dash == std::string_view::npos ? low_text : range.substr(dash + 1);
  if (!all_digits(low_text) || !all_digits(high_text)) return false;
  const auto low = *parse_integer(low_text);
  const auto high = *parse_integer(high_text);
  if (low > high || high - low >= static_cast<std::int64_t>(kMost)) return false;
  for (auto n = low; n <= high; ++n) numbers.push_back(fmt::format("{:0{}}", n, low_text.size()));
  return numbers.size() <= kMost;
}

// One name with its brackets: "n[1-2]x[3,5]".
bool expand_name(std::string_view text, Names& hosts) {
  Names names = {""};
  while (!text.empty()) {
    const auto open = text.find('[');
    for (auto& name : names) name += text.substr(0, open);
    if (open == std::string_view::npos) break;
    const auto close = text.find(']', open);
    if (close == std::string_view::npos) return false;
    Names numbers;
    const bool valid = for_each_part(text.substr(open + 1, close - open - 1),
                                     [&](std::string_view range) { return expand_range(range, numbers); });
    if (!valid || names.size() * numbers.size() > kMost) return false;
    Names longer;
    for (const auto& name : names) {
      for (const auto& number : numbers) longer.push_back(name + number);
    }
    names = std::move(longer);
    text.remove_prefix(close + 1);
  }
  if (names.front().empty() || names.front().find_first_of("[] ") != std::string::npos) return false;
  hosts.insert(hosts.end(), names.begin(), names.end());
  return hosts.size() <= kMost;
}

// "8(x2)" or "4".
bool expand_count(std::string_view text, std::vector<int>& counts) {
  std::int64_t times = 1;
  if (const auto open = text.find("(x"); open != std::string_view::npos) {
    if (text.back() != ')') return false;
    const auto times_text = text.substr(open + 2, text.size() - open - 3);
    if (!all_digits(times_text)) return false;
    times = *parse_integer(times_text);
    text = text.substr(0, open);
  }
  if (!all_digits(text) || times < 1 || counts.size() + static_cast<std::size_t>(times) > kMost) return false;
  counts.insert(counts.end(), static_cast<std::size_t>(times), static_cast<int>(*parse_integer(text)));
  return true;
}

}  // namespace

std::optional<std::vector<std::string>> expand_host_list(std::string_view text) {
  Names hosts;
  if (!for_each_part(text, [&](std::string_view name) { return expand_name(name, hosts); })) return std::nullopt;
  return hosts;
}

std::optional<std::vector<int>> expand_tasks_per_node(std::string_view text) {
  std::vector<int> counts;
  if (!for_each_part(text, [&](std::string_view part) { return expand_count(part, counts); })) return std::nullopt;
  return counts;
}

}  // namespace lockstep::detail
