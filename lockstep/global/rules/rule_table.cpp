// The families of sharding rules in the order of the documentation, and the table of rules by operator.
#include <lockstep/global/rules/signature.h>

#include <unordered_map>

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

}  // namespace lockstep::global
