#include <lockstep/global/rules/ops_page.h>
#include <lockstep/global/rules/signature.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace lockstep::global {
namespace {

constexpr std::string_view kIntroduction =
    R"(# Operators on global tensors

<!-- Written by the program global_ops_table from the sharding rules; a test compares. Change the rules, not this file. -->

A global tensor is divided over the ranks of a mesh. Every operator of libtorch works on it and gives what it would give
on one device. The operators below do so where the data is: each has a sharding rule, which says how its inputs may lie
along an axis of the mesh and how the results lie then. Lockstep picks, for each axis, the way that moves the fewest
bytes, and redistributes the inputs that lie otherwise.

How to read the second column:

- *A dimension* may be divided when each rank can work on its part of it: no bytes move. Other dimensions are gathered
  first.
- *Partial* inputs (`Partial(sum)`, `mean`, `max`, `min`) may stay unfinished: the result is partial in the same way.
  Where *partial* is not named, the value is finished first by an all_reduce.
- *Partial sum* without an input being partial: each rank adds up its part, and the sum is finished when it is needed.

A name stands for all overloads, in-place variants and variants with `out`. `_foreach_` variants do the same for each
tensor of a list. Operators that libtorch makes of others (`matmul`, `linear`, `einsum`, `chunk`, `flatten`, `dropout`, ...)
are as good as those they are made of.

Every other operator works, too: its inputs are gathered on every rank, with one warning for each operator. With
`lockstep::set_strict_global_ops(true)` or `LOCKSTEP_GLOBAL_STRICT=1` that is an error instead.
)";

/// Operators that support the same, in the order in which they first appear.
std::vector<std::pair<std::string_view, std::vector<std::string>>> rows_of(const RuleFamily& family) {
  std::vector<std::pair<std::string_view, std::vector<std::string>>> rows;
  for (const auto& rule : family.rules) {
    auto row = std::find_if(rows.begin(), rows.end(), [&](const auto& each) { return each.first == rule.supports; });
    if (row == rows.end()) row = rows.insert(rows.end(), {rule.supports, {}});
    row->second.push_back(fmt::format("`{}`", rule.op));
  }
  return rows;
}

}  // namespace

std::string ops_page() {
  std::string page(kIntroduction);
  for (const auto& family : rule_families()) {
    page += fmt::format("\n## {}\n\n| operators | what may stay divided |\n|---|---|\n", family.title);
    for (auto& [supports, ops] : rows_of(family)) {
      std::sort(ops.begin(), ops.end());
      page += '|';
      for (const auto& op : ops) page.append(" ").append(op);
      page.append(" | ").append(supports).append(" |\n");
    }
  }
  return page;
}

}  // namespace lockstep::global
