#include <lockstep/global/rules/signature.h>

#include <unordered_map>

namespace lockstep::global {

Signature replicated(const OpCall& call) {
  return {.inputs = std::vector<std::optional<Placement>>(call.tensors.size(), Replicate()),
          .outputs = std::vector<Placement>(call.outputs.size(), Replicate())};
}

std::vector<Rule> all_rules() {
  std::vector<Rule> rules;
  for (const auto family : {elementwise_rules(), matmul_rules(), reduction_rules(), view_rules(), factory_rules(),
                            convolution_rules(), pooling_rules(), normalization_rules(), softmax_rules(), loss_rules(),
                            embedding_rules(), batched_product_rules()}) {
    rules.insert(rules.end(), family.begin(), family.end());
  }
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
