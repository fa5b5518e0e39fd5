#include <lockstep/scheduler/ranks.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace lockstep::scheduler {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Takes a run of digits off the front, without zeros before it.
std::string_view take_number(std::string_view& text) {
  const auto* end = std::find_if_not(text.begin(), text.end(), is_digit);
  auto number = text.substr(0, static_cast<std::size_t>(end - text.begin()));
  text.remove_prefix(number.size());
  number.remove_prefix(std::min(number.find_first_not_of('0'), number.size()));
  return number;
}

}  // namespace

bool natural_less(std::string_view a, std::string_view b) {
  const auto whole = std::pair(a, b);
  while (!a.empty() && !b.empty()) {
    if (is_digit(a.front()) && is_digit(b.front())) {
      const auto left = take_number(a);
      const auto right = take_number(b);
      if (left != right) return std::tuple(left.size(), left) < std::tuple(right.size(), right);
    } else {
      if (a.front() != b.front()) return a.front() < b.front();
      a.remove_prefix(1);
      b.remove_prefix(1);
    }
  }
  if (a.empty() != b.empty()) return a.empty();
  return whole.first < whole.second;  // "07" and "7"
}

std::vector<int> choose_ranks(const std::vector<Member>& members) {
  std::map<std::string_view, std::size_t> machines;  // by first arrival
  std::vector<bool> taken(members.size(), false);
  std::vector<std::size_t> without;
  for (std::size_t i = 0; i < members.size(); ++i) {
    machines.emplace(members[i].machine, i);
    if (members[i].rank) {
      taken.at(static_cast<std::size_t>(*members[i].rank)) = true;
    } else {
      without.push_back(i);
    }
  }
  std::sort(without.begin(), without.end(), [&](std::size_t i, std::size_t k) {
    const Member& a = members[i];
    const Member& b = members[k];
    if (a.named != b.named) return a.named;
    if (a.named) return natural_less(a.node_id, b.node_id);
    return std::tuple(machines.at(a.machine), i) < std::tuple(machines.at(b.machine), k);
  });
  std::vector<int> ranks(members.size());
  std::size_t next = 0;
  for (const std::size_t i : without) {
    while (taken.at(next)) ++next;
    ranks[i] = static_cast<int>(next++);
  }
  for (std::size_t i = 0; i < members.size(); ++i) ranks[i] = members[i].rank.value_or(ranks[i]);
  return ranks;
}

}  // namespace lockstep::scheduler
