// The families of sharding rules in the order of the documentation, the table of rules by operator, and that table in
// Markdown; signatures from named inputs, and the broadcast shape of several tensors; and the look-up of a call's
// arguments by name, as tensors, numbers, flags or lists.
#include <lockstep/global/rules/signature.h>

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lockstep::global {

Signature replicated(const OpCall& call) {
  return {.inputs = std::vector<std::optional<Placement>>(call.tensors.size(), Replicate()),
          .outputs = std::vector<Placement>(call.outputs.size(), Replicate())};
}

std::vector<RuleFamily> rule_families() {
  return {
      {.title = "Elementwise", .rules = elementwise_rules()},
      {.title = "Products of matrices", .rules = matmul_rules()},
      {.title = "Products of batches", .rules = batched_product_rules()},
      {.title = "Convolution", .rules = convolution_rules()},
      {.title = "Pooling", .rules = pooling_rules()},
      {.title = "Normalization", .rules = normalization_rules()},
      {.title = "Softmax", .rules = softmax_rules()},
      {.title = "Losses", .rules = loss_rules()},
      {.title = "Embedding", .rules = embedding_rules()},
      {.title = "Reductions, and along a dimension", .rules = reduction_rules()},
      {.title = "Views, shapes and parts", .rules = view_rules()},
      {.title = "Views by strides", .rules = strided_rules()},
      {.title = "Indexing", .rules = indexing_rules()},
      {.title = "Factories, random numbers, and single values", .rules = factory_rules()},
  };
}

std::vector<Rule> all_rules() {
  std::vector<Rule> rules;
  for (const auto& family : rule_families()) rules.insert(rules.end(), family.rules.begin(), family.rules.end());
  return rules;
}

const Rule* find_rule(std::string_view op) {
  static const auto table = [] {
    std::unordered_map<std::string_view, Rule> rules;
    for (const auto& rule : all_rules()) rules.emplace(rule.op, rule);
    return rules;
  }();
  const auto found = table.find(op);
  return found == table.end() ? nullptr : &found->second;
}

Signature placing(const OpCall& call, std::initializer_list<PlacedInput> inputs, std::vector<Placement> outputs) {
  Signature signature = replicated(call);
  for (const auto& each : inputs) {
    if (call.has(each.argument)) signature.inputs[call.tensor(each.argument)] = each.placement;
  }
  signature.outputs = std::move(outputs);
  return signature;
}

Signature placing_all(const OpCall& call, const Placement& placement) {
  Signature signature = replicated(call);
  std::fill(signature.inputs.begin(), signature.inputs.end(), placement);
  std::fill(signature.outputs.begin(), signature.outputs.end(), placement);
  return signature;
}

TensorInfo broadcast(const OpCall& call, std::size_t first) {
  TensorInfo shape = call.tensors[first];
  for (std::size_t i = first + 1; i < call.tensors.size(); ++i) {
    const auto& other = call.tensors[i].sizes;
    if (!call.tensors[i].defined) continue;
    if (other.size() > shape.sizes.size())
      shape.sizes.insert(shape.sizes.begin(), other.size() - shape.sizes.size(), 1);
    const std::size_t added = shape.sizes.size() - other.size();
    for (std::size_t dim = 0; dim < other.size(); ++dim) {
      if (other[dim] == 1) continue;
      auto& size = shape.sizes[added + dim];
      if (size != 1 && size != other[dim]) throw std::out_of_range("sizes that cannot be broadcast");
      size = other[dim];
    }
  }
  return shape;
}

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

std::int64_t TensorInfo::elements() const {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

const Argument* OpCall::find(std::string_view argument) const {
  for (const auto& [name_of, value] : arguments) {
    if (name_of == argument) return &value;
  }
  return nullptr;
}

bool OpCall::has(std::string_view argument) const {
  const Argument* value = find(argument);
  if (!value || std::holds_alternative<std::monostate>(*value)) return false;
  const auto* tensor_at = std::get_if<TensorAt>(value);
  return !tensor_at || tensors[tensor_at->index].defined;
}

std::size_t OpCall::tensor(std::string_view argument) const {
  const Argument* value = find(argument);
  if (const auto* at = value ? std::get_if<TensorAt>(value) : nullptr) return at->index;
  throw std::logic_error("the rule for " + name + " reads a tensor " + std::string(argument) +
                         " that the call does not have");
}

TensorsAt OpCall::tensor_list(std::string_view argument) const {
  const Argument* value = find(argument);
  if (const auto* at = value ? std::get_if<TensorsAt>(value) : nullptr) return *at;
  throw std::logic_error("the rule for " + name + " reads tensors " + std::string(argument) +
                         " that the call does not have");
}

std::int64_t OpCall::integer(std::string_view argument, std::int64_t otherwise) const {
  const Argument* value = find(argument);
  const auto* number = value ? std::get_if<std::int64_t>(value) : nullptr;
  return number ? *number : otherwise;
}

bool OpCall::flag(std::string_view argument, bool otherwise) const {
  const Argument* value = find(argument);
  const auto* flag_value = value ? std::get_if<bool>(value) : nullptr;
  return flag_value ? *flag_value : otherwise;
}

Sizes OpCall::integers(std::string_view argument) const {
  const Argument* value = find(argument);
  if (!value) return {};
  if (const auto* list = std::get_if<Sizes>(value)) return *list;
  if (const auto* number = std::get_if<std::int64_t>(value)) return {*number};
  return {};
}

std::int64_t wrapped_dim(std::int64_t dim, std::int64_t dims) { return dim < 0 ? dim + dims : dim; }

}  // namespace lockstep::global
