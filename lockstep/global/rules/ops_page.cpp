// The sharding rules in Markdown: a table for each family of operators.
#include <lockstep/global/rules/ops_page.h>
#include <lockstep/global/rules/signature.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace lockstep::global {
namespace {

constexpr std::string_view kNote =
    "<!-- From here on written by the program global_ops_table from the sharding rules; a test compares. Change the "
    "rules. -->\n";

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
  std::string page(kNote);
  for (const auto& family : rule_families()) {
    page += fmt::format("\n### {}\n\n| operators | what may stay divided |\n|---|---|\n", family.title);
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
