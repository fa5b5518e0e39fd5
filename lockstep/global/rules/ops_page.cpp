// The page of sharding rules in Markdown: an introduction, and a table for each family of operators.
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

Look up here which operators run on divided tensors without gathering them. A global tensor is divided over the ranks of
a mesh ([global.md](global.md)). Every libtorch operator gives the same result on it as on one device. The operators below
have a sharding rule: the possible placements of inputs and results along an axis of the mesh. For each axis Lockstep
takes the placements that move the fewest bytes, and redistributes other inputs.

The second column:

- *A dimension* may be divided: each rank works on its part, and no bytes move. Other dimensions are gathered first.
- *Partial* inputs (`Partial(sum)`, `mean`, `max`, `min`) give a result that is partial in the same way. Without the word
  *partial*, an all_reduce comes first.
- *Partial sum*: each rank adds up its part; the sum over ranks is computed when it is needed.

A name includes all overloads, in-place variants, variants with `out`, and `_foreach_` variants (the same for each tensor
of a list). Operators that libtorch composes of others (`matmul`, `linear`, `einsum`, `chunk`, `flatten`, `dropout`, ...)
follow the rules of those.

All other operators gather divided inputs on every rank, with one warning per operator and combination of placements.
With `lockstep::set_strict_global_ops(true)` or `LOCKSTEP_GLOBAL_STRICT=1` that is an error instead.
)";

/// Groups of operators with the same support, in the order of first appearance.
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
